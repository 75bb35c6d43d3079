// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "delay.h"

#include <stdlib.h>

#include "frame.h"

#define MAX_FRAMES 256

struct delayed_frame {
	uint64_t when;
	uint32_t direction; /* 0: free */
	struct xd_frame_copy copy;
};

struct xd_delay {
	uint32_t used;
	struct delayed_frame frame[MAX_FRAMES];
};

struct xd_delay *xd_delay_new(void)
{
	return calloc(1, sizeof(struct xd_delay));
}

void xd_delay_free(struct xd_delay *q)
{
	free(q);
}

static struct delayed_frame *find_free(struct xd_delay *q)
{
	for (uint32_t i = 0; i < MAX_FRAMES; i++)
		if (!q->frame[i].direction)
			return &q->frame[i];
	return NULL;
}

bool xd_delay_add(struct xd_delay *q, uint32_t direction, uint64_t when, const struct xt_frame *f)
{
	struct delayed_frame *free = find_free(q);

	if (!free || f->len > XT_MAX_FRAME)
		return false;
	free->when = when;
	free->direction = direction;
	xd_frame_copy(&free->copy, f);
	q->used++;
	return true;
}

bool xd_delay_due(struct xd_delay *q, uint32_t direction, uint64_t now, struct xt_frame *f)
{
	struct delayed_frame *first = NULL;

	for (uint32_t i = 0; q->used && i < MAX_FRAMES; i++) {
		struct delayed_frame *x = &q->frame[i];

		if (x->direction == direction && x->when <= now &&
		    (!first || x->when < first->when))
			first = x;
	}
	if (!first)
		return false;
	*f = xd_frame_of(&first->copy);
	first->direction = 0;
	q->used--;
	return true;
}

uint64_t xd_delay_next(const struct xd_delay *q)
{
	uint64_t when = XT_NEVER;

	for (uint32_t i = 0; q->used && i < MAX_FRAMES; i++)
		if (q->frame[i].direction && q->frame[i].when < when)
			when = q->frame[i].when;
	return when;
}
