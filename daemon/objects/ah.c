// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles, and requests that wait for a next hop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/netdev/net.h"
#include "objects.h"

int xd_ah_check(const struct xd_device *dev, const struct xr_ah_attr *attr)
{
	struct xr_addr gid;

	/* A flow label's upper bits do not count: UCX leaves them set. */
	if (!attr->is_global || attr->port_num != 1 || attr->sgid_index >= XR_GID_TABLE_LEN ||
	    !xd_net_gid(dev->net, attr->sgid_index, &gid))
		return -EINVAL;
	return 0;
}

/* ---- waiting for the next hop ---------------------------------------------------- */

/* What was requested, until the path is there */
struct waiting {
	xd_resolved_fn then;
	struct xd_resolve *resolve;
	uint64_t request[];
};

static void forget(struct xd_client *c)
{
	free(c->waiting);
	c->waiting = NULL;
	c->cancel = NULL;
}

static void cancel(struct xd_client *c)
{
	struct waiting *w = c->waiting;

	xd_net_resolve_cancel(w->resolve);
	forget(c);
}

static void resolved(void *arg, int err, const struct xt_path *path)
{
	struct xd_client *c = arg;
	struct waiting *w = c->waiting;
	struct xd_reply *rep = xd_reply_get(c);

	if (!err)
		err = w->then(c, w->request, path, rep);
	forget(c);
	xd_reply_send(c, err, rep);
}

int xd_after_resolve(struct xd_client *c, const struct xr_ah_attr *attr, const void *request,
		     size_t length, xd_resolved_fn then)
{
	int err = xd_ah_check(c->dev, attr);
	struct xd_resolve *resolve;
	struct waiting *w;

	if (err)
		return err;
	w = calloc(1, sizeof(*w) + length);
	if (!w)
		return -ENOMEM;
	w->then = then;
	memcpy(w->request, request, length);
	c->waiting = w;
	c->cancel = cancel;
	/* may answer before it returns, which frees w */
	resolve = xd_net_resolve(c->dev->net, attr, resolved, c);
	if (resolve)
		w->resolve = resolve;
	return XD_LATER;
}

/* ---- create ---------------------------------------------------------------------- */

struct xt_ahs *xd_client_ahs(struct xd_client *c)
{
	if (!c->ahs)
		c->ahs = xt_ahs_new();
	return c->ahs;
}

static int set_path(struct xd_ah *ah, const struct xt_path *path)
{
	struct xd_client *c = ah->obj.client;
	int err;

	xd_workers_pause(c->dev->workers);
	err = xt_ahs_set(c->ahs, ah->obj.handle, ah->pd->id->number, path);
	xd_workers_resume(c->dev->workers);
	return err;
}

static int create_now(struct xd_client *c, const void *request, const struct xt_path *path,
		      struct xd_reply *rep)
{
	const struct xr_create_ah_req *q = request;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);
	struct xd_ah *ah;
	int err;

	if (!xd_client_ahs(c))
		return -ENOMEM;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	err = xd_object_add(c, &ah->obj, XD_AH);
	if (err) {
		free(ah);
		return err;
	}
	ah->attr = q->attr;
	ah->pd = pd;
	pd->obj.refs++;
	err = set_path(ah, path);
	if (err) {
		xd_ah_free(ah);
		return err;
	}
	XD_REPLY(rep, xr_handle_rep)->handle = ah->obj.handle;
	return 0;
}

int xd_do_create_ah(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_create_ah_req *q = req->body;

	if (!xd_object_get(c, XD_PD, q->pd))
		return -ENOENT;
	return xd_after_resolve(c, &q->attr, q, sizeof(*q), create_now);
}

/* ---- the network changed --------------------------------------------------------- */

static void refreshed(void *arg, int err, const struct xt_path *path)
{
	struct xd_ah *ah = arg;
	const struct xt_path *old = xt_ahs_path(ah->obj.client->ahs, ah->obj.handle);

	ah->resolve = NULL;
	/* an address that moved to another connection's place is not this handle's */
	if (!err && !memcmp(&old->sgid, &path->sgid, sizeof(path->sgid)) &&
	    memcmp(old, path, sizeof(*path)))
		set_path(ah, path);
}

void xd_ah_refresh_path(struct xd_ah *ah)
{
	struct xd_resolve *resolve;

	if (ah->resolve)
		xd_net_resolve_cancel(ah->resolve);
	ah->resolve = NULL;
	resolve = xd_net_resolve(ah->obj.client->dev->net, &ah->attr, refreshed, ah);
	if (resolve)
		ah->resolve = resolve;
}

/* ---- destroy --------------------------------------------------------------------- */

int xd_do_destroy_ah(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_ah *ah = xd_object_get(c, XD_AH, q->handle);

	if (!ah)
		return -ENOENT;
	xd_ah_free(ah);
	return 0;
}

void xd_ah_free(struct xd_ah *ah)
{
	struct xd_client *c = ah->obj.client;

	if (ah->resolve)
		xd_net_resolve_cancel(ah->resolve);
	xd_workers_pause(c->dev->workers);
	xt_ahs_del(c->ahs, ah->obj.handle);
	xd_workers_resume(c->dev->workers);
	ah->pd->obj.refs--;
	xd_object_del(&ah->obj);
	free(ah);
}

/* ---- for the program's own use ---------------------------------------------------- */

static int answer_path(struct xd_client *c, const void *request, const struct xt_path *path,
		       struct xd_reply *rep)
{
	struct xr_resolve_ah_rep *r = XD_REPLY(rep, xr_resolve_ah_rep);

	memcpy(r->mac, path->loopback ? path->smac : path->dmac, sizeof(r->mac));
	r->vlan = path->vlan;
	return 0;
}

int xd_do_resolve_ah(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_resolve_ah_req *q = req->body;

	return xd_after_resolve(c, &q->attr, q, sizeof(*q), answer_path);
}
