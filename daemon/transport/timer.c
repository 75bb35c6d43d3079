// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two heaps of timers: retry timers and rate timers. The deadline of a busy QP moves into the
 * future with each acknowledgement. Moving it only stores the new deadline in the QP; the heap
 * entry keeps the old time and is corrected when that time has come.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "qp.h"
#include "timer.h"

#define CHILDREN 4

static void place(struct xt_heap *h, uint32_t slot, struct xt_heap_entry t)
{
	h->entries[slot] = t;
	t.timer->slot = slot;
}

static void sift_up(struct xt_heap *h, uint32_t slot, struct xt_heap_entry t)
{
	while (slot && h->entries[(slot - 1) / CHILDREN].when > t.when) {
		place(h, slot, h->entries[(slot - 1) / CHILDREN]);
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
			if (h->entries[child].when < h->entries[best].when)
				best = child;
		if (h->entries[best].when >= t.when)
			break;
		place(h, slot, h->entries[best]);
		slot = best;
	}
	place(h, slot, t);
}

static void heap_remove(struct xt_heap *h, uint32_t slot)
{
	struct xt_heap_entry last = h->entries[--h->count];

	h->entries[slot].timer->slot = XT_NO_TIMER;
	if (slot == h->count)
		return;
	if (slot && last.when < h->entries[(slot - 1) / CHILDREN].when)
		sift_up(h, slot, last);
	else
		sift_down(h, slot, last);
}

static int heap_reserve(struct xt_heap *h, uint32_t count)
{
	uint32_t room = h->room ? h->room * 2 : 64;
	struct xt_heap_entry *entries;

	if (count < h->room)
		return 0;
	entries = realloc(h->entries, room * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	h->entries = entries;
	h->room = room;
	return 0;
}

int xt_timer_reserve(struct xt_engine *e)
{
	int err = heap_reserve(&e->retry_timers, e->qp_count);

	return err ? err : heap_reserve(&e->rate_timers, e->qp_count);
}

static void heap_set(struct xt_heap *h, struct xt_qp *qp, struct xt_timer *t, uint64_t deadline)
{
	struct xt_heap_entry entry = { deadline, qp, t };

	t->deadline = deadline;
	if (deadline == XT_NEVER)
		return;
	if (t->slot == XT_NO_TIMER)
		sift_up(h, h->count++, entry);
	else if (deadline < h->entries[t->slot].when)
		sift_up(h, t->slot, entry);
}

void xt_timer_set_retry(struct xt_qp *qp, uint64_t deadline)
{
	heap_set(&qp->engine->retry_timers, qp, &qp->retry_timer, deadline);
}

void xt_timer_set_rate(struct xt_qp *qp, uint64_t deadline)
{
	heap_set(&qp->engine->rate_timers, qp, &qp->rate_timer, deadline);
}

static void timer_remove(struct xt_heap *h, struct xt_timer *t)
{
	t->deadline = XT_NEVER;
	if (t->slot != XT_NO_TIMER)
		heap_remove(h, t->slot);
}

void xt_timer_remove(struct xt_qp *qp)
{
	timer_remove(&qp->engine->retry_timers, &qp->retry_timer);
	timer_remove(&qp->engine->rate_timers, &qp->rate_timer);
}

/* Corrects the first entry to its QP's deadline. Returns false if the heap is empty. */
static bool refresh_first(struct xt_heap *h)
{
	struct xt_heap_entry t;

	while (h->count) {
		t = h->entries[0];
		if (t.when == t.timer->deadline)
			return true;
		if (t.timer->deadline == XT_NEVER) {
			heap_remove(h, 0);
			continue;
		}
		t.when = t.timer->deadline;
		sift_down(h, 0, t);
	}
	return false;
}

static struct xt_qp *expired(struct xt_heap *h, uint64_t now)
{
	struct xt_heap_entry t;

	/* entries whose time has not come need no correction yet */
	while (h->count && h->entries[0].when <= now) {
		if (!refresh_first(h) || h->entries[0].when > now)
			return NULL;
		t = h->entries[0];
		t.timer->deadline = XT_NEVER;
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
	uint64_t a = refresh_first(&e->retry_timers) ? e->retry_timers.entries[0].when : XT_NEVER;
	uint64_t b = refresh_first(&e->rate_timers) ? e->rate_timers.entries[0].when : XT_NEVER;

	return a < b ? a : b;
}
