// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Three heaps of timers: retry timers, rate timers and timers of moderated CQs. The deadline of a
 * busy QP moves into the future with each acknowledgement. Moving it only stores the new deadline
 * in the QP; the heap entry keeps the old time and is corrected when that time has come.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "timer.h"

#define CHILDREN 4
#define PER_CHUNK 1024
#define CORRECTIONS 64 /* of entries at once */

static struct xt_heap_entry *timer_entry(const struct xt_heap *h, uint32_t slot)
{
	return &h->chunk[slot / PER_CHUNK][slot % PER_CHUNK];
}

static void timer_place(struct xt_heap *h, uint32_t slot, struct xt_heap_entry t)
{
	*timer_entry(h, slot) = t;
	t.timer->slot = slot;
}

static void sift_up(struct xt_heap *h, uint32_t slot, struct xt_heap_entry t)
{
	while (slot && timer_entry(h, (slot - 1) / CHILDREN)->when > t.when) {
		timer_place(h, slot, *timer_entry(h, (slot - 1) / CHILDREN));
		slot = (slot - 1) / CHILDREN;
	}
	timer_place(h, slot, t);
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
			if (timer_entry(h, child)->when < timer_entry(h, best)->when)
				best = child;
		if (timer_entry(h, best)->when >= t.when)
			break;
		timer_place(h, slot, *timer_entry(h, best));
		slot = best;
	}
	timer_place(h, slot, t);
}

static void heap_remove(struct xt_heap *h, uint32_t slot)
{
	struct xt_heap_entry last = *timer_entry(h, --h->count);

	timer_entry(h, slot)->timer->slot = XT_NO_TIMER;
	if (slot == h->count)
		return;
	if (slot && last.when < timer_entry(h, (slot - 1) / CHILDREN)->when)
		sift_up(h, slot, last);
	else
		sift_down(h, slot, last);
}

static int heap_reserve(struct xt_heap *h, uint32_t count)
{
	struct xt_heap_entry *chunk;

	if (count < h->chunks * PER_CHUNK)
		return 0;
	if (h->chunks == XT_HEAP_CHUNKS)
		return -ENOMEM;
	chunk = malloc(PER_CHUNK * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	/* the first write to a page takes a page fault */
	for (uint32_t i = 0; i < PER_CHUNK; i++)
		chunk[i] = (struct xt_heap_entry){ .when = XT_NEVER };
	h->chunk[h->chunks++] = chunk;
	return 0;
}

static void heap_free(struct xt_heap *h)
{
	while (h->chunks)
		free(h->chunk[--h->chunks]);
}

void xt_timer_free(struct xt_engine *e)
{
	heap_free(&e->retry_timers);
	heap_free(&e->rate_timers);
	heap_free(&e->event_timers);
}

int xt_timer_reserve(struct xt_engine *e)
{
	int err = heap_reserve(&e->retry_timers, e->qp_count);

	return err ? err : heap_reserve(&e->rate_timers, e->qp_count);
}

int xt_timer_reserve_event(struct xt_engine *e)
{
	int err = heap_reserve(&e->event_timers, e->moderated_cqs);

	if (!err)
		e->moderated_cqs++;
	return err;
}

static void heap_set(struct xt_heap *h, void *owner, struct xt_timer *t, uint64_t deadline)
{
	struct xt_heap_entry new = { deadline, owner, t };

	t->deadline = deadline;
	if (deadline == XT_NEVER)
		return;
	if (t->slot == XT_NO_TIMER)
		sift_up(h, h->count++, new);
	else if (deadline < timer_entry(h, t->slot)->when)
		sift_up(h, t->slot, new);
}

void xt_timer_set_retry(struct xt_qp *qp, uint64_t deadline)
{
	heap_set(&qp->engine->retry_timers, qp, &qp->retry_timer, deadline);
}

void xt_timer_set_rate(struct xt_qp *qp, uint64_t deadline)
{
	heap_set(&qp->engine->rate_timers, qp, &qp->rate_timer, deadline);
}

void xt_timer_set_event(struct xt_engine *e, struct xt_cq *cq, uint64_t deadline)
{
	heap_set(&e->event_timers, cq, &cq->moderation.timer, deadline);
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

void xt_timer_remove_event(struct xt_engine *e, struct xt_cq *cq)
{
	timer_remove(&e->event_timers, &cq->moderation.timer);
}

/*
 * Corrects the first entry to its owner's deadline. Returns false if the heap is empty. If many
 * entries need a correction, the first one may remain too early.
 */
static bool refresh_first(struct xt_heap *h)
{
	struct xt_heap_entry t;

	for (unsigned n = CORRECTIONS; h->count && n; n--) {
		t = *timer_entry(h, 0);
		if (t.when == t.timer->deadline)
			return true;
		if (t.timer->deadline == XT_NEVER) {
			heap_remove(h, 0);
			continue;
		}
		t.when = t.timer->deadline;
		sift_down(h, 0, t);
	}
	return h->count;
}

static void *timer_expired(struct xt_heap *h, uint64_t now)
{
	struct xt_heap_entry t;

	/* entries whose time has not come need no correction yet */
	while (h->count && timer_entry(h, 0)->when <= now) {
		if (!refresh_first(h) || timer_entry(h, 0)->when > now)
			return NULL;
		t = *timer_entry(h, 0);
		if (t.when != t.timer->deadline)
			return NULL;
		t.timer->deadline = XT_NEVER;
		heap_remove(h, 0);
		return t.owner;
	}
	return NULL;
}

struct xt_qp *xt_timer_expired_retry(struct xt_engine *e, uint64_t now)
{
	return timer_expired(&e->retry_timers, now);
}

struct xt_qp *xt_timer_expired_rate(struct xt_engine *e, uint64_t now)
{
	return timer_expired(&e->rate_timers, now);
}

struct xt_cq *xt_timer_expired_event(struct xt_engine *e, uint64_t now)
{
	return timer_expired(&e->event_timers, now);
}

static void sooner(struct xt_heap *h, uint64_t *next)
{
	if (refresh_first(h) && timer_entry(h, 0)->when < *next)
		*next = timer_entry(h, 0)->when;
}

uint64_t xt_timer_next(struct xt_engine *e)
{
	uint64_t next = XT_NEVER;

	sooner(&e->retry_timers, &next);
	sooner(&e->rate_timers, &next);
	sooner(&e->event_timers, &next);
	return next;
}
