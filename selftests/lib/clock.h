/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The monotonic clock. */
#ifndef XR_TEST_CLOCK_H
#define XR_TEST_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Returns the time in seconds. */
static inline double now(void)
{
	return (double)now_ns() / 1e9;
}

#endif /* XR_TEST_CLOCK_H */
