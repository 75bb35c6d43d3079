// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "delay_queue.h"

#include <stdlib.h>

#include "daemon/transport/wire/frame_copy.h"

#define MAX_FRAMES 1024

struct delayed_frame {
	uint64_t when, seq; /* frames that are due at the same time keep their order */
	uint8_t rule;
	struct xt_frame_copy copy;
};

/* A binary heap of indices of frames; the frame that is due first is at 0. */
struct heap {
	uint32_t n;
	uint16_t index[MAX_FRAMES];
};

struct xd_delay {
	uint64_t seq;
	uint32_t free_n;
	uint16_t free[MAX_FRAMES];
	struct heap rx, tx;
	uint16_t held[XD_FAULT_RULES]; /* frames by rule */
	struct delayed_frame frame[MAX_FRAMES];
};

struct xd_delay *xd_delay_new(void)
{
	struct xd_delay *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	while (q->free_n < MAX_FRAMES) {
		q->free[q->free_n] = (uint16_t)(MAX_FRAMES - 1 - q->free_n);
		q->free_n++;
	}
	return q;
}

void xd_delay_free(struct xd_delay *q)
{
	free(q);
}

static struct heap *heap_of(struct xd_delay *q, uint32_t direction)
{
	return direction == XD_FAULT_RX ? &q->rx : &q->tx;
}

static bool delay_queue_precedes(const struct xd_delay *q, uint16_t a, uint16_t b)
{
	const struct delayed_frame *x = &q->frame[a], *y = &q->frame[b];

	return x->when < y->when || (x->when == y->when && x->seq < y->seq);
}

static void push(const struct xd_delay *q, struct heap *h, uint16_t frame)
{
	uint32_t at = h->n++, parent;

	for (; at; at = parent) {
		parent = (at - 1) / 2;
		if (!delay_queue_precedes(q, frame, h->index[parent]))
			break;
		h->index[at] = h->index[parent];
	}
	h->index[at] = frame;
}

static uint16_t delay_queue_pop(const struct xd_delay *q, struct heap *h)
{
	uint16_t first = h->index[0], last = h->index[--h->n];
	uint32_t at = 0, child;

	for (; (child = 2 * at + 1) < h->n; at = child) {
		if (child + 1 < h->n &&
		    delay_queue_precedes(q, h->index[child + 1], h->index[child]))
			child++;
		if (!delay_queue_precedes(q, h->index[child], last))
			break;
		h->index[at] = h->index[child];
	}
	h->index[at] = last;
	return first;
}

static bool has_room_for(const struct xd_delay *q, uint8_t rule)
{
	return q->free_n && (rule >= XD_FAULT_RULES || q->held[rule] < q->free_n);
}

bool xd_delay_add(struct xd_delay *q, uint32_t direction, uint64_t when, uint8_t rule,
		  const struct xt_frame *f)
{
	struct delayed_frame *x;
	uint16_t index;

	if (!has_room_for(q, rule) || f->len > XT_MAX_FRAME)
		return false;
	index = q->free[--q->free_n];
	x = &q->frame[index];
	x->rule = rule;
	if (rule < XD_FAULT_RULES)
		q->held[rule]++;
	x->when = when;
	x->seq = q->seq++;
	xt_frame_copy(&x->copy, f);
	push(q, heap_of(q, direction), index);
	return true;
}

bool xd_delay_due(struct xd_delay *q, uint32_t direction, uint64_t now, struct xt_frame *f)
{
	struct heap *h = heap_of(q, direction);
	uint16_t index;

	if (!h->n || q->frame[h->index[0]].when > now)
		return false;
	index = delay_queue_pop(q, h);
	q->free[q->free_n++] = index;
	if (q->frame[index].rule < XD_FAULT_RULES)
		q->held[q->frame[index].rule]--;
	*f = xt_frame_of(&q->frame[index].copy);
	return true;
}

bool xd_delay_has_room(const struct xd_delay *q)
{
	return q->free_n;
}

uint64_t xd_delay_next(const struct xd_delay *q)
{
	uint64_t rx = q->rx.n ? q->frame[q->rx.index[0]].when : XT_NEVER;
	uint64_t tx = q->tx.n ? q->frame[q->tx.index[0]].when : XT_NEVER;

	return rx < tx ? rx : tx;
}
