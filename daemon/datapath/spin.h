/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides what a worker without work does: yield, pause or sleep. Contains only the policy; the
 * caller has the clock. Times are ns of CLOCK_MONOTONIC.
 *
 * Spinning pays only while a core is free. A worker whose yields take long was starved: it competes
 * with a program that spins on memory and never yields. The worker then backs off: it sleeps
 * instead of spinning, as a wake-up preempts that program. The back-off time doubles each time the
 * worker is starved again, and is reset when a program attaches or detaches. A single long yield
 * does not count unless the last back-off was not long ago: a hypervisor or a program that runs for
 * a moment causes those, and sleeps beside programs that yield cost more than another long yield.
 *
 * A spin is wasted if it ends without work. A worker whose spins are often wasted probably keeps
 * the core from the thread whose messages it waits for: a yield switches to a thread of another
 * group of the scheduler only if the worker's group has had more than its share of the core. Spins
 * are then short for some time: the worker yields once before it sleeps. That time doubles if spins
 * are wasted again soon after it, as each of them delays a message by the longest spin.
 */
#ifndef XD_SPIN_H
#define XD_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* A worker is starved if so many yields in a row take longer than this. */
#define XD_STARVED_NS 1000000u
#define XD_STARVED_YIELDS 2
/* Shortest and longest back-off. Short at first, as a hypervisor may have caused the delays. */
#define XD_BACKOFF_MIN_NS 10000000ull
#define XD_BACKOFF_MAX_NS 2000000000ull
/*
 * A worker that has worked for this long since it woke up carries a stream. During back-off it
 * pauses before it sleeps, as the next packets are about to come. With single messages the pause
 * would cost more than it saves: the program that gets the message, or the worker of a peer on the
 * same machine, may wait for this core.
 */
#define XD_BULK_NS 50000u
#define XD_PAUSE_NS 5000u
/*
 * A yield that takes less time than this switched to no other thread. The worker then looks for
 * work a few times before it yields again: it finds a message sooner, as a yield takes as long as
 * several looks. A thread that becomes runnable meanwhile waits for about a microsecond.
 */
#define XD_LONE_NS 400u
#define XD_LONE_LOOKS 4
/*
 * After it has carried a single message between two programs of this host, a worker looks for work
 * this long before it yields, once between two yields. If the program that got the message has
 * another processor, its reply comes within that time. Otherwise the looks find nothing, and if
 * that holds for more than half of XD_LOOKS, there are none for XD_NO_LOOKS_NS. A reply of another
 * host takes longer, and its worker may wait for this processor.
 */
#define XD_LOOK_NS 1500u
#define XD_LOOKS 32
#define XD_NO_LOOKS_NS 10000000u
/*
 * Spins become short if more than one in XD_WASTED_WEIGHT is wasted: each wasted one adds that to
 * a sum, each successful one subtracts 1, and the sum reaches XD_WASTED_LIMIT. Afterwards the sum
 * begins at XD_WASTED_RETRY. Spins are short for XD_SHORT_SPINS_MIN_NS at first: sleeping has a
 * price, as the scheduler often wakes a worker on the core of the peer's worker.
 */
#define XD_WASTED_WEIGHT 8
#define XD_WASTED_LIMIT (6 * XD_WASTED_WEIGHT)
#define XD_WASTED_RETRY (3 * XD_WASTED_WEIGHT)
#define XD_SHORT_SPINS_MIN_NS 3000000u
#define XD_SHORT_SPINS_MAX_NS 100000000u

enum xd_idle {
	XD_IDLE_YIELD,
	XD_IDLE_PAUSE, /* poll again at once */
	XD_IDLE_SLEEP,
};

struct xd_spin {
	uint64_t limit_ns; /* longest spin, as configured */
	uint64_t woken;	   /* end of the last sleep, or of a yield that starved the worker */
	uint64_t last_work;
	bool yielded, slept; /* since the last work */
	bool looked;	     /* since the last yield or sleep */
	uint8_t looks, looks_found;
	uint64_t look_until; /* while the worker looks for a reply; 0: it does not */
	uint64_t no_looks_until;
	uint8_t lone_looks;  /* before the next yield */
	uint8_t long_yields; /* in a row */
	uint8_t wasted;	     /* sum of wasted and successful spins */
	uint64_t backoff_until, backoff_ns;
	uint64_t short_until; /* until then spins are short */
	uint64_t short_ns;    /* how long they were or are short */
};

void xd_spin_init(struct xd_spin *s, uint64_t limit_ns, uint64_t now);
/* Reports that a round had work. */
void xd_spin_worked(struct xd_spin *s, uint64_t now);
/* Reports that it carried a single message within this host, after xd_spin_worked(). */
void xd_spin_look(struct xd_spin *s, uint64_t now);
/* Reports the end of a sleep. */
void xd_spin_slept(struct xd_spin *s, uint64_t now);
/*
 * Returns the next step. Without back-off a worker yields at least once before it sleeps, even if
 * the limit is 0: a yield costs less than sleeping and waking up, and lets a program on the same
 * core post more.
 */
enum xd_idle xd_spin_next(struct xd_spin *s, uint64_t now);
/* Reports a yield from `before` to `after`; returns true if the worker backs off now. */
bool xd_spin_yielded(struct xd_spin *s, uint64_t before, uint64_t after);
/* Ends the back-off and short spins: other programs run now. */
void xd_spin_reset_backoff(struct xd_spin *s);

#endif /* XD_SPIN_H */
