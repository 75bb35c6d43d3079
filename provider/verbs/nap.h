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
 * A program that receives a stream sleeps as well. In a stream many bytes arrive in a second, the
 * QP posts hardly any send WRs in between (unlike in a ping-pong or a server), and the posted
 * receives last for several sleeps. If fewer messages arrive once the program sleeps, the stream
 * has ended, or the sender waits for the program in another way. The program then does not sleep
 * for a time, which doubles if this happens again.
 *
 * A program that has waited for long beside other threads sleeps now and then, as it may keep the
 * daemon from running: yields are no help if the daemon belongs to another group of the scheduler.
 */
#ifndef XP_NAP_H
#define XP_NAP_H

#include <stdbool.h>
#include <stdint.h>

/* Shortest and longest sleep while send WRs are not executed; longest of a program that waits */
#define XP_NAP_NS 100000u
#define XP_NAP_MAX_NS 4000000u
#define XP_WAIT_NAP_MAX_NS 500000u
/* Linux prolongs a sleep by up to this time (timer slack). */
#define XP_NAP_SLACK_NS 50000u
/*
 * The send WRs that are not executed yet take at least eight prolonged sleeps, or three if the next
 * completion is further away than one.
 */
#define XP_NAP_PARTS 8
#define XP_NAP_DRAIN_NS (XP_NAP_PARTS * (XP_NAP_NS + XP_NAP_SLACK_NS))
#define XP_NAP_NEXT_NS (XP_NAP_NS + XP_NAP_SLACK_NS)
#define XP_NAP_SHORT_DRAIN_NS (3 * (XP_NAP_NS + XP_NAP_SLACK_NS))
/* Send WRs that are not executed yet, and completions of a measurement */
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

/* Outstanding send WRs: their completion, or that of a later signalled one, was not polled. */
struct xp_nap_wrs {
	uint32_t outstanding;
	uint32_t left;	   /* of these: not executed yet */
	uint32_t executed; /* the most of one QP that are */
};

/* Returns the time to sleep in ns, or 0. To be called if xp_nap_possible() is true. */
uint32_t xp_nap_due(struct xp_nap *nap, uint64_t now, const struct xp_nap_wrs *wrs);

/* ---- receives ------------------------------------------------------------------ */

/* A stream has a byte in this time or more: 0.1 Gbit/s, less than a slow virtual machine has. */
#define XP_RECV_NAP_BYTE_NS 80u
/* Receives of a stream for each send WR that the program posts, or more */
#define XP_RECV_NAP_PER_SEND 16u
/*
 * A measurement lasts at least this long: as sender, workers and program share processors, messages
 * arrive in bursts of a time slice.
 */
#define XP_RECV_NAP_MEASURE_NS 4000000u
#define XP_RECV_NAP_MIN_NS 20000u
/* A sleep may last longer than XP_NAP_NS if messages are rare, up to this time. */
#define XP_RECV_NAP_MAX_NS 1000000u
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

/* ---- waits --------------------------------------------------------------------- */

/*
 * A program has waited for long if it has polled in vain for this time. It shares its processor if
 * its thread has had less than 31/32 of it meanwhile, although it has never slept.
 */
#define XP_WAIT_NS 10000000u
/*
 * Such programs sleep in the first part of each period of CLOCK_MONOTONIC, all at the same time: a
 * processor on which some of them spin while others sleep is still busy.
 */
#define XP_WAIT_PERIOD_NS (1u << 24)
#define XP_WAIT_SLEEP_NS (1u << 20)
/*
 * If a completion was found after such a sleep, the daemon may have waited for the processor. For
 * this time the program then sleeps in each empty poll, an eighth as long as it has waited.
 */
#define XP_WAIT_NAPS_NS (1u << 28)

/* What a thread has used */
struct xp_usage {
	uint64_t cpu_ns;
	uint64_t sleeps; /* voluntary context switches; a yield is none */
};

struct xp_wait {
	uint64_t from;	       /* the first poll in vain; 0: the next one */
	uint32_t found;	       /* polls that had found completions by then */
	bool slept;	       /* in this wait */
	uint64_t measure_from; /* start of the current measurement; 0: there is none */
	struct xp_usage usage; /* at that time */
	uint64_t naps_until;
};

/*
 * Reports an empty poll. Returns the time to sleep in ns, or 0.
 * @found: number of polls of the thread, of any CQ, that have found completions.
 * @usage: returns that of the calling thread. Seldom called.
 */
uint32_t xp_wait_nap_due(struct xp_wait *w, uint64_t now, uint32_t found,
			 struct xp_usage (*usage)(void));

#endif /* XP_NAP_H */
