// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Polling of CQs, also after the daemon has ended. */
#include <errno.h>
#include <string.h>

#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/host/host.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_members.h"
#include "provider/verbs/cq_pause.h"
#include "provider/verbs/request.h"
#include "provider/verbs/srq.h"

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

	if (qp->ibqp.qp_type != IBV_QPT_RC || cqe->status || !xp_few_cpus())
		return;
	posted = receives_left(qp, unpolled);
	xp_recv_nap_completed(&cq->recv_nap, cqe->byte_len, sends != qp->sends_seen, posted);
	qp->sends_seen = sends;
}

static void verbs_note_poll(struct xp_cq *cq)
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
		qp = xp_cq_find_qp(cq, cqe->qpn);
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
static bool cq_poll_flush_one(struct xp_cq *cq, struct xp_qp *qp, struct ibv_wc *wc)
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
		for (qp = cq->qps[i]; qp; qp = *xp_cq_chain(qp, cq)) {
			while (got < n) {
				memset(&wc[got], 0, sizeof(*wc));
				if (!cq_poll_flush_one(cq, qp, &wc[got]))
					break;
				got++;
			}
		}
	}
	return got + poll_flushed_srqs(cq, n - got, wc + got);
}

/* After a round of the engine of a direct context */
static int poll_again(struct xp_cq *cq, int n, struct ibv_wc *wc)
{
	int got;

	xp_lock(&cq->lock);
	got = cq->flushing ? 0 : poll_ring(cq, n, wc);
	xp_unlock(&cq->lock);
	return got;
}

int xp_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct xp_cq *cq = xp_cq(ibcq);
	struct xp_context *ctx = xp_cq(ibcq)->ctx;
	struct xp_pause pause = { 0 };
	int got;

	if (xp_health(ctx) == XP_FORKED)
		return xp_fail(xp_refuse("ibv_poll_cq", EIO, "%s", XP_FORKED_TEXT));
	xp_lock(&cq->lock);
	verbs_note_poll(cq);
	got = cq->flushing ? 0 : poll_ring(cq, n, wc);
	if (got < n && xp_health(ctx) == XP_GONE) {
		/* The daemon may write completions as it exits: do not read the ring again. */
		cq->flushing = true;
		got += poll_flushed(cq, n - got, wc + got);
	}
	if (!got && !ctx->host)
		pause = xp_pause_due(cq);
	xp_unlock(&cq->lock);
	if (got) {
		xp_poll_found(cq);
		return got;
	}
	xp_check_health(ctx);
	if (ctx->host)
		return ctx->host_ops->poll(ctx->host) ? poll_again(cq, n, wc) : 0;
	xp_pause(cq, &pause);
	return 0;
}

/* Polls one completion, like xp_poll_cq(). Needs cq->lock. */
static bool verbs_poll_one(struct xp_cq *cq, struct xr_cqe *to)
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
	if (cqe || xp_health(cq->ctx) != XP_GONE)
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
	struct xp_context *ctx = cq->ctx;
	struct xp_pause pause = { 0 };
	bool got;

	if (xp_health(ctx) == XP_FORKED)
		return -xp_refuse("ibv_start_poll", EIO, "%s", XP_FORKED_TEXT);
	xp_lock(&cq->lock);
	verbs_note_poll(cq);
	got = verbs_poll_one(cq, cqe);
	if (yield && !got && !ctx->host)
		pause = xp_pause_due(cq);
	xp_unlock(&cq->lock);
	if (got) {
		xp_poll_found(cq);
		return 0;
	}
	xp_check_health(ctx);
	if (ctx->host && ctx->host_ops->poll(ctx->host)) {
		xp_lock(&cq->lock);
		got = verbs_poll_one(cq, cqe);
		xp_unlock(&cq->lock);
		return got ? 0 : ENOENT;
	}
	if (yield && !ctx->host)
		xp_pause(cq, &pause);
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
		for (qp = cq->qps[i]; qp && !work; qp = *xp_cq_chain(qp, cq))
			work = (qp->ibqp.send_cq == &cq->ibcq && xp_ring_outstanding(&qp->sq)) ||
			       (qp->ibqp.recv_cq == &cq->ibcq && recv_outstanding(qp));
	}
	for (srq = cq->srqs; srq && !work; srq = srq->next_in_cq)
		work = xp_srq_has_work(srq);
	xp_unlock(&cq->lock);
	return work;
}
