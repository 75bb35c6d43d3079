// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks and executes requests of the peer, and completes receives (IBTA 9.7.4.1). */

#include "check.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/memory/ending.h"
#include "daemon/transport/engine.h"
#include "execute.h"
#include "execute_single.h"
#include "daemon/transport/memory/guard.h"
#include "daemon/transport/memory/key_wr.h"
#include "daemon/transport/qp.h"
#include "rd.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/queue/srq.h"
#include "daemon/transport/memory/use.h"
#include "daemon/transport/queue/wr_kind.h"
#include "daemon/transport/waiting/posted.h"

/* ---- checks --------------------------------------------------------------------------------- */

static void execute_fail(struct xt_qp *qp, uint32_t nak, uint32_t verr)
{
	XT_QP_COUNT(qp, access_naks_sent, nak == XR_NAK_REMOTE_ACCESS);
	XT_QP_COUNT(qp, invalid_naks_sent, nak == XR_NAK_INVALID_REQUEST);
	XT_QP_COUNT(qp, operational_naks_sent, nak == XR_NAK_REMOTE_OPERATIONAL);
	XT_QP_COUNT(qp, rd_naks_sent, nak == XR_NAK_INVALID_RD_REQUEST);
	xt_qp_note(qp, XT_CAUSE_REFUSED, nak, verr);
	xt_qp_error(qp, true);
}

/* No work request completes with an error, so an event reports it. */
static void execute_refuse(struct xt_qp *qp, uint32_t nak, uint32_t verr)
{
	if (nak == XR_NAK_REMOTE_ACCESS)
		xt_event(qp, IBV_EVENT_QP_ACCESS_ERR);
	else if (nak == XR_NAK_REMOTE_OPERATIONAL)
		xt_event(qp, IBV_EVENT_QP_FATAL);
	else
		xt_event(qp, IBV_EVENT_QP_REQ_ERR);
	execute_fail(qp, nak, verr);
}

void xt_resp_refuse(struct xt_qp *qp, uint32_t nak)
{
	execute_refuse(qp, nak, XR_VERR_NONE);
}

static enum xt_outcome refuse_request(struct xt_qp *qp, struct xt_result *res, uint32_t nak,
				      uint32_t verr)
{
	res->nak = nak;
	if (xt_unreliable(qp))
		return XT_REFUSED;
	/* a NAK acknowledges all earlier requests */
	if (xt_posted(&qp->accesses, XT_RESPONDER))
		return XT_NOT_NOW;
	execute_refuse(qp, nak, verr);
	return XT_REFUSED;
}

enum xt_outcome xt_resp_refuse_request(struct xt_qp *qp, struct xt_result *res, uint32_t nak)
{
	return refuse_request(qp, res, nak, XR_VERR_NONE);
}

enum xt_outcome xt_resp_refuse_injected(struct xt_qp *qp, struct xt_result *res, uint32_t nak)
{
	return refuse_request(qp, res, nak, XR_VERR_INJECTED);
}

enum xt_outcome xt_resp_refuse_receive(struct xt_qp *qp, struct xt_result *res, uint32_t nak,
				       const struct xt_wc_error *error)
{
	struct xr_cqe cqe = {
		.status = error->status,
		.vendor_err = error->verr,
		.opcode = IBV_WC_RECV,
	};

	/* receives complete in order */
	if (xt_posted(&qp->accesses, XT_RESPONDER))
		return XT_NOT_NOW;
	res->nak = nak;
	if (!xt_list_empty(&qp->accesses.given_up))
		qp->rq.failure = *error; /* xt_rq_flush() completes it when the writes have ended */
	else
		xt_rq_complete(qp, &cqe, false);
	execute_fail(qp, nak, XR_VERR_NONE);
	return XT_REFUSED;
}

/* IBTA 9.7.4.1.2 and 9.7.4.1.6: FIRST, MIDDLE, LAST in this order, of the right length */
static bool in_order(const struct xt_responder *resp, const struct xt_request *rq,
		     enum xt_wr_kind kind)
{
	bool start = rq->flags & XR_OPF_START;

	if (kind == XT_KIND_NONE || resp->kind != (start ? XT_KIND_NONE : kind))
		return false;
	if (rq->flags & XR_OPF_FULL_MTU)
		return rq->len == rq->full;
	return rq->len <= rq->full && (start || rq->len);
}

int xt_resp_select_srq(struct xt_qp *qp, uint32_t srqn)
{
	struct xt_srq *srq;

	if (qp->info.type != XR_QPT_XRC_RECV)
		return -1;
	srq = xt_srq_of(qp, srqn);
	/* all packets of a message name the same SRQ */
	if (!srq || (qp->resp.kind != XT_KIND_NONE && qp->rq.next_srqn != srqn))
		return XR_NAK_INVALID_REQUEST;
	qp->rq.next_srqn = srqn;
	qp->resp.pd = srq->pd;
	return -1;
}

/* ---- operations ------------------------------------------------------------------------- */

static void execute_advance(struct xt_qp *qp, const struct xt_request *rq, enum xt_wr_kind kind)
{
	struct xt_responder *resp = &qp->resp;

	resp->epsn += rq->packets;
	if (rq->flags & XR_OPF_END) {
		resp->msn++;
		qp->counters.rx_messages++;
		resp->kind = XT_KIND_NONE;
	} else {
		resp->kind = kind;
	}
}

/* Takes a receive. Returns XT_ACCEPTED, XT_RNR, or XT_REFUSED for an invalid receive WR. */
static enum xt_outcome execute_take_receive(struct xt_qp *qp, struct xt_result *res)
{
	switch (xt_rq_take(qp, &res->error)) {
	case XT_TAKE_OK:
		return XT_ACCEPTED;
	case XT_TAKE_BAD:
		return xt_resp_refuse_receive(qp, res, XR_NAK_REMOTE_OPERATIONAL, &res->error);
	default:
		break;
	}
	/* corrupt ring indices */
	if (!xt_may_receive(qp)) {
		res->nak = XR_NAK_REMOTE_OPERATIONAL;
		return XT_REFUSED;
	}
	return XT_RNR;
}

/* write: posted write with which the receive completes; NULL: all its data is in memory */
static enum xt_outcome execute_complete_receive(struct xt_qp *qp, const struct xt_request *rq,
						uint32_t opcode, struct xt_mem_io *write,
						struct xt_result *res)
{
	struct xr_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = opcode,
		.byte_len = qp->resp.done,
	};

	if (rq->flags & XR_EXT_IMMDT) {
		cqe.imm_data = rq->imm;
		cqe.wc_flags = IBV_WC_WITH_IMM;
	} else if (rq->flags & XR_EXT_IETH) {
		cqe.invalidated_rkey = rq->inv_rkey;
		cqe.wc_flags = IBV_WC_WITH_INV;
	}
	if (write) {
		xt_rq_post(qp, &cqe, rq->solicited, write);
		return XT_ACCEPTED;
	}
	if (xt_rq_complete(qp, &cqe, rq->solicited))
		return XT_ACCEPTED;
	res->nak = XR_NAK_REMOTE_OPERATIONAL;
	return XT_REFUSED;
}

/*
 * IBTA 9.4.1.1.3 and 9.9.6.3 (class J): the key is invalidated after the data is stored and before
 * the receive completes. If it cannot be invalidated, the receive completes with an error. Accesses
 * by other QPs may have to be waited for.
 */
static enum xt_outcome execute_invalidate(struct xt_qp *qp, const struct xt_request *rq,
					  struct xt_result *res)
{
	struct xt_wc_error error = { .status = IBV_WC_REM_INV_REQ_ERR };
	struct xt_responder *resp = &qp->resp;
	enum xr_reason why = resp->invalidated ? XR_OK
					       : xt_invalidate_remote(qp, resp->pd, rq->inv_rkey);

	if (why != XR_OK) {
		error.verr = XR_VERR_INVALIDATE | why << 8;
		return xt_resp_refuse_receive(qp, res, XR_NAK_REMOTE_ACCESS, &error);
	}
	resp->invalidated = xt_ending_key_waits(&qp->ending.key[XT_RESPONDER], qp->engine);
	if (!resp->invalidated)
		return XT_ACCEPTED;
	/* over loopback, the requester executes it again */
	xt_ending_poll(rq->src.qp ? rq->src.qp : qp);
	return XT_POSTED;
}

enum xt_outcome xt_resp_may_complete(const struct xt_qp *qp, const struct xt_put *put, bool posted,
				     bool may_post, struct xt_mem_io **write)
{
	struct xt_mem_io *last = xt_put_last(put);

	*write = may_post ? last : NULL;
	if (*write || (!last && !xt_posted(&qp->accesses, XT_RESPONDER)))
		return XT_ACCEPTED;
	return last || posted ? XT_POSTED : XT_NOT_NOW;
}

/*
 * A receive of an SRQ could not be taken back if the QP failed before it completes, and a key is
 * invalidated between the last byte and the completion: these are not posted.
 */
static enum xt_outcome may_complete(const struct xt_qp *qp, const struct xt_request *rq,
				    struct xt_mem_io **write)
{
	bool may_post = qp->rq_ring && !(rq->flags & XR_EXT_IETH);

	return xt_resp_may_complete(qp, rq->src.put, rq->posted, may_post, write);
}

static enum xt_outcome end_send(struct xt_qp *qp, const struct xt_request *rq,
				struct xt_result *res)
{
	struct xt_mem_io *write;
	enum xt_outcome outcome = may_complete(qp, rq, &write);

	if (outcome == XT_ACCEPTED && rq->flags & XR_EXT_IETH)
		outcome = execute_invalidate(qp, rq, res);
	if (outcome != XT_ACCEPTED)
		return outcome;
	qp->resp.done += rq->len;
	execute_advance(qp, rq, XT_KIND_SEND);
	return execute_complete_receive(qp, rq, IBV_WC_RECV, write, res);
}

static enum xt_outcome execute_send(struct xt_qp *qp, const struct xt_request *rq,
				    struct xt_result *res)
{
	static const struct xt_wc_error too_small = { IBV_WC_LOC_LEN_ERR, XR_VERR_RQ_TOO_SMALL };
	struct xt_responder *resp = &qp->resp;
	enum xt_side side = XT_SIDE_NONE;
	enum xt_outcome outcome;
	struct xt_sgl l;

	if (rq->flags & XR_OPF_START) {
		outcome = execute_take_receive(qp, res);
		if (outcome != XT_ACCEPTED)
			return outcome;
		resp->done = 0;
	}
	if (resp->done + (uint64_t)rq->len > qp->rq.length ||
	    resp->done + (uint64_t)rq->len > XR_MAX_MSG_SIZE)
		return xt_unreliable(qp) ? xt_resp_refuse_request(qp, res, XR_NAK_INVALID_REQUEST)
					 : xt_resp_refuse_receive(qp, res, XR_NAK_INVALID_REQUEST,
								  &too_small);
	l = xt_receive_sgl(qp);
	if (__builtin_expect(!rq->posted, true))
		side = xt_scatter(&l, resp->done, &rq->src, rq->len, &res->error);
	if (side == XT_SIDE_WAIT)
		return XT_NOT_NOW;
	if (side == XT_SIDE_SOURCE)
		return XT_SOURCE_ERROR;
	if (side == XT_SIDE_TARGET)
		return xt_resp_refuse_receive(qp, res, XR_NAK_REMOTE_OPERATIONAL, &res->error);
	if (rq->flags & XR_OPF_END)
		return end_send(qp, rq, res);
	resp->done += rq->len;
	execute_advance(qp, rq, XT_KIND_SEND);
	return XT_ACCEPTED;
}

/* IBTA 9.7.4.1.5: the whole range is checked before the first byte. Returns a NAK code or -1. */
static int execute_begin_write(struct xt_qp *qp, const struct xt_request *rq, struct xt_mem_at *at)
{
	struct xt_responder *resp = &qp->resp;
	struct xr_key_use use;

	if (rq->total > XR_MAX_MSG_SIZE)
		return XR_NAK_INVALID_REQUEST;
	resp->va = rq->va;
	resp->rkey = rq->rkey;
	resp->length = rq->total;
	resp->done = 0;
	use = (struct xr_key_use){
		.key = rq->rkey,
		.access = XR_ACCESS_REMOTE_WRITE,
		.va = rq->va,
		.len = rq->total,
	};
	return rq->posted ? -1 : xt_resp_check(qp, &use, at);
}

/* Checks the next bytes of the WRITE being received. Returns a NAK code or -1. */
static int continue_write(struct xt_qp *qp, const struct xt_request *rq, struct xt_mem_at *at)
{
	const struct xt_responder *resp = &qp->resp;
	struct xr_key_use use = {
		.key = resp->rkey,
		.access = XR_ACCESS_REMOTE_WRITE,
		.va = resp->va + resp->done,
		.len = rq->len,
	};

	return rq->posted ? -1 : xt_resp_check(qp, &use, at);
}

static enum xt_outcome execute_write(struct xt_qp *qp, const struct xt_request *rq,
				     struct xt_result *res)
{
	struct xt_responder *resp = &qp->resp;
	bool end = rq->flags & XR_OPF_END;
	struct xt_mem_io *write = NULL;
	enum xt_side side = XT_SIDE_NONE;
	enum xt_outcome outcome;
	struct xt_mem_at at;
	uint32_t left;
	int nak = -1;

	if (rq->flags & XR_OPF_START)
		nak = execute_begin_write(qp, rq, &at);
	left = resp->length - resp->done;
	if (nak < 0 && (end ? rq->len != left : rq->len >= left))
		nak = XR_NAK_INVALID_REQUEST;
	if (nak < 0 && !(rq->flags & XR_OPF_START))
		nak = continue_write(qp, rq, &at);
	if (nak >= 0)
		return xt_resp_refuse_request(qp, res, nak);
	if (rq->flags & XR_EXT_IMMDT) {
		outcome = execute_take_receive(qp, res);
		if (outcome != XT_ACCEPTED)
			return outcome;
	}
	if (rq->len && __builtin_expect(!rq->posted, true))
		side = XT_UNORDERED(xt_store(&at, &rq->src, rq->len, &res->error));
	if (side == XT_SIDE_WAIT)
		return XT_NOT_NOW;
	if (side == XT_SIDE_SOURCE)
		return XT_SOURCE_ERROR;
	if (side == XT_SIDE_TARGET)
		return xt_resp_refuse_request(qp, res, XR_NAK_REMOTE_OPERATIONAL);
	if (rq->flags & XR_EXT_IMMDT) {
		outcome = may_complete(qp, rq, &write);
		if (outcome != XT_ACCEPTED)
			return outcome;
	}
	resp->done += rq->len;
	if (end)
		xt_use_remote(qp, XT_USE_REMOTE_WRITE, resp->rkey, resp->done);
	execute_advance(qp, rq, XT_KIND_WRITE);
	if (!(rq->flags & XR_EXT_IMMDT))
		return XT_ACCEPTED;
	return execute_complete_receive(qp, rq, IBV_WC_RECV_RDMA_WITH_IMM, write, res);
}

enum xt_outcome xt_resp_execute(struct xt_qp *qp, const struct xt_request *rq,
				struct xt_result *res)
{
	typedef enum xt_outcome executor(struct xt_qp * qp, const struct xt_request *rq,
					 struct xt_result *res);
	static executor *const executors[XT_KIND_COUNT] = {
		[XT_KIND_SEND] = execute_send,
		[XT_KIND_WRITE] = execute_write,
		[XT_KIND_READ] = xt_resp_read,
		[XT_KIND_ATOMIC] = xt_resp_atomic,
		[XT_KIND_ATOMIC_WRITE] = xt_resp_atomic_write,
		[XT_KIND_FLUSH] = xt_resp_flush,
	};

	return executors[xt_op_kinds[rq->op]](qp, rq, res);
}

/* Executes a request with a response other than an ACK, and keeps it for duplicates. */
static enum xt_outcome execute_rd_atomic(struct xt_qp *qp, const struct xt_request *rq,
					 enum xt_wr_kind kind, struct xt_result *res)
{
	struct xt_mem_io *write;
	enum xt_outcome outcome;
	struct xt_rd *rd;

	rd = xt_rd_new(qp);
	if (!rd)
		return xt_resp_refuse_request(qp, res, XR_NAK_INVALID_REQUEST);
	outcome = xt_resp_execute(qp, rq, res);
	if (outcome == XT_REFUSED)
		return xt_resp_refuse_request(qp, res, res->nak);
	if (outcome != XT_ACCEPTED)
		return outcome;
	/* the atomic in private memory has its result later */
	write = xt_put_last(rq->src.put);
	if (__builtin_expect(write != NULL, false))
		write->rd = qp->resp.rd_tail;
	*rd = (struct xt_rd){
		.kind = kind,
		.value = res->old,
		.va = rq->va,
		.rkey = rq->rkey,
		.pd = qp->resp.pd,
		.len = rq->total,
		.psn = qp->resp.epsn,
		.npsn = rq->packets,
	};
	xt_rd_added(qp);
	/* a READ, which has no fixed length, counts when its data was sent */
	xt_use_remote(qp, xt_kinds[kind].use, rq->rkey, xt_kinds[kind].fixed_length);
	execute_advance(qp, rq, kind);
	return XT_ACCEPTED;
}

enum xt_outcome xt_resp_request(struct xt_qp *qp, const struct xt_request *rq,
				struct xt_result *res)
{
	enum xt_wr_kind kind = xt_op_kinds[rq->op];

	/* UC, which does not move to ERR */
	if (__builtin_expect(rq->posted && qp->resp.write_failed, false))
		return xt_resp_refuse_request(qp, res, XR_NAK_REMOTE_OPERATIONAL);
	if (!in_order(&qp->resp, rq, kind) || xt_resp_select_srq(qp, rq->srqn) >= 0)
		return xt_resp_refuse_request(qp, res, XR_NAK_INVALID_REQUEST);
	if (xt_kinds[kind].rd_atomic)
		return execute_rd_atomic(qp, rq, kind, res);
	return xt_resp_execute(qp, rq, res);
}

void xt_resp_begin_message(struct xt_qp *qp, uint32_t psn)
{
	struct xt_responder *resp = &qp->resp;

	if (resp->kind != XT_KIND_NONE)
		qp->engine->counters.unreliable_drops++;
	resp->kind = XT_KIND_NONE;
	resp->epsn = resp->seen = psn;
}

void xt_resp_drop_message(struct xt_qp *qp)
{
	qp->engine->counters.unreliable_drops++;
	qp->resp.kind = XT_KIND_NONE;
}
