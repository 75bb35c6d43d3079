// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory windows: here they come and go; binding them is work for the engines. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "daemon/datapath/xdp.h"
#include "objects.h"

/* *rkey as it is now: a program that guesses it may bind the window before it is told. */
static int make_key(struct xd_client *c, struct xd_mw *mw, uint32_t type, uint32_t *rkey)
{
	xd_workers_pause(c->dev->workers);
	mw->key = xt_keys_alloc(c->dev->shared.keys);
	if (mw->key) {
		mw->key->entry.pd = mw->pd->id->number;
		mw->key->entry.type = XR_KEY_MW;
		mw->key->entry.flags = type == IBV_MW_TYPE_2 ? XR_KEYF_TYPE_2 : 0;
		*rkey = xt_key_value(mw->key);
	}
	xd_workers_resume_no_wake(c->dev->workers);
	if (!mw->key)
		return -ENOMEM;
	return xd_xdp_key_set(c->dev->xdp, mw->key->index, &mw->key->entry);
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
		return -EINVAL;
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
		xd_mw_free(mw);
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
	xd_mw_free(mw);
	return 0;
}

void xd_mw_free(struct xd_mw *mw)
{
	struct xd_client *c = mw->obj.client;
	uint32_t index;

	if (mw->key) {
		index = mw->key->index;
		xd_workers_pause(c->dev->workers);
		xt_window_unbind(&c->dev->shared, mw->key);
		xt_keys_release(c->dev->shared.keys, mw->key);
		xd_workers_resume_no_wake(c->dev->workers);
		/* only the control thread gives numbers out, so it cannot be in use again yet */
		xd_xdp_key_del(c->dev->xdp, index);
	}
	mw->pd->obj.refs--;
	xd_object_del(&mw->obj);
	free(mw);
}
