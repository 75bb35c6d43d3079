/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides whether a program sleeps in a poll of an empty CQ. Contains only the policy; the caller
 * has the clock. Times are ns of CLOCK_MONOTONIC.
 *
 * A program that spins uses a processor for nothing, and on a machine with few of them the daemon
 * needs it. While so many send WRs are outstanding that they take much longer than the sleep, the
 * queue does not run dry, and the latency of a WR that is posted next, which has to wait for the
 * others, hardly increases. With few WRs outstanding, as in a ping-pong, the program never sleeps.
 */
#ifndef XP_NAP_H
#define XP_NAP_H

#include <stdbool.h>
#include <stdint.h>

#define XP_NAP_NS 100000u
/* The outstanding send WRs take at least as long: eight sleeps that Linux prolongs to 150 us. */
#define XP_NAP_DRAIN_NS 1200000u
/* Outstanding send WRs, and completions of a measurement */
#define XP_NAP_MIN_WRS 4
/* A measurement lasts at least this long. After a longer time without polls, it starts again. */
#define XP_NAP_MEASURE_NS 1000000u

struct xp_nap {
	uint64_t from;	      /* start of the current measurement; 0: with the next empty poll */
	uint64_t wr_ns;	      /* time for a WR, as last measured; 0: unknown */
	uint32_t batch;	      /* WRs of a completion, as last measured */
	uint32_t wrs;	      /* completed send WRs, in the current measurement */
	uint32_t completions; /* of these WRs: one also completes the unsignalled WRs before it */
};

/* Reports the completion of a send WR and of the unsignalled ones before it. */
static inline void xp_nap_completed(struct xp_nap *nap, uint32_t wrs)
{
	nap->wrs += wrs;
	nap->completions++;
}

/*
 * Reports an empty poll. Returns whether xp_nap_due() may be true.
 * @last: end of the last empty poll, after its sleep or yield
 */
bool xp_nap_possible(struct xp_nap *nap, uint64_t now, uint64_t last);

/*
 * Returns whether to sleep for XP_NAP_NS. To be called if xp_nap_possible() is true.
 * @outstanding: send WRs
 */
bool xp_nap_due(struct xp_nap *nap, uint64_t now, uint32_t outstanding);

#endif /* XP_NAP_H */
