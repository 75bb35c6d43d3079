// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Queue pairs: query, destroy, and the kind of object. qp_create.c, qp_modify.c and qp_remove.c do
 * the rest.
 */
#include "qp.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/clients/unload.h"
#include "daemon/io/tables.h"
#include "daemon/gsi/gsi.h"
#include "daemon/netdev/net.h"
#include "cq.h"
#include "ending.h"
#include "mcast.h"
#include "objects.h"
#include "pd.h"
#include "posted.h"
#include "srq.h"
#include "xrc.h"
#include "xrc_target.h"

int xd_do_query_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);
	struct xr_query_qp_rep *r;

	if (!qp)
		return -ENOENT;
	r = XD_REPLY(rep, xr_query_qp_rep);
	xd_worker_pause(c->dev->workers, qp->worker);
	xt_qp_query(qp->xt, &r->attr);
	xd_worker_resume_no_wake(c->dev->workers, qp->worker);
	r->max_send_wr = qp->max_send_wr;
	r->max_recv_wr = qp->max_recv_wr;
	r->max_send_sge = qp->max_send_sge;
	r->max_recv_sge = qp->max_recv_sge;
	r->max_inline = qp->max_inline;
	r->sq_sig_all = qp->sq_sig_all;
	return 0;
}

struct destroyed {
	struct xd_ending ending;
	struct xt_qp *xt;
	uint32_t async_events;
};

static void free_xt(struct xd_client *c, struct xt_qp *xt, uint32_t worker)
{
	xd_worker_pause(c->dev->workers, worker);
	xt_qp_forget(xt);
	xd_worker_resume_no_wake(c->dev->workers, worker);
	xt_qp_free(xt);
}

/* Removes the QP from its engine. Returns it; NULL if it is used by others. */
static struct xt_qp *remove_xt(struct xd_client *c, struct xd_qp *qp, bool *ending)
{
	struct xt_qp *xt = qp->xt;

	if (qp->target)
		return xd_target_leave(qp, ending);
	xd_worker_pause(c->dev->workers, qp->worker);
	xd_doorbell_clear(c, qp->worker, qp->slot);
	xt_qp_remove(xt);
	*ending = xt_qp_ending(xt);
	xd_worker_resume(c->dev->workers, qp->worker);
	xd_qp_withdraw(c->dev, xt);
	xd_qp_retire(qp);
	xd_qp_log_failure(qp);
	qp->xt = NULL;
	return xt;
}

/*
 * Destroys the engine's QP. No events are raised for it afterwards. later: takes it over if writes
 * that it has given up are being executed; NULL: does not
 */
static void destroy_in_engine(struct xd_client *c, struct xd_qp *qp, struct destroyed *later)
{
	bool ending = false;
	struct xt_qp *xt;

	if (!qp->xt)
		return;
	xd_qp_publish_destroyed(qp);
	xd_mcast_leave(qp);
	if (qp->resolve)
		xd_net_resolve_cancel(qp->resolve);
	xt = remove_xt(c, qp, &ending);
	if (later && ending)
		later->xt = xt;
	else if (xt && ending)
		free_xt(c, xt, qp->worker);
	else if (xt)
		xt_qp_free(xt);
}

static void reply_destroyed(struct xd_client *c, struct xd_ending *e)
{
	struct destroyed *d = container_of(e, struct destroyed, ending);
	struct xd_reply *rep = xd_reply_start();

	XD_REPLY(rep, xr_destroy_rep)->async_events = d->async_events;
	if (d->xt)
		free_xt(c, d->xt, d->ending.worker);
	free(d);
	xd_reply_send(c, 0, rep);
}

/* Replies when no write of the QP is being executed. */
static int qp_unloaded(struct xd_object *obj, const void *request, struct xd_reply *rep)
{
	struct xd_qp *qp = container_of(obj, struct xd_qp, obj);
	struct destroyed *d = calloc(1, sizeof(*d));
	struct xd_client *c = obj->client;

	(void)request;
	(void)rep;
	if (!d)
		return -ENOMEM;
	destroy_in_engine(c, qp, d);
	if (d->xt)
		xd_ending_qp(&d->ending, d->xt, qp->worker);
	d->async_events = xd_event_end(&qp->async);
	xd_qp_free(qp);
	d->ending.then = reply_destroyed;
	xd_ending_wait(c, &d->ending);
	return XD_LATER;
}

static int qp_destroy(struct xd_client *c, const void *request, struct xd_reply *rep)
{
	const struct xr_handle_req *q = request;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);

	return xd_after_unload(&qp->obj, NULL, 0, qp_unloaded, rep);
}

int xd_do_destroy_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);

	if (!qp)
		return -ENOENT;
	if (qp->attached)
		return xd_refuse(c, -EBUSY, "the QP is attached to %u multicast groups",
				 qp->attached);
	return xd_after_posted(qp, q, sizeof(*q), rep, qp_destroy);
}

void xd_qp_free(struct xd_qp *qp)
{
	struct xd_client *c = qp->obj.client;

	if (c) {
		destroy_in_engine(c, qp, NULL);
		xd_net_gid_release(c->dev->net, &qp->gid);
		if (qp->gsi)
			xd_gsi_take_back(c->dev->gsi);
		xd_event_end(&qp->async);
		xd_shm_free(c, &qp->sq);
		xd_shm_free(c, &qp->rq);
		if (qp->pd)
			qp->pd->obj.refs--;
		if (qp->send_cq)
			qp->send_cq->obj.refs--;
		if (qp->recv_cq)
			qp->recv_cq->obj.refs--;
		if (qp->xrcd)
			qp->xrcd->obj.refs--;
		if (qp->srq)
			qp->srq->obj.refs--;
		xd_object_del(&qp->obj);
	}
	free(qp);
}

/* The client ends. */
static void objects_free_qp(struct xd_object *obj)
{
	struct xd_qp *qp = container_of(obj, struct xd_qp, obj);

	xd_qp_send_last(obj->client, qp);
	xd_qp_free(qp);
}

static uint32_t qp_number_of(const struct xd_object *obj)
{
	return container_of(obj, struct xd_qp, obj)->qpn;
}

static bool find_qp(const struct xd_clients *cs, uint32_t number, struct xd_object **obj)
{
	struct xt_qp *xt = xt_qp_by_num(cs->dev->shared.qps, number);
	struct xd_qp *qp;

	*obj = NULL;
	/* A target QP of XRC has several handles; QP 1 of the daemon has none. */
	if (xt && xt_qp_info(xt)->type == XR_QPT_XRC_RECV)
		return false;
	qp = xt ? xt_qp_info(xt)->owner : NULL;
	if (qp && qp->obj.client)
		*obj = &qp->obj;
	return true;
}

const struct xd_kind_ops xd_qp_ops = {
	.name = "qps",
	.list = XR_SHOW_QPS,
	.show = xd_qp_show,
	.detail_list = XR_SHOW_QP_DETAILS,
	.show_detail = xd_qp_show_detail,
	.show_view = xd_qp_show_view,
	.number = qp_number_of,
	.find = find_qp,
	.refresh = xd_qp_refresh,
	.unload = xd_qp_unbind_windows,
	.free = objects_free_qp,
	.client_limit = offsetof(struct xd_options, client_max_qp),
	.user_limit = offsetof(struct xd_options, user_max_qp),
	.device_limit = offsetof(struct xd_options, max_qp),
	.bytes = sizeof(struct xd_qp),
};
