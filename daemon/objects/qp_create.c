// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests that create queue pairs, and handles of XRC target QPs. */
#include <errno.h>
#include <stdlib.h>

#include <xroce/bits.h>

#include "daemon/base/loop.h"
#include "daemon/clients/request.h"
#include "daemon/io/tables.h"
#include "daemon/gsi/gsi.h"
#include "ah.h"
#include "cq.h"
#include "objects.h"
#include "pd.h"
#include "qp.h"
#include "ring.h"
#include "srq.h"
#include "xrc.h"
#include "xrc_target.h"

static int qp_create_check_caps(struct xd_client *c, const struct xr_create_qp_req *q)
{
	const struct {
		const char *name;
		uint32_t value, max;
	} caps[] = {
		{ "max_send_wr", q->max_send_wr, XR_MAX_WR },
		{ "max_recv_wr", q->max_recv_wr, XR_MAX_WR },
		{ "max_send_sge", q->max_send_sge, XR_MAX_SGE },
		{ "max_recv_sge", q->max_recv_sge, XR_MAX_SGE },
		{ "max_inline_data", q->max_inline, XR_MAX_INLINE },
	};
	uint32_t i;

	if (q->type != XR_QPT_RC && q->type != XR_QPT_UC && q->type != XR_QPT_UD &&
	    q->type != XR_QPT_XRC_SEND && q->type != XR_QPT_GSI)
		return xd_refuse(c, -EOPNOTSUPP, "qp_type %u; RC, UC, UD or XRC", q->type);
	for (i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
		if (caps[i].value > caps[i].max)
			return xd_refuse(c, -EINVAL, "%s %u, limit %u", caps[i].name, caps[i].value,
					 caps[i].max);
	return 0;
}

/*
 * Rounds the requested capabilities up: depths to powers of two, max_inline to what the stride
 * holds.
 */
static void qp_create_set_caps(struct xd_qp *qp, const struct xr_create_qp_req *q)
{
	uint32_t room;

	qp->max_send_wr = xr_pow2_roundup(q->max_send_wr);
	qp->max_send_sge = q->max_send_sge ? q->max_send_sge : 1;
	if (!qp->srq && q->type != XR_QPT_XRC_SEND) {
		qp->max_recv_wr = q->max_recv_wr ? xr_pow2_roundup(q->max_recv_wr) : 0;
		qp->max_recv_sge = q->max_recv_sge ? q->max_recv_sge : 1;
	}
	room = xr_send_stride(qp->max_send_sge, q->max_inline) - sizeof(struct xr_send_wqe);
	qp->max_inline = room < XR_MAX_INLINE ? room : XR_MAX_INLINE;
}

static uint32_t sq_stride(const struct xd_qp *qp)
{
	return xr_send_stride(qp->max_send_sge, qp->max_inline);
}

static int qp_create_alloc_queues(struct xd_client *c, struct xd_qp *qp)
{
	int err = xd_ring_alloc(c, qp->max_send_wr, sq_stride(qp), &qp->sq);

	if (!err && qp->max_recv_wr)
		err = xd_ring_alloc(c, qp->max_recv_wr, xr_recv_stride(qp->max_recv_sge), &qp->rq);
	return err;
}

static void use_queues(struct xd_workers *ws, struct xd_qp *qp)
{
	struct xd_cq *send = qp->send_cq, *recv = qp->recv_cq;

	xd_queue_add_user(ws, &send->worker, qp->worker, &send->xt.locked);
	if (recv)
		xd_queue_add_user(ws, &recv->worker, qp->worker, &recv->xt.locked);
	if (qp->srq)
		xd_queue_add_user(ws, &qp->srq->worker, qp->worker, &qp->srq->xt.locked);
}

static int qp_create_add_to_engine(struct xd_client *c, struct xd_qp *qp, struct xt_qp *xt,
				   const struct xt_qp_init *init)
{
	struct xd_workers *ws = c->dev->workers;
	int err;

	use_queues(ws, qp);
	xd_worker_pause(ws, qp->worker);
	err = xd_doorbell_set(c, qp->worker, qp->slot, xt);
	if (!err) {
		err = xt_qp_add(xt, init);
		if (err)
			xd_doorbell_clear(c, qp->worker, qp->slot);
	}
	xd_worker_resume_no_wake(ws, qp->worker);
	if (err) {
		xt_qp_free(xt);
		return err;
	}
	qp->xt = xt;
	qp->qpn = xt_qp_info(xt)->qpn;
	xd_program_of(c); /* allocates now, not in a pause of the worker */
	return 0;
}

static int objects_create_in_engine(struct xd_client *c, struct xd_qp *qp)
{
	struct xt_qp_init init = {
		.type = qp->type,
		.pd = qp->pd->id->number,
		.send_cq = &qp->send_cq->xt,
		.recv_cq = qp->recv_cq ? &qp->recv_cq->xt : NULL,
		.srq = qp->srq ? &qp->srq->xt : NULL,
		.sq = qp->sq.ptr,
		.rq = qp->rq.ptr,
		.sq_depth = qp->max_send_wr,
		.rq_depth = qp->max_recv_wr,
		.sq_stride = sq_stride(qp),
		.rq_stride = xr_recv_stride(qp->max_recv_sge),
		.max_send_sge = qp->max_send_sge,
		.max_recv_sge = qp->max_recv_sge,
		.max_inline = qp->max_inline,
		.sq_sig_all = qp->sq_sig_all,
		.gsi = qp->gsi,
		.psns = c->dev->tables->psns,
		.reserved_lkey_mem = &c->objects->memory.xt,
		.owner = qp,
		.flow = xd_client_flow(c, qp->worker),
	};
	struct xt_qp *xt;
	int err;

	err = xd_object_charge(&qp->obj, xt_qp_bytes(&init));
	if (err)
		return err;
	if (init.type == XR_QPT_UD) {
		init.ahs = xd_client_ahs(c);
		if (!init.ahs)
			return -ENOMEM;
	}
	err = xd_doorbell_find(c, qp->worker, &qp->slot);
	if (err)
		return err;
	err = xt_qp_new(xd_worker_engine(c->dev->workers, qp->worker), &init, &xt);
	return err ? err : qp_create_add_to_engine(c, qp, xt, &init);
}

static int qp_create_find_parents(struct xd_client *c, struct xd_qp *qp,
				  const struct xr_create_qp_req *q)
{
	qp->pd = xd_object_get(c, XD_PD, q->pd);
	qp->send_cq = xd_object_get(c, XD_CQ, q->send_cq);
	qp->recv_cq = xd_object_get(c, XD_CQ, q->recv_cq);
	qp->srq = xd_object_get(c, XD_SRQ, q->srq);
	if (!qp->pd || !qp->send_cq || (q->srq && !qp->srq) ||
	    (!qp->recv_cq && (q->recv_cq || q->type != XR_QPT_XRC_SEND)))
		return xd_refuse(c, -ENOENT, "the client has no such PD, CQ or SRQ");
	/* An XRC initiator receives nothing, and an XRC SRQ is for target QPs. */
	if (qp->srq && (q->type == XR_QPT_XRC_SEND || qp->srq->xrcd))
		return xd_refuse(c, -EINVAL,
				 "an XRC SRQ is for XRC target QPs, an initiator has none");
	return 0;
}

/* Takes QP 1 from the daemon; xd_qp_free() gives it back. */
static int borrow_gsi(struct xd_client *c, struct xd_qp *qp)
{
	int err = xd_gsi_lend(c->dev->gsi);

	if (!err && xt_qp_by_num(c->dev->shared.qps, XR_GSI_QPN))
		err = -EBUSY;
	if (err)
		xd_refuse(c, err, "QP 1 is used by another program or by rdma_cm ids");
	qp->gsi = !err;
	return err;
}

/* The worker that a completion vector names; otherwise workers take turns. */
static uint32_t choose_worker(struct xd_client *c, const struct xd_qp *qp)
{
	if (qp->recv_cq && qp->recv_cq->vector)
		return qp->recv_cq->vector;
	if (qp->send_cq->vector)
		return qp->send_cq->vector;
	return xd_objects_of(c)->next_worker++ % xd_workers_count(c->dev->workers);
}

static int objects_build_qp(struct xd_client *c, struct xd_qp *qp, const struct xr_create_qp_req *q)
{
	int err = qp_create_find_parents(c, qp, q);

	if (!err)
		err = xd_object_add(c, &qp->obj, XD_QP);
	if (err)
		return err;
	qp->pd->obj.refs++;
	qp->send_cq->obj.refs++;
	if (qp->recv_cq)
		qp->recv_cq->obj.refs++;
	if (qp->srq)
		qp->srq->obj.refs++;
	if (q->type == XR_QPT_GSI)
		err = borrow_gsi(c, qp);
	if (err)
		return err;
	qp->type = qp->gsi ? XR_QPT_UD : q->type;
	qp->sq_sig_all = !!q->sq_sig_all;
	qp->worker = choose_worker(c, qp);
	qp->async = (struct xd_event_source){ .socket = &c->events.async, .cookie = q->cookie };
	qp_create_set_caps(qp, q);
	err = qp_create_alloc_queues(c, qp);
	return err ? err : objects_create_in_engine(c, qp);
}

/* The reply to CREATE_QP and OPEN_QP */
static void fill_reply(const struct xd_qp *qp, struct xd_reply *rep)
{
	struct xr_create_qp_rep *r = XD_REPLY(rep, xr_create_qp_rep);

	r->handle = qp->obj.handle;
	r->qpn = qp->qpn;
	r->slot = qp->slot;
	r->worker = qp->worker;
	r->max_send_wr = qp->max_send_wr;
	r->max_recv_wr = qp->max_recv_wr;
	r->max_send_sge = qp->max_send_sge;
	r->max_recv_sge = qp->max_recv_sge;
	r->max_inline = qp->max_inline;
	xd_shm_ref(&qp->sq, &r->sq, rep);
	xd_shm_ref(&qp->rq, &r->rq, rep);
}

/* ---- handles of XRC target QPs ------------------------------------------------------ */

/* Creates a handle of target QP t, or of a new one if t is NULL. */
static int add_handle(struct xd_client *c, struct xd_xrcd *xrcd, struct xd_target *t,
		      uint64_t cookie, struct xd_reply *rep)
{
	struct xd_qp *qp = calloc(1, sizeof(*qp));
	int err = qp ? xd_object_add(c, &qp->obj, XD_QP) : -ENOMEM;

	/* Each handle counts for the target QP, so that every user of it pays. */
	if (!err)
		err = xd_object_charge(&qp->obj, xd_target_bytes());
	if (err) {
		if (qp)
			xd_object_del(&qp->obj);
		free(qp);
		return err;
	}
	qp->type = XR_QPT_XRC_RECV;
	qp->async = (struct xd_event_source){ .socket = &c->events.async, .cookie = cookie };
	qp->xrcd = xrcd;
	xrcd->obj.refs++;
	if (!t)
		t = xd_target_new(c, xrcd->domain->number);
	if (!t) {
		xd_qp_free(qp);
		return -ENOMEM;
	}
	xd_target_join(qp, t);
	fill_reply(qp, rep);
	xd_qp_publish_created(qp);
	return 0;
}

static int create_target(struct xd_client *c, const struct xr_create_qp_req *q,
			 struct xd_reply *rep)
{
	struct xd_xrcd *xrcd = xd_object_get(c, XD_XRCD, q->xrcd);

	return xrcd ? add_handle(c, xrcd, NULL, q->cookie, rep) : -ENOENT;
}

/* ---- requests ---------------------------------------------------------------------- */

int xd_do_create_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_create_qp_req *q = req->body;
	struct xd_qp *qp;
	int err;

	if (q->type == XR_QPT_XRC_RECV)
		return create_target(c, q, rep);
	err = qp_create_check_caps(c, q);
	if (!err && q->type == XR_QPT_GSI)
		/* The owner of QP 1 acts for the host, as does that of a management Q_Key. */
		err = c->identity.is_operator ? 0 : xd_refuse(c, -EPERM, "QP 1 is for operators");
	if (err)
		return err;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	err = objects_build_qp(c, qp, q);
	if (err) {
		xd_qp_free(qp);
		return err;
	}
	fill_reply(qp, rep);
	xd_qp_publish_created(qp);
	return 0;
}

int xd_do_open_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_open_qp_req *q = req->body;
	struct xd_xrcd *xrcd = xd_object_get(c, XD_XRCD, q->xrcd);
	const struct xt_qp *qp = xt_qp_by_num(c->dev->shared.qps, q->qpn);
	struct xd_target *t;

	if (!xrcd)
		return -ENOENT;
	if (!qp || xt_qp_info(qp)->type != XR_QPT_XRC_RECV)
		return xd_refuse(c, -EINVAL, "QPN 0x%x is no XRC target QP", q->qpn);
	t = xt_qp_info(qp)->owner;
	if (t->domain != xrcd->domain->number)
		return xd_refuse(c, -EINVAL, "QPN 0x%x has another XRC domain", q->qpn);
	return add_handle(c, xrcd, t, q->cookie, rep);
}
