// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory windows. Work requests bind them (daemon/transport/key_wr.c). */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "daemon/io/tables.h"
#include "publish.h"
#include "requests.h"

static void end_key(struct xp_host *h, struct xp_mw_object *mw)
{
	uint32_t index;

	xp_host_enter(h);
	index = mw->key->index;
	xp_view_remove(h, &mw->obj);
	xt_window_unbind(&h->shared, mw->key);
	xt_keys_release(h->shared.keys, mw->key);
	xd_tables_del_key(h->tables, index);
	xp_host_leave_quietly(h);
	xp_unpublish_key(h, &mw->place);
}

static int host_make_key(struct xp_host *h, struct xp_mw_object *mw, uint32_t type, uint32_t *rkey)
{
	struct xt_key *key;
	int err;

	xp_host_enter(h);
	key = xt_keys_alloc(h->shared.keys);
	if (key) {
		key->entry.pd = mw->pd->number;
		key->entry.type = XR_KEY_MW;
		key->entry.flags = type == IBV_MW_TYPE_2 ? XR_KEYF_TYPE_2 : 0;
		*rkey = xt_key_value(key);
		err = xd_tables_set_key(h->tables, key->index, &key->entry);
		if (err) {
			xt_keys_release(h->shared.keys, key);
		} else {
			mw->key = key;
			key->owner = &mw->obj;
			xp_view_add(h, &mw->obj);
		}
	} else {
		err = xp_host_refuse(h, -ENOMEM, "the context has %u regions and windows",
				     h->env.attr->max_mr);
	}
	xp_host_leave_quietly(h);
	if (err)
		return err;
	err = xp_publish_key(h, &mw->place, key->index, &key->entry, XR_KEYF_PROGRAM);
	if (err)
		end_key(h, mw);
	return err;
}

int xp_do_alloc_mw(struct xp_host *h, struct xp_call *call)
{
	const struct xr_alloc_mw_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);
	struct xr_alloc_mw_rep rep = { 0 };
	struct xp_mw_object *mw;
	int err;

	if (!pd)
		return -ENOENT;
	if (q->type != IBV_MW_TYPE_1 && q->type != IBV_MW_TYPE_2)
		return xp_host_refuse(h, -EINVAL, "type %u; IBV_MW_TYPE_1 or IBV_MW_TYPE_2",
				      q->type);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	mw->pd = pd;
	err = xp_host_add(h, &mw->obj, XP_KIND_MW);
	if (!err)
		err = host_make_key(h, mw, q->type, &rep.rkey);
	if (err) {
		xp_host_del(h, &mw->obj);
		free(mw);
		return err;
	}
	pd->obj.refs++;
	rep.handle = mw->obj.handle;
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_dealloc_mw(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_mw_object *mw = xp_object_get(&h->objects, XP_KIND_MW, q->handle);

	if (!mw)
		return -ENOENT;
	end_key(h, mw);
	mw->pd->obj.refs--;
	xp_host_del(h, &mw->obj);
	free(mw);
	return 0;
}
