/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Timers in a binary heap. */
#ifndef XC_TIMERS_H
#define XC_TIMERS_H

#include <stdint.h>

/* A timer is set if its slot is not 0. */
struct xc_timer {
	uint64_t when; /* ns */
	uint32_t slot; /* in the heap, counted from 1 */
};

struct xc_timers {
	struct xc_timer **heap; /* heap[1] is the first one */
	uint32_t count, size;
};

/* Makes room for a number of timers. Returns 0 or -ENOMEM. */
int xc_timers_reserve(struct xc_timers *t, uint32_t count);
void xc_timers_free(struct xc_timers *t);
/* There must be room. */
void xc_timers_set(struct xc_timers *t, struct xc_timer *timer, uint64_t when);
void xc_timers_clear(struct xc_timers *t, struct xc_timer *timer);
/* Returns the timer that expires first, or NULL. */
struct xc_timer *xc_timers_first(const struct xc_timers *t);

#endif /* XC_TIMERS_H */
