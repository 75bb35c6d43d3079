/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A binary heap of times, for timers: each operation takes at most 2 log2(n) steps. */
#ifndef XD_HEAP_H
#define XD_HEAP_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* Part of a timer, which is set if its slot is not 0 */
struct xd_heap_node {
	uint64_t when; /* ns */
	uint32_t slot; /* in the heap, counted from 1 */
};

/* All zero: empty */
struct xd_heap {
	struct xd_heap_node **node; /* node[1] is the first one */
	uint32_t count, size;
};

/* Makes room for a number of nodes. Returns 0 or -ENOMEM. */
static inline int xd_heap_reserve(struct xd_heap *h, uint32_t count)
{
	uint32_t size = h->size ? h->size : 64;
	struct xd_heap_node **node;

	if (count < h->size)
		return 0;
	while (size <= count)
		size *= 2;
	node = realloc(h->node, size * sizeof(*node));
	if (!node)
		return -ENOMEM;
	h->node = node;
	h->size = size;
	return 0;
}

static inline void xd_heap_free(struct xd_heap *h)
{
	free(h->node);
}

static inline void xd_heap_place(struct xd_heap *h, uint32_t slot, struct xd_heap_node *n)
{
	h->node[slot] = n;
	n->slot = slot;
}

static inline void xd_heap_sift_up(struct xd_heap *h, uint32_t slot, struct xd_heap_node *n)
{
	while (slot > 1 && h->node[slot / 2]->when > n->when) {
		xd_heap_place(h, slot, h->node[slot / 2]);
		slot /= 2;
	}
	xd_heap_place(h, slot, n);
}

static inline void xd_heap_sift_down(struct xd_heap *h, uint32_t slot, struct xd_heap_node *n)
{
	uint32_t child;

	while ((child = slot * 2) <= h->count) {
		if (child < h->count && h->node[child + 1]->when < h->node[child]->when)
			child++;
		if (h->node[child]->when >= n->when)
			break;
		xd_heap_place(h, slot, h->node[child]);
		slot = child;
	}
	xd_heap_place(h, slot, n);
}

/* Also allowed for a node that is not set. */
static inline void xd_heap_clear(struct xd_heap *h, struct xd_heap_node *n)
{
	uint32_t slot = n->slot;
	struct xd_heap_node *last;

	if (!slot)
		return;
	n->slot = 0;
	last = h->node[h->count--];
	if (last == n)
		return;
	if (last->when < n->when)
		xd_heap_sift_up(h, slot, last);
	else
		xd_heap_sift_down(h, slot, last);
}

/* There must be room. */
static inline void xd_heap_set(struct xd_heap *h, struct xd_heap_node *n, uint64_t when)
{
	xd_heap_clear(h, n);
	n->when = when;
	xd_heap_sift_up(h, ++h->count, n);
}

/* Returns the node with the earliest time, or NULL. */
static inline struct xd_heap_node *xd_heap_first(const struct xd_heap *h)
{
	return h->count ? h->node[1] : NULL;
}

#endif /* XD_HEAP_H */
