/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides whether a program sleeps in a poll of an empty CQ. Contains only the policy; the caller
 * has the clock. Times are ns of CLOCK_MONOTONIC.
 *
 * A program that spins uses a processor for nothing, and on a machine with few of them the daemon
 * needs it. The program sleeps while the outstanding send WRs take much longer than the sleep: the
 * queue does not run dry, and the next WR would have to wait for them anyway. With few WRs
 * outstanding, as in a ping-pong, the program never sleeps.
 *
 * A program that receives a stream sleeps as well. In a stream many bytes arrive in a second, the
 * QP posts hardly any send WRs in between (unlike in a ping-pong or a server), and the posted
 * receives last for several sleeps. If fewer messages arrive once the program sleeps, the stream
 * has ended, or the sender waits for the program in another way. The program then does not sleep
 * for a time, which doubles if this happens again.
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

/* ---- receives ------------------------------------------------------------------ */

/* A stream has a byte in this time or more: 1 Gbit/s. */
#define XP_RECV_NAP_BYTE_NS 8u
/* Receives of a stream for each send WR that the program posts, or more */
#define XP_RECV_NAP_PER_SEND 16u
/*
 * A measurement lasts at least this long: as sender, workers and program share processors, messages
 * arrive in bursts of a time slice.
 */
#define XP_RECV_NAP_MEASURE_NS 4000000u
/* Linux prolongs a sleep by up to this time (timer slack). */
#define XP_NAP_SLACK_NS 50000u
#define XP_RECV_NAP_MIN_NS 20000u
/*
 * The posted receives suffice for this number of prolonged sleeps, so that the sender gets no RNR
 * NAK.
 */
#define XP_RECV_NAP_SPARE 4u
/* Time without sleeps after a measurement in which too little was received; doubled each time */
#define XP_RECV_NAP_PAUSE_NS 4000000u
#define XP_RECV_NAP_PAUSE_DOUBLINGS 6u

struct xp_recv_nap {
	uint64_t from;	    /* start of the current measurement; 0: with the next empty poll */
	uint64_t bytes;	    /* received in it */
	uint32_t receives;  /* completed in it */
	uint32_t answered;  /* of these: send WRs were posted since the one before */
	uint32_t least;	    /* the fewest receives that were posted in it */
	uint32_t posted;    /* the same, as last measured */
	uint64_t recv_ns;   /* time for a receive, as last measured; 0: unknown, or no stream */
	bool slept;	    /* the program slept in the current measurement, */
	bool dry;	    /* ... and no receive has completed since it slept last */
	uint32_t failures;  /* streams that ended while the program slept, in a row */
	uint64_t not_until; /* no sleep before this time */
};

/* Reports the completion of a receive of an RC QP. */
static inline void xp_recv_nap_completed(struct xp_recv_nap *nap, uint32_t bytes, bool answered,
					 uint32_t posted)
{
	nap->bytes += bytes;
	nap->answered += answered;
	nap->dry = false;
	if (!nap->receives++ || posted < nap->least)
		nap->least = posted;
}

/*
 * Reports an empty poll. Returns the time to sleep in ns, or 0.
 * @last: end of the last empty poll, after its sleep or yield
 */
uint32_t xp_recv_nap_due(struct xp_recv_nap *nap, uint64_t now, uint64_t last);

#endif /* XP_NAP_H */
