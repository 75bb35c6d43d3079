// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "srq.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include <xroce/bits.h>
#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "client_memory.h"
#include "cq.h"
#include "ending.h"
#include "objects.h"
#include "qp.h"
#include "pd.h"
#include "queue_monitor.h"
#include "ring.h"
#include "xrc.h"

/* ---- create ---------------------------------------------------------------------- */

/* An XRC SRQ serves target QPs of all workers. */
static int srq_give_number(struct xd_client *c, struct xd_srq *srq)
{
	struct xt_numbers *srqs = c->dev->shared.srqs;
	struct xd_workers *ws = c->dev->workers;
	uint32_t user = xd_workers_count(ws) > 1 ? XD_WORKER_SEVERAL : 0, slot;

	if (xt_numbers_prepare(srqs))
		return -ENOMEM;
	srq->xt.xrcd = srq->xrcd->domain->number;
	srq->xt.cq = &srq->cq->xt;
	/* before targets find it */
	xd_queue_add_user(ws, &srq->cq->worker, user, &srq->cq->xt.locked);
	xd_queue_add_user(ws, &srq->worker, user, &srq->xt.locked);
	return xt_numbers_add(srqs, &srq->xt, &slot, &srq->xt.number) ? 0 : -ENOMEM;
}

/* No worker uses the SRQ when this returns. */
static void take_number(struct xd_client *c, struct xd_srq *srq)
{
	struct xd_workers *ws = c->dev->workers;

	if (!srq->xt.number)
		return;
	xt_numbers_del(c->dev->shared.srqs, srq->xt.number);
	xd_grace_synchronize(ws);
	srq->xt.number = 0;
}

/* Frees an SRQ in any state, also one that was not completely created. */
static void free_srq(struct xd_object *obj)
{
	struct xd_srq *srq = container_of(obj, struct xd_srq, obj);
	struct xd_client *c = obj->client;

	if (c) {
		take_number(c, srq);
		xd_srq_publish_error(srq);
		xd_event_end(&srq->async);
		xd_shm_free(c, &srq->ring);
		srq->pd->obj.refs--;
		if (srq->xrcd) {
			srq->xrcd->obj.refs--;
			srq->cq->obj.refs--;
		}
		xd_object_del(obj);
	}
	free(srq);
}

static int build_srq(struct xd_client *c, struct xd_srq *srq, const struct xr_create_srq_req *q)
{
	int err = xd_object_add(c, &srq->obj, XD_SRQ);

	if (err)
		return err;
	srq->pd->obj.refs++;
	if (srq->xrcd) {
		srq->xrcd->obj.refs++;
		srq->cq->obj.refs++;
	}
	srq->max_wr = xr_pow2_roundup(q->max_wr);
	srq->max_sge = q->max_sge ? q->max_sge : 1;
	srq->worker = XD_WORKER_NONE;
	srq->async = (struct xd_event_source){ .socket = &c->events.async, .cookie = q->cookie };
	err = xd_ring_alloc(c, srq->max_wr, xr_recv_stride(srq->max_sge), &srq->ring);
	if (err)
		return err;
	xt_srq_init(&srq->xt, srq->ring.ptr, srq->max_wr, srq->max_sge, srq->pd->id->number);
	srq->xt.owner = srq;
	return srq->xrcd ? srq_give_number(c, srq) : 0;
}

int xd_do_create_srq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_create_srq_req *q = req->body;
	struct xd_xrcd *xrcd = xd_object_get(c, XD_XRCD, q->xrcd);
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);
	struct xd_cq *cq = xd_object_get(c, XD_CQ, q->cq);
	struct xr_create_srq_rep *r;
	struct xd_srq *srq;
	int err;

	if (!pd || (q->xrcd && (!xrcd || !cq)))
		return -ENOENT;
	if (!q->max_wr || q->max_wr > XR_MAX_WR || q->max_sge > XR_MAX_SGE)
		return xd_refuse(c, -EINVAL, "max_wr %u, 1 to %u; max_sge %u, at most %u",
				 q->max_wr, XR_MAX_WR, q->max_sge, XR_MAX_SGE);
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->pd = pd;
	srq->xrcd = xrcd;
	srq->cq = xrcd ? cq : NULL;
	err = build_srq(c, srq, q);
	if (err) {
		free_srq(&srq->obj);
		return err;
	}
	r = XD_REPLY(rep, xr_create_srq_rep);
	r->handle = srq->obj.handle;
	r->max_wr = srq->max_wr;
	r->max_sge = srq->max_sge;
	r->number = srq->xt.number;
	xd_shm_ref(&srq->ring, &r->ring, rep);
	return 0;
}

/* ---- modify and query -------------------------------------------------------------- */

static int srq_check_modify(struct xd_client *c, const struct xd_srq *srq,
			    const struct xr_modify_srq_req *q)
{
	uint32_t max_wr = srq->max_wr;

	if (q->mask & ~(uint32_t)(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return xd_refuse(c, -EINVAL, "srq_attr_mask 0x%x", q->mask);
	if (q->mask & IBV_SRQ_MAX_WR) {
		if (!q->max_wr || q->max_wr > XR_MAX_WR)
			return xd_refuse(c, -EINVAL, "max_wr %u, 1 to %u", q->max_wr, XR_MAX_WR);
		max_wr = xr_pow2_roundup(q->max_wr);
	}
	if (q->mask & IBV_SRQ_LIMIT && q->limit > max_wr)
		return xd_refuse(c, -EINVAL, "srq_limit %u, max_wr %u", q->limit, max_wr);
	return 0;
}

static int srq_resize(struct xd_client *c, struct xd_srq *srq, uint32_t max_wr)
{
	struct xd_workers *ws = c->dev->workers;
	struct xt_srq_move move;
	struct xd_piece ring;
	int err = xd_ring_alloc(c, max_wr, xr_recv_stride(srq->max_sge), &ring);

	if (err)
		return err;
	xd_queue_hold(ws, srq->worker, &srq->xt.lock);
	err = xt_srq_move_begin(&srq->xt, ring.ptr, max_wr, &move);
	xd_queue_release(ws, srq->worker, &srq->xt.lock);
	if (!err) {
		xt_srq_move_copy(&srq->xt, &move);
		xd_queue_hold(ws, srq->worker, &srq->xt.lock);
		err = xt_srq_move_end(&srq->xt, &move);
		xd_queue_release(ws, srq->worker, &srq->xt.lock);
	}
	if (err) {
		xd_shm_free(c, &ring);
		return xd_refuse(c, err, "more than %u receives are posted", max_wr);
	}
	xd_shm_free(c, &srq->ring);
	srq->ring = ring;
	srq->max_wr = max_wr;
	return 0;
}

static void srq_arm(struct xd_client *c, struct xd_srq *srq, uint32_t limit)
{
	bool reached;

	xd_queue_hold(c->dev->workers, srq->worker, &srq->xt.lock);
	reached = xt_srq_arm(&srq->xt, limit);
	xd_queue_release(c->dev->workers, srq->worker, &srq->xt.lock);
	if (reached)
		xd_event_raise(&srq->async, IBV_EVENT_SRQ_LIMIT_REACHED);
}

int xd_do_modify_srq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_modify_srq_req *q = req->body;
	struct xd_srq *srq = xd_object_get(c, XD_SRQ, q->handle);
	struct xr_modify_srq_rep *r;
	int err;

	if (!srq)
		return -ENOENT;
	err = srq_check_modify(c, srq, q);
	if (!err && q->mask & IBV_SRQ_MAX_WR)
		err = srq_resize(c, srq, xr_pow2_roundup(q->max_wr));
	if (err)
		return err;
	if (q->mask & IBV_SRQ_LIMIT)
		srq_arm(c, srq, q->limit);
	r = XD_REPLY(rep, xr_modify_srq_rep);
	r->max_wr = srq->max_wr;
	if (q->mask & IBV_SRQ_MAX_WR)
		xd_shm_ref(&srq->ring, &r->ring, rep);
	return 0;
}

int xd_do_query_srq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_srq *srq = xd_object_get(c, XD_SRQ, q->handle);
	struct xr_query_srq_rep *r;

	if (!srq)
		return -ENOENT;
	r = XD_REPLY(rep, xr_query_srq_rep);
	r->max_wr = srq->max_wr;
	r->max_sge = srq->max_sge;
	xd_queue_hold(c->dev->workers, srq->worker, &srq->xt.lock);
	r->limit = srq->xt.limit;
	xd_queue_release(c->dev->workers, srq->worker, &srq->xt.lock);
	return 0;
}

/* ---- destroy --------------------------------------------------------------------- */

struct destroy {
	struct xd_ending ending;
	uint32_t async_events;
};

static void destroyed(struct xd_client *c, struct xd_ending *e)
{
	struct destroy *d = container_of(e, struct destroy, ending);
	struct xd_reply *rep = xd_reply_start();

	XD_REPLY(rep, xr_destroy_rep)->async_events = d->async_events;
	free(d);
	xd_reply_send(c, 0, rep);
}

/*
 * Targets of XRC may have receives of the SRQ, and write to them. They begin no more writes without
 * its number.
 */
int xd_do_destroy_srq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_srq *srq = xd_object_get(c, XD_SRQ, q->handle);
	struct destroy *d;

	if (!srq)
		return -ENOENT;
	if (srq->obj.refs)
		return xd_refuse(c, -EBUSY, "%u QPs use the SRQ", srq->obj.refs);
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	take_number(c, srq);
	if (srq->xrcd)
		xd_ending_all(&d->ending, xd_client_proc(c));
	d->async_events = xd_event_end(&srq->async);
	free_srq(&srq->obj);
	d->ending.then = destroyed;
	xd_ending_wait(c, &d->ending);
	return XD_LATER;
}

static void put_srq(struct json *j, const struct xr_view_srq *r, const struct xd_client *c,
		    const char *path)
{
	uint32_t used = r->producer - r->consumer;

	json_number(j, "srq", r->srq);
	json_number(j, "client", c->id);
	json_text(j, "type", r->xrcd ? "XRC" : "basic");
	json_number(j, "pd", r->pd);
	json_number(j, "depth", r->depth);
	json_number(j, "used", used <= r->depth ? used : r->depth);
	json_number(j, "limit", r->limit);
	json_number(j, "qps", r->qps);
	json_number(j, "number", r->number);
	json_number(j, "xrcd", r->xrcd);
	json_number(j, "cq", r->cq);
	json_boolean(j, "dead", r->dead);
	json_text(j, "path", path);
}

static void srq_put_detail(struct json *j, const struct xr_view_srq *r)
{
	struct xt_failure failure;

	json_number(j, "receives", r->receives);
	json_number(j, "receives_missed", r->missed);
	xd_view_failure(&r->failure, &failure);
	xd_show_failure(j, &failure, r->failure.qpn);
}

static struct xr_view_srq snapshot(struct xd_srq *srq)
{
	struct xd_workers *workers = srq->obj.client->dev->workers;
	struct xt_srq xt;

	xd_queue_hold(workers, srq->worker, &srq->xt.lock);
	xt = srq->xt;
	xd_queue_release(workers, srq->worker, &srq->xt.lock);
	return (struct xr_view_srq){
		.srq = srq->obj.handle,
		.pd = srq->pd->id->number,
		.depth = srq->max_wr,
		.limit = xt.limit,
		.producer = __atomic_load_n(&xt.queue->producer, __ATOMIC_RELAXED),
		.consumer = xt.consumer,
		.qps = srq->obj.refs,
		.number = xt.number,
		.xrcd = srq->xrcd ? srq->xrcd->obj.handle : 0,
		.cq = srq->cq ? srq->cq->obj.handle : 0,
		.dead = xt.dead,
		.receives = xt.taken,
		.missed = xt.missed,
		.failure = { .at = xt.error.at,
			     .cause = (uint8_t)xt.error.cause,
			     .qpn = xt.error.qpn },
	};
}

static void show_srq(struct json *j, struct xd_object *obj)
{
	const struct xr_view_srq r = snapshot(container_of(obj, struct xd_srq, obj));

	put_srq(j, &r, obj->client, "daemon");
}

static void show_srq_detail(struct json *j, struct xd_object *obj)
{
	const struct xr_view_srq r = snapshot(container_of(obj, struct xd_srq, obj));

	put_srq(j, &r, obj->client, "daemon");
	srq_put_detail(j, &r);
}

static void show_srq_view(struct json *j, const void *record, const struct xd_client *c,
			  bool detail)
{
	put_srq(j, record, c, "direct");
	if (detail)
		srq_put_detail(j, record);
}

const struct xd_kind_ops xd_srq_ops = {
	.name = "srqs",
	.list = XR_SHOW_SRQS,
	.show = show_srq,
	.detail_list = XR_SHOW_SRQ_DETAILS,
	.show_detail = show_srq_detail,
	.show_view = show_srq_view,
	.free = free_srq,
	.client_limit = offsetof(struct xd_options, client_max_srq),
	.user_limit = offsetof(struct xd_options, user_max_srq),
	.device_limit = offsetof(struct xd_options, max_srq),
	.bytes = sizeof(struct xd_srq),
};
