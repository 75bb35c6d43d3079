// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "worker_count.h"

#include <unistd.h>

#include "daemon/base/options.h"

/* More workers share the memory bandwidth of the same host. */
#define MOST_WORKERS 4

uint32_t xd_io_worker_count(const struct xd_options *opt)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN) / 2;

	if (opt->workers)
		return opt->workers;
	return n < 1 ? 1 : n > MOST_WORKERS ? MOST_WORKERS : (uint32_t)n;
}
