// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Receive work requests. A QP has at most one taken from the ring at a time. */
#include "cq_event.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "receive.h"
#include "rings.h"
#include "rq.h"
#include "srq.h"
#include "daemon/transport/memory/use.h"

/* Reads the producer index. Returns false if it is corrupt; the QP is in ERR then. */
static bool rq_poll_producer(struct xt_qp *qp)
{
	struct xt_receive *rq = &qp->rq;

	if (qp->ring_bad)
		return false;
	if (xt_ring_poll(qp->rq_ring, &rq->producer, rq->consumer, qp->rq_depth))
		return true;
	xt_qp_fatal(qp);
	return false;
}

enum xt_take xt_rq_take(struct xt_qp *qp, struct xt_wc_error *error)
{
	struct xt_receive *rq = &qp->rq;

	if (rq->taken)
		return xt_receive_taken(rq, error);
	if (!qp->rq_ring)
		return xt_srq_take(qp, error);
	if (rq->consumer == rq->producer && (!rq_poll_producer(qp) || rq->consumer == rq->producer))
		return XT_TAKE_EMPTY;
	rq->pd = qp->info.pd;
	return xt_receive_copy(
		qp, xt_ring_entry(qp->rq_ring, rq->consumer, qp->rq_depth, qp->rq_stride),
		qp->max_recv_sge, error);
}

/* If the producer index is corrupt, that is reported when a receive is taken. */
static bool rq_is_posted(struct xt_qp *qp, uint32_t index)
{
	struct xt_receive *rq = &qp->rq;

	if (index - rq->consumer < rq->producer - rq->consumer)
		return true;
	return !qp->ring_bad &&
	       xt_ring_poll(qp->rq_ring, &rq->producer, rq->consumer, qp->rq_depth) &&
	       index - rq->consumer < rq->producer - rq->consumer;
}

bool xt_rq_peek(struct xt_qp *qp, uint32_t index, struct xr_sge *sge)
{
	const uint8_t *slot;
	struct xr_recv_wqe wqe;

	if (!qp->max_recv_sge || !rq_is_posted(qp, index))
		return false;
	slot = xt_ring_entry(qp->rq_ring, index, qp->rq_depth, qp->rq_stride);
	memcpy(&wqe, slot, sizeof(wqe));
	if (wqe.num_sge != 1)
		return false;
	memcpy(sge, slot + sizeof(wqe), sizeof(*sge));
	return true;
}

uint32_t xt_rq_credits(struct xt_qp *qp)
{
	struct xt_receive *rq = &qp->rq;
	uint32_t known = rq->producer - rq->consumer;

	/* read the client's index, which costs a cache miss, only when few receives are left */
	if (known < XT_ACK_EVERY && rq_poll_producer(qp))
		known = rq->producer - rq->consumer;
	return known - (rq->taken && known);
}

void xt_rq_publish(struct xt_qp *qp)
{
	/* SRQ: published when the receive was taken */
	if (!qp->rq_ring)
		return;
	xt_ring_publish(qp->rq_ring, qp->rq.completed);
}

/* Returns the CQ of the receive, for XRC that of the SRQ; NULL: the SRQ was destroyed. */
static struct xt_cq *cq_of(const struct xt_qp *qp)
{
	struct xt_srq *srq;

	if (qp->info.type != XR_QPT_XRC_RECV)
		return qp->recv_cq;
	srq = xt_srq_of(qp, qp->rq.srqn);
	return srq ? srq->cq : NULL;
}

static bool rq_complete(struct xt_qp *qp, struct xr_cqe *cqe, bool solicited)
{
	struct xt_receive *rq = &qp->rq;
	struct xt_cq *cq = cq_of(qp);
	bool ok;

	cqe->timestamp = qp->engine->now;
	cqe->qpn = qp->info.qpn;
	if (qp->info.type != XR_QPT_UD)
		cqe->src_qpn = qp->attr.dest_qp_num;
	cqe->wqe_index = rq->completed;
	cqe->srqn = qp->info.type == XR_QPT_XRC_RECV ? rq->srqn : 0;
	cqe->is_recv = 1;
	ok = !cq || !xt_cq_push(qp->flow, cq, cqe, solicited);
	rq->completed++;
	return ok;
}

/* The next receive becomes the one to take. */
static void rq_pass(struct xt_receive *rq)
{
	rq->consumer++;
	rq->taken = false;
}

/* A receive of a WRITE with immediate data has no bytes of its own. */
static void rq_count_use(struct xt_qp *qp, const struct xr_cqe *what)
{
	if (what->status == IBV_WC_SUCCESS && what->opcode == IBV_WC_RECV)
		xt_use_local(qp, XT_USE_LOCAL_WRITE, qp->rq_sge, qp->rq.num_sge, what->byte_len);
}

bool xt_rq_written(struct xt_qp *qp, const struct xr_cqe *what, bool solicited)
{
	struct xr_cqe cqe = *what;
	bool ok = rq_complete(qp, &cqe, solicited);

	xt_rq_publish(qp);
	if (!ok)
		xt_qp_completion_lost(qp);
	return ok;
}

bool xt_rq_complete(struct xt_qp *qp, const struct xr_cqe *what, bool solicited)
{
	struct xr_cqe cqe = *what;

	cqe.wr_id = qp->rq.wr_id;
	rq_count_use(qp, what);
	rq_pass(&qp->rq);
	return xt_rq_written(qp, &cqe, solicited);
}

bool xt_rq_received(struct xt_qp *qp, uint32_t len, bool solicited)
{
	struct xr_cqe *cqe = xt_cq_begin(qp->recv_cq), what;

	if (!cqe) {
		what = (struct xr_cqe){ .opcode = IBV_WC_RECV, .byte_len = len };
		return xt_rq_complete(qp, &what, solicited);
	}
	/* loads of what has just been stored in parts would wait for the payload's stores */
	*cqe = (struct xr_cqe){
		.wr_id = qp->rq.wr_id,
		.timestamp = qp->engine->now,
		.opcode = IBV_WC_RECV,
		.byte_len = len,
		.qpn = qp->info.qpn,
		.src_qpn = qp->attr.dest_qp_num,
		.wqe_index = qp->rq.completed++,
		.is_recv = 1,
	};
	xt_cq_end(qp->flow, qp->recv_cq, solicited);
	xt_use_local(qp, XT_USE_LOCAL_WRITE, qp->rq_sge, 1, len);
	rq_pass(&qp->rq);
	return true;
}

void xt_rq_post(struct xt_qp *qp, const struct xr_cqe *what, bool solicited, struct xt_mem_io *io)
{
	io->receives = true;
	io->solicited = solicited;
	io->cqe = *what;
	io->cqe.wr_id = qp->rq.wr_id;
	rq_count_use(qp, what);
	rq_pass(&qp->rq);
}

void xt_rq_take_back(struct xt_qp *qp)
{
	struct xt_receive *rq = &qp->rq;

	if (rq->consumer == rq->completed)
		return;
	rq->consumer = rq->completed;
	rq->taken = false;
}

static uint64_t wr_id_at(struct xt_qp *qp, uint32_t index)
{
	struct xr_recv_wqe wqe;

	memcpy(&wqe, xt_ring_entry(qp->rq_ring, index, qp->rq_depth, qp->rq_stride), sizeof(wqe));
	return wqe.wr_id;
}

static bool rq_left(const struct xt_qp *qp)
{
	return qp->rq_ring ? qp->rq.consumer != qp->rq.producer : qp->rq.taken;
}

bool xt_rq_flush(struct xt_qp *qp, uint32_t most)
{
	struct xt_receive *rq = &qp->rq;
	struct xr_cqe cqe;

	/* if the producer index is corrupt, flushes up to the last valid one */
	if (qp->rq_ring)
		rq_poll_producer(qp);
	for (; rq_left(qp) && most; most--) {
		cqe = (struct xr_cqe){
			.wr_id = rq->taken ? rq->wr_id : wr_id_at(qp, rq->consumer),
			.status = rq->failure.status ? rq->failure.status : IBV_WC_WR_FLUSH_ERR,
			.vendor_err = rq->failure.verr,
			.opcode = IBV_WC_RECV,
		};
		rq->failure = (struct xt_wc_error){ 0 };
		rq_pass(rq);
		rq_complete(qp, &cqe, false);
	}
	if (qp->rq_ring)
		xt_rq_publish(qp);
	return rq_left(qp);
}
