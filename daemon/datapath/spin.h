/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a worker without work does next: yield, pause or sleep. The policy alone: the clock is the caller's,
 * times are ns of CLOCK_MONOTONIC.
 *
 * Spinning is fast only as long as a core is free. A worker that is not run for a while although it only
 * yielded competes with a program that spins on memory and never yields. It becomes shy: it sleeps
 * at once, so that a wake-up preempts that program, and tries again after a time that doubles whenever
 * it is starved again. What it learnt is about the programs that were there: others begin anew.
 */
#ifndef XD_SPIN_H
#define XD_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* Not run for longer than this although it only yielded: something spins and does not yield */
#define XD_STARVED_NS 1000000u
/* How long to sleep at once instead of spinning, doubled each time; short at first, as it may
 * have been the hypervisor */
#define XD_SHY_MIN_NS 10000000ull
#define XD_SHY_MAX_NS 2000000000ull
/* The spin that is left while shy: covers an answer that is just under way */
#define XD_SHY_SPIN_NS 5000u

enum xd_idle {
	XD_IDLE_YIELD,
	XD_IDLE_PAUSE, /* look again at once */
	XD_IDLE_SLEEP,
};

struct xd_spin {
	uint64_t limit_ns; /* longest spin, as configured */
	uint64_t last_work;
	bool yielded; /* since there was work */
	uint64_t shy_until, shy_ns;
};

void xd_spin_init(struct xd_spin *s, uint64_t limit_ns, uint64_t now);
/* There was work, or a sleep that may have ended for some. */
void xd_spin_worked(struct xd_spin *s, uint64_t now);
void xd_spin_slept(struct xd_spin *s, uint64_t now);
/*
 * The next step. One yield there is always, also for workers that shall not spin: it lets a program on
 * this core post more, and costs less than to sleep and to be woken.
 */
enum xd_idle xd_spin_next(struct xd_spin *s, uint64_t now);
/* A yield took from `before` to `after`; true: the worker was starved and is shy now. */
bool xd_spin_yielded(struct xd_spin *s, uint64_t before, uint64_t after);
/* Other programs than those of which it learnt */
void xd_spin_forget(struct xd_spin *s);

#endif /* XD_SPIN_H */
