// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/options.h"
#include "client.h"

static int grow(struct xd_table *t)
{
	uint32_t room = t->room ? t->room * 2 : 16;
	void **slot = realloc(t->slot, room * sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	memset(slot + t->room, 0, (room - t->room) * sizeof(*slot));
	t->slot = slot;
	t->room = room;
	return 0;
}

int xd_table_add(struct xd_table *t, void *item, uint32_t *handle)
{
	uint32_t i = t->hint ? t->hint : 1;

	while (i < t->room && t->slot[i])
		i++;
	if (i >= t->room && grow(t))
		return -ENOMEM;
	t->slot[i] = item;
	t->hint = i + 1;
	t->used++;
	*handle = i;
	return 0;
}

void *xd_table_get(const struct xd_table *t, uint32_t handle)
{
	return handle < t->room ? t->slot[handle] : NULL;
}

void xd_table_del(struct xd_table *t, uint32_t handle)
{
	if (!xd_table_get(t, handle))
		return;
	t->slot[handle] = NULL;
	t->used--;
	if (handle < t->hint)
		t->hint = handle;
}

void xd_table_free(struct xd_table *t)
{
	free(t->slot);
	*t = (struct xd_table){ 0 };
}

void *xd_table_next(const struct xd_table *t, uint32_t *handle)
{
	while (++*handle < t->room) {
		if (t->slot[*handle])
			return t->slot[*handle];
	}
	return NULL;
}

/*
 * A channel is an open file for the sake of CQs: it has their limit. Windows have the regions', domains
 * of XRC the protection domains'. Device memory is limited by its bytes.
 */
static uint32_t client_limit(const struct xd_options *opt, enum xd_kind kind)
{
	const uint32_t limit[XD_KINDS] = {
		[XD_QP] = opt->client_max_qp,	[XD_AH] = opt->client_max_ah,
		[XD_CQ] = opt->client_max_cq,	[XD_CHANNEL] = opt->client_max_cq,
		[XD_MR] = opt->client_max_mr,	[XD_MW] = opt->client_max_mr,
		[XD_DM] = opt->client_max_mr,	[XD_PD] = opt->client_max_pd,
		[XD_SRQ] = opt->client_max_srq, [XD_XRCD] = opt->client_max_pd,
	};

	return limit[kind];
}

static uint32_t device_limit(const struct xd_options *opt, enum xd_kind kind)
{
	const uint32_t limit[XD_KINDS] = {
		[XD_QP] = opt->max_qp,	    [XD_AH] = opt->max_ah, [XD_CQ] = opt->max_cq,
		[XD_CHANNEL] = opt->max_cq, [XD_MR] = opt->max_mr, [XD_MW] = opt->max_mr,
		[XD_DM] = opt->max_mr,	    [XD_PD] = opt->max_pd, [XD_SRQ] = opt->max_srq,
		[XD_XRCD] = opt->max_pd,
	};

	return limit[kind];
}

int xd_object_add(struct xd_client *c, struct xd_object *obj, enum xd_kind kind)
{
	const struct xd_options *opt = c->dev->opt;
	int err;

	if (c->table[kind].used >= client_limit(opt, kind))
		return -ENOMEM;
	if (c->server->objects[kind] >= device_limit(opt, kind))
		return -ENOMEM;
	err = xd_table_add(&c->table[kind], obj, &obj->handle);
	if (err)
		return err;
	obj->client = c;
	obj->kind = kind;
	c->server->objects[kind]++;
	return 0;
}

void xd_object_del(struct xd_object *obj)
{
	if (!obj->client)
		return;
	obj->client->server->objects[obj->kind]--;
	xd_table_del(&obj->client->table[obj->kind], obj->handle);
	obj->client = NULL;
}

void *xd_object_get(const struct xd_client *c, enum xd_kind kind, uint32_t handle)
{
	return xd_table_get(&c->table[kind], handle);
}
