/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "delay.h"

#include <stdlib.h>
#include <string.h>

#define HELD_FRAMES 256

struct held_frame {
	uint64_t when;
	uint32_t direction; /* 0: free */
	uint32_t len;
	struct xr_meta meta;
	uint8_t bytes[XT_MAX_FRAME];
};

struct xd_delay {
	uint32_t used;
	struct held_frame frame[HELD_FRAMES];
};

struct xd_delay *xd_delay_new(void)
{
	return calloc(1, sizeof(struct xd_delay));
}

void xd_delay_free(struct xd_delay *h)
{
	free(h);
}

static struct held_frame *find_free(struct xd_delay *h)
{
	for (uint32_t i = 0; i < HELD_FRAMES; i++)
		if (!h->frame[i].direction)
			return &h->frame[i];
	return NULL;
}

bool xd_delay_add(struct xd_delay *h, uint32_t direction, uint64_t when, const struct xt_frame *f)
{
	struct held_frame *slot = find_free(h);
	uint32_t at = 0;

	if (!slot || f->len > sizeof(slot->bytes))
		return false;
	for (uint32_t i = 0; i < f->nseg; i++) {
		memcpy(slot->bytes + at, f->seg[i].data, f->seg[i].len);
		at += f->seg[i].len;
	}
	slot->when = when;
	slot->direction = direction;
	slot->len = f->len;
	slot->meta = f->meta;
	h->used++;
	return true;
}

bool xd_delay_due(struct xd_delay *h, uint32_t direction, uint64_t now, struct xt_frame *f)
{
	struct held_frame *first = NULL;

	for (uint32_t i = 0; h->used && i < HELD_FRAMES; i++) {
		struct held_frame *x = &h->frame[i];

		if (x->direction == direction && x->when <= now &&
		    (!first || x->when < first->when))
			first = x;
	}
	if (!first)
		return false;
	memset(f, 0, sizeof(*f));
	f->seg[0].data = first->bytes;
	f->seg[0].len = f->len = first->len;
	f->nseg = 1;
	f->meta = first->meta;
	first->direction = 0;
	h->used--;
	return true;
}

uint64_t xd_delay_next(const struct xd_delay *h)
{
	uint64_t when = XT_NEVER;

	for (uint32_t i = 0; h->used && i < HELD_FRAMES; i++)
		if (h->frame[i].direction && h->frame[i].when < when)
			when = h->frame[i].when;
	return when;
}
