// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The responder: requests of the peer in the order of their PSNs (IBTA 9.7.4). */
#include "early.h"
#include "daemon/transport/engine.h"
#include "place.h"
#include "daemon/transport/qp.h"
#include "rd.h"
#include "responder.h"
#include "responses.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/waiting/posted.h"
#include "daemon/transport/queue/wr_kind.h"

/* Packets without AckReq after which an ACK is sent anyway */
#define ACK_AT_LEAST 32
/* Packets ahead of sequence after which a NAK is repeated: the missing packet was lost again. */
#define NAK_AGAIN 16

void xt_resp_reset(struct xt_qp *qp)
{
	qp->resp = (struct xt_responder){
		.epsn = qp->attr.rq_psn,
		.seen = qp->attr.rq_psn,
		.acked = qp->attr.rq_psn,
		.pd = qp->info.pd,
	};
}

void xt_resp_established(struct xt_qp *qp)
{
	if (qp->info.state != XR_QPS_RTR || qp->resp.comm_est)
		return;
	qp->resp.comm_est = true;
	xt_event(qp, IBV_EVENT_COMM_EST);
}

void xt_resp_begin_put(struct xt_put *put, struct xt_qp *qp)
{
	xt_put_begin(put, qp, XT_RESPONDER, qp->resp.epsn);
	put->msn = qp->resp.msn;
}

uint32_t xt_resp_done_psn(const struct xt_qp *qp)
{
	const struct xt_responder *resp = &qp->resp;

	/* what was posted behind the write that failed is given up already */
	if (resp->write_failed && !xt_unreliable(qp))
		return resp->nak_psn;
	if (xt_posted(&qp->accesses, XT_RESPONDER))
		return xt_posted_first(&qp->accesses, XT_RESPONDER);
	return resp->epsn;
}

void xt_resp_parse(struct xt_qp *qp, const struct xt_rx *rx, struct xt_put *put,
		   struct xt_request *rq)
{
	const uint8_t *ext = rx->ext;
	struct xr_atomiceth atomic;
	struct xr_xrceth xrceth;
	struct xr_feth feth;
	struct xr_ieth ieth;
	struct xr_reth reth;

	*rq = (struct xt_request){
		.op = rx->opcode,
		.flags = rx->flags,
		.solicited = rx->solicited,
		.psn = rx->psn,
		.len = rx->len,
		.full = rx->packets * qp->mtu,
		.packets = rx->packets,
		.src = {
			.seg = rx->frame->seg,
			.off = rx->frame->meta.payload_off,
			.last = rx->flags & XR_OPF_END,
			.placed = rx->placed,
			.put = put,
		},
		.posted = rx->posted,
	};
	xt_resp_begin_put(put, qp);
	put->kind = xt_op_kinds[rx->opcode];
	if (rx->flags & XR_EXT_XRCETH) {
		memcpy(&xrceth, ext, sizeof(xrceth));
		ext += sizeof(xrceth);
		rq->srqn = be32toh(xrceth.srqn) & XR_QPN_MASK;
	}
	if (rx->flags & XR_EXT_FETH) {
		memcpy(&feth, ext, sizeof(feth));
		ext += sizeof(feth);
		rq->feth = be32toh(feth.sel_plt);
	}
	if (rx->flags & XR_EXT_RETH) {
		memcpy(&reth, ext, sizeof(reth));
		ext += sizeof(reth);
		rq->va = be64toh(reth.va);
		rq->rkey = be32toh(reth.rkey);
		rq->total = be32toh(reth.len);
	}
	if (rx->flags & XR_EXT_ATOMICETH) {
		memcpy(&atomic, ext, sizeof(atomic));
		rq->va = be64toh(atomic.va);
		rq->rkey = be32toh(atomic.rkey);
		rq->swap_add = be64toh(atomic.swap_add);
		rq->compare = be64toh(atomic.compare);
	}
	if (rx->flags & XR_EXT_IMMDT)
		memcpy(&rq->imm, ext, sizeof(rq->imm));
	if (rx->flags & XR_EXT_IETH) {
		memcpy(&ieth, ext, sizeof(ieth));
		rq->inv_rkey = be32toh(ieth.rkey);
	}
	if (rx->opcode == XR_OP_READ_REQUEST && rq->total)
		rq->packets = (rq->total + (uint64_t)qp->mtu - 1) >> qp->mtu_shift;
}

static void nak_gap(struct xt_qp *qp)
{
	qp->resp.nak_sent = true;
	qp->resp.ahead = 0;
	xt_resp_schedule(qp, XT_ACK_DUE_SEQ_NAK);
}

static void out_of_sequence(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	struct xt_responder *resp = &qp->resp;

	XT_QP_COUNT(qp, rx_out_of_sequence, 1);
	xt_engine_lossy(qp->engine);
	if (xt_diff(psn, resp->seen) >= 0)
		resp->seen = psn + rx->packets;
	if (resp->rnr_sent)
		return;
	xt_early_keep(qp, rx, psn, xt_place_request);
	if (xt_early_check(qp, XT_RESPONDER) == XT_EARLY_DUE)
		return;
	if (!resp->nak_sent || ++resp->ahead == NAK_AGAIN)
		nak_gap(qp);
}

/* As out_of_sequence(), for a request whose loss is simulated. */
static void responder_lose(struct xt_qp *qp)
{
	if (xt_diff(qp->resp.epsn, qp->resp.seen) >= 0)
		qp->resp.seen = qp->resp.epsn + 1;
	nak_gap(qp);
}

/* Executes a request, or refuses it as a test says. */
static enum xt_outcome responder_execute(struct xt_qp *qp, const struct xt_rx *rx,
					 const struct xt_request *rq, struct xt_result *res)
{
	const struct xt_inject *refusal = &rx->frame->refusal;

	if (__builtin_expect(refusal->kind == XT_INJECT_NONE, true))
		return xt_resp_request(qp, rq, res);
	if (refusal->kind == XT_INJECT_RNR)
		return XT_RNR;
	return xt_resp_refuse_injected(qp, res, refusal->value);
}

static void not_ready(struct xt_qp *qp, const struct xt_inject *refusal)
{
	struct xt_responder *resp = &qp->resp;

	resp->nak_sent = resp->rnr_sent = true;
	resp->rnr_timer = (uint8_t)qp->attr.min_rnr_timer;
	if (refusal->kind == XT_INJECT_RNR && refusal->value != XT_INJECT_OWN_TIMER)
		resp->rnr_timer = refusal->value;
	xt_early_drop(qp, XT_RESPONDER);
	xt_resp_schedule(qp, XT_ACK_DUE_RNR_NAK);
}

/*
 * Returns true if the request is lost for a test. A request that waits for memory is handled again,
 * so the answer of the host is kept with it.
 */
static bool responder_is_lost(const struct xt_qp *qp, struct xt_frame *frame)
{
	const struct xt_engine *e = qp->engine;
	struct xt_inject *refusal = &frame->refusal;

	if (__builtin_expect(refusal->kind == XT_INJECT_NONE, true))
		return false;
	if (refusal->kind == XT_INJECT_ASK)
		*refusal = e->ops->refusal(e->ctx, frame);
	return refusal->kind == XT_INJECT_NAK && refusal->value == XR_NAK_PSN_SEQUENCE;
}

static void accepted(struct xt_qp *qp, const struct xt_rx *rx, uint32_t packets)
{
	struct xt_responder *resp = &qp->resp;

	resp->nak_sent = resp->rnr_sent = false;
	if (xt_diff(resp->epsn, resp->seen) > 0)
		resp->seen = resp->epsn;
	/*
	 * The retransmission arrived before the RNR NAK was sent. Packets after it were dropped, so
	 * NAK the gap instead.
	 */
	if (resp->ack_due == XT_ACK_DUE_RNR_NAK)
		xt_resp_schedule(qp, XT_ACK_DUE_SEQ_NAK);
	if (xt_keeps(&qp->waiting, XT_RESPONDER) &&
	    xt_early_check(qp, XT_RESPONDER) == XT_EARLY_GAP)
		nak_gap(qp);
	/* the request has a response of its own */
	if (xt_kinds[xt_op_kinds[rx->opcode]].rd_atomic)
		return;
	resp->unacked += packets;
	if (rx->ackreq || resp->unacked >= ACK_AT_LEAST)
		xt_resp_schedule_ack(qp);
}

bool xt_responder_rx(struct xt_qp *qp, struct xt_rx *rx)
{
	struct xt_responder *resp = &qp->resp;
	int32_t ahead = xr_psn_diff(rx->psn, resp->epsn & XR_PSN_MASK);
	struct xt_result res = { 0 };
	uint32_t psn = resp->epsn;
	enum xt_outcome outcome;
	struct xt_request rq;
	struct xt_put put;

	xt_resp_established(qp);
	if (ahead > 0) {
		out_of_sequence(qp, rx, resp->epsn + ahead);
		return true;
	}
	/* a copy of the packet that is held, which must not be executed twice */
	if (__builtin_expect(!ahead && qp->waiting.held[XT_RESPONDER], false)) {
		XT_QP_COUNT(qp, rx_duplicates, 1);
		return true;
	}
	xt_resp_parse(qp, rx, &put, &rq);
	if (ahead < 0) {
		xt_resp_duplicate(qp, &rq, xt_op_kinds[rq.op], resp->epsn + ahead);
		return true;
	}
	if (__builtin_expect(responder_is_lost(qp, rx->frame), false)) {
		responder_lose(qp);
		return true;
	}
	outcome = responder_execute(qp, rx, &rq, &res);
	xt_resp_finish_put(&put, outcome);
	switch (outcome) {
	case XT_ACCEPTED:
		accepted(qp, rx, rq.packets);
		break;
	case XT_POSTED:
	case XT_NOT_NOW:
		rx->posted |= outcome == XT_POSTED;
		/* it has arrived: those behind it are kept */
		resp->nak_sent = resp->rnr_sent = false;
		return false;
	case XT_RNR:
		not_ready(qp, &rx->frame->refusal);
		break;
	default:
		resp->nak_code = res.nak;
		resp->nak_psn = psn;
		xt_resp_schedule(qp, XT_ACK_DUE_NAK);
		break;
	}
	xt_qp_store_psns(qp);
	return true;
}

void xt_resp_nak_posted(struct xt_qp *qp, const struct xt_mem_io *io)
{
	qp->resp.write_failed = true;
	qp->resp.nak_psn = io->psn;
	/* over loopback, the requester sees that */
	if (qp->path.loopback || xt_unreliable(qp))
		return;
	qp->resp.msn = io->msn;
	qp->resp.nak_code = XR_NAK_REMOTE_OPERATIONAL;
	xt_resp_schedule(qp, XT_ACK_DUE_NAK);
}

void xt_resp_write_failed(struct xt_qp *qp, const struct xt_mem_io *io)
{
	static const struct xt_wc_error error = { IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY };
	struct xt_result res;

	/* the receive that the data was for is the oldest */
	if (io->kind == XT_KIND_SEND && xt_rq_take(qp, &res.error) != XT_TAKE_EMPTY)
		xt_resp_refuse_receive(qp, &res, XR_NAK_REMOTE_OPERATIONAL, &error);
	else
		xt_resp_refuse_request(qp, &res, XR_NAK_REMOTE_OPERATIONAL);
	/* UC has no NAK: the message is dropped, even if more of it was accepted */
	if (xt_unreliable(qp)) {
		qp->resp.write_failed = true;
		xt_resp_drop_message(qp);
		return;
	}
	xt_rd_drop(qp, io->psn);
	xt_resp_nak_posted(qp, io);
}
