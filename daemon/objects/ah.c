// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ah.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "daemon/netdev/net.h"
#include "daemon/transport/wire/ah.h"
#include "drain.h"
#include "objects.h"
#include "pd.h"
#include "port.h"
#include "qp.h"
#include "resolve.h"

/* ---- create ---------------------------------------------------------------------- */

struct xt_ahs *xd_client_ahs(struct xd_client *c)
{
	if (!c->objects->ahs)
		c->objects->ahs = xt_ahs_new();
	return c->objects->ahs;
}

static int ah_set_path(struct xd_ah *ah, const struct xt_path *path)
{
	struct xd_client *c = ah->obj.client;
	const struct xt_path used = xd_path_to_qp(c, path, 0);

	return xt_ahs_set(c->objects->ahs, ah->obj.handle, ah->pd->id->number, &used);
}

static void free_ah(struct xd_object *obj)
{
	struct xd_ah *ah = container_of(obj, struct xd_ah, obj);
	struct xd_client *c = obj->client;

	if (ah->resolve)
		xd_net_resolve_cancel(ah->resolve);
	xt_ahs_del(c->objects->ahs, obj->handle);
	/* workers may use it in their rounds */
	xd_grace_synchronize(c->dev->workers);
	xd_net_gid_release(c->dev->net, &ah->gid);
	ah->pd->obj.refs--;
	xd_object_del(obj);
	free(ah);
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
	xd_net_gid_hold(c->dev->net, &ah->gid, q->attr.sgid_index);
	ah->pd = pd;
	pd->obj.refs++;
	err = ah_set_path(ah, path);
	if (err) {
		free_ah(&ah->obj);
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

static void ah_refreshed(void *arg, int err, const struct xt_path *path)
{
	struct xd_ah *ah = arg;
	const struct xt_path *old = xt_ahs_path(ah->obj.client->objects->ahs, ah->obj.handle);
	struct xt_path used;

	ah->resolve = NULL;
	if (err) {
		ah->failed.err = err;
		ah->failed.at = xd_now();
	}
	if (err)
		return;
	used = xd_path_to_qp(ah->obj.client, path, 0);
	/* workers may use the old path in their rounds */
	if (memcmp(old, &used, sizeof(used)) && !ah_set_path(ah, path))
		xd_grace_synchronize(ah->obj.client->dev->workers);
}

static void refresh_ah(struct xd_object *obj)
{
	struct xd_ah *ah = container_of(obj, struct xd_ah, obj);
	struct xd_resolve *resolve;

	if (ah->resolve)
		xd_net_resolve_cancel(ah->resolve);
	ah->resolve = NULL;
	resolve = xd_net_resolve(ah->obj.client->dev->net, &ah->attr, ah_refreshed, ah);
	if (resolve)
		ah->resolve = resolve;
}

/* ---- destroy --------------------------------------------------------------------- */

/* QPs of the client that are checked */
#define DRAIN_LOOKS 1024

struct destroy_job {
	struct xd_drain drain;
	uint32_t ah; /* handle */
};

static void drained(struct xd_client_job *job)
{
	struct destroy_job *j = container_of(job, struct destroy_job, drain.job);
	struct xd_client *c = job->client;

	/* if the client is ending, its address handles are freed already */
	if (!c->ending) {
		free_ah(xd_object_get(c, XD_AH, j->ah));
		xd_reply_send(c, 0, xd_reply_start());
	}
	free(j);
}

/*
 * Hardware copies the address when a work request is posted, so programs like mckey destroy the
 * handle right after that. Returns false if nothing is posted, or without memory: the handle can be
 * freed now.
 */
static bool drain_first(struct xd_client *c, const struct xd_ah *ah)
{
	struct destroy_job *j = calloc(1, sizeof(*j));
	const struct xd_qp *qp;
	uint32_t handle = 0, looks = DRAIN_LOOKS;

	if (!j)
		return false;
	j->drain.job = (struct xd_client_job){ .run = xd_drain_run, .done = drained };
	j->ah = ah->obj.handle;
	while (looks-- && (qp = xd_object_next(c, XD_QP, &handle)))
		if (qp->type == XR_QPT_UD && qp->pd == ah->pd)
			xd_drain_add(&j->drain, qp);
	if (!j->drain.n) {
		free(j);
		return false;
	}
	xd_client_add_job(c, &j->drain.job);
	return true;
}

int xd_do_destroy_ah(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_ah *ah = xd_object_get(c, XD_AH, q->handle);

	if (!ah)
		return -ENOENT;
	if (drain_first(c, ah))
		return XD_LATER;
	free_ah(&ah->obj);
	return 0;
}

/* ---- for the program's own use ---------------------------------------------------- */

void xd_describe_path(const struct xd_device *dev, const struct xt_path *path,
		      struct xr_resolve_ah_rep *r)
{
	memcpy(r->mac, path->loopback ? path->smac : path->dmac, sizeof(r->mac));
	r->vlan = path->vlan;
	r->max_mtu = xd_port_mtu(dev);
	r->flags = path->loopback ? XR_RESOLVED_LOCAL : 0;
	r->sgid = path->sgid;
}

static int reply_path(struct xd_client *c, const void *request, const struct xt_path *path,
		      struct xd_reply *rep)
{
	xd_describe_path(c->dev, path, XD_REPLY(rep, xr_resolve_ah_rep));
	return 0;
}

int xd_do_resolve_ah(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_resolve_ah_req *q = req->body;

	return xd_after_resolve(c, &q->attr, q, sizeof(*q), reply_path);
}

/* ---- show ------------------------------------------------------------------------ */

static void put_ah(struct json *j, const struct xr_view_ah *r, const struct xd_client *c,
		   const char *path)
{
	json_number(j, "ah", r->ah);
	json_number(j, "client", c->id);
	json_number(j, "pd", r->pd);
	json_number(j, "gid_index", r->gid_index);
	json_address(j, "peer", &r->peer);
	json_mac(j, "mac", r->mac);
	json_number(j, "vlan", r->vlan);
	json_number(j, "hop_limit", r->hop_limit);
	json_number(j, "traffic_class", r->traffic_class);
	json_number(j, "flow_label", r->flow_label);
	json_boolean(j, "local", r->local);
	json_text(j, "path", path);
}

static void show_ah(struct json *j, struct xd_object *obj)
{
	const struct xd_ah *ah = container_of(obj, struct xd_ah, obj);
	const struct xt_path *path = xt_ahs_path(obj->client->objects->ahs, obj->handle);
	struct xr_view_ah r = {
		.ah = obj->handle,
		.pd = ah->pd->id->number,
		.gid_index = ah->attr.sgid_index,
		.vlan = path->vlan,
		.hop_limit = path->hop_limit,
		.traffic_class = path->traffic_class,
		.flow_label = path->flow_label,
		.local = path->loopback || path->self,
		.peer = path->dgid,
	};

	memcpy(r.mac, path->dmac, sizeof(r.mac));
	put_ah(j, &r, obj->client, "daemon");
}

/* The path of a direct program's handle stays as it was resolved, so it has no error. */
static void show_ah_view(struct json *j, const void *record, const struct xd_client *c, bool detail)
{
	(void)detail;
	put_ah(j, record, c, "direct");
}

static void show_ah_detail(struct json *j, struct xd_object *obj)
{
	const struct xd_ah *ah = container_of(obj, struct xd_ah, obj);

	show_ah(j, obj);
	if (!ah->failed.err)
		return;
	json_begin(j, "last_error", '{');
	xd_show_moment(j, ah->failed.at);
	json_text(j, "reason", "the next hop was not found after the network changed");
	json_text(j, "status", strerror(-ah->failed.err));
	json_end(j, '}');
}

const struct xd_kind_ops xd_ah_ops = {
	.name = "ahs",
	.list = XR_SHOW_AHS,
	.show = show_ah,
	.detail_list = XR_SHOW_AH_DETAILS,
	.show_detail = show_ah_detail,
	.show_view = show_ah_view,
	.refresh = refresh_ah,
	.free = free_ah,
	.client_limit = offsetof(struct xd_options, client_max_ah),
	.user_limit = offsetof(struct xd_options, user_max_ah),
	.device_limit = offsetof(struct xd_options, max_ah),
	.bytes = sizeof(struct xd_ah) + sizeof(struct xt_ah),
};
