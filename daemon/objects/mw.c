// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mw.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "daemon/io/tables.h"
#include "daemon/memory/region.h"
#include "mr.h"
#include "objects.h"
#include "pd.h"
#include "qp.h"

/* Sets *rkey before the key is published: a program that guesses it can bind the window then. */
static int mw_make_key(struct xd_client *c, struct xd_mw *mw, uint32_t type, uint32_t *rkey)
{
	struct xt_keys *keys = c->dev->shared.keys;
	struct xt_key *key = xt_keys_reserve(keys);
	int err;

	if (!key)
		return -ENOMEM;
	key->entry.pd = mw->pd->id->number;
	key->entry.type = XR_KEY_MW;
	key->entry.flags = type == IBV_MW_TYPE_2 ? XR_KEYF_TYPE_2 : 0;
	key->owner = &mw->obj;
	*rkey = xt_key_value(key);
	err = xd_tables_set_key(c->dev->tables, key->index, &key->entry);
	if (err) {
		xt_keys_release(keys, key);
		return err;
	}
	mw->key = key;
	xt_keys_publish(keys, key);
	return 0;
}

/* Before engines have ended their rounds, one of them may be about to bind the window. */
static void mw_grace_run(struct xd_client_job *job)
{
	xd_grace_wait(job->client->dev->workers,
		      container_of(job, struct xd_mw, ending.job)->grace);
}

/* A window of type 2 is in a list of its QP, which belongs to the QP's engine. */
static void mw_unbind(struct xd_client *c, struct xt_key *key)
{
	struct xt_qp *xt = xt_qp_by_num(c->dev->shared.qps, key->entry.qpn);
	const struct xd_qp *qp = xt ? xt_qp_info(xt)->owner : NULL;
	struct xd_workers *ws = c->dev->workers;

	if (qp)
		xd_worker_pause(ws, qp->worker);
	xt_window_unbind(&c->dev->shared, key);
	if (qp)
		xd_worker_resume_no_wake(ws, qp->worker);
}

static void freed(struct xd_client *c, struct xd_ending *e)
{
	struct xd_mw *mw = container_of(e, struct xd_mw, ending);

	if (mw->reply)
		xd_reply_send(c, 0, NULL);
	free(mw);
}

static void grace_done(struct xd_client_job *job)
{
	struct xd_mw *mw = container_of(job, struct xd_mw, ending.job);
	struct xd_client *c = job->client;
	const struct xt_key *region = mw->key->parent;

	xd_ending_region(&mw->ending, region ? (struct xd_mem *)region->mem : NULL);
	mw_unbind(c, mw->key);
	xd_key_free(c, mw->key);
	mw->ending.then = freed;
	xd_ending_wait(c, &mw->ending);
}

static void free_window(struct xd_mw *mw, bool reply)
{
	struct xd_client *c = mw->obj.client;
	struct xd_workers *ws = c->dev->workers;

	mw->reply = reply;
	mw->pd->obj.refs--;
	xd_object_del(&mw->obj);
	xt_keys_withdraw(c->dev->shared.keys, mw->key);
	mw->grace = xd_grace_mark(ws);
	mw->ending.job.run = mw_grace_run;
	mw->ending.job.done = grace_done;
	xd_client_do_job_in_turn(c, &mw->ending.job, !xd_grace_over(ws, mw->grace));
}

static void free_mw(struct xd_object *obj)
{
	free_window(container_of(obj, struct xd_mw, obj), false);
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
	err = mw_make_key(c, mw, q->type, &rkey);
	if (err) {
		pd->obj.refs--;
		xd_object_del(&mw->obj);
		free(mw);
		return err;
	}
	r = XD_REPLY(rep, xr_alloc_mw_rep);
	r->handle = mw->obj.handle;
	r->rkey = rkey;
	return 0;
}

int xd_do_dealloc_mw(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_mw *mw = xd_object_get(c, XD_MW, q->handle);

	if (!mw)
		return -ENOENT;
	free_window(mw, true);
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

/* A window that a work request changes at this moment is not bound. */
static void show_mw(struct json *j, struct xd_object *obj)
{
	const struct xd_mw *mw = container_of(obj, struct xd_mw, obj);
	struct xr_view_mw r = { 0 };
	const struct xt_key *region;
	struct xt_key key;

	region = xt_keys_copy(mw->key, &key) ? key.parent : NULL;
	if (region)
		r.mr = xt_key_value(region);
	r.key = xt_key_value(mw->key);
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

static uint32_t mw_number_of(const struct xd_object *obj)
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
	.number = mw_number_of,
	.find = find_mw,
	.free = free_mw,
	.client_limit = offsetof(struct xd_options, client_max_mr),
	.user_limit = offsetof(struct xd_options, user_max_mr),
	.device_limit = offsetof(struct xd_options, max_mr),
	.bytes = sizeof(struct xd_mw) + sizeof(struct xt_key),
};
