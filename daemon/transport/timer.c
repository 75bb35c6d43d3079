// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One timer for each QP, in a heap. Deadlines of busy QPs move into the future
 * with every acknowledgement; the heap learns of that only when the old time has come, so
 * moving one is a store.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

#define CHILDREN 4

static void place(struct xt_engine *e, uint32_t slot, struct xt_timer t)
{
	e->timers[slot] = t;
	t.qp->timer_slot = slot;
}

static void sift_up(struct xt_engine *e, uint32_t slot, struct xt_timer t)
{
	while (slot && e->timers[(slot - 1) / CHILDREN].when > t.when) {
		place(e, slot, e->timers[(slot - 1) / CHILDREN]);
		slot = (slot - 1) / CHILDREN;
	}
	place(e, slot, t);
}

static void sift_down(struct xt_engine *e, uint32_t slot, struct xt_timer t)
{
	uint32_t child, best, last;

	for (;;) {
		best = slot * CHILDREN + 1;
		if (best >= e->timer_count)
			break;
		last = best + CHILDREN < e->timer_count ? best + CHILDREN : e->timer_count;
		for (child = best + 1; child < last; child++)
			if (e->timers[child].when < e->timers[best].when)
				best = child;
		if (e->timers[best].when >= t.when)
			break;
		place(e, slot, e->timers[best]);
		slot = best;
	}
	place(e, slot, t);
}

static void heap_remove(struct xt_engine *e, uint32_t slot)
{
	struct xt_timer last = e->timers[--e->timer_count];

	e->timers[slot].qp->timer_slot = XT_NO_TIMER;
	if (slot == e->timer_count)
		return;
	if (slot && last.when < e->timers[(slot - 1) / CHILDREN].when)
		sift_up(e, slot, last);
	else
		sift_down(e, slot, last);
}

int xt_timer_reserve(struct xt_engine *e)
{
	uint32_t room = e->timer_room ? e->timer_room * 2 : 64;
	struct xt_timer *timers;

	if (e->qp_count < e->timer_room)
		return 0;
	timers = realloc(e->timers, room * sizeof(*timers));
	if (!timers)
		return -ENOMEM;
	e->timers = timers;
	e->timer_room = room;
	return 0;
}

void xt_timer_set(struct xt_qp *qp, uint64_t deadline)
{
	struct xt_engine *e = qp->engine;
	struct xt_timer t = { deadline, qp };

	qp->deadline = deadline;
	if (deadline == XT_NEVER)
		return;
	if (qp->timer_slot == XT_NO_TIMER)
		sift_up(e, e->timer_count++, t);
	else if (deadline < e->timers[qp->timer_slot].when)
		sift_up(e, qp->timer_slot, t);
}

void xt_timer_remove(struct xt_qp *qp)
{
	qp->deadline = XT_NEVER;
	if (qp->timer_slot != XT_NO_TIMER)
		heap_remove(qp->engine, qp->timer_slot);
}

/* Brings the first entry to what its QP says; false: the heap is empty. */
static bool settle_first(struct xt_engine *e)
{
	struct xt_timer t;

	while (e->timer_count) {
		t = e->timers[0];
		if (t.when == t.qp->deadline)
			return true;
		if (t.qp->deadline == XT_NEVER) {
			heap_remove(e, 0);
			continue;
		}
		t.when = t.qp->deadline;
		sift_down(e, 0, t);
	}
	return false;
}

struct xt_qp *xt_timer_expired(struct xt_engine *e, uint64_t now)
{
	struct xt_qp *qp;

	/* first what the heap holds, so that nothing is settled before its time */
	while (e->timer_count && e->timers[0].when <= now) {
		if (!settle_first(e) || e->timers[0].when > now)
			return NULL;
		qp = e->timers[0].qp;
		qp->deadline = XT_NEVER;
		heap_remove(e, 0);
		return qp;
	}
	return NULL;
}

uint64_t xt_timer_next(struct xt_engine *e)
{
	return settle_first(e) ? e->timers[0].when : XT_NEVER;
}
