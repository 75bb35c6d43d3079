// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Common SENDs: of one SGE or of inline data, with bytes that are mapped on both sides, into
 * receives of one SGE. They need no pieces and no state between pieces, so the state of
 * both QPs is checked once for many of them.
 *
 * A work request is executed here as a whole, or not at all: one that is unusual, or that must
 * fail, is left to loopback.c before its first effect. Only an overrun of a CQ is found later.
 */
#include "daemon/transport/rc/completer.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/queue/cq_event.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/memory/guard.h"
#include "sends.h"
#include "daemon/transport/queue/rings.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/memory/use.h"

/* A SEND and the receive that it fills; source, target: spans of the keys that were used last */
struct sends_message {
	struct xt_span source, target;
	struct xr_sge sge; /* of the source; length 0: inline data */
	uint64_t wr_id;
	uint32_t len, packets;
	uint8_t *from, *to;
	bool signaled, solicited;
};

/* True if packets are kept, or writes posted. */
static bool sends_is_busy(const struct xt_qp *qp)
{
	return qp->waiting.busy || qp->accesses.busy;
}

/* True if no work request is loaded, no packet unacknowledged and no access under way. */
static bool is_settled(const struct xt_qp *qp)
{
	const struct xt_send_queue *sq = &qp->sq;
	const struct xt_requester *r = &qp->req;

	return qp->info.state == XR_QPS_RTS && r->wait == XT_WAIT_NONE &&
	       sq->completed == sq->loaded && sq->cur == sq->loaded && r->next == r->max &&
	       r->unacked == r->next && sq->load_psn == r->next && !sends_is_busy(qp) &&
	       !qp->accesses.reads[XT_READS_SEND].used &&
	       !qp->accesses.reads[XT_READS_SEND_AHEAD].used;
}

/*
 * A program that only receives may leave its QP in RTR. The first message there raises an event, so
 * it is left to the responder.
 */
static bool is_established(const struct xt_qp *peer)
{
	return peer->info.state == XR_QPS_RTS ||
	       (peer->info.state == XR_QPS_RTR && peer->resp.comm_est);
}

/* True if the peer is between two messages and has a receive queue of its own. */
static bool is_ready(const struct xt_qp *peer, uint32_t psn)
{
	const struct xt_receive *rq = &peer->rq;

	return is_established(peer) && peer->resp.kind == XT_KIND_NONE &&
	       !xr_psn_diff(peer->resp.epsn & XR_PSN_MASK, psn & XR_PSN_MASK) && peer->rq_ring &&
	       !rq->taken && rq->completed == rq->consumer && !sends_is_busy(peer);
}

bool xt_loopback_sends_possible(const struct xt_qp *qp, const struct xt_qp *peer)
{
	return qp->info.type == XR_QPT_RC && peer->engine == qp->engine && peer != qp &&
	       !qp->attr.rate_limit && !qp->engine->show_len && is_settled(qp) &&
	       is_ready(peer, qp->req.next);
}

/* Returns the first @len bytes of an SGE, NULL if they are not all mapped in one span. */
static uint8_t *sends_map(const struct xt_qp *qp, const struct xr_sge *sge, uint32_t len,
			  uint32_t access, struct xt_span *s)
{
	if ((sge->lkey != s->lkey || sge->addr - s->addr >= s->len) && !xt_map(qp, sge, access, s))
		return NULL;
	return len <= s->len - (sge->addr - s->addr) ? s->ptr + (sge->addr - s->addr) : NULL;
}

/* Reads a work request. Returns false if it is not one of those that are executed here. */
static bool take_send(struct xt_qp *qp, struct sends_message *m)
{
	const uint32_t index = qp->sq.cur;
	uint8_t *slot = xt_ring_entry(qp->sq_ring, index, qp->sq_depth, qp->sq_stride);
	struct xr_send_wqe wqe;

	memcpy(&wqe, slot, offsetof(struct xr_send_wqe, imm_data));
	if (wqe.opcode != XR_WR_SEND || wqe.flags & XR_SEND_FENCE)
		return false;
	if (wqe.flags & XR_SEND_INLINE) {
		m->len = wqe.inline_len;
		m->from = slot + sizeof(wqe);
		m->sge.length = 0;
		if (m->len > qp->max_inline)
			return false;
	} else {
		if (wqe.num_sge != 1 || !qp->max_send_sge)
			return false;
		memcpy(&m->sge, slot + sizeof(wqe), sizeof(m->sge));
		m->len = m->sge.length;
		m->from = m->len <= XT_LOOPBACK_MOVE ? sends_map(qp, &m->sge, m->len, 0, &m->source)
						     : NULL;
	}
	m->wr_id = wqe.wr_id;
	m->packets = (m->len + qp->mtu - 1) >> qp->mtu_shift;
	m->signaled = qp->sq_sig_all || wqe.flags & XR_SEND_SIGNALED;
	m->solicited = wqe.flags & XR_SEND_SOLICITED;
	return m->len && m->from;
}

/* Reads the next receive. Returns false if there is none, or if it is an unusual one. */
static bool sends_take_receive(struct xt_qp *peer, struct sends_message *m)
{
	struct xt_receive *rq = &peer->rq;
	struct xr_sge *sge = peer->rq_sge;
	struct xr_recv_wqe wqe;
	uint8_t *slot;

	if (peer->ring_bad ||
	    (rq->consumer == rq->producer &&
	     !xt_ring_poll(peer->rq_ring, &rq->producer, rq->consumer, peer->rq_depth)) ||
	    rq->consumer == rq->producer)
		return false;
	slot = xt_ring_entry(peer->rq_ring, rq->consumer, peer->rq_depth, peer->rq_stride);
	memcpy(&wqe, slot, sizeof(wqe));
	if (wqe.num_sge != 1 || !peer->max_recv_sge)
		return false;
	memcpy(sge, slot + sizeof(wqe), sizeof(*sge));
	if (sge->length < m->len)
		return false;
	m->to = sends_map(peer, sge, m->len, XR_ACCESS_LOCAL_WRITE, &m->target);
	rq->wr_id = wqe.wr_id;
	rq->num_sge = 1;
	return m->to;
}

/* Returns false if the peer is in ERR, as its CQ had no room; the QP has processed its NAK then. */
static bool sends_complete_receive(struct xt_qp *qp, struct xt_qp *peer,
				   const struct sends_message *m)
{
	peer->resp.epsn += m->packets;
	peer->resp.msn++;
	peer->counters.rx_messages++;
	if (xt_rq_received(peer, m->len, m->solicited))
		return true;
	if (xt_sq_current(qp))
		xt_req_nak(qp, XR_NAK_REMOTE_OPERATIONAL);
	return false;
}

/* Moves the requester behind the work request, and completes it. Returns false in ERR. */
static bool complete_send(struct xt_qp *qp, const struct sends_message *m)
{
	struct xt_requester *r = &qp->req;

	xt_use_local(qp, XT_USE_LOCAL_READ, &m->sge, 1, m->sge.length);
	qp->sq.ssn++;
	r->next += m->packets;
	r->max = r->unacked = qp->sq.load_psn = r->next;
	qp->engine->counters.loopback_operations++;
	return xt_sq_executed(qp, m->wr_id, m->len, m->signaled);
}

static bool sends_execute(struct xt_qp *qp, struct xt_qp *peer, const struct sends_message *m)
{
	bool source;

	/* loopback.c tries again and reports the error */
	if (xt_guard_move(m->to, m->from, m->len, &source))
		return false;
	qp->counters.tx_bytes += m->len;
	peer->counters.rx_bytes += m->len;
	return sends_complete_receive(qp, peer, m) && complete_send(qp, m);
}

/* Shows the completions to the clients, and then that the work requests are done. */
static void sends_publish(struct xt_qp *qp, struct xt_qp *peer)
{
	xt_cq_publish(peer->recv_cq);
	xt_cq_publish(qp->send_cq);
	xt_rq_publish(peer);
	xt_sq_publish(qp);
}

/* Raises events of CQs that were armed meanwhile. */
static void sends_check_armed(struct xt_qp *qp, struct xt_qp *peer)
{
	const uint64_t now = qp->engine->now;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	xt_cq_check_armed(peer->flow, peer->recv_cq, now);
	xt_cq_check_armed(qp->flow, qp->send_cq, now);
}

uint32_t xt_loopback_sends(struct xt_qp *qp, struct xt_qp *peer, uint32_t budget)
{
	const uint32_t psn = qp->req.next;
	struct sends_message m = { 0 };
	uint32_t cost = 0;

	while (cost < budget && qp->sq.cur != qp->sq.producer && take_send(qp, &m) &&
	       sends_take_receive(peer, &m) && sends_execute(qp, peer, &m)) {
		cost += xt_loopback_cost(m.len);
		xt_flow_charge(qp->flow, XT_PACKET_COST + m.len);
	}
	if (qp->req.next == psn && xt_may_send(qp))
		return cost;
	sends_publish(qp, peer);
	sends_check_armed(qp, peer);
	if (!xt_may_send(qp))
		return cost;
	xt_req_progress(qp, 0);
	xt_qp_store_psns(qp);
	xt_qp_store_psns(peer);
	return cost;
}
