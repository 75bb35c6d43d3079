/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time. */
#ifndef XP_CLOCK_H
#define XP_CLOCK_H

#include <stdint.h>
#include <time.h>

#define XP_NS_PER_MS 1000000ull
#define XP_NS_PER_S 1000000000ull

/* Returns CLOCK_MONOTONIC in ns, the clock of completion timestamps. */
static inline uint64_t xp_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * XP_NS_PER_S + ts.tv_nsec;
}

#endif /* XP_CLOCK_H */
