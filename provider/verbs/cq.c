// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues: create, resize, modify, destroy. */
#include <errno.h>
#include <stdlib.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/host/host.h"
#include "provider/verbs/channel_set.h"
#include "provider/verbs/child.h"
#include "provider/verbs/comp_channel.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/request.h"

static int cq_init_ring(struct xp_cq_ring *r, struct xr_queue *q, uint64_t length)
{
	int err = xp_ring_geometry(q, length, sizeof(struct xr_cqe), &r->mask, &r->stride);

	if (err)
		return err;
	r->queue = q;
	r->entries = (uint8_t *)q + q->entries_off;
	r->consumer = q->consumer;
	return 0;
}

static int check_attr(const struct xp_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	if (!xp_within_limit("ibv_create_cq", "cqe", attr->cqe, ctx->attr.max_cqe) ||
	    !xp_within_limit("ibv_create_cq", "comp_vector", attr->comp_vector,
			     ctx->ibctx->num_comp_vectors - 1))
		return EINVAL;
	if (!attr->cqe)
		return xp_refuse("ibv_create_cq", EINVAL, "cqe is less than 1");
	if (attr->channel && !xp_is_of(attr->channel, xp_channel, ctx))
		return xp_refuse("ibv_create_cq", EINVAL, "channel is of another context");
	return 0;
}

/* Creates the CQ in the daemon and maps its ring. Returns a negative errno. */
static int cq_create_in_daemon(struct xp_context *ctx, struct xp_cq *cq,
			       const struct ibv_cq_init_attr_ex *attr, uint32_t flags)
{
	struct xr_create_cq_req req = {
		.depth = attr->cqe,
		.flags = flags,
		.vector = attr->comp_vector,
		.cookie = (uintptr_t)cq,
		.channel = attr->channel ? xp_channel(attr->channel)->handle : 0,
	};
	struct xr_create_cq_rep rep;
	struct xp_call call = {
		.type = XR_MSG_CREATE_CQ,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_piece piece = { .ref = &rep.ring };
	int err = xp_call_map(ctx, &call, &piece, 1);

	if (err)
		return err;
	err = piece.ptr ? cq_init_ring(&cq->ring, piece.ptr, rep.ring.length) : -EPROTO;
	if (err)
		xp_release(ctx, XR_MSG_DESTROY_CQ, rep.handle, NULL);
	cq->ibcq.handle = rep.handle;
	cq->ibcq.cqe = rep.depth;
	return err;
}

struct xp_cq *xp_cq_create(struct xp_context *ctx, const struct ibv_cq_init_attr_ex *attr,
			   struct ibv_pd *parent, uint32_t flags)
{
	int err = check_attr(ctx, attr);
	struct xp_cq *cq;

	if (err)
		return xp_null(err);
	cq = xp_queue_alloc(parent, sizeof(*cq), XROCEDV_RES_CQ);
	if (!cq)
		return xp_null(xp_refuse_memory("ibv_create_cq"));
	err = cq_create_in_daemon(ctx, cq, attr, flags);
	if (err) {
		xp_queue_free(cq);
		return xp_null(err);
	}
	cq->ctx = ctx;
	cq->ibcq.context = ctx->shown;
	cq->ibcq.channel = attr->channel;
	cq->ibcq.cq_context = attr->cq_context;
	pthread_mutex_init(&cq->ibcq.mutex, NULL);
	pthread_cond_init(&cq->ibcq.cond, NULL);
	if (attr->channel)
		xp_channel_join(cq, attr->channel);
	return cq;
}

struct ibv_cq *xp_create_cq(struct ibv_context *ibctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *ibch, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : cqe,
		.cq_context = cq_context,
		.channel = ibch,
		.comp_vector = comp_vector,
	};
	struct xp_cq *cq = xp_cq_create(xp_ctx(xp_process_context(ibctx)), &attr, NULL, 0);

	return cq ? &cq->ibcq : NULL;
}

int xp_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct xp_cq *cq = xp_cq(ibcq);
	struct xp_context *ctx = xp_cq(ibcq)->ctx;
	struct xr_resize_cq_req req = { .handle = ibcq->handle, .depth = cqe };
	struct xr_resize_cq_rep rep;
	struct xp_call call = {
		.type = XR_MSG_RESIZE_CQ,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_piece piece = { .ref = &rep.ring };
	int err;

	if (cqe < 1)
		return -xp_refuse("ibv_resize_cq", EINVAL, "cqe %d is less than 1", cqe);
	if (!xp_within_limit("ibv_resize_cq", "cqe", cqe, ctx->attr.max_cqe))
		return EINVAL;
	/* The old ring must not be polled while the daemon copies it. */
	xp_lock(&cq->lock);
	err = xp_call_map(ctx, &call, &piece, 1);
	if (!err)
		err = piece.ptr ? cq_init_ring(&cq->ring, piece.ptr, rep.ring.length) : -EPROTO;
	if (!err)
		ibcq->cqe = rep.depth;
	xp_unlock(&cq->lock);
	return -err;
}

static void cq_wait_for_acks(struct xp_cq *cq)
{
	struct ibv_cq *ibcq = &cq->ibcq;

	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != cq->comp_read + cq->comp_early ||
	       ibcq->async_events_completed != cq->async_read)
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
}

/* written: events that were written; UINT32_MAX: the daemon has ended, so nobody knows */
static void forget_events(struct xp_cq *cq, uint32_t written)
{
	struct xp_context *ctx = cq->ctx;

	if (!ctx->host) {
		xp_event_forget(xp_channel(cq->ibcq.channel)->events, (uintptr_t)cq, written,
				&cq->comp_read);
	} else if (written == UINT32_MAX) {
		pthread_mutex_lock(&ctx->conn_lock);
		ctx->host_ops->forget_cq(ctx->host, cq->ibcq.handle);
		pthread_mutex_unlock(&ctx->conn_lock);
	}
}

int xp_destroy_cq(struct ibv_cq *ibcq)
{
	struct xp_cq *cq = xp_cq(ibcq);
	struct xp_context *ctx = xp_cq(ibcq)->ctx;
	struct xr_destroy_rep rep;
	struct ibv_pd *parent;
	int err;

	/* A child process cannot destroy the QPs first: they are the parent's. */
	if ((cq->nqps || cq->srqs) && xp_health(ctx) != XP_FORKED)
		return -xp_refuse("ibv_destroy_cq", EBUSY, "%u QPs%s use the CQ", cq->nqps,
				  cq->srqs ? " and XRC SRQs" : "");
	/* Its memory ends, so ibv_get_cq_event() must not look any more whether it is armed. */
	if (ibcq->channel)
		xp_channel_leave(cq);
	err = xp_release(ctx, XR_MSG_DESTROY_CQ, ibcq->handle, &rep);
	if (err) {
		if (ibcq->channel)
			xp_channel_join(cq, ibcq->channel);
		return -err;
	}
	if (xp_health(ctx) != XP_FORKED) {
		if (ibcq->channel)
			forget_events(cq, rep.comp_events);
		xp_event_forget(ctx->async, (uintptr_t)cq, rep.async_events, &cq->async_read);
		cq_wait_for_acks(cq);
	}
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	free(cq->qps);
	parent = cq->parent;
	xp_queue_free(cq);
	xp_pd_put(parent);
	return 0;
}

int xp_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct xr_modify_cq_req req = {
		.handle = ibcq->handle,
		.count = attr->moderate.cq_count,
		.period = attr->moderate.cq_period,
	};

	if (!attr->attr_mask)
		return -xp_refuse("ibv_modify_cq", EINVAL, "attr_mask is 0");
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return -xp_refuse("ibv_modify_cq", EOPNOTSUPP, "attr_mask 0x%x, known 0x%x",
				  attr->attr_mask, IBV_CQ_ATTR_MODERATE);
	if (ibcq->channel && req.count > 1 && req.period)
		xp_channel_events_only(xp_channel(ibcq->channel));
	return -xp_request(xp_cq(ibcq)->ctx, XR_MSG_MODIFY_CQ, &req, sizeof(req), NULL, 0);
}
