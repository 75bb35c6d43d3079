// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A QP has two timers, each in a heap of its kind: for what the peer owes, and for what its rate allows.
 * Deadlines of busy QPs move into the future with every acknowledgement; the heap learns of that only
 * when the old time has come, so moving one is a store.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

#define CHILDREN 4

static void place(struct xt_heap *h, uint32_t slot, struct xt_heap_entry t)
{
	h->timers[slot] = t;
	t.alarm->slot = slot;
}

static void sift_up(struct xt_heap *h, uint32_t slot, struct xt_heap_entry t)
{
	while (slot && h->timers[(slot - 1) / CHILDREN].when > t.when) {
		place(h, slot, h->timers[(slot - 1) / CHILDREN]);
		slot = (slot - 1) / CHILDREN;
	}
	place(h, slot, t);
}

static void sift_down(struct xt_heap *h, uint32_t slot, struct xt_heap_entry t)
{
	uint32_t child, best, last;

	for (;;) {
		best = slot * CHILDREN + 1;
		if (best >= h->count)
			break;
		last = best + CHILDREN < h->count ? best + CHILDREN : h->count;
		for (child = best + 1; child < last; child++)
			if (h->timers[child].when < h->timers[best].when)
				best = child;
		if (h->timers[best].when >= t.when)
			break;
		place(h, slot, h->timers[best]);
		slot = best;
	}
	place(h, slot, t);
}

static void heap_remove(struct xt_heap *h, uint32_t slot)
{
	struct xt_heap_entry last = h->timers[--h->count];

	h->timers[slot].alarm->slot = XT_NO_TIMER;
	if (slot == h->count)
		return;
	if (slot && last.when < h->timers[(slot - 1) / CHILDREN].when)
		sift_up(h, slot, last);
	else
		sift_down(h, slot, last);
}

static int heap_reserve(struct xt_heap *h, uint32_t count)
{
	uint32_t room = h->room ? h->room * 2 : 64;
	struct xt_heap_entry *timers;

	if (count < h->room)
		return 0;
	timers = realloc(h->timers, room * sizeof(*timers));
	if (!timers)
		return -ENOMEM;
	h->timers = timers;
	h->room = room;
	return 0;
}

int xt_timer_reserve(struct xt_engine *e)
{
	int err = heap_reserve(&e->retry_timers, e->qp_count);

	return err ? err : heap_reserve(&e->rate_timers, e->qp_count);
}

static void heap_set(struct xt_heap *h, struct xt_qp *qp, struct xt_timer *a, uint64_t deadline)
{
	struct xt_heap_entry t = { deadline, qp, a };

	a->deadline = deadline;
	if (deadline == XT_NEVER)
		return;
	if (a->slot == XT_NO_TIMER)
		sift_up(h, h->count++, t);
	else if (deadline < h->timers[a->slot].when)
		sift_up(h, a->slot, t);
}

void xt_timer_set_retry(struct xt_qp *qp, uint64_t deadline)
{
	heap_set(&qp->engine->retry_timers, qp, &qp->retry_timer, deadline);
}

void xt_timer_set_rate(struct xt_qp *qp, uint64_t deadline)
{
	heap_set(&qp->engine->rate_timers, qp, &qp->rate_timer, deadline);
}

static void alarm_remove(struct xt_heap *h, struct xt_timer *a)
{
	a->deadline = XT_NEVER;
	if (a->slot != XT_NO_TIMER)
		heap_remove(h, a->slot);
}

void xt_timer_remove(struct xt_qp *qp)
{
	alarm_remove(&qp->engine->retry_timers, &qp->retry_timer);
	alarm_remove(&qp->engine->rate_timers, &qp->rate_timer);
}

/* Brings the first entry to what its QP says; false: the heap is empty. */
static bool refresh_first(struct xt_heap *h)
{
	struct xt_heap_entry t;

	while (h->count) {
		t = h->timers[0];
		if (t.when == t.alarm->deadline)
			return true;
		if (t.alarm->deadline == XT_NEVER) {
			heap_remove(h, 0);
			continue;
		}
		t.when = t.alarm->deadline;
		sift_down(h, 0, t);
	}
	return false;
}

static struct xt_qp *expired(struct xt_heap *h, uint64_t now)
{
	struct xt_heap_entry t;

	/* first what the heap holds, so that nothing is settled before its time */
	while (h->count && h->timers[0].when <= now) {
		if (!refresh_first(h) || h->timers[0].when > now)
			return NULL;
		t = h->timers[0];
		t.alarm->deadline = XT_NEVER;
		heap_remove(h, 0);
		return t.qp;
	}
	return NULL;
}

struct xt_qp *xt_timer_expired_retry(struct xt_engine *e, uint64_t now)
{
	return expired(&e->retry_timers, now);
}

struct xt_qp *xt_timer_expired_rate(struct xt_engine *e, uint64_t now)
{
	return expired(&e->rate_timers, now);
}

uint64_t xt_timer_next(struct xt_engine *e)
{
	uint64_t a = refresh_first(&e->retry_timers) ? e->retry_timers.timers[0].when : XT_NEVER;
	uint64_t b = refresh_first(&e->rate_timers) ? e->rate_timers.timers[0].when : XT_NEVER;

	return a < b ? a : b;
}
