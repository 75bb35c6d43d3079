// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/options.h"
#include "client.h"

#define FREE_AT_ONCE 4096

/* ---- tables ---------------------------------------------------------------------- */

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

/* ---- objects --------------------------------------------------------------------- */

static uint32_t limit(const struct xd_client *c, size_t offset)
{
	return *(const uint32_t *)((const char *)c->dev->opt + offset);
}

int xd_object_add(struct xd_client *c, struct xd_object *obj, uint32_t kind)
{
	struct xd_kinds *kinds = &c->clients->kinds;
	const struct xd_kind_ops *ops = kinds->ops[kind];
	struct xd_table *t = &c->handles.table[kind];
	int err;

	if (t->used >= limit(c, ops->client_limit) ||
	    kinds->objects[kind] >= limit(c, ops->device_limit))
		return -ENOMEM;
	err = xd_table_add(t, obj, &obj->handle);
	if (err)
		return err;
	obj->client = c;
	obj->kind = kind;
	kinds->objects[kind]++;
	return 0;
}

void xd_object_del(struct xd_object *obj)
{
	struct xd_client *c = obj->client;

	if (!c)
		return;
	c->clients->kinds.objects[obj->kind]--;
	xd_table_del(&c->handles.table[obj->kind], obj->handle);
	obj->client = NULL;
}

void *xd_object_get(const struct xd_client *c, uint32_t kind, uint32_t handle)
{
	return xd_table_get(&c->handles.table[kind], handle);
}

void *xd_object_next(const struct xd_client *c, uint32_t kind, uint32_t *handle)
{
	return xd_table_next(&c->handles.table[kind], handle);
}

uint32_t xd_object_count(const struct xd_client *c, uint32_t kind)
{
	return c->handles.table[kind].used;
}

uint32_t xd_object_limit(const struct xd_client *c, uint32_t kind)
{
	const struct xd_kind_ops *ops = c->clients->kinds.ops[kind];
	uint32_t client = limit(c, ops->client_limit), device = limit(c, ops->device_limit);

	return client < device ? client : device;
}

/* Frees in the order of kinds, so that no object is freed that another one still needs. */
bool xd_handles_free_objects(struct xd_client *c)
{
	const struct xd_kinds *kinds = &c->clients->kinds;
	struct xd_handles *h = &c->handles;
	uint32_t n = 0;
	void *o;

	for (; h->kind < kinds->n; h->kind++, h->handle = 0) {
		while ((o = xd_table_next(&h->table[h->kind], &h->handle))) {
			kinds->ops[h->kind]->free(o);
			if (++n == FREE_AT_ONCE)
				return false;
		}
	}
	return true;
}

void xd_handles_free(struct xd_client *c)
{
	uint32_t kind;

	for (kind = 0; kind < c->clients->kinds.n; kind++)
		xd_table_free(&c->handles.table[kind]);
}
