// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The requester: builds the packets of send work requests, and retries. PSNs along the SQ:
 *
 *        retired            cur                loaded      producer
 *   -------|-----------------|-------------------|------------|
 *           unacked           next .. max
 *
 * Retired work requests complete in order when the data of READs is in memory (posted.h). No work
 * request fails before all retired ones have completed.
 *
 * Windows, credits and max_rd_atomic limit how far `next` runs ahead of `unacked`. The offset of a
 * packet in its message follows from its PSN, so any packet can be sent again:
 *
 * - What is lost is sent again before `next` (lost.h). A peer that keeps what follows a lost packet
 *   needs no others.
 * - If a response is overdue, the oldest packet is sent again to ask for it (probe).
 * - After the timeout of the program and after an RNR NAK, `next` and `cur` move back to `unacked`.
 *
 * A work request that only changes keys (XT_KIND_LOCAL) has no PSN. It is executed when it becomes
 * the current one, that is, before the work requests behind it (IBTA 10.8.3.3). Earlier ones may
 * still be in flight, except before LOCAL_INV. It completes in order, when what had begun to access
 * the memory of its key has ended (ending.h).
 */
#include "build.h"
#include "daemon/transport/memory/ending.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "lost.h"
#include "daemon/transport/memory/key_wr.h"
#include "daemon/transport/scheduling/pace.h"
#include "daemon/transport/wire/packet.h"
#include "daemon/transport/qp.h"
#include "requester.h"
#include "resend.h"
#include "rtt.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/scheduling/timer.h"
#include "daemon/transport/queue/wr_kind.h"

#define SHORT_MTU 1024 /* up to which more packets are in flight, and READ requests have more */

/*
 * Returns the largest window of a QP. It has more short packets, as each takes both hosts less time
 * and less of their caches.
 */
static uint32_t most_in_flight(const struct xt_qp *qp)
{
	const struct xt_tuning *t = &qp->engine->tuning;

	return qp->mtu > SHORT_MTU ? t->window : t->short_window;
}

/*
 * Returns the length of READ requests in packets. A request is sent when the window has room for
 * all of its responses, so several should fit it. But as many requests as may be in flight should
 * fill it, and short packets should fill GSO frames, which have one request's packets each.
 */
static uint8_t read_packets(const struct xt_qp *qp)
{
	const struct xt_tuning *t = &qp->engine->tuning;
	uint32_t requests = qp->mtu > SHORT_MTU ? 8 : 4, window = most_in_flight(qp), packets;

	if (requests > qp->attr.max_rd_atomic)
		requests = qp->attr.max_rd_atomic;
	packets = requests ? window / requests : window;
	return packets < t->read_packets ? packets : t->read_packets;
}

void xt_req_reset(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;
	const struct xr_qp_attr *attr = &qp->attr;

	xt_sq_reset(qp, attr->sq_psn, read_packets(qp));
	*r = (struct xt_requester){
		.unacked = attr->sq_psn,
		.next = attr->sq_psn,
		.max = attr->sq_psn,
		.window = qp->engine->tuning.first_window,
		.most = most_in_flight(qp),
		.since_ackreq = XT_ACK_EVERY,
		.ackreq_psn = attr->sq_psn - 1,
		.shrunk_psn = attr->sq_psn,
		.executed = attr->sq_psn,
		.lost = attr->sq_psn,
		.horizon = attr->sq_psn,
		.takes_end = attr->sq_psn,
		.run = 1,
		.retry_left = attr->retry_cnt,
		.rnr_left = attr->rnr_retry,
	};
	xt_rtt_reset(qp);
}

void xt_req_check_drained(struct xt_qp *qp)
{
	const struct xt_send_queue *sq = &qp->sq;
	struct xt_requester *r = &qp->req;

	if (qp->info.state != XR_QPS_SQD || qp->drained)
		return;
	/* WRs that are loaded but not begun need not complete */
	if (r->unacked != r->max || sq->completed != sq->retired ||
	    (sq->retired != sq->loaded && xt_swqe(qp, sq->retired)->psn != r->unacked))
		return;
	qp->drained = true;
	if (qp->attr.en_sqd_async_notify)
		xt_event(qp, IBV_EVENT_SQ_DRAINED);
}

/* ---- limits on sending ------------------------------------------------------------------- */

enum gate { GATE_OPEN, GATE_WAIT, GATE_CAPPED };

/* PSNs of a packet that is sent again */
static uint32_t requester_span(const struct xt_qp *qp, const struct xt_swqe *w, uint32_t psn)
{
	return w->kind == XT_KIND_READ ? xt_req_read_span(qp, w, psn) : 1;
}

static bool has_credit(const struct xt_requester *r, const struct xt_swqe *w)
{
	return !r->credits || !xt_takes_receive(w) || xr_psn_diff(w->ssn, r->lsn) <= 0;
}

/* Returns true if the peer has acknowledged all that takes a receive and was ever sent. */
static bool takes_none(const struct xt_requester *r)
{
	return xt_diff(r->unacked, r->takes_end) >= 0;
}

/*
 * PSNs of what is to be sent next, 0: the peer has no room. The peer may have received some of the
 * packets that were sent before, so these are sent one by one.
 */
static uint32_t next_span(const struct xt_qp *qp, const struct xt_swqe *w, bool large)
{
	const struct xt_requester *r = &qp->req;

	if (!large || w->kind == XT_KIND_READ || r->next != r->max || !has_credit(r, w))
		return requester_span(qp, w, r->next);
	return xt_large_packets(qp, w->psn + w->npsn - 1 - r->next);
}

/*
 * End-to-end credits, IBTA 9.7.7.2. Without credits, the first packet of a message may be sent if
 * no other one that takes a receive is in flight; the rest of the message follows its ACK. So a
 * response does not wait for the ACK of the data that was written before it.
 */
static bool credit_allows(const struct xt_qp *qp, const struct xt_swqe *w)
{
	const struct xt_requester *r = &qp->req;

	return has_credit(r, w) || r->next == r->unacked || takes_none(r) ||
	       xt_diff(r->unacked, w->psn) > 0;
}

static bool begin_allowed(const struct xt_qp *qp, const struct xt_swqe *w)
{
	const struct xt_requester *r = &qp->req;

	if (qp->info.state == XR_QPS_SQD && r->next == r->max)
		return false;
	/* IBTA 10.6.5.1: earlier WRs may still need the key, for a retry or for READ data */
	if (w->opcode == XR_WR_LOCAL_INV && qp->sq.cur != qp->sq.completed)
		return false;
	return !(w->flags & XR_SEND_FENCE) || xt_diff(qp->sq.completed, w->rd_before) >= 0;
}

bool xt_req_run_local(struct xt_qp *qp, struct xt_swqe *w)
{

	if (!w->executed) {
		if (!begin_allowed(qp, w))
			return false;
		xt_flow_charge(qp->flow, XT_PACKET_COST);
		if (!xt_key_wr_execute(qp, w))
			return true;
		w->executed = true;
	}
	if (xt_ending_key_waits(&qp->ending.key[XT_REQUESTER], qp->engine)) {
		xt_ending_poll(qp);
		return false;
	}
	w->done = true;
	return qp->sq.cur++ != qp->sq.retired || xt_sq_retire(qp);
}

static bool flow_full(const struct xt_qp *qp, const struct xt_swqe *w, uint32_t inflight,
		      uint32_t n)
{
	return w->kind == XT_KIND_READ && n > 1 ? xt_flow_full_for_read(qp, inflight, n)
						: xt_flow_full(qp, inflight, n);
}

/* n: PSNs of what is to be sent next */
static enum gate gate(const struct xt_qp *qp, const struct xt_swqe *w, uint32_t n)
{
	const struct xt_requester *r = &qp->req;
	uint32_t inflight = r->next - r->unacked;

	if (r->next == w->psn && !begin_allowed(qp, w))
		return GATE_WAIT;
	if (inflight && inflight + n > r->window)
		return GATE_WAIT;
	/*
	 * max_rd_atomic may have been lowered to 0 since this WR was loaded; always allow one, or
	 * it would never be sent.
	 */
	if (xt_kind_of(w)->rd_atomic && r->rd_inflight && r->rd_inflight >= qp->attr.max_rd_atomic)
		return GATE_WAIT;
	if (!credit_allows(qp, w))
		return GATE_WAIT;
	if (flow_full(qp, w, inflight, n))
		return GATE_CAPPED;
	return GATE_OPEN;
}

/* ---- packets ----------------------------------------------------------------------------- */

/*
 * Returns true if this message is unsignaled and the next one, which will request the ACK for both,
 * can follow at once. If the next one fails or is delayed, xt_req_resend_ackreq() requests the ACK.
 */
static bool next_requests_ack(struct xt_qp *qp, const struct xt_swqe *w)
{
	const struct xt_swqe *next;

	if (qp->sq_sig_all || (w->flags & XR_SEND_SIGNALED) || qp->info.state != XR_QPS_RTS)
		return false;
	next = xt_sq_following(qp);
	return next && !next->error.status && !(next->flags & XR_SEND_FENCE) &&
	       xt_kind_of(next)->response == XT_RESPONSE_ACK &&
	       (has_credit(&qp->req, next) || (!xt_takes_receive(w) && takes_none(&qp->req)));
}

/*
 * Returns true if no packet may follow the next n before an ACK: the window of the QP or of its
 * client is full then.
 */
static bool fills_window(const struct xt_qp *qp, uint32_t n)
{
	uint32_t inflight = qp->req.next + n - qp->req.unacked;

	return inflight >= qp->req.window || xt_flow_full(qp, inflight, 1);
}

/*
 * Returns true if a packet must request an ACK: the last one of a message whose completion the
 * program may wait for, and enough others that no window fills without an ACK under way. An
 * ACK costs as much as a small message. n: packets in one frame; budget: packets that may still be
 * sent before the next QP is scheduled
 */
static bool needs_ackreq(struct xt_qp *qp, const struct xt_swqe *w, uint32_t n, uint32_t budget)
{
	const struct xt_requester *r = &qp->req;
	bool last = r->next + n == w->psn + w->npsn;

	if (r->since_ackreq + n >= XT_ACK_EVERY)
		return true;
	if (xt_diff(r->ackreq_psn, r->unacked) < 0 && fills_window(qp, n))
		return true;
	if (r->credits && xt_takes_receive(w) && xr_psn_diff(w->ssn + 1, r->lsn) >= 0)
		return true;
	/* With a rate limit, the next packet may be sent later than the peer's ACK timeout. */
	if (xt_pace_last(qp, xt_frame_len(&qp->tmpl, n * qp->mtu)))
		return true;
	return last && (budget == 1 || !next_requests_ack(qp, w));
}

/* Builds a packet except for AckReq. */
static bool requester_build(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);

	xt_packet_init(p, 0, at->psn);
	if (w->kind != XT_KIND_READ)
		p->packets = at->span;
	if (qp->info.type == XR_QPT_XRC_SEND)
		xt_ext_xrceth(p, w->srqn);
	return xt_req_build(qp, at, p);
}

static bool build_next(struct xt_qp *qp, struct xt_swqe *w, uint32_t n, struct xt_packet *p,
		       uint32_t budget)
{
	struct xt_requester *r = &qp->req;
	const struct xt_cursor at = { qp->sq.cur, r->next, n };

	if (!requester_build(qp, &at, p))
		return false;
	if (xt_kind_of(w)->response == XT_RESPONSE_ACK)
		p->ackreq = needs_ackreq(qp, w, n, budget);
	return true;
}

static void sent(struct xt_qp *qp, const struct xt_swqe *w, uint32_t n, const struct xt_packet *p)
{
	struct xt_requester *r = &qp->req;

	bool is_new = r->next == r->max;

	XT_QP_COUNT(qp, tx_retransmits, !is_new);
	r->next += n;
	if (xt_diff(r->next, r->max) > 0)
		r->max = r->next;
	if (xt_takes_receive(w) && xt_diff(r->next, r->takes_end) > 0)
		r->takes_end = r->next;
	if (xt_kind_of(w)->rd_atomic)
		r->rd_inflight++;
	/* a READ response or ATOMIC ACK acknowledges as well */
	if (p->ackreq || xt_kind_of(w)->rd_atomic) {
		r->since_ackreq = 0;
		r->ackreq_psn = r->next - 1;
		/* otherwise the response waits for the lost packet */
		if (is_new && !xt_sends_again(r))
			xt_rtt_sent(qp, r->ackreq_psn, false);
	} else {
		r->since_ackreq += n;
	}
	xt_pace_spend(qp, xt_frame_len(&qp->tmpl, p->ext_len + p->payload.len));
	if (r->next == w->psn + w->npsn)
		qp->sq.cur++;
}

/*
 * Widens the PSN window of the XDP program before the packet is sent, so that its response passes.
 */
static void requester_announce(struct xt_qp *qp, uint32_t n)
{
	uint32_t next = qp->req.next + n;

	if (xt_diff(next, qp->req.max) > 0)
		__atomic_store_n(&qp->psn->next, next & XR_PSN_MASK, __ATOMIC_RELAXED);
}

/*
 * Returns true if packets are in flight and none of them requests a response. The one that should
 * have requested it waited for memory, and meanwhile an ACK took its credit.
 */
static bool no_response_due(const struct xt_requester *r)
{
	return r->next != r->unacked && xt_diff(r->ackreq_psn, r->unacked) < 0;
}

/* ---- sending again ----------------------------------------------------------------------- */

enum again { AGAIN_SENT, AGAIN_FAILED, AGAIN_WAITS, AGAIN_FULL };

static enum again send_again(struct xt_qp *qp, const struct xt_cursor *at, bool ackreq)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	struct xt_packet p;

	if (!requester_build(qp, at, &p)) {
		if (!w->error.status)
			return AGAIN_WAITS;
		/* fails when all earlier ones have completed */
		xt_req_go_back(qp);
		return AGAIN_FAILED;
	}
	p.ackreq = xt_kind_of(w)->response == XT_RESPONSE_ACK && ackreq;
	if (!xt_send(qp, &p))
		return AGAIN_FULL;
	XT_QP_COUNT(qp, tx_retransmits, 1);
	xt_pace_spend(qp, xt_frame_len(&qp->tmpl, p.ext_len + p.payload.len));
	return AGAIN_SENT;
}

/*
 * A packet that fills a gap leaves at once if the window is nearly full: hardly any others can be
 * sent before it has arrived. Otherwise it shares a GSO frame with them. A window that has shrunk
 * is a sign of overload, where packets that are sent again soon are likely to be lost again.
 */
static void push_again(struct xt_qp *qp)
{
	const struct xt_requester *r = &qp->req;
	const struct xt_engine *e = qp->engine;

	if (e->ops->tx_push && (r->next - r->unacked) * 8 >= r->window * 7 &&
	    r->window * 2 >= r->most)
		e->ops->tx_push(e->ctx);
}

/*
 * Sends again what is lost. Returns the number of packets sent. *more: as xt_req_run(); *blocked:
 * something is left, before which nothing new may be sent
 */
static uint32_t run_lost(struct xt_qp *qp, uint32_t budget, bool *more, bool *blocked)
{
	struct xt_requester *r = &qp->req;
	enum again result = AGAIN_SENT;
	struct xt_cursor at;
	struct xt_lost l;
	uint32_t cost = 0;

	/* a response that is held is not missing, nor what is behind it */
	if (r->wait == XT_WAIT_RNR || qp->waiting.held[XT_REQUESTER])
		return 0;
	xt_lost_begin(qp, &l);
	while (result == AGAIN_SENT && xt_lost_next(qp, &l, &at)) {
		*blocked = true;
		if (!xt_pace_open(qp))
			return cost;
		result = AGAIN_FULL;
		if (cost < budget)
			result = send_again(qp, &at, at.psn + 1 == r->lost);
		if (result == AGAIN_SENT) {
			xt_lost_sent(qp, &l, &at);
			*blocked = false;
			cost++;
		}
	}
	*more |= result == AGAIN_FULL;
	if (result == AGAIN_SENT)
		r->resend = false;
	if (result == AGAIN_FAILED)
		*blocked = false;
	if (cost)
		push_again(qp);
	return cost;
}

/*
 * Other QPs have filled the client's window since this QP sent its last packet, which requests no
 * ACK. Sends it again with AckReq, or the QP would wait for its timeout. *more: as xt_req_run()
 */
static void request_ack(struct xt_qp *qp, bool *more)
{
	struct xt_requester *r = &qp->req;
	bool begun = r->next != xt_swqe(qp, qp->sq.cur)->psn;
	/* only a SEND or WRITE omits AckReq from its last packet, so `cur - 1` is one */
	const struct xt_cursor at = { begun ? qp->sq.cur : qp->sq.cur - 1, r->next - 1, 1 };

	switch (send_again(qp, &at, true)) {
	case AGAIN_SENT:
		r->ackreq_psn = at.psn;
		r->since_ackreq = 0;
		break;
	case AGAIN_FULL:
		*more = true;
		break;
	case AGAIN_WAITS:
	case AGAIN_FAILED:
		break;
	}
}

uint32_t xt_req_run(struct xt_qp *qp, uint32_t budget, bool *more)
{
	struct xt_requester *r = &qp->req;
	enum gate g = GATE_OPEN;
	struct xt_packet p;
	struct xt_swqe *w;
	bool large = true, blocked = false;
	uint32_t cost = 0, n;

	if (__builtin_expect(r->resend, false))
		cost = run_lost(qp, budget, more, &blocked);
	/* the next packet would take the reads of the one that waits for its payload */
	while (r->wait != XT_WAIT_RNR && !blocked && (w = xt_sq_current(qp))) {
		if (w->error.status) {
			if (xt_req_resend_ackreq(qp))
				continue;
			/* a WR fails after all earlier ones; in SQD it is not begun */
			if (qp->sq.cur != qp->sq.completed ||
			    (r->next == w->psn && !begin_allowed(qp, w)))
				break;
			xt_sq_fail(qp, w->error);
			return cost;
		}
		n = w->kind == XT_KIND_LOCAL ? 1 : next_span(qp, w, large);
		g = w->kind == XT_KIND_LOCAL ? GATE_OPEN : gate(qp, w, n);
		if (g == GATE_WAIT && no_response_due(r) && xt_req_resend_ackreq(qp))
			continue;
		if (g != GATE_OPEN || (w->kind != XT_KIND_LOCAL && !xt_pace_open(qp)))
			break;
		if (cost >= budget || !n) {
			*more = true;
			break;
		}
		if (w->kind == XT_KIND_LOCAL) {
			cost++;
			if (xt_req_run_local(qp, w))
				continue;
			if (!xt_may_send(qp))
				return cost;
			break;
		}
		if (!build_next(qp, w, n, &p, budget - cost)) {
			if (w->error.status)
				continue;
			if (p.packets == 1)
				break; /* its payload is being read */
			large = false;
			continue;
		}
		requester_announce(qp, n);
		if (!xt_send(qp, &p)) {
			large = p.packets == 1;
			if (!large)
				continue;
			*more = true;
			break;
		}
		sent(qp, w, n, &p);
		cost += p.packets;
	}
	if (g == GATE_CAPPED && no_response_due(r))
		request_ack(qp, more);
	xt_req_update(qp, false);
	if (g == GATE_CAPPED)
		xt_flow_cap(qp);
	return cost;
}
