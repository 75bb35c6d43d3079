// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xroce/control.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "client.h"

/* Memory of an object beside its struct: slots of tables, headers of the allocator */
#define OVERHEAD 64

/* Claims: one in so many of the objects that are left, and at most so many, beyond those needed */
#define CLAIM_PART 1024
#define CLAIM_MOST 256
#define CLAIM_MOST_PAGES 16384
_Static_assert(XR_CLAIMS <= XD_MAX_KINDS, "claims of pages");

/* ---- tables ---------------------------------------------------------------------- */

/* A free slot holds the index of the next free one, marked by the lowest bit. */
static bool is_item(const void *slot)
{
	return slot && !((uintptr_t)slot & 1);
}

static void *free_slot(uint32_t next)
{
	return (void *)((uintptr_t)next << 1 | 1);
}

static uint32_t next_free(const void *slot)
{
	return (uint32_t)((uintptr_t)slot >> 1);
}

static int handles_grow(struct xd_table *t)
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

static uint32_t handles_take_freed(struct xd_table *t)
{
	uint32_t i = t->free;

	t->free = next_free(t->slot[i]);
	return i;
}

int xd_table_add(struct xd_table *t, void *item, uint32_t *handle)
{
	if (!t->free && t->last + 1 >= t->room && handles_grow(t))
		return -ENOMEM;
	*handle = t->free ? handles_take_freed(t) : ++t->last;
	t->slot[*handle] = item;
	t->used++;
	return 0;
}

void *xd_table_get(const struct xd_table *t, uint32_t handle)
{
	return handle < t->room && is_item(t->slot[handle]) ? t->slot[handle] : NULL;
}

void xd_table_del(struct xd_table *t, uint32_t handle)
{
	if (!xd_table_get(t, handle))
		return;
	t->slot[handle] = free_slot(t->free);
	t->free = handle;
	t->used--;
}

void xd_table_free(struct xd_table *t)
{
	free(t->slot);
	*t = (struct xd_table){ 0 };
}

void *xd_table_next(const struct xd_table *t, uint32_t *handle)
{
	while (++*handle < t->room) {
		if (is_item(t->slot[*handle]))
			return t->slot[*handle];
	}
	return NULL;
}

/* ---- objects --------------------------------------------------------------------- */

uint32_t xd_kind_limit(const struct xd_clients *cs, size_t offset)
{
	return *(const uint32_t *)((const char *)cs->dev->opt + offset);
}

static uint32_t handles_limit(const struct xd_client *c, size_t offset)
{
	return xd_kind_limit(c->clients, offset);
}

/* *left: as far as the limits that were checked permit */
static int check_limit(struct xd_client *c, uint32_t used, size_t offset, int err, uint32_t *left)
{
	uint32_t max = handles_limit(c, offset);

	if (used >= max)
		return xd_option_reached(c, err, offset, max);
	if (*left > max - used)
		*left = max - used;
	return 0;
}

/* *left: how many objects more the limits permit */
static int handles_check_limits(struct xd_client *c, uint32_t kind, uint32_t *left)
{
	const struct xd_kinds *kinds = &c->clients->kinds;
	const struct xd_kind_ops *ops = kinds->ops[kind];
	const struct xd_user *u = c->user;
	int err;

	*left = UINT32_MAX;
	err = check_limit(c, c->handles.table[kind].used + c->handles.claims[kind],
			  ops->client_limit, -ENOMEM, left);
	if (!err && !u->is_operator)
		err = check_limit(c, u->objects[kind] + u->claims[kind], ops->user_limit, -EDQUOT,
				  left);
	if (!err)
		err = check_limit(c, kinds->objects[kind] + kinds->claims[kind], ops->device_limit,
				  -ENOMEM, left);
	return err;
}

int xd_object_add(struct xd_client *c, struct xd_object *obj, uint32_t kind)
{
	struct xd_kinds *kinds = &c->clients->kinds;
	uint64_t bytes = kinds->ops[kind]->bytes + OVERHEAD;
	uint32_t left;
	int err = handles_check_limits(c, kind, &left);

	if (!err)
		err = xd_user_charge(c, (struct xd_bytes){ .memory = bytes });
	if (err)
		return err;
	err = xd_table_add(&c->handles.table[kind], obj, &obj->handle);
	if (err) {
		xd_user_uncharge(c, (struct xd_bytes){ .memory = bytes });
		return err;
	}
	obj->client = c;
	obj->kind = kind;
	obj->bytes = bytes;
	obj->created = xd_now();
	kinds->objects[kind]++;
	c->user->objects[kind]++;
	return 0;
}

int xd_object_charge(struct xd_object *obj, uint64_t bytes)
{
	int err = xd_user_charge(obj->client, (struct xd_bytes){ .memory = bytes });

	if (!err)
		obj->bytes += bytes;
	return err;
}

void xd_object_del(struct xd_object *obj)
{
	struct xd_client *c = obj->client;

	if (!c)
		return;
	xd_user_uncharge(c, (struct xd_bytes){ .memory = obj->bytes });
	c->clients->kinds.objects[obj->kind]--;
	c->user->objects[obj->kind]--;
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

uint32_t xd_object_last(const struct xd_client *c, uint32_t kind)
{
	return c->handles.table[kind].last;
}

uint32_t xd_object_count(const struct xd_client *c, uint32_t kind)
{
	return c->handles.table[kind].used;
}

/* n: an addition, modulo 2^32 */
static void change_claims(struct xd_client *c, uint32_t kind, uint32_t n)
{
	c->handles.claims[kind] += n;
	c->user->claims[kind] += n;
	c->clients->kinds.claims[kind] += n;
}

static int check_claim(struct xd_client *c, uint32_t kind, uint32_t *left)
{
	if (kind != XR_CLAIM_PAGES)
		return handles_check_limits(c, kind, left);
	*left = xd_user_pages_left(c);
	return 0;
}

int xd_claim(struct xd_client *c, uint32_t kind, uint32_t count, uint32_t *claimed)
{
	uint32_t most = kind == XR_CLAIM_PAGES ? CLAIM_MOST_PAGES : CLAIM_MOST, left;
	int err = check_claim(c, kind, &left);

	if (!err && count > left)
		err = kind == XR_CLAIM_PAGES
			      ? xd_user_reached_pages(c)
			      : xd_refuse(c, -ENOMEM, "%u objects, %u are left", count, left);
	if (err)
		return err;
	left = (left - count) / CLAIM_PART;
	*claimed = count + (left < most ? left : most);
	change_claims(c, kind, *claimed);
	return 0;
}

void xd_unclaim(struct xd_client *c, uint32_t kind, uint32_t n)
{
	change_claims(c, kind, -n);
}

uint32_t xd_claimed(const struct xd_client *c, uint32_t kind)
{
	return c->handles.claims[kind];
}

/* Returns the time since 1970 of a time of xd_now(), which the system clock shows now. */
static uint64_t clock_time(uint64_t at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - xd_now() + at;
}

void xd_show_moment(struct json *j, uint64_t at)
{
	uint64_t now = xd_now();

	json_number(j, "age_ns", now > at ? now - at : 0);
	json_number(j, "time_ns", clock_time(at));
}

void xd_show_owner(struct json *j, const struct xd_client *c, uint64_t created, bool detail)
{
	const struct xd_identity *identity = &c->identity;
	uint64_t now = xd_now();

	json_number(j, "age_ns", now > created ? now - created : 0);
	if (detail)
		json_number(j, "created_ns", clock_time(created));
	json_number(j, "pid", (uint64_t)identity->pid);
	json_number(j, "uid", identity->uid);
	json_text(j, "comm", identity->comm);
}

void xd_object_show_owner(struct json *j, const struct xd_object *obj, bool detail)
{
	xd_show_owner(j, obj->client, obj->created, detail);
}

uint32_t xd_object_limit(const struct xd_client *c, uint32_t kind)
{
	const struct xd_kind_ops *ops = c->clients->kinds.ops[kind];
	uint32_t client = handles_limit(c, ops->client_limit),
		 device = handles_limit(c, ops->device_limit);
	uint32_t user = c->user->is_operator ? device : handles_limit(c, ops->user_limit);
	uint32_t least = client < device ? client : device;

	return user < least ? user : least;
}

bool xd_object_unload(struct xd_object *obj)
{
	const struct xd_kind_ops *ops = obj->client->clients->kinds.ops[obj->kind];

	return !ops->unload || ops->unload(obj);
}

/* Frees in the order of kinds, so that no object is freed that another one still needs. */
bool xd_handles_free_objects(struct xd_client *c)
{
	const struct xd_kinds *kinds = &c->clients->kinds;
	struct xd_handles *h = &c->handles;
	void *o;

	for (; h->kind < kinds->n; h->kind++, h->handle = 0) {
		while ((o = xd_table_next(&h->table[h->kind], &h->handle))) {
			if (!xd_object_unload(o)) {
				h->handle--; /* it is the next one again */
				return false;
			}
			kinds->ops[h->kind]->free(o);
			h->freed++;
			if (xd_loop_must_yield(c->dev->loop))
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
