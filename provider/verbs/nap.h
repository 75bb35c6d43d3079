/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides whether a program sleeps in a poll of an empty CQ. Contains only the policy; the caller
 * has the clock. Times are ns of CLOCK_MONOTONIC.
 *
 * A program that spins uses a processor for nothing, and on a machine with few of them the daemon
 * needs it. The program sleeps while the send WRs that are not executed yet take much longer than
 * the sleep: the queue does not run dry, and the next WR would have to wait for them anyway. With
 * few such WRs, as in a ping-pong, the program does not sleep.
 *
 * It sleeps as well if its send WRs have made no progress for a while, however few they are: the
 * daemon or a thread of the kernel may be waiting for this processor. Yields are no help if those
 * belong to another group of the scheduler. Linux 6.18 then may not run them for many seconds.
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
/* Linux prolongs a sleep by up to this time (timer slack). */
#define XP_NAP_SLACK_NS 50000u
#define XP_NAP_LONGEST_NS (XP_NAP_NS + XP_NAP_SLACK_NS)
/*
 * The send WRs that are not executed yet take at least as long: eight prolonged sleeps, or three if
 * the next completion is further away than one.
 */
#define XP_NAP_DRAIN_NS (8 * XP_NAP_LONGEST_NS)
#define XP_NAP_SHORT_DRAIN_NS (3 * XP_NAP_LONGEST_NS)
/* Send WRs that are not executed yet, and completions of a measurement */
#define XP_NAP_MIN_WRS 4
/* A measurement lasts at least this long. After a longer time without polls, it starts again. */
#define XP_NAP_MEASURE_NS 1000000u
/* Send WRs are stuck if none is executed in this time. */
#define XP_NAP_STUCK_NS 10000000u

struct xp_nap {
	uint64_t from;	      /* start of the current measurement; 0: with the next empty poll */
	uint64_t wr_ns;	      /* time for a WR, as last measured; 0: unknown */
	uint32_t batch;	      /* WRs of a completion, as last measured */
	uint32_t wrs;	      /* completed send WRs, in the current measurement */
	uint32_t completions; /* of these WRs: one also completes the unsignalled WRs before it */
	uint32_t completed;   /* all send WRs that have completed */
	uint32_t executed;    /* these and the executed ones of struct xp_nap_wrs, ... */
	uint64_t changed;     /* ... when their number was last found to be another one */
};

/* Reports the completion of a send WR and of the unsignalled ones before it. */
static inline void xp_nap_completed(struct xp_nap *nap, uint32_t wrs)
{
	nap->wrs += wrs;
	nap->completed += wrs;
	nap->completions++;
}

/*
 * Reports an empty poll. Returns whether xp_nap_due() may be true.
 * @last: end of the last empty poll, after its sleep or yield
 */
bool xp_nap_possible(struct xp_nap *nap, uint64_t now, uint64_t last);

/* Outstanding send WRs: their completion, or that of a later signalled one, was not polled. */
struct xp_nap_wrs {
	uint32_t outstanding;
	uint32_t left;	   /* of these: not executed yet */
	uint32_t executed; /* the most of one QP that are */
};

/* Returns whether to sleep for XP_NAP_NS. To be called if xp_nap_possible() is true. */
bool xp_nap_due(struct xp_nap *nap, uint64_t now, const struct xp_nap_wrs *wrs);

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
