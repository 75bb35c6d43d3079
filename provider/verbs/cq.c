// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "provider/provider.h"

/* ---- who completes here -------------------------------------------------------- */

/* Which of a QP's two chain pointers is this CQ's */
static struct xp_qp **next_of(struct xp_qp *qp, const struct xp_cq *cq)
{
	return &qp->next_in_cq[&cq->ibcq != qp->ibqp.send_cq];
}

static struct xp_qp *find_qp(struct xp_cq *cq, uint32_t qpn)
{
	struct xp_qp *qp = cq->qps ? cq->qps[qpn & cq->qp_mask] : NULL;

	while (qp && qp->ibqp.qp_num != qpn)
		qp = *next_of(qp, cq);
	return qp;
}

/* Under cq->lock */
static int grow(struct xp_cq *cq)
{
	uint32_t size = cq->qps ? (cq->qp_mask + 1) * 2 : 8, i;
	struct xp_qp **qps = calloc(size, sizeof(*qps)), *qp, **bucket;

	if (!qps)
		return -ENOMEM;
	for (i = 0; cq->qps && i <= cq->qp_mask; i++) {
		while ((qp = cq->qps[i])) {
			cq->qps[i] = *next_of(qp, cq);
			bucket = &qps[qp->ibqp.qp_num & (size - 1)];
			*next_of(qp, cq) = *bucket;
			*bucket = qp;
		}
	}
	free(cq->qps);
	cq->qps = qps;
	cq->qp_mask = size - 1;
	return 0;
}

int xp_cq_attach(struct xp_cq *cq, struct xp_qp *qp)
{
	struct xp_qp **bucket;
	int err = 0;

	xp_lock(&cq->lock);
	if (!cq->qps || cq->nqps > cq->qp_mask)
		err = grow(cq);
	if (!err) {
		bucket = &cq->qps[qp->ibqp.qp_num & cq->qp_mask];
		*next_of(qp, cq) = *bucket;
		*bucket = qp;
		cq->nqps++;
	}
	xp_unlock(&cq->lock);
	return err;
}

/* Under cq->lock. Entries between our index and the daemon's are ours to write. */
static void drop_entries(struct xp_cq *cq, uint32_t qpn)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t i, n = xp_cq_ready(r);

	for (i = 0; i < n; i++) {
		struct xr_cqe *cqe = xp_cq_entry(r, r->consumer + i);

		if (cqe->qpn == qpn)
			cqe->qpn = XP_NO_QPN;
	}
}

void xp_cq_drop(struct xp_cq *cq, uint32_t qpn)
{
	xp_lock(&cq->lock);
	drop_entries(cq, qpn);
	xp_unlock(&cq->lock);
}

void xp_cq_detach(struct xp_cq *cq, struct xp_qp *qp)
{
	struct xp_qp **p;

	xp_lock(&cq->lock);
	drop_entries(cq, qp->ibqp.qp_num);
	for (p = &cq->qps[qp->ibqp.qp_num & cq->qp_mask]; *p != qp; p = next_of(*p, cq))
		;
	*p = *next_of(qp, cq);
	cq->nqps--;
	xp_unlock(&cq->lock);
}

/* ---- SRQs of XRC: their completions name target QPs, perhaps of others -------- */

void xp_cq_attach_srq(struct xp_cq *cq, struct xp_srq *srq)
{
	xp_lock(&cq->lock);
	srq->next_in_cq = cq->srqs;
	cq->srqs = srq;
	xp_unlock(&cq->lock);
}

void xp_cq_detach_srq(struct xp_cq *cq, struct xp_srq *srq)
{
	struct xp_cq_ring *r = &cq->ring;
	struct xp_srq **p = &cq->srqs;
	uint32_t i, n;

	xp_lock(&cq->lock);
	n = xp_cq_ready(r);
	for (i = 0; i < n; i++) {
		struct xr_cqe *cqe = xp_cq_entry(r, r->consumer + i);

		if (cqe->srqn == srq->number)
			cqe->qpn = XP_NO_QPN;
	}
	while (*p != srq)
		p = &(*p)->next_in_cq;
	*p = srq->next_in_cq;
	xp_unlock(&cq->lock);
}

/* ---- create, resize, destroy --------------------------------------------------- */

static int take_ring(struct xp_cq_ring *r, struct xr_queue *q, uint64_t length)
{
	int err = xp_ring_geometry(q, length, sizeof(struct xr_cqe), &r->mask, &r->stride);

	if (err)
		return err;
	r->queue = q;
	r->entries = (uint8_t *)q + q->entries_off;
	r->consumer = q->consumer;
	return 0;
}

static void join_channel(struct xp_cq *cq, struct ibv_comp_channel *ibch)
{
	struct xp_channel *ch = (struct xp_channel *)ibch;

	pthread_mutex_lock(&ibch->context->mutex);
	ibch->refcnt++;
	cq->next_on_channel = ch->cqs;
	ch->cqs = cq;
	pthread_mutex_unlock(&ibch->context->mutex);
}

static void leave_channel(struct xp_cq *cq)
{
	struct ibv_comp_channel *ibch = cq->ibcq.channel;
	struct xp_cq **p;

	pthread_mutex_lock(&ibch->context->mutex);
	for (p = &((struct xp_channel *)ibch)->cqs; *p != cq; p = &(*p)->next_on_channel)
		;
	*p = cq->next_on_channel;
	ibch->refcnt--;
	pthread_mutex_unlock(&ibch->context->mutex);
}

struct xp_cq *xp_cq_create(struct ibv_context *ibctx, const struct ibv_cq_init_attr_ex *attr,
			   struct ibv_pd *parent, uint32_t flags)
{
	struct ibv_comp_channel *ibch = attr->channel;
	struct xp_context *ctx = xp_ctx(ibctx);
	struct xr_create_cq_req req = { .depth = attr->cqe, .flags = flags };
	struct xr_create_cq_rep rep;
	struct xp_call call = {
		.type = XR_MSG_CREATE_CQ,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_piece piece = { .ref = &rep.ring };
	struct xp_cq *cq;
	int err;

	if (!attr->cqe || attr->cqe > ctx->attr.max_cqe ||
	    attr->comp_vector >= (uint32_t)ibctx->num_comp_vectors ||
	    (ibch && ibch->context != ibctx))
		return xp_null(EINVAL);
	cq = xp_queue_alloc(parent, sizeof(*cq), XROCEDV_RES_CQ);
	if (!cq)
		return xp_null(ENOMEM);
	req.cookie = (uintptr_t)cq;
	req.channel = ibch ? ((struct xp_channel *)ibch)->handle : 0;
	err = xp_call_map(ctx, &call, &piece, 1);
	if (err)
		goto free_cq;
	err = piece.ptr ? take_ring(&cq->ring, piece.ptr, rep.ring.length) : -EPROTO;
	if (err)
		goto destroy;
	cq->ibcq.context = ibctx;
	cq->ibcq.channel = ibch;
	cq->ibcq.cq_context = attr->cq_context;
	cq->ibcq.handle = rep.handle;
	cq->ibcq.cqe = rep.depth;
	pthread_mutex_init(&cq->ibcq.mutex, NULL);
	pthread_cond_init(&cq->ibcq.cond, NULL);
	if (ibch)
		join_channel(cq, ibch);
	return cq;

destroy:
	xp_release(ctx, XR_MSG_DESTROY_CQ, rep.handle, NULL);
free_cq:
	xp_queue_free(cq);
	return xp_null(err);
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
	struct xp_cq *cq = xp_cq_create(xp_here(ibctx), &attr, NULL, 0);

	return cq ? &cq->ibcq : NULL;
}

int xp_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct xp_cq *cq = xp_cq(ibcq);
	struct xp_context *ctx = xp_ctx(ibcq->context);
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

	if (cqe < 1 || (uint32_t)cqe > ctx->attr.max_cqe)
		return EINVAL;
	/* Nobody may poll the old ring while the daemon copies it. */
	xp_lock(&cq->lock);
	err = xp_call_map(ctx, &call, &piece, 1);
	if (!err)
		err = piece.ptr ? take_ring(&cq->ring, piece.ptr, rep.ring.length) : -EPROTO;
	if (!err)
		ibcq->cqe = rep.depth;
	xp_unlock(&cq->lock);
	return -err;
}

static void wait_for_acks(struct xp_cq *cq)
{
	struct ibv_cq *ibcq = &cq->ibcq;

	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != cq->comp_read ||
	       ibcq->async_events_completed != cq->async_read)
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
}

int xp_destroy_cq(struct ibv_cq *ibcq)
{
	struct xp_cq *cq = xp_cq(ibcq);
	struct xp_context *ctx = xp_ctx(ibcq->context);
	struct xr_destroy_rep rep;
	struct ibv_pd *parent;
	int err;

	/* A child does not keep that book: the rings are its parent's. */
	if ((cq->nqps || cq->srqs) && xp_health(ctx) != XP_FORKED)
		return EBUSY;
	err = xp_release(ctx, XR_MSG_DESTROY_CQ, ibcq->handle, &rep);
	if (err)
		return -err;
	if (xp_health(ctx) != XP_FORKED) {
		if (ibcq->channel)
			xp_pipe_forget(((struct xp_channel *)ibcq->channel)->pipe, (uintptr_t)cq,
				       rep.comp_events, &cq->comp_read);
		xp_pipe_forget(ctx->async, (uintptr_t)cq, rep.async_events, &cq->async_read);
		wait_for_acks(cq);
	}
	if (ibcq->channel)
		leave_channel(cq);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	free(cq->qps);
	parent = cq->parent;
	xp_queue_free(cq);
	xp_pd_unuse(parent);
	return 0;
}

int xp_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct xp_cq *cq = xp_cq(ibcq);

	if (xp_health(xp_ctx(ibcq->context)) == XP_FORKED)
		return EIO;
	xp_lock(&cq->lock); /* the ring may be changing */
	xp_cq_arm(cq->ring.queue, solicited_only ? XR_ARM_SOLICITED : XR_ARM_ANY);
	xp_unlock(&cq->lock);
	return 0;
}

/* ---- poll ---------------------------------------------------------------------- */

#define FEW_CPUS 4
#define SPINS 256

/*
 * An empty poll on a machine with few cores gives its core to whom it waits for: the daemon,
 * or its peer. With cores to spare only a long wait does.
 */
static void give_way(struct xp_cq *cq)
{
	static int few = -1;
	cpu_set_t set;

	if (few < 0) {
		CPU_ZERO(&set);
		few = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set) <= FEW_CPUS;
	}
	if (few || ++cq->idle > SPINS)
		sched_yield();
}

static void fill_wc(struct ibv_wc *wc, const struct xr_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm_data;
	wc->qp_num = cqe->qpn;
	wc->src_qp = cqe->src_qpn;
	wc->wc_flags = cqe->wc_flags;
	wc->pkey_index = cqe->pkey_index;
	wc->slid = 0;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

/* Under cq->lock: the next completion before index `end`; it stays until xp_cq_release(). */
static const struct xr_cqe *take_entry(struct xp_cq *cq, uint32_t end)
{
	struct xp_cq_ring *r = &cq->ring;
	const struct xr_cqe *cqe;
	struct xp_qp *qp;

	while (r->consumer != end) {
		cqe = xp_cq_entry(r, r->consumer++);
		if (cqe->qpn == XP_NO_QPN)
			continue;
		qp = find_qp(cq, cqe->qpn);
		/* an SRQ's entry was free again when it was taken */
		if (qp && !(cqe->is_recv && qp->ibqp.srq))
			xp_ring_retire(cqe->is_recv ? &qp->rq : &qp->sq, cqe->wqe_index);
		return cqe;
	}
	return NULL;
}

/* Under cq->lock */
static int poll_ring(struct xp_cq *cq, int n, struct ibv_wc *wc)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t ready = xp_cq_ready(r), end = r->consumer + ready;
	const struct xr_cqe *cqe;
	int got = 0;

	if (!ready)
		return 0;
	while (got < n && (cqe = take_entry(cq, end)))
		fill_wc(&wc[got++], cqe);
	xp_cq_release(r);
	return got;
}

/* An SRQ's receives go to whichever of its QPs' CQs is polled first. */
static bool take_recv(struct xp_qp *qp, uint64_t *wr_id)
{
	if (qp->ibqp.srq)
		return xp_srq_take(xp_srq(qp->ibqp.srq), wr_id);
	return xp_ring_take(&qp->rq, wr_id);
}

static bool take_flushed(struct xp_cq *cq, struct xp_qp *qp, struct ibv_wc *wc)
{
	uint64_t wr_id;

	if (qp->ibqp.send_cq == &cq->ibcq && xp_ring_take(&qp->sq, &wr_id))
		wc->opcode = IBV_WC_SEND;
	else if (qp->ibqp.recv_cq == &cq->ibcq && take_recv(qp, &wr_id))
		wc->opcode = IBV_WC_RECV;
	else
		return false;
	wc->wr_id = wr_id;
	wc->status = IBV_WC_WR_FLUSH_ERR;
	wc->qp_num = qp->ibqp.qp_num;
	return true;
}

/* Of whichever target QP it might have been */
static int poll_flushed_srqs(struct xp_cq *cq, int n, struct ibv_wc *wc)
{
	struct xp_srq *srq;
	uint64_t wr_id;
	int got = 0;

	for (srq = cq->srqs; srq; srq = srq->next_in_cq)
		while (got < n && xp_srq_take(srq, &wr_id))
			wc[got++] = (struct ibv_wc){
				.wr_id = wr_id,
				.status = IBV_WC_WR_FLUSH_ERR,
				.opcode = IBV_WC_RECV,
			};
	return got;
}

/* Under cq->lock. The daemon is gone: what it did not complete never will. */
static int poll_flushed(struct xp_cq *cq, int n, struct ibv_wc *wc)
{
	struct xp_qp *qp;
	uint32_t i;
	int got = 0;

	for (i = 0; cq->qps && i <= cq->qp_mask; i++) {
		for (qp = cq->qps[i]; qp; qp = *next_of(qp, cq)) {
			while (got < n) {
				memset(&wc[got], 0, sizeof(*wc));
				if (!take_flushed(cq, qp, &wc[got]))
					break;
				got++;
			}
		}
	}
	return got + poll_flushed_srqs(cq, n - got, wc + got);
}

int xp_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct xp_cq *cq = xp_cq(ibcq);
	struct xp_context *ctx = xp_ctx(ibcq->context);
	int got;

	if (xp_health(ctx) == XP_FORKED) {
		errno = EIO;
		return -1;
	}
	xp_lock(&cq->lock);
	got = cq->flushing ? 0 : poll_ring(cq, n, wc);
	if (got < n && xp_health(ctx) == XP_GONE) {
		/* A daemon that is on its way out may complete what is flushed now. */
		cq->flushing = true;
		got += poll_flushed(cq, n - got, wc + got);
	}
	xp_unlock(&cq->lock);
	if (got) {
		cq->idle = 0;
		return got;
	}
	xp_check_health(ctx);
	give_way(cq);
	return 0;
}

/* As xp_poll_cq() has it, for one */
static bool take_one(struct xp_cq *cq, struct xr_cqe *to)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t ready = cq->flushing ? 0 : xp_cq_ready(r);
	const struct xr_cqe *cqe = NULL;
	struct ibv_wc wc;

	if (ready) {
		cqe = take_entry(cq, r->consumer + ready);
		if (cqe)
			*to = *cqe;
		xp_cq_release(r);
	}
	if (cqe || xp_health(xp_ctx(cq->ibcq.context)) != XP_GONE)
		return cqe;
	cq->flushing = true;
	if (!poll_flushed(cq, 1, &wc))
		return false;
	*to = (struct xr_cqe){
		.wr_id = wc.wr_id,
		.timestamp = xp_clock(),
		.status = wc.status,
		.opcode = wc.opcode,
		.qpn = wc.qp_num,
	};
	return true;
}

int xp_cq_next(struct xp_cq *cq, struct xr_cqe *cqe, bool wait)
{
	struct xp_context *ctx = xp_ctx(cq->ibcq.context);
	bool got;

	if (xp_health(ctx) == XP_FORKED)
		return EIO;
	xp_lock(&cq->lock);
	got = take_one(cq, cqe);
	xp_unlock(&cq->lock);
	if (got) {
		cq->idle = 0;
		return 0;
	}
	xp_check_health(ctx);
	if (wait)
		give_way(cq);
	return ENOENT;
}

static bool outstanding(const struct xp_ring *r)
{
	return __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
}

static bool recv_outstanding(const struct xp_qp *qp)
{
	return qp->ibqp.srq ? xp_srq_has_work(xp_srq(qp->ibqp.srq)) : outstanding(&qp->rq);
}

bool xp_cq_has_work(struct xp_cq *cq)
{
	struct xp_srq *srq;
	struct xp_qp *qp;
	bool work;
	uint32_t i;

	xp_lock(&cq->lock);
	work = !cq->flushing && xp_cq_ready(&cq->ring);
	for (i = 0; !work && cq->qps && i <= cq->qp_mask; i++) {
		for (qp = cq->qps[i]; qp && !work; qp = *next_of(qp, cq))
			work = (qp->ibqp.send_cq == &cq->ibcq && outstanding(&qp->sq)) ||
			       (qp->ibqp.recv_cq == &cq->ibcq && recv_outstanding(qp));
	}
	for (srq = cq->srqs; srq && !work; srq = srq->next_in_cq)
		work = xp_srq_has_work(srq);
	xp_unlock(&cq->lock);
	return work;
}
