// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "provider/base/cancel.h"
#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/child.h"
#include "provider/verbs/comp_channel.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"
#include "provider/verbs/srq.h"

/* ---- QPs that complete here ---------------------------------------------------- */

/* Returns the hash chain pointer of this CQ in a QP. */
static struct xp_qp **chain_of(struct xp_qp *qp, const struct xp_cq *cq)
{
	return &qp->next_in_cq[&cq->ibcq != qp->ibqp.send_cq];
}

static struct xp_qp *find_qp(struct xp_cq *cq, uint32_t qpn)
{
	struct xp_qp *qp = cq->qps ? cq->qps[qpn & cq->qp_mask] : NULL;

	while (qp && qp->ibqp.qp_num != qpn)
		qp = *chain_of(qp, cq);
	return qp;
}

/* Doubles the hash table. Needs cq->lock. */
static int grow(struct xp_cq *cq)
{
	uint32_t size = cq->qps ? (cq->qp_mask + 1) * 2 : 8, i;
	struct xp_qp **qps = calloc(size, sizeof(*qps)), *qp, **bucket;

	if (!qps)
		return -ENOMEM;
	for (i = 0; cq->qps && i <= cq->qp_mask; i++) {
		while ((qp = cq->qps[i])) {
			cq->qps[i] = *chain_of(qp, cq);
			bucket = &qps[qp->ibqp.qp_num & (size - 1)];
			*chain_of(qp, cq) = *bucket;
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
		*chain_of(qp, cq) = *bucket;
		*bucket = qp;
		cq->nqps++;
	}
	xp_unlock(&cq->lock);
	return err;
}

/*
 * Marks the completions of a QP so that polling skips them. The entries between the two indices
 * belong to the provider. Needs cq->lock.
 */
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

bool xp_cq_holds_recv(struct xp_cq *cq, uint32_t qpn)
{
	struct xp_cq_ring *r = &cq->ring;
	bool holds = false;
	uint32_t i, n;

	xp_lock(&cq->lock);
	n = cq->flushing ? 0 : xp_cq_ready(r);
	for (i = 0; i < n && !holds; i++) {
		const struct xr_cqe *cqe = xp_cq_entry(r, r->consumer + i);

		holds = cqe->is_recv && cqe->qpn == qpn;
	}
	xp_unlock(&cq->lock);
	return holds;
}

/* ---- arming with completions ----------------------------------------------------- */

/*
 * For an armed CQ: if it holds completions, rings the doorbell of the QP of the first one, whose
 * worker raises the event if it is due. Returns true if that is a QP of another program (XRC): the
 * caller calls ask_for_event() without the lock. Needs cq->lock.
 *
 * A program that arms right after it has read an event polls next, in the order of
 * ibv_get_cq_event(3). An event would come although nothing is left to poll then, and perftest
 * takes each event for a completion.
 */
static bool report_armed(struct xp_cq *cq)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t i, n = xp_cq_ready(r), qpn;
	struct xp_qp *qp;

	if (cq->flushing || !cq->ibcq.channel ||
	    __atomic_load_n(&cq->unpolled_event, __ATOMIC_RELAXED))
		return false;
	for (i = 0; i < n; i++) {
		qpn = xp_cq_entry(r, r->consumer + i)->qpn;
		if (qpn == XP_NO_QPN)
			continue;
		qp = find_qp(cq, qpn);
		if (qp)
			xp_ring_doorbell(qp);
		return !qp;
	}
	return false;
}

static int ask_for_event(struct xp_cq *cq)
{
	struct xr_handle_req req = { .handle = cq->ibcq.handle };
	int err = xp_request(xp_ctx(cq->ibcq.context), XR_MSG_CHECK_CQ, &req, sizeof(req), NULL, 0);

	/* if the daemon is gone, ibv_get_cq_event() finds the armed CQ */
	return err == -EIO ? 0 : -err;
}

void xp_cq_detach(struct xp_cq *cq, struct xp_qp *qp)
{
	struct xp_qp **p;
	bool ask;

	xp_lock(&cq->lock);
	drop_entries(cq, qp->ibqp.qp_num);
	for (p = &cq->qps[qp->ibqp.qp_num & cq->qp_mask]; *p != qp; p = chain_of(*p, cq))
		;
	*p = *chain_of(qp, cq);
	cq->nqps--;
	/* the doorbell may have been that of this QP */
	ask = xp_cq_armed(cq->ring.queue) && report_armed(cq);
	xp_unlock(&cq->lock);
	if (ask)
		ask_for_event(cq);
}

/* ---- XRC SRQs that complete here ----------------------------------------------- */

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

static int init_ring(struct xp_cq_ring *r, struct xr_queue *q, uint64_t length)
{
	int err = xp_ring_geometry(q, length, sizeof(struct xr_cqe), &r->mask, &r->stride);

	if (err)
		return err;
	r->queue = q;
	r->entries = (uint8_t *)q + q->entries_off;
	r->consumer = q->consumer;
	return 0;
}

struct xp_cq *xp_cq_create(struct ibv_context *ibctx, const struct ibv_cq_init_attr_ex *attr,
			   struct ibv_pd *parent, uint32_t flags)
{
	struct ibv_comp_channel *ibch = attr->channel;
	struct xp_context *ctx = xp_ctx(ibctx);
	struct xr_create_cq_req req = {
		.depth = attr->cqe,
		.flags = flags,
		.vector = attr->comp_vector,
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
	struct xp_cq *cq;
	int err;

	if (!xp_within_limit("ibv_create_cq", "cqe", attr->cqe, ctx->attr.max_cqe) ||
	    !xp_within_limit("ibv_create_cq", "comp_vector", attr->comp_vector,
			     ibctx->num_comp_vectors - 1))
		return xp_null(EINVAL);
	if (!attr->cqe || (ibch && ibch->context != ibctx))
		return xp_null(xp_refuse("ibv_create_cq", EINVAL, "%s",
					 attr->cqe ? "channel is of another context"
						   : "cqe is less than 1"));
	cq = xp_queue_alloc(parent, sizeof(*cq), XROCEDV_RES_CQ);
	if (!cq)
		return xp_null(ENOMEM);
	req.cookie = (uintptr_t)cq;
	req.channel = ibch ? xp_channel(ibch)->handle : 0;
	err = xp_call_map(ctx, &call, &piece, 1);
	if (err)
		goto free_cq;
	err = piece.ptr ? init_ring(&cq->ring, piece.ptr, rep.ring.length) : -EPROTO;
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
		xp_channel_join(cq, ibch);
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
	struct xp_cq *cq = xp_cq_create(xp_process_context(ibctx), &attr, NULL, 0);

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

	if (cqe < 1)
		return -xp_refuse("ibv_resize_cq", EINVAL, "cqe %d is less than 1", cqe);
	if (!xp_within_limit("ibv_resize_cq", "cqe", cqe, ctx->attr.max_cqe))
		return EINVAL;
	/* The old ring must not be polled while the daemon copies it. */
	xp_lock(&cq->lock);
	err = xp_call_map(ctx, &call, &piece, 1);
	if (!err)
		err = piece.ptr ? init_ring(&cq->ring, piece.ptr, rep.ring.length) : -EPROTO;
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

	/* A child process cannot destroy the QPs first: they are the parent's. */
	if ((cq->nqps || cq->srqs) && xp_health(ctx) != XP_FORKED)
		return -xp_refuse("ibv_destroy_cq", EBUSY, "%u QPs%s use the CQ", cq->nqps,
				  cq->srqs ? " and XRC SRQs" : "");
	err = xp_release(ctx, XR_MSG_DESTROY_CQ, ibcq->handle, &rep);
	if (err)
		return -err;
	if (xp_health(ctx) != XP_FORKED) {
		if (ibcq->channel)
			xp_event_forget(xp_channel(ibcq->channel)->events, (uintptr_t)cq,
					rep.comp_events, &cq->comp_read);
		xp_event_forget(ctx->async, (uintptr_t)cq, rep.async_events, &cq->async_read);
		wait_for_acks(cq);
	}
	if (ibcq->channel)
		xp_channel_leave(cq);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	free(cq->qps);
	parent = cq->parent;
	xp_queue_free(cq);
	xp_pd_put(parent);
	return 0;
}

int xp_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct xp_cq *cq = xp_cq(ibcq);
	bool ask;

	if (xp_health(xp_ctx(ibcq->context)) == XP_FORKED)
		return -xp_refuse("ibv_req_notify_cq", EIO, "%s", XP_FORKED_TEXT);
	xp_lock(&cq->lock); /* against ibv_resize_cq() */
	xp_cq_arm(cq->ring.queue, solicited_only ? XR_ARM_SOLICITED : XR_ARM_ANY);
	ask = report_armed(cq);
	xp_unlock(&cq->lock);
	return ask ? ask_for_event(cq) : 0;
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
	return -xp_request(xp_ctx(ibcq->context), XR_MSG_MODIFY_CQ, &req, sizeof(req), NULL, 0);
}

/* ---- poll ---------------------------------------------------------------------- */

#define FEW_CPUS 4
#define SPINS 256
/*
 * Yields as short as this let no other thread work for long, so naps are not considered in the next
 * empty polls. Reading the clock twice takes a fifth of the time of such a poll.
 */
#define SHORT_YIELD_NS 5000u
#define UNTIMED_POLLS 7
#define NAP_QPS 32 /* whose outstanding send WRs are counted, so that a poll takes no longer */

/* Returns true if the process may use few processors. The first call decides. */
static bool has_few_cpus(void)
{
	static int few = -1;
	int result = __atomic_load_n(&few, __ATOMIC_RELAXED);
	cpu_set_t set;

	if (result < 0) {
		CPU_ZERO(&set);
		result = !sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) <= FEW_CPUS;
		__atomic_store_n(&few, result, __ATOMIC_RELAXED);
	}
	return result;
}

static void set_idle(struct xp_cq *cq, unsigned int polls)
{
	__atomic_store_n(&cq->idle, polls, __ATOMIC_RELAXED);
}

/* Returns the number of outstanding send WRs of QPs that complete here. Needs cq->lock. */
static uint32_t sends_outstanding(struct xp_cq *cq)
{
	uint32_t i, n = 0, qps = 0;
	struct xp_qp *qp;

	for (i = 0; cq->qps && i <= cq->qp_mask && qps < NAP_QPS; i++) {
		for (qp = cq->qps[i]; qp; qp = *chain_of(qp, cq)) {
			if (qp->ibqp.send_cq == &cq->ibcq)
				n += xp_ring_outstanding(&qp->sq);
			qps++;
		}
	}
	return n;
}

/* What a program does after an empty poll */
struct pause {
	uint64_t now; /* end of the poll; 0: it is not timed */
	uint32_t nap; /* time to sleep in ns, or 0 */
};

/* Needs cq->lock. */
static struct pause pause_due(struct xp_cq *cq)
{
	unsigned int untimed = __atomic_load_n(&cq->untimed, __ATOMIC_RELAXED);
	struct pause p = { 0 };
	uint64_t last;

	if (cq->flushing || !has_few_cpus())
		return p;
	if (untimed) {
		__atomic_store_n(&cq->untimed, untimed - 1, __ATOMIC_RELAXED);
		return p;
	}
	p.now = xp_clock();
	last = __atomic_load_n(&cq->polled, __ATOMIC_RELAXED);
	if (xp_nap_possible(&cq->nap, p.now, last) &&
	    xp_nap_due(&cq->nap, p.now, sends_outstanding(cq)))
		p.nap = XP_NAP_NS;
	else
		p.nap = xp_recv_nap_due(&cq->recv_nap, p.now, last);
	return p;
}

/*
 * Returns the number of receives that the daemon has left. Each of the `unpolled` completions may
 * be of one that the QP still counts as outstanding.
 */
static uint32_t receives_left(const struct xp_qp *qp, uint32_t unpolled)
{
	uint32_t outstanding;

	if (qp->ibqp.srq)
		return xp_ring_posted_shared(&xp_srq(qp->ibqp.srq)->ring);
	outstanding = xp_ring_outstanding(&qp->rq);
	return outstanding > unpolled ? outstanding - unpolled : 0;
}

/*
 * Reports a completed receive. Those of datagrams, UC and XRC are not counted, so that programs do
 * not sleep because of them: datagrams that find no receive are lost. Needs cq->lock.
 */
static void note_receive(struct xp_cq *cq, struct xp_qp *qp, const struct xr_cqe *cqe,
			 uint32_t unpolled)
{
	uint32_t sends = __atomic_load_n(&qp->sq.head, __ATOMIC_RELAXED), posted;

	if (qp->ibqp.qp_type != IBV_QPT_RC || cqe->status || !has_few_cpus())
		return;
	posted = receives_left(qp, unpolled);
	xp_recv_nap_completed(&cq->recv_nap, cqe->byte_len, sends != qp->sends_seen, posted);
	qp->sends_seen = sends;
}

static void sleep_for_nap(uint32_t ns)
{
	struct timespec ts = { .tv_nsec = ns };
	int cancel = xp_cancel_off(), saved = errno;

	nanosleep(&ts, NULL); /* a signal ends it early */
	errno = saved;
	xp_cancel_restore(cancel);
}

/*
 * Lets the daemon or a local peer have the processor after an empty poll. Without a nap it yields:
 * if the process may use few processors, after each; otherwise after many in a row.
 */
static void give_way(struct xp_cq *cq, const struct pause *p)
{
	unsigned int idle = __atomic_load_n(&cq->idle, __ATOMIC_RELAXED) + 1;
	uint64_t end;

	set_idle(cq, idle);
	if (p->nap)
		sleep_for_nap(p->nap);
	else if (idle > SPINS || has_few_cpus())
		sched_yield();
	if (!p->now)
		return;
	end = xp_clock();
	__atomic_store_n(&cq->polled, end, __ATOMIC_RELAXED);
	if (end - p->now < SHORT_YIELD_NS)
		__atomic_store_n(&cq->untimed, UNTIMED_POLLS, __ATOMIC_RELAXED);
}

static void note_poll(struct xp_cq *cq)
{
	if (__atomic_load_n(&cq->unpolled_event, __ATOMIC_RELAXED))
		__atomic_store_n(&cq->unpolled_event, false, __ATOMIC_RELAXED);
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

/*
 * Consumes the next completion before index `end`. Its entry is valid until xp_cq_release().
 * Returns NULL if there is none. Needs cq->lock.
 */
static const struct xr_cqe *next_cqe(struct xp_cq *cq, uint32_t end)
{
	struct xp_cq_ring *r = &cq->ring;
	const struct xr_cqe *cqe;
	struct xp_qp *qp;

	while (r->consumer != end) {
		cqe = xp_cq_entry(r, r->consumer++);
		if (cqe->qpn == XP_NO_QPN)
			continue;
		qp = find_qp(cq, cqe->qpn);
		/* Entries of an SRQ are free once the daemon has consumed them. */
		if (qp && !cqe->is_recv)
			xp_nap_completed(&cq->nap, xp_ring_retire(&qp->sq, cqe->wqe_index));
		else if (qp && !qp->ibqp.srq)
			xp_ring_retire(&qp->rq, cqe->wqe_index);
		if (qp && cqe->is_recv)
			note_receive(cq, qp, cqe, end - r->consumer);
		return cqe;
	}
	return NULL;
}

/* Needs cq->lock. */
static int poll_ring(struct xp_cq *cq, int n, struct ibv_wc *wc)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t ready = xp_cq_ready(r), end = r->consumer + ready;
	const struct xr_cqe *cqe;
	int got = 0;

	if (!ready)
		return 0;
	while (got < n && (cqe = next_cqe(cq, end)))
		fill_wc(&wc[got++], cqe);
	xp_cq_release(r);
	return got;
}

/* Receives of an SRQ are flushed to the first CQ that is polled among those of its QPs. */
static bool pop_recv(struct xp_qp *qp, uint64_t *wr_id)
{
	if (qp->ibqp.srq)
		return xp_srq_pop(xp_srq(qp->ibqp.srq), wr_id);
	return xp_ring_pop(&qp->rq, wr_id);
}

/* Generates the next flushed completion of a QP. Returns false if there is none. */
static bool flush_one(struct xp_cq *cq, struct xp_qp *qp, struct ibv_wc *wc)
{
	uint64_t wr_id;

	if (qp->ibqp.send_cq == &cq->ibcq && xp_ring_pop(&qp->sq, &wr_id))
		wc->opcode = IBV_WC_SEND;
	else if (qp->ibqp.recv_cq == &cq->ibcq && pop_recv(qp, &wr_id))
		wc->opcode = IBV_WC_RECV;
	else
		return false;
	wc->wr_id = wr_id;
	wc->status = IBV_WC_WR_FLUSH_ERR;
	wc->qp_num = qp->ibqp.qp_num;
	return true;
}

/* The completions name no QP: any target QP of the domain could have used the receives. */
static int poll_flushed_srqs(struct xp_cq *cq, int n, struct ibv_wc *wc)
{
	struct xp_srq *srq;
	uint64_t wr_id;
	int got = 0;

	for (srq = cq->srqs; srq; srq = srq->next_in_cq)
		while (got < n && xp_srq_pop(srq, &wr_id))
			wc[got++] = (struct ibv_wc){
				.wr_id = wr_id,
				.status = IBV_WC_WR_FLUSH_ERR,
				.opcode = IBV_WC_RECV,
			};
	return got;
}

/* Generates completions for all outstanding WRs, as the daemon is gone. Needs cq->lock. */
static int poll_flushed(struct xp_cq *cq, int n, struct ibv_wc *wc)
{
	struct xp_qp *qp;
	uint32_t i;
	int got = 0;

	for (i = 0; cq->qps && i <= cq->qp_mask; i++) {
		for (qp = cq->qps[i]; qp; qp = *chain_of(qp, cq)) {
			while (got < n) {
				memset(&wc[got], 0, sizeof(*wc));
				if (!flush_one(cq, qp, &wc[got]))
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
	struct pause pause = { 0 };
	int got;

	if (xp_health(ctx) == XP_FORKED) {
		errno = EIO;
		return -1;
	}
	xp_lock(&cq->lock);
	note_poll(cq);
	got = cq->flushing ? 0 : poll_ring(cq, n, wc);
	if (got < n && xp_health(ctx) == XP_GONE) {
		/* The daemon may write completions as it exits: do not read the ring again. */
		cq->flushing = true;
		got += poll_flushed(cq, n - got, wc + got);
	}
	if (!got)
		pause = pause_due(cq);
	xp_unlock(&cq->lock);
	if (got) {
		set_idle(cq, 0);
		return got;
	}
	xp_check_health(ctx);
	give_way(cq, &pause);
	return 0;
}

/* Polls one completion, like xp_poll_cq(). Needs cq->lock. */
static bool poll_one(struct xp_cq *cq, struct xr_cqe *to)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t ready = cq->flushing ? 0 : xp_cq_ready(r);
	const struct xr_cqe *cqe = NULL;
	struct ibv_wc wc;

	if (ready) {
		cqe = next_cqe(cq, r->consumer + ready);
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

int xp_cq_poll_one(struct xp_cq *cq, struct xr_cqe *cqe, bool yield)
{
	struct xp_context *ctx = xp_ctx(cq->ibcq.context);
	struct pause pause = { 0 };
	bool got;

	if (xp_health(ctx) == XP_FORKED)
		return EIO;
	xp_lock(&cq->lock);
	note_poll(cq);
	got = poll_one(cq, cqe);
	if (yield && !got)
		pause = pause_due(cq);
	xp_unlock(&cq->lock);
	if (got) {
		set_idle(cq, 0);
		return 0;
	}
	xp_check_health(ctx);
	if (yield)
		give_way(cq, &pause);
	return ENOENT;
}

static bool recv_outstanding(const struct xp_qp *qp)
{
	return qp->ibqp.srq ? xp_srq_has_work(xp_srq(qp->ibqp.srq)) : xp_ring_outstanding(&qp->rq);
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
		for (qp = cq->qps[i]; qp && !work; qp = *chain_of(qp, cq))
			work = (qp->ibqp.send_cq == &cq->ibcq && xp_ring_outstanding(&qp->sq)) ||
			       (qp->ibqp.recv_cq == &cq->ibcq && recv_outstanding(qp));
	}
	for (srq = cq->srqs; srq && !work; srq = srq->next_in_cq)
		work = xp_srq_has_work(srq);
	xp_unlock(&cq->lock);
	return work;
}
