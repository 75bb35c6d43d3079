// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

void xp_objects_count(struct xp_objects *o, enum xp_kind kind, uint32_t n)
{
	o->used[kind] += n;
	if (o->shown)
		__atomic_store_n(&o->shown[kind], o->used[kind], __ATOMIC_RELAXED);
}

int xp_object_add(struct xp_objects *o, struct xp_object *obj, enum xp_kind kind)
{
	uint32_t room = o->room ? o->room * 2 : FIRST_ROOM;
	struct xp_object **of;

	if (o->used[kind] >= o->most[kind])
		return -EDQUOT;
	while (o->free < o->room && o->of[o->free])
		o->free++;
	if (o->free == o->room) {
		of = realloc(o->of, room * sizeof(struct xp_object *));
		if (!of)
			return -ENOMEM;
		memset(of + o->room, 0, (room - o->room) * sizeof(struct xp_object *));
		o->of = of;
		o->room = room;
	}
	o->of[o->free] = obj;
	obj->kind = (uint8_t)kind;
	obj->handle = ++o->free;
	xp_objects_count(o, kind, 1);
	return 0;
}

void xp_object_del(struct xp_objects *o, struct xp_object *obj)
{
	if (!obj->handle)
		return;
	o->of[obj->handle - 1] = NULL;
	xp_objects_count(o, obj->kind, -1u);
	if (obj->handle - 1 < o->free)
		o->free = obj->handle - 1;
	obj->handle = 0;
}

void *xp_object_get(const struct xp_objects *o, enum xp_kind kind, uint32_t handle)
{
	struct xp_object *obj = handle && handle <= o->room ? o->of[handle - 1] : NULL;

	return obj && obj->kind == kind ? obj : NULL;
}

void *xp_object_any(const struct xp_objects *o, enum xp_kind kind)
{
	for (uint32_t i = 0; i < o->room; i++)
		if (o->of[i] && o->of[i]->kind == kind)
			return o->of[i];
	return NULL;
}
