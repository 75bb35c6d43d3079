// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Shared receive queues. */
#include <stdlib.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/child.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_members.h"
#include "provider/verbs/event_socket.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/request.h"
#include "provider/verbs/srq.h"
#include "provider/verbs/xrc.h"

/* ---- create, modify, query ----------------------------------------------------- */

static int srq_init_ring(struct xp_srq *srq, struct xr_queue *q, uint64_t length, uint32_t max_wr)
{
	struct xp_ring *r = &srq->ring;
	int err;

	if (!q)
		return -EPROTO;
	err = xp_ring_geometry(q, length, xr_recv_stride(srq->max_sge), &r->mask, &r->stride);
	if (err)
		return err;
	if (max_wr > r->mask + 1)
		return -EPROTO;
	r->queue = q;
	r->entries = (uint8_t *)q + q->entries_off;
	r->limit = max_wr;
	r->head = q->producer;
	return 0;
}

static void verbs_fill_srq(struct xp_srq *srq, struct ibv_pd *ibpd, void *srq_context,
			   const struct xr_create_srq_rep *rep)
{
	srq->ctx = xp_pd(ibpd)->ctx;
	srq->ibsrq.context = ibpd->context;
	srq->ibsrq.srq_context = srq_context;
	srq->ibsrq.pd = ibpd;
	srq->ibsrq.handle = rep->handle;
	srq->number = rep->number;
	/* Needs its lock even in a thread domain: a thread that polls a CQ may flush the SRQ. */
	xp_pd_get(ibpd);
	pthread_mutex_init(&srq->ibsrq.mutex, NULL);
	pthread_cond_init(&srq->ibsrq.cond, NULL);
}

/* Creates the SRQ in the daemon and maps its ring. Returns a negative errno. */
static int srq_create_in_daemon(struct xp_context *ctx, struct xp_srq *srq,
				struct xr_create_srq_req *req, struct xr_create_srq_rep *rep)
{
	struct xp_call call = {
		.type = XR_MSG_CREATE_SRQ,
		.req = req,
		.req_len = sizeof(*req),
		.rep = rep,
		.rep_len = sizeof(*rep),
	};
	struct xp_piece piece = { .ref = &rep->ring };
	int err;

	req->cookie = (uintptr_t)srq;
	err = xp_call_map(ctx, &call, &piece, 1);
	if (err)
		return err;
	srq->max_sge = rep->max_sge;
	err = srq_init_ring(srq, piece.ptr, rep->ring.length, rep->max_wr);
	if (err)
		xp_release(ctx, XR_MSG_DESTROY_SRQ, rep->handle, NULL);
	return err;
}

/* @xrcd, @cq: of an XRC SRQ, else NULL. */
static struct ibv_srq *srq_create(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr,
				  struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct xp_context *ctx = xp_own_pd(ibpd)->ctx;
	struct xr_create_srq_req req = {
		.pd = ibpd->handle,
		.max_wr = attr->attr.max_wr,
		.max_sge = attr->attr.max_sge,
		.xrcd = xrcd ? xp_xrcd(xrcd)->handle : 0,
		.cq = cq ? cq->handle : 0,
	};
	struct xr_create_srq_rep rep;
	struct xp_srq *srq;
	int err;

	if (!xp_within_limit("ibv_create_srq", "max_wr", attr->attr.max_wr, ctx->attr.max_srq_wr) ||
	    !xp_within_limit("ibv_create_srq", "max_sge", attr->attr.max_sge,
			     ctx->attr.max_srq_sge))
		return xp_null(EINVAL);
	srq = xp_queue_alloc(ibpd, sizeof(*srq), XROCEDV_RES_SRQ);
	if (!srq)
		return xp_null(xp_refuse_memory("ibv_create_srq"));
	err = srq_create_in_daemon(ctx, srq, &req, &rep);
	if (err) {
		xp_queue_free(srq);
		return xp_null(err);
	}
	verbs_fill_srq(srq, ibpd, attr->srq_context, &rep);
	if (xrcd) {
		srq->cq = xp_cq(cq);
		xp_cq_attach_srq(srq->cq, srq);
	}
	attr->attr.max_wr = rep.max_wr;
	attr->attr.max_sge = rep.max_sge;
	return &srq->ibsrq;
}

struct ibv_srq *xp_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr)
{
	return srq_create(ibpd, attr, NULL, NULL);
}

#define XRC_MASK (IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ)
#define COMP_MASK (IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | XRC_MASK)

/* The struct starts like struct ibv_srq_init_attr. ibv_create_srq_ex() relies on that, too. */
struct ibv_srq *xp_create_srq_ex(struct ibv_context *ibctx, struct ibv_srq_init_attr_ex *attr)
{
	struct xp_context *ctx = xp_ctx(xp_process_context(ibctx));
	enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type
									  : IBV_SRQT_BASIC;

	if (attr->comp_mask & ~COMP_MASK || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC))
		return xp_null(xp_refuse("ibv_create_srq_ex", EOPNOTSUPP,
					 "comp_mask 0x%x, known 0x%x; srq_type %d, basic or XRC",
					 attr->comp_mask, COMP_MASK, (int)type));
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !xp_is_of(attr->pd, xp_own_pd, ctx))
		return xp_null(xp_refuse("ibv_create_srq_ex", EINVAL,
					 "pd is missing or of another context"));
	if (type == IBV_SRQT_BASIC)
		return srq_create(attr->pd, (struct ibv_srq_init_attr *)attr, NULL, NULL);
	if ((attr->comp_mask & XRC_MASK) != XRC_MASK || !xp_is_of(attr->xrcd, xp_xrcd, ctx) ||
	    !xp_is_of(attr->cq, xp_cq, ctx))
		return xp_null(
			xp_refuse("ibv_create_srq_ex", EINVAL,
				  "xrcd or cq of the XRC SRQ is missing or of another context"));
	return srq_create(attr->pd, (struct ibv_srq_init_attr *)attr, attr->xrcd, attr->cq);
}

int xp_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number)
{
	if (!xp_srq(ibsrq)->number)
		return -xp_refuse("ibv_get_srq_num", EINVAL, "the SRQ is not for XRC");
	*number = xp_srq(ibsrq)->number;
	return 0;
}

int xp_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct xp_srq *srq = xp_srq(ibsrq);
	struct xr_modify_srq_req req = {
		.handle = ibsrq->handle,
		.mask = mask,
		.max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : 0,
		.limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : 0,
	};
	struct xr_modify_srq_rep rep;
	struct xp_call call = {
		.type = XR_MSG_MODIFY_SRQ,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_piece piece = { .ref = &rep.ring };
	int err;

	/* The old ring must not change while the daemon copies it. */
	xp_lock(&srq->lock);
	err = xp_call_map(xp_srq(ibsrq)->ctx, &call, &piece, 1);
	if (!err && mask & IBV_SRQ_MAX_WR) {
		err = srq_init_ring(srq, piece.ptr, rep.ring.length, rep.max_wr);
		attr->max_wr = rep.max_wr;
	}
	xp_unlock(&srq->lock);
	return -err;
}

int xp_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct xr_handle_req req = { .handle = ibsrq->handle };
	struct xr_query_srq_rep rep;
	int err = xp_request(xp_srq(ibsrq)->ctx, XR_MSG_QUERY_SRQ, &req, sizeof(req), &rep,
			     sizeof(rep));

	if (err)
		return -err;
	*attr = (struct ibv_srq_attr){
		.max_wr = rep.max_wr,
		.max_sge = rep.max_sge,
		.srq_limit = rep.limit,
	};
	return 0;
}

/* ---- destroy ------------------------------------------------------------------- */

static void srq_wait_for_acks(struct xp_srq *srq)
{
	pthread_mutex_lock(&srq->ibsrq.mutex);
	while (srq->ibsrq.events_completed != srq->async_read)
		pthread_cond_wait(&srq->ibsrq.cond, &srq->ibsrq.mutex);
	pthread_mutex_unlock(&srq->ibsrq.mutex);
}

int xp_destroy_srq(struct ibv_srq *ibsrq)
{
	struct xp_srq *srq = xp_srq(ibsrq);
	struct xp_context *ctx = xp_srq(ibsrq)->ctx;
	struct ibv_pd *ibpd = ibsrq->pd;
	struct xr_destroy_rep rep;
	int err;

	if (__atomic_load_n(&srq->qps, __ATOMIC_RELAXED))
		return -xp_refuse("ibv_destroy_srq", EBUSY, "%u QPs use the SRQ",
				  __atomic_load_n(&srq->qps, __ATOMIC_RELAXED));
	err = xp_release(ctx, XR_MSG_DESTROY_SRQ, ibsrq->handle, &rep);
	if (err)
		return -err;
	if (xp_health(ctx) != XP_FORKED) {
		if (srq->cq)
			xp_cq_detach_srq(srq->cq, srq);
		xp_event_forget(ctx->async, (uintptr_t)srq, rep.async_events, &srq->async_read);
		srq_wait_for_acks(srq);
	}
	pthread_mutex_destroy(&ibsrq->mutex);
	pthread_cond_destroy(&ibsrq->cond);
	xp_queue_free(srq);
	xp_pd_put(ibpd);
	return 0;
}

/* ---- post ---------------------------------------------------------------------- */

/*
 * Returns the number of receives that may be posted. When the daemon is gone, its consumer index no
 * longer advances, and tail counts the flushed entries. Needs srq->lock.
 */
static uint32_t srq_room(const struct xp_srq *srq)
{
	const struct xp_ring *r = &srq->ring;

	return srq->flushing ? r->limit - (r->head - r->tail) : xp_ring_room_shared(r);
}

int xp_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct xp_srq *srq = xp_srq(ibsrq);
	struct xp_ring *r = &srq->ring;
	int err = 0;

	if (xp_health(xp_srq(ibsrq)->ctx) == XP_FORKED) {
		*bad_wr = wr;
		return -xp_refuse("ibv_post_srq_recv", EIO, "%s", XP_FORKED_TEXT);
	}
	xp_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		err = srq_room(srq) ? xp_fill_recv(xp_ring_next(r), srq->max_sge, wr) : ENOMEM;
		if (err) {
			*bad_wr = wr;
			break;
		}
		/* threads that poll load it without the lock */
		__atomic_store_n(&r->head, r->head + 1, __ATOMIC_RELEASE);
	}
	/* Workers read the queue when a message arrives: there is no doorbell. */
	xp_ring_publish(r);
	xp_unlock(&srq->lock);
	if (err)
		xp_refuse_recv("ibv_post_srq_recv", err, wr, srq->max_sge, r->limit);
	return err;
}

/* ---- the daemon is gone -------------------------------------------------------- */

bool xp_srq_pop(struct xp_srq *srq, uint64_t *wr_id)
{
	struct xp_ring *r = &srq->ring;
	const struct xr_recv_wqe *wqe;
	bool any;

	xp_lock(&srq->lock);
	if (!srq->flushing)
		r->tail = __atomic_load_n(&r->queue->consumer, __ATOMIC_ACQUIRE);
	srq->flushing = true;
	any = r->tail != r->head;
	if (any) {
		wqe = (const void *)(r->entries + (size_t)(r->tail++ & r->mask) * r->stride);
		*wr_id = wqe->wr_id;
	}
	xp_unlock(&srq->lock);
	return any;
}

bool xp_srq_has_work(struct xp_srq *srq)
{
	bool any;

	xp_lock(&srq->lock);
	any = srq_room(srq) != srq->ring.limit;
	xp_unlock(&srq->lock);
	return any;
}
