/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Timers: two for each QP and one for each moderated CQ, each kind in a heap of the engine. */
#ifndef XT_TIMER_H
#define XT_TIMER_H

#include <stdint.h>

struct xt_cq;
struct xt_engine;
struct xt_qp;

#define XT_NO_TIMER UINT32_MAX

struct xt_timer {
	uint64_t deadline; /* ns; XT_NEVER: not set */
	uint32_t slot;	   /* in the heap; XT_NO_TIMER: not in it */
};

struct xt_heap_entry {
	uint64_t when;		/* may be earlier than the timer's deadline, never later */
	void *owner;		/* QP or CQ */
	struct xt_timer *timer; /* one of the owner's */
};

/*
 * Each entry has four children. Entries are allocated in chunks and never copied, so that the heap
 * can grow while its worker runs. There are chunks enough for as many QPs as there are numbers.
 */
#define XT_HEAP_CHUNKS 4096
struct xt_heap {
	struct xt_heap_entry *chunk[XT_HEAP_CHUNKS];
	uint32_t chunks; /* of the control thread */
	uint32_t count;
};

/* Frees the heaps. */
void xt_timer_free(struct xt_engine *e);
/* Makes room for the timers of e->qp_count + 1 QPs. The engine may run meanwhile. -ENOMEM. */
int xt_timer_reserve(struct xt_engine *e);
/* The local ACK timeout, or the wait after an RNR NAK; XT_NEVER clears it. */
void xt_timer_set_retry(struct xt_qp *qp, uint64_t deadline);
/* The time at which the rate limit allows the next packet; XT_NEVER clears it. */
void xt_timer_set_rate(struct xt_qp *qp, uint64_t deadline);
/* Makes room for the timer of one more CQ. The engine may run meanwhile. -ENOMEM. */
int xt_timer_reserve_event(struct xt_engine *e);
/* The time at which the event of a moderated CQ is due, for a timer that is not set. */
void xt_timer_set_event(struct xt_engine *e, struct xt_cq *cq, uint64_t deadline);
void xt_timer_remove_event(struct xt_engine *e, struct xt_cq *cq);
/* Removes both timers of a QP. */
void xt_timer_remove(struct xt_qp *qp);
/* Each returns an owner whose deadline has passed, with that timer cleared, or NULL. */
struct xt_qp *xt_timer_expired_retry(struct xt_engine *e, uint64_t now);
struct xt_qp *xt_timer_expired_rate(struct xt_engine *e, uint64_t now);
struct xt_cq *xt_timer_expired_event(struct xt_engine *e, uint64_t now);
/* Returns the earliest deadline of all timers, XT_NEVER if none is set. */
uint64_t xt_timer_next(struct xt_engine *e);

#endif /* XT_TIMER_H */
