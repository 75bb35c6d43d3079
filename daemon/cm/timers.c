// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A heap of timers, see timers.h. */
#include <errno.h>
#include <stdlib.h>

#include "timers.h"

int xc_timers_reserve(struct xc_timers *t, uint32_t count)
{
	uint32_t size = t->size ? t->size : 64;
	struct xc_timer **heap;

	if (count < t->size)
		return 0;
	while (size <= count)
		size *= 2;
	heap = realloc(t->heap, size * sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	t->heap = heap;
	t->size = size;
	return 0;
}

void xc_timers_free(struct xc_timers *t)
{
	free(t->heap);
}

static void place(struct xc_timers *t, uint32_t slot, struct xc_timer *timer)
{
	t->heap[slot] = timer;
	timer->slot = slot;
}

static void sift_up(struct xc_timers *t, uint32_t slot, struct xc_timer *timer)
{
	while (slot > 1 && t->heap[slot / 2]->when > timer->when) {
		place(t, slot, t->heap[slot / 2]);
		slot /= 2;
	}
	place(t, slot, timer);
}

static void sift_down(struct xc_timers *t, uint32_t slot, struct xc_timer *timer)
{
	uint32_t child;

	while ((child = slot * 2) <= t->count) {
		if (child < t->count && t->heap[child + 1]->when < t->heap[child]->when)
			child++;
		if (t->heap[child]->when >= timer->when)
			break;
		place(t, slot, t->heap[child]);
		slot = child;
	}
	place(t, slot, timer);
}

void xc_timers_clear(struct xc_timers *t, struct xc_timer *timer)
{
	uint32_t slot = timer->slot;
	struct xc_timer *last;

	if (!slot)
		return;
	timer->slot = 0;
	last = t->heap[t->count--];
	if (last == timer)
		return;
	if (last->when < timer->when)
		sift_up(t, slot, last);
	else
		sift_down(t, slot, last);
}

void xc_timers_set(struct xc_timers *t, struct xc_timer *timer, uint64_t when)
{
	xc_timers_clear(t, timer);
	timer->when = when;
	sift_up(t, ++t->count, timer);
}

struct xc_timer *xc_timers_first(const struct xc_timers *t)
{
	return t->count ? t->heap[1] : NULL;
}
