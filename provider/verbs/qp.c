// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs: create, modify, query, destroy. */
#include <stdlib.h>
#include <string.h>

#include <xroce/wire.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/ah.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_members.h"
#include "provider/verbs/event_socket.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"
#include "provider/verbs/srq.h"

/* ---- create -------------------------------------------------------------------- */

static bool within_limit(const char *field, uint32_t value, uint32_t limit)
{
	return xp_within_limit("ibv_create_qp", field, value, limit);
}

static int qp_refuse(const char *why)
{
	return xp_refuse("ibv_create_qp", EINVAL, "%s", why);
}

static int check_init(const struct xp_context *ctx, const struct ibv_qp_init_attr *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	bool receives = attr->qp_type !=
			IBV_QPT_XRC_SEND; /* an initiator's attributes are ignored */

	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC &&
	    attr->qp_type != IBV_QPT_UD && attr->qp_type != IBV_QPT_XRC_SEND)
		return xp_refuse("ibv_create_qp", EOPNOTSUPP,
				 "qp_type %d; RC, UC, UD and XRC are supported",
				 (int)attr->qp_type);
	if (!attr->send_cq || !xp_is_of(attr->send_cq, xp_cq, ctx))
		return qp_refuse("send_cq is missing or of another context");
	if (receives && (!attr->recv_cq || !xp_is_of(attr->recv_cq, xp_cq, ctx)))
		return qp_refuse("recv_cq is missing or of another context");
	if (receives && attr->srq && !xp_is_of(attr->srq, xp_srq, ctx))
		return qp_refuse("srq is of another context");
	if (!within_limit("max_send_wr", cap->max_send_wr, ctx->attr.max_qp_wr) ||
	    !within_limit("max_send_sge", cap->max_send_sge, ctx->attr.max_sge) ||
	    !within_limit("max_inline_data", cap->max_inline_data, ctx->attr.max_inline))
		return -EINVAL;
	if (receives && !attr->srq &&
	    (!within_limit("max_recv_wr", cap->max_recv_wr, ctx->attr.max_qp_wr) ||
	     !within_limit("max_recv_sge", cap->max_recv_sge, ctx->attr.max_sge)))
		return -EINVAL;
	return 0;
}

/* Initializes a ring from the queue that the daemon created, q, which is NULL if limit is 0. */
static int qp_init_ring(struct ibv_pd *ibpd, struct xp_ring *r, struct xr_queue *q, uint64_t length,
			uint32_t min_stride, uint32_t limit)
{
	int err;

	if (!q)
		return limit ? -EPROTO : 0;
	err = xp_ring_geometry(q, length, min_stride, &r->mask, &r->stride);
	if (err)
		return err;
	if (limit > r->mask + 1)
		return -EPROTO;
	r->wr_id = xp_queue_alloc(ibpd, (r->mask + 1) * sizeof(*r->wr_id), XROCEDV_RES_QP);
	if (!r->wr_id)
		return -ENOMEM;
	r->queue = q;
	r->entries = (uint8_t *)q + q->entries_off;
	r->limit = limit;
	return 0;
}

/* Stores the rings and what the daemon granted. */
static int init_from_reply(struct xp_context *ctx, struct xp_qp *qp,
			   const struct xr_create_qp_rep *rep, void *sq, void *rq)
{
	int err;

	if (rep->worker >= ctx->workers || rep->slot >= XR_DB_SLOTS)
		return -EPROTO;
	err = qp_init_ring(qp->ibqp.pd, &qp->sq, sq, rep->sq.length,
			   xr_send_stride(rep->max_send_sge, rep->max_inline), rep->max_send_wr);
	if (!err)
		err = qp_init_ring(qp->ibqp.pd, &qp->rq, rq, rep->rq.length,
				   xr_recv_stride(rep->max_recv_sge), rep->max_recv_wr);
	if (err)
		return err;
	qp->max_send_sge = rep->max_send_sge;
	qp->max_recv_sge = rep->max_recv_sge;
	qp->max_inline = rep->max_inline;
	qp->doorbell = &ctx->doorbells[rep->worker];
	qp->wake = ctx->wake[rep->worker];
	qp->slot = rep->slot;
	qp->ibqp.handle = rep->handle;
	qp->ibqp.qp_num = rep->qpn;
	return 0;
}

/* An XRC target has no CQ, an XRC initiator only a send CQ. */
static int qp_attach(struct xp_qp *qp)
{
	struct xp_cq *send = xp_cq(qp->ibqp.send_cq), *recv = xp_cq(qp->ibqp.recv_cq);
	int err = send ? xp_cq_attach(send, qp) : 0;

	if (err || send == recv || !recv)
		return err;
	err = xp_cq_attach(recv, qp);
	if (err)
		xp_cq_detach(send, qp);
	return err;
}

static void qp_detach(struct xp_qp *qp)
{
	struct xp_cq *send = xp_cq(qp->ibqp.send_cq), *recv = xp_cq(qp->ibqp.recv_cq);

	if (send)
		xp_cq_detach(send, qp);
	if (recv && recv != send)
		xp_cq_detach(recv, qp);
}

static void verbs_free_qp(struct xp_qp *qp)
{
	if (qp->ibqp.srq)
		__atomic_sub_fetch(&xp_srq(qp->ibqp.srq)->qps, 1, __ATOMIC_RELAXED);
	xp_queue_free(qp->sq.wr_id);
	xp_queue_free(qp->rq.wr_id);
	xp_queue_free(qp);
}

static void verbs_set_caps(struct ibv_qp_cap *cap, const struct xr_create_qp_rep *rep)
{
	cap->max_send_wr = rep->max_send_wr;
	cap->max_recv_wr = rep->max_recv_wr;
	cap->max_send_sge = rep->max_send_sge;
	cap->max_recv_sge = rep->max_recv_sge;
	cap->max_inline_data = rep->max_inline;
}

static void verbs_fill_qp(struct xp_qp *qp, struct xp_context *ctx, struct ibv_pd *ibpd,
			  const struct ibv_qp_init_attr *attr)
{
	bool receives = attr->qp_type != IBV_QPT_XRC_SEND && attr->qp_type != IBV_QPT_XRC_RECV;

	qp->ctx = ctx;
	qp->ibqp.context = ctx->shown;
	qp->ibqp.qp_context = attr->qp_context;
	qp->ibqp.pd = ibpd;
	qp->ibqp.send_cq = ibpd ? attr->send_cq : NULL;
	qp->ibqp.recv_cq = receives ? attr->recv_cq : NULL;
	qp->ibqp.srq = receives ? attr->srq : NULL;
	if (qp->ibqp.srq)
		__atomic_add_fetch(&xp_srq(qp->ibqp.srq)->qps, 1, __ATOMIC_RELAXED);
	qp->ibqp.qp_type = attr->qp_type;
	qp->ibqp.state = IBV_QPS_RESET;
	qp->sig_all = attr->sq_sig_all;
}

struct ibv_qp *xp_qp_create(struct xp_context *ctx, struct ibv_pd *ibpd,
			    struct ibv_qp_init_attr *attr, const struct xp_qp_request *request)
{
	struct xr_create_qp_rep rep;
	struct xp_call call = {
		.type = request->type,
		.req = request->req,
		.req_len = request->req_len,
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_piece piece[2] = { { .ref = &rep.sq }, { .ref = &rep.rq } };
	struct xp_qp *qp = xp_queue_alloc(ibpd, sizeof(*qp), XROCEDV_RES_QP);
	int err;

	if (!qp)
		return xp_null(xp_refuse_memory("ibv_create_qp"));
	*request->cookie = (uintptr_t)qp;
	verbs_fill_qp(qp, ctx, ibpd, attr);
	err = xp_call_map(ctx, &call, piece, 2);
	if (err)
		goto free_qp;
	err = init_from_reply(ctx, qp, &rep, piece[0].ptr, piece[1].ptr);
	if (!err)
		err = qp_attach(qp);
	if (err)
		goto destroy;
	pthread_mutex_init(&qp->ibqp.mutex, NULL);
	pthread_cond_init(&qp->ibqp.cond, NULL);
	verbs_set_caps(&attr->cap, &rep);
	if (ibpd)
		qp->sq_lock.unneeded = qp->rq_lock.unneeded = xp_pd_get(ibpd);
	return &qp->ibqp;

destroy:
	xp_release(ctx, XR_MSG_DESTROY_QP, rep.handle, NULL);
free_qp:
	verbs_free_qp(qp);
	return xp_null(err);
}

static struct ibv_qp *verbs_create(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr,
				   uint32_t type)
{
	bool receives = attr->qp_type != IBV_QPT_XRC_SEND && !attr->srq;
	struct xr_create_qp_req req;
	struct xp_qp_request request = {
		.type = XR_MSG_CREATE_QP,
		.req = &req,
		.req_len = sizeof(req),
		.cookie = &req.cookie,
	};
	int err;

	err = check_init(xp_own_pd(ibpd)->ctx, attr);
	if (err)
		return xp_null(err);
	req = (struct xr_create_qp_req){
		.type = type,
		.pd = ibpd->handle,
		.send_cq = attr->send_cq->handle,
		.max_send_wr = attr->cap.max_send_wr,
		.max_send_sge = attr->cap.max_send_sge,
		.max_recv_wr = receives ? attr->cap.max_recv_wr : 0,
		.max_recv_sge = receives ? attr->cap.max_recv_sge : 0,
		.max_inline = attr->cap.max_inline_data,
		.sq_sig_all = !!attr->sq_sig_all,
	};
	if (attr->qp_type != IBV_QPT_XRC_SEND) {
		req.recv_cq = attr->recv_cq->handle;
		req.srq = attr->srq ? attr->srq->handle : 0;
	}
	return xp_qp_create(xp_pd(ibpd)->ctx, ibpd, attr, &request);
}

struct ibv_qp *xp_create_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr)
{
	return verbs_create(ibpd, attr, attr->qp_type);
}

struct ibv_qp *xp_create_gsi_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr)
{
	if (attr->qp_type != IBV_QPT_UD)
		return xp_null(qp_refuse("qp_type of QP 1 is IBV_QPT_UD"));
	return verbs_create(ibpd, attr, XR_QPT_GSI);
}

/* ---- modify, query ------------------------------------------------------------- */

/* Copies the fields in the mask. Programs need not initialize the others. */
static void attr_to_control(struct xr_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	memset(to, 0, sizeof(*to));
#define IF(bit, field)                                                                             \
	do {                                                                                       \
		if (mask & IBV_QP_##bit)                                                           \
			to->field = from->field;                                                   \
	} while (0)
	IF(STATE, qp_state);
	IF(CUR_STATE, cur_qp_state);
	IF(EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	IF(ACCESS_FLAGS, qp_access_flags);
	IF(PKEY_INDEX, pkey_index);
	IF(PORT, port_num);
	IF(QKEY, qkey);
	IF(PATH_MTU, path_mtu);
	IF(TIMEOUT, timeout);
	IF(RETRY_CNT, retry_cnt);
	IF(RNR_RETRY, rnr_retry);
	IF(RQ_PSN, rq_psn);
	IF(MAX_QP_RD_ATOMIC, max_rd_atomic);
	IF(ALT_PATH, alt_pkey_index);
	IF(ALT_PATH, alt_port_num);
	IF(ALT_PATH, alt_timeout);
	IF(MIN_RNR_TIMER, min_rnr_timer);
	IF(SQ_PSN, sq_psn);
	IF(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	IF(PATH_MIG_STATE, path_mig_state);
	IF(DEST_QPN, dest_qp_num);
	IF(RATE_LIMIT, rate_limit);
#undef IF
	/* Programs pass random numbers. Devices use the 24 bits that packets have. */
	to->rq_psn &= XR_PSN_MASK;
	to->sq_psn &= XR_PSN_MASK;
	/* Programs pass the flags of their regions. Those that grant peers nothing are ignored. */
	to->qp_access_flags &= ~(XR_ACCESS_ON_DEMAND | XR_ACCESS_ZERO_BASED | XR_ACCESS_HUGETLB |
				 XR_ACCESS_OPTIONAL);
	if (mask & IBV_QP_AV)
		xp_ah_attr_to_control(&to->ah, &from->ah_attr);
	if (mask & IBV_QP_ALT_PATH)
		xp_ah_attr_to_control(&to->alt_ah, &from->alt_ah_attr);
}

static void attr_from_control(struct ibv_qp_attr *to, const struct xr_query_qp_rep *rep)
{
	const struct xr_qp_attr *from = &rep->attr;

	*to = (struct ibv_qp_attr){
		.qp_state = from->qp_state,
		.cur_qp_state = from->cur_qp_state,
		.path_mtu = from->path_mtu,
		.path_mig_state = from->path_mig_state,
		.qkey = from->qkey,
		.rq_psn = from->rq_psn,
		.sq_psn = from->sq_psn,
		.dest_qp_num = from->dest_qp_num,
		.qp_access_flags = from->qp_access_flags,
		.cap = {
			.max_send_wr = rep->max_send_wr,
			.max_recv_wr = rep->max_recv_wr,
			.max_send_sge = rep->max_send_sge,
			.max_recv_sge = rep->max_recv_sge,
			.max_inline_data = rep->max_inline,
		},
		.pkey_index = from->pkey_index,
		.alt_pkey_index = from->alt_pkey_index,
		.en_sqd_async_notify = from->en_sqd_async_notify,
		.sq_draining = from->sq_draining,
		.max_rd_atomic = from->max_rd_atomic,
		.max_dest_rd_atomic = from->max_dest_rd_atomic,
		.min_rnr_timer = from->min_rnr_timer,
		.port_num = from->port_num,
		.timeout = from->timeout,
		.retry_cnt = from->retry_cnt,
		.rnr_retry = from->rnr_retry,
		.alt_port_num = from->alt_port_num,
		.alt_timeout = from->alt_timeout,
		.rate_limit = from->rate_limit,
	};
	xp_ah_attr_from_control(&to->ah_attr, &from->ah);
	xp_ah_attr_from_control(&to->alt_ah_attr, &from->alt_ah);
}

/* Moving to RESET drops everything that was posted and all completions that were not polled. */
static void reset_rings(struct xp_qp *qp)
{
	struct ibv_cq *send = qp->ibqp.send_cq, *recv = qp->ibqp.recv_cq;

	if (send)
		xp_cq_drop(xp_cq(send), qp->ibqp.qp_num);
	if (recv && recv != send)
		xp_cq_drop(xp_cq(recv), qp->ibqp.qp_num);
	xp_lock(&qp->sq_lock);
	xp_ring_reset(&qp->sq);
	xp_unlock(&qp->sq_lock);
	xp_lock(&qp->rq_lock);
	xp_ring_reset(&qp->rq);
	xp_unlock(&qp->rq_lock);
}

/*
 * Programs set up an XRC QP, which is half an RC QP, as if it were a whole one. The attributes of
 * the other half are ignored, as the kernel does.
 */
static int effective_mask(const struct ibv_qp *ibqp, int mask)
{
	switch (ibqp->qp_type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

/*
 * Returns true if the request would change nothing but the access flags of a QP that is in INIT,
 * and the daemon would accept it. A QP in INIT accepts no packets, so the flags have no effect yet.
 */
static bool changes_only_access(const struct ibv_qp *ibqp, const struct xr_modify_qp_req *req)
{
	const struct xr_qp_attr *a = &req->attr;

	return ibqp->state == IBV_QPS_INIT && a->qp_state == IBV_QPS_INIT &&
	       req->attr_mask == INIT_MASK && a->port_num == 1 && !a->pkey_index &&
	       !(a->qp_access_flags & ~XR_ACCESS_QP) &&
	       (ibqp->qp_type == IBV_QPT_RC || ibqp->qp_type == IBV_QPT_UC);
}

/* Adds access flags that the daemon has not got yet, unless the request has others. */
static void add_kept_access(const struct xp_qp *qp, struct xr_modify_qp_req *req)
{
	bool leaves = req->attr_mask & IBV_QP_STATE && req->attr.qp_state != IBV_QPS_INIT &&
		      req->attr.qp_state != IBV_QPS_RTR;

	if (!qp->access_kept || leaves || req->attr_mask & IBV_QP_ACCESS_FLAGS)
		return;
	req->attr_mask |= IBV_QP_ACCESS_FLAGS;
	req->attr.qp_access_flags = qp->access_flags;
}

int xp_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct xr_modify_qp_req req = { .handle = ibqp->handle };
	struct xp_qp *qp = xp_qp(ibqp);
	struct xr_modify_qp_rep rep;
	int err;

	if (mask & IBV_QP_CAP)
		return -xp_refuse("ibv_modify_qp", EOPNOTSUPP,
				  "IBV_QP_CAP: queues have a fixed size");
	mask = effective_mask(ibqp, mask);
	req.attr_mask = mask;
	attr_to_control(&req.attr, attr, mask);
	if (changes_only_access(ibqp, &req)) {
		/* librdmacm does that just before it moves a QP to RTR; this saves a request */
		qp->access_flags = req.attr.qp_access_flags;
		qp->access_kept = true;
		return 0;
	}
	add_kept_access(qp, &req);
	err = xp_request(xp_qp(ibqp)->ctx, XR_MSG_MODIFY_QP, &req, sizeof(req), &rep, sizeof(rep));
	if (err)
		return -err;
	qp->access_kept = false;
	if (mask & IBV_QP_STATE) {
		if (attr->qp_state == IBV_QPS_RESET)
			reset_rings(qp);
		ibqp->state = attr->qp_state;
	}
	return 0;
}

int xp_modify_qp_rate_limit(struct ibv_qp *ibqp, struct ibv_qp_rate_limit_attr *attr)
{
	struct xr_modify_qp_req req = {
		.handle = ibqp->handle,
		.attr_mask = IBV_QP_RATE_LIMIT,
		.attr.rate_limit = attr->rate_limit,
		.max_burst = attr->max_burst_sz,
	};
	struct xr_modify_qp_rep rep;

	if (attr->comp_mask)
		return -xp_refuse("ibv_modify_qp_rate_limit", EOPNOTSUPP,
				  "comp_mask 0x%x, must be 0", attr->comp_mask);
	return -xp_request(xp_qp(ibqp)->ctx, XR_MSG_MODIFY_QP, &req, sizeof(req), &rep,
			   sizeof(rep));
}

int xp_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init_attr)
{
	struct xr_handle_req req = { .handle = ibqp->handle };
	struct xr_query_qp_rep rep;
	int err;

	err = xp_request(xp_qp(ibqp)->ctx, XR_MSG_QUERY_QP, &req, sizeof(req), &rep, sizeof(rep));
	if (err)
		return -err;
	attr_from_control(attr, &rep);
	if (xp_qp(ibqp)->access_kept && attr->qp_state == IBV_QPS_INIT)
		attr->qp_access_flags = xp_qp(ibqp)->access_flags;
	*init_attr = (struct ibv_qp_init_attr){
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = attr->cap,
		.qp_type = ibqp->qp_type,
		.sq_sig_all = rep.sq_sig_all,
	};
	ibqp->state = attr->qp_state;
	return 0;
}

/* ---- destroy ------------------------------------------------------------------- */

static void qp_wait_for_acks(struct xp_qp *qp)
{
	pthread_mutex_lock(&qp->ibqp.mutex);
	while (qp->ibqp.events_completed != qp->async_read)
		pthread_cond_wait(&qp->ibqp.cond, &qp->ibqp.mutex);
	pthread_mutex_unlock(&qp->ibqp.mutex);
}

int xp_destroy_qp(struct ibv_qp *ibqp)
{
	struct xp_qp *qp = xp_qp(ibqp);
	struct xp_context *ctx = xp_qp(ibqp)->ctx;
	struct ibv_pd *ibpd = ibqp->pd;
	struct xr_destroy_rep rep;
	int err;

	err = xp_release(ctx, XR_MSG_DESTROY_QP, ibqp->handle, &rep);
	if (err)
		return -err;
	if (xp_health(ctx) != XP_FORKED) {
		qp_detach(qp);
		xp_event_forget(ctx->async, (uintptr_t)qp, rep.async_events, &qp->async_read);
		qp_wait_for_acks(qp);
	}
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_cond_destroy(&ibqp->cond);
	verbs_free_qp(qp);
	xp_pd_put(ibpd);
	return 0;
}
