// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <time.h>

#include "internal.h"

uint64_t xp_host_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
