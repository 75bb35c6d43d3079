// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "publish.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Places that are free: those that were used last are used first. */
struct publish_places {
	uint32_t count;
	uint16_t *free;
};

struct xp_publish {
	struct publish_places qps, keys;
	uint16_t free_qps[XR_PUBLISH_QPS], free_keys[XR_PUBLISH_KEYS];
	/* the next request; its entries wait for it */
	struct {
		struct xr_publish_req head;
		struct xr_publish_entry entry[XR_PUBLISH_MAX];
	} req;
};

static void init_places(struct publish_places *p, uint16_t *free, uint32_t count)
{
	p->free = free;
	for (p->count = 0; p->count < count; p->count++)
		free[p->count] = (uint16_t)(count - 1 - p->count);
}

int xp_publish_open(struct xp_host *h)
{
	struct xp_publish *p;

	if (!h->env.lent.rep.publish)
		return 0;
	h->publish = p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	init_places(&p->qps, p->free_qps, XR_PUBLISH_QPS);
	init_places(&p->keys, p->free_keys, XR_PUBLISH_KEYS);
	return 0;
}

void xp_publish_close(struct xp_host *h)
{
	free(h->publish);
	h->publish = NULL;
}

/* ---- requests ----------------------------------------------------------------------------- */

static int publish_flush(struct xp_host *h, bool wait)
{
	struct xr_publish_req *q = &h->publish->req.head;
	size_t len = sizeof(*q) + q->entries * sizeof(q->entry[0]);
	int err = wait ? h->env.request(h->env.arg, XR_MSG_PUBLISH, q, len, NULL, 0)
		       : h->env.tell(h->env.arg, XR_MSG_PUBLISH, q, len);

	q->entries = 0;
	return err;
}

static struct xr_publish_entry *publish_add(struct xp_publish *p, enum xr_publish_kind kind,
					    uint32_t place, uint32_t number)
{
	struct xr_publish_entry *e = &p->req.entry[p->req.head.entries++];

	*e = (struct xr_publish_entry){ .kind = kind, .place = place, .number = number };
	return e;
}

/* The tables are full. */
static int publish_flag(struct xp_host *h, uint32_t flag)
{
	struct xr_publish_req *q = &h->publish->req.head;

	if (q->flags & flag)
		return 0;
	q->flags |= flag;
	return publish_flush(h, true);
}

/* The host closes when the connection does, which ends all. */
static bool publishes(const struct xp_host *h)
{
	return h->publish && !h->closes;
}

/* Takes a place if there is none yet. Returns false if there are no more. */
static bool publish_take(struct publish_places *p, uint32_t *place)
{
	if (!*place && p->count)
		*place = p->free[--p->count] + 1u;
	return *place;
}

static void publish_give_back(struct publish_places *p, uint32_t *place)
{
	p->free[p->count++] = (uint16_t)(*place - 1);
	*place = 0;
}

/* What can wait. There is always room for one that cannot. */
static void flush_if_full(struct xp_host *h)
{
	if (h->publish->req.head.entries == XR_PUBLISH_MAX - 1)
		publish_flush(h, false);
}

static void unpublish(struct xp_host *h, struct publish_places *p, enum xr_publish_kind kind,
		      uint32_t *place)
{
	if (!*place)
		return;
	publish_add(h->publish, kind, *place - 1, 0);
	publish_give_back(p, place);
	flush_if_full(h);
}

/* ---- QPs and keys ------------------------------------------------------------------------- */

static bool receives(const struct xr_qp_entry *entry)
{
	return entry->state >= XR_QPS_RTR && entry->state <= XR_QPS_SQE;
}

/* Returns true if the kernel lets other packets pass with this entry than with the last one. */
static bool lets_others_pass(const struct xr_qp_entry *entry, const struct xr_qp_entry *last)
{
	struct xr_qp_entry same = *last;

	same.state = entry->state;
	return receives(entry) && (!receives(last) || memcmp(&same, entry, sizeof(same)) != 0);
}

int xp_publish_qp(struct xp_host *h, uint32_t *place, uint32_t qpn, const struct xr_qp_entry *entry,
		  struct xr_qp_entry *last)
{
	struct xp_publish *p = h->publish;
	struct xr_publish_entry *e;
	bool is_new = !*place, asks;
	int err;

	if (!publishes(h))
		return 0;
	if (!publish_take(&p->qps, place))
		return publish_flag(h, XR_PUBLISH_MORE_QPS);
	e = publish_add(p, XR_PUBLISH_QP, *place - 1, qpn);
	e->qp = *entry;
	e->qp.slot = XR_NO_PSNS;
	asks = lets_others_pass(&e->qp, last);
	*last = e->qp;
	if (!asks) {
		flush_if_full(h);
		return 0;
	}
	err = publish_flush(h, true);
	if (err && is_new)
		publish_give_back(&p->qps, place);
	return err;
}

int xp_publish_key(struct xp_host *h, uint32_t *place, uint32_t index,
		   const struct xr_key_entry *entry, uint8_t flags)
{
	struct xp_publish *p = h->publish;
	struct xr_publish_entry *e;
	bool is_new = !*place;
	int err;

	if (!publishes(h))
		return 0;
	if (!publish_take(&p->keys, place))
		return publish_flag(h, XR_PUBLISH_MORE_KEYS);
	e = publish_add(p, XR_PUBLISH_KEY, *place - 1, index);
	e->key = *entry;
	e->key.flags |= flags;
	err = publish_flush(h, false);
	if (err && is_new)
		publish_give_back(&p->keys, place);
	return err;
}

void xp_unpublish_qp(struct xp_host *h, uint32_t *place)
{
	if (publishes(h))
		unpublish(h, &h->publish->qps, XR_PUBLISH_QP, place);
}

void xp_unpublish_key(struct xp_host *h, uint32_t *place)
{
	if (publishes(h))
		unpublish(h, &h->publish->keys, XR_PUBLISH_KEY, place);
}
