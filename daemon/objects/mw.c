// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mw.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/io/tables.h"
#include "daemon/memory/region.h"
#include "mr.h"
#include "objects.h"
#include "pd.h"

/*
 * Sets *rkey with workers paused: a program that guesses the R_Key can bind the window from then
 * on.
 */
static int make_key(struct xd_client *c, struct xd_mw *mw, uint32_t type, uint32_t *rkey)
{
	if (xt_keys_prepare(c->dev->shared.keys))
		return -ENOMEM;
	xd_workers_pause(c->dev->workers);
	mw->key = xt_keys_alloc(c->dev->shared.keys);
	if (mw->key) {
		mw->key->entry.pd = mw->pd->id->number;
		mw->key->entry.type = XR_KEY_MW;
		mw->key->owner = &mw->obj;
		mw->key->entry.flags = type == IBV_MW_TYPE_2 ? XR_KEYF_TYPE_2 : 0;
		*rkey = xt_key_value(mw->key);
	}
	xd_workers_resume_no_wake(c->dev->workers);
	if (!mw->key)
		return -ENOMEM;
	return xd_tables_set_key(c->dev->tables, mw->key->index, &mw->key->entry);
}

/* used: notes the accesses to the region that the window was bound to; NULL: does not */
static void free_window(struct xd_client *c, struct xd_mw *mw, struct xd_ending *used)
{
	const struct xt_shared *shared = &c->dev->shared;
	const struct xt_key *region;
	uint32_t index;

	if (mw->key) {
		index = mw->key->index;
		xd_workers_pause(c->dev->workers);
		region = xt_keys_by_index(shared->keys, mw->key->parent);
		if (used)
			xd_ending_region(used, region ? (struct xd_mem *)region->mem : NULL);
		xt_window_unbind(&c->dev->shared, mw->key);
		xt_keys_release(shared->keys, mw->key);
		xd_workers_resume_no_wake(c->dev->workers);
		/* The index cannot be in use again: only the control thread allocates keys. */
		xd_tables_del_key(c->dev->tables, index);
	}
	mw->pd->obj.refs--;
	xd_object_del(&mw->obj);
}

static void free_mw(struct xd_object *obj)
{
	struct xd_mw *mw = container_of(obj, struct xd_mw, obj);

	free_window(obj->client, mw, NULL);
	free(mw);
}

int xd_do_alloc_mw(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_alloc_mw_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);
	struct xr_alloc_mw_rep *r;
	struct xd_mw *mw;
	uint32_t rkey = 0;
	int err;

	if (!pd)
		return -ENOENT;
	if (q->type != IBV_MW_TYPE_1 && q->type != IBV_MW_TYPE_2)
		return xd_refuse(c, -EINVAL, "type %u; IBV_MW_TYPE_1 or IBV_MW_TYPE_2", q->type);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	err = xd_object_add(c, &mw->obj, XD_MW);
	if (err) {
		free(mw);
		return err;
	}
	mw->pd = pd;
	pd->obj.refs++;
	err = make_key(c, mw, q->type, &rkey);
	if (err) {
		free_mw(&mw->obj);
		return err;
	}
	r = XD_REPLY(rep, xr_alloc_mw_rep);
	r->handle = mw->obj.handle;
	r->rkey = rkey;
	return 0;
}

static void unused(struct xd_client *c, struct xd_ending *e)
{
	free(container_of(e, struct xd_mw, ending));
	xd_reply_send(c, 0, NULL);
}

int xd_do_dealloc_mw(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_mw *mw = xd_object_get(c, XD_MW, q->handle);

	if (!mw)
		return -ENOENT;
	free_window(c, mw, &mw->ending);
	mw->ending.then = unused;
	xd_ending_wait(c, &mw->ending);
	return XD_LATER;
}

static void put_mw(struct json *j, const struct xr_view_mw *r, const struct xd_client *c,
		   const char *path)
{
	json_number(j, "rkey", r->key);
	json_number(j, "client", c->id);
	json_number(j, "pd", r->pd);
	json_number(j, "type", r->type);
	json_boolean(j, "bound", r->mr);
	json_number(j, "mr", r->mr);
	json_hex(j, "addr", r->addr);
	json_number(j, "length", r->length);
	xd_show_access(j, r->access);
	json_number(j, "qpn", r->qpn);
	json_text(j, "path", path);
}

/* Workers are paused because engines change the key. */
static void show_mw(struct json *j, struct xd_object *obj)
{
	const struct xd_mw *mw = container_of(obj, struct xd_mw, obj);
	struct xd_device *dev = obj->client->dev;
	const struct xt_key *region;
	struct xr_view_mw r = { 0 };
	struct xt_key key;

	xd_workers_pause(dev->workers);
	key = *mw->key;
	region = key.parent ? xt_keys_by_index(dev->shared.keys, key.parent) : NULL;
	if (region)
		r.mr = xt_key_value(region);
	xd_workers_resume_no_wake(dev->workers);
	r.key = xt_key_value(&key);
	r.pd = mw->pd->id->number;
	r.type = key.entry.flags & XR_KEYF_TYPE_2 ? 2 : 1;
	r.addr = region ? key.entry.va : 0;
	r.length = region ? key.entry.length : 0;
	r.access = region ? key.entry.access : 0;
	r.qpn = key.entry.qpn;
	put_mw(j, &r, obj->client, "daemon");
}

static void show_mw_detail(struct json *j, struct xd_object *obj)
{
	struct xr_view_refused refused;

	show_mw(j, obj);
	xd_take_refused(container_of(obj, struct xd_mw, obj)->key, &refused);
	xd_show_refused(j, &refused);
}

static void show_mw_view(struct json *j, const void *record, const struct xd_client *c, bool detail)
{
	const struct xr_view_mw *r = record;

	put_mw(j, r, c, "direct");
	if (detail)
		xd_show_refused(j, &r->refused);
}

static uint32_t number_of(const struct xd_object *obj)
{
	return xt_key_value(container_of(obj, struct xd_mw, obj)->key);
}

static bool find_mw(const struct xd_clients *cs, uint32_t number, struct xd_object **obj)
{
	*obj = xd_find_key(cs, number, XD_MW);
	return true;
}

/* Windows have the limits of regions. */
const struct xd_kind_ops xd_mw_ops = {
	.name = "mws",
	.list = XR_SHOW_MWS,
	.show = show_mw,
	.detail_list = XR_SHOW_MW_DETAILS,
	.show_detail = show_mw_detail,
	.show_view = show_mw_view,
	.number = number_of,
	.find = find_mw,
	.free = free_mw,
	.client_limit = offsetof(struct xd_options, client_max_mr),
	.user_limit = offsetof(struct xd_options, user_max_mr),
	.device_limit = offsetof(struct xd_options, max_mr),
	.bytes = sizeof(struct xd_mw) + sizeof(struct xt_key),
};
