// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loopback: both QPs belong to this daemon, so payload is copied from memory to memory in large
 * pieces, without packets. Requests are executed by the same responder code that serves packets. If
 * the peer is missing, not ready or expects another PSN, the piece is lost as on a network, and a
 * reliable QP times out.
 */
#include "daemon/transport/rc/build.h"
#include "daemon/transport/rc/check.h"
#include "daemon/transport/rc/completer.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/memory/guard.h"
#include "daemon/transport/memory/integrity.h"
#include "daemon/transport/memory/put.h"
#include "daemon/transport/memory/reads.h"
#include "loopback.h"
#include "ahead.h"
#include "posted.h"
#include "sends.h"
#include "show.h"
#include "daemon/transport/scheduling/pace.h"
#include "daemon/transport/wire/packet.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/rc/requester.h"
#include "daemon/transport/rc/resend.h"
#include "daemon/transport/rc/responder.h"
#include "daemon/transport/queue/rings.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/memory/use.h"
#include "daemon/transport/queue/wr_kind.h"
#include "daemon/transport/waiting/posted.h"

enum loopback_step { STEP_ON, STEP_STOP, STEP_BUSY, STEP_WAIT };

/*
 * Bytes that one piece may have; one packet if the QP has a rate limit. Integrity regions need more
 * accesses and more staging memory for the same bytes.
 */
static uint32_t loopback_chunk(const struct xt_qp *qp, const struct xt_qp *peer)
{
	if (qp->attr.rate_limit)
		return qp->mtu;
	return xt_has_integrity(qp, peer) ? XT_INTEGRITY_MOVE : XT_LOOPBACK_MOVE;
}

static void loopback_cut(struct xt_qp *qp, struct xt_swqe *w, struct xt_piece *p)
{
	uint32_t left;

	p->wqe = w;
	p->peer = xt_qp_by_num(qp->engine->shared->qps, qp->attr.dest_qp_num);
	p->index = qp->sq.cur;
	p->off = (qp->req.next - w->psn) << qp->mtu_shift;
	left = w->length - p->off;
	/* the rate limit may have changed since the writes of the piece have started */
	p->full = qp->req.posted ? qp->req.posted : loopback_chunk(qp, p->peer);
	p->len = left < p->full ? left : p->full;
	p->packets = (p->len + qp->mtu - 1) >> qp->mtu_shift;
	if (!p->packets)
		p->packets = 1;
	p->first = !p->off;
	p->last = p->len == left;
}

static uint32_t peer_type(const struct xt_qp *qp)
{
	return qp->info.type == XR_QPT_XRC_SEND ? XR_QPT_XRC_RECV : qp->info.type;
}

/* Returns true if the peer expects the PSN of the piece; unreliable QPs accept any first packet. */
static bool loopback_expected(const struct xt_qp *qp, const struct xt_qp *peer,
			      const struct xt_piece *p)
{
	if (xt_unreliable(qp) && p->first)
		return true;
	return !xr_psn_diff(peer->resp.epsn & XR_PSN_MASK, qp->req.next & XR_PSN_MASK);
}

/* Returns true if both QPs are connected to each other and the peer may receive. */
static bool reachable(const struct xt_qp *qp, const struct xt_qp *peer)
{
	const struct xt_path *path = &qp->path, *back = &peer->path;

	return peer->info.type == peer_type(qp) && xt_may_receive(peer) && back->loopback &&
	       !peer->waiting.held[XT_RESPONDER] && peer->attr.dest_qp_num == qp->info.qpn &&
	       !memcmp(&path->dgid, &back->sgid, sizeof(path->dgid)) &&
	       !memcmp(&path->sgid, &back->dgid, sizeof(path->sgid));
}

/* The data of a READ flows from the peer. */
static void count_bytes(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	bool read = xt_kind_of(p->wqe)->response == XT_RESPONSE_READ;

	(read ? peer : qp)->counters.tx_bytes += p->len;
	(read ? qp : peer)->counters.rx_bytes += p->len;
}

static void loopback_advance(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	struct xt_requester *r = &qp->req;

	if (peer)
		count_bytes(qp, peer, p);
	r->next += p->packets;
	if (xt_diff(r->next, r->max) > 0)
		r->max = r->next;
	if (p->last) {
		qp->sq.cur++;
		qp->engine->counters.loopback_operations++;
	}
	xt_loopback_settle(qp, peer);
}

/*
 * Begins the put of a piece into the memory of the peer or, with the data of a READ, of the QP.
 * What has to be read is read for the QP, which also waits for staging memory, unless that of
 * another engine is used: then it polls (posted.h).
 */
static void begin_put(struct xt_put *put, struct xt_qp *qp, struct xt_qp *peer, bool read)
{
	if (read)
		xt_put_begin(put, qp, XT_REQUESTER, qp->req.next);
	else
		xt_resp_begin_put(put, peer);
	put->reads = &qp->accesses.reads[XT_READS_SEND];
	if (put->qp->engine == qp->engine)
		put->room = &put->reads->room;
}

/* The piece is lost: a reliable QP times out; UC and UD complete as if it had been sent. */
static void loopback_lost(struct xt_qp *qp, const struct xt_piece *p)
{
	struct xt_sgl l = xt_swqe_sgl(qp, qp->sq.retired);
	struct xt_piece rest = *p;

	/* until the next try, the memory of the peer may change */
	xt_reads_end(&qp->accesses.reads[XT_READS_SEND_AHEAD]);
	if (!xt_unreliable(qp)) {
		qp->req.wait = XT_WAIT_UNREACHABLE;
		xt_req_arm_ack_timer(qp);
		return;
	}
	/* invalid L_Keys fail the work request even if the message is lost */
	if (!xt_check_sgl(&l, 0, &p->wqe->error)) {
		xt_sq_fail(qp, p->wqe->error);
		return;
	}
	rest.packets = p->wqe->psn + p->wqe->npsn - qp->req.next;
	rest.last = true;
	loopback_advance(qp, NULL, &rest);
}

/* ---- packets for captures ------------------------------------------------------------------ */

/* A QP that sends to itself may be in ERR already. */
static bool shows(const struct xt_qp *qp)
{
	return __builtin_expect(qp->engine->show_len, 0) && xt_may_send(qp);
}

static struct xt_shown shown(const struct xt_qp *qp, const struct xt_piece *p)
{
	return (struct xt_shown){ p->index, qp->req.next, p->packets };
}

/* Requests of data, and the ACK that follows the last one */
static void loopback_show_data(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	const struct xt_shown s = shown(qp, p);

	xt_show_requests(qp, &s);
	if (p->last && !xt_unreliable(qp))
		xt_show_ack(peer, s.psn + s.packets - 1, XR_AETH_ACK | XR_AETH_CREDITS_INVALID);
}

static void show_nak(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p,
		     uint32_t syndrome)
{
	const struct xt_shown s = shown(qp, p);

	xt_show_requests(qp, &s);
	xt_show_ack(peer, s.psn, syndrome);
}

/* A request that is completed by a response of its own */
static void loopback_show_single(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p,
				 uint64_t old)
{
	const struct xt_shown s = shown(qp, p);

	xt_show_requests(qp, &s);
	if (xt_kind_of(p->wqe)->response == XT_RESPONSE_ATOMIC)
		xt_show_atomic_ack(peer, s.psn, old);
	else if (xt_kind_of(p->wqe)->response == XT_RESPONSE_ACK)
		xt_show_ack(peer, s.psn, XR_AETH_ACK | XR_AETH_CREDITS_INVALID);
	else
		xt_show_responses(qp, peer, &s);
}

/* Processes the NAK of the peer. If the peer is this QP itself, it may be in ERR already. */
static void loopback_refused(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p,
			     uint32_t code)
{
	if (shows(qp))
		show_nak(qp, peer, p, XR_AETH_NAK | code);
	if (xt_may_send(qp))
		xt_req_nak(qp, code);
}

/* Drops a message of an unreliable QP on both sides, because the peer could not receive it. */
static void loopback_dropped(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	xt_resp_drop_message(peer);
	if (xt_may_send(qp))
		loopback_lost(qp, p);
}

/*
 * If the peer has no receive, its queue is checked again some times before the RNR NAK. A program
 * that is about to post a receive would otherwise cost the whole RNR timer, 640 us by default.
 */
#define LOOKS 6 /* after 4, 8, 16, 32, 64 and 128 us */
#define FIRST_LOOK_NS 4000ull

static void no_receive(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	struct xt_requester *r = &qp->req;

	if (r->looks < LOOKS) {
		xt_req_go_back(qp);
		r->wait = XT_WAIT_RNR;
		xt_timer_set_retry(qp, qp->engine->now + (FIRST_LOOK_NS << r->looks++));
		return;
	}
	if (shows(qp))
		show_nak(qp, peer, p, XR_AETH_RNR_NAK | peer->attr.min_rnr_timer);
	XT_QP_COUNT(peer, rnr_naks_sent, 1);
	xt_req_rnr(qp, peer->attr.min_rnr_timer);
}

/* ---- operations ----------------------------------------------------------------------------- */

/* Each returns false if the piece, or the rest of it, must be executed later. */
static bool data_done(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p,
		      enum xt_outcome outcome, const struct xt_result *res)
{
	/* not before the pieces in front of this one have succeeded */
	if ((outcome == XT_RNR || outcome == XT_SOURCE_ERROR) && xt_has_posted(qp))
		return false;
	if (xt_unreliable(qp) && (outcome == XT_RNR || outcome == XT_REFUSED)) {
		loopback_dropped(qp, peer, p);
		return true;
	}
	switch (outcome) {
	case XT_ACCEPTED:
		if (shows(qp))
			loopback_show_data(qp, peer, p);
		/* a QP that sends to itself may have failed with its own receive completion */
		if (xt_may_send(qp))
			loopback_advance(qp, peer, p);
		break;
	case XT_RNR:
		no_receive(qp, peer, p);
		break;
	case XT_SOURCE_ERROR:
		xt_sq_fail(qp, res->error);
		break;
	case XT_REFUSED:
		loopback_refused(qp, peer, p, res->nak);
		break;
	case XT_POSTED:
		qp->req.posted = p->full;
		return false;
	case XT_NOT_NOW:
		return false;
	}
	return true;
}

static bool do_data(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	const struct xt_swqe *w = p->wqe;
	struct xt_request rq = {
		.op = xt_data_opcode(w, p->first, p->last),
		.solicited = p->last && (w->flags & XR_SEND_SOLICITED),
		.len = p->len,
		.full = p->full,
		.packets = p->packets,
		.srqn = w->srqn,
		.va = w->remote_addr,
		.rkey = w->rkey,
		.total = w->length,
		.imm = w->imm,
		.inv_rkey = w->inv_rkey,
		.src = {
			.qp = qp,
			.index = p->index,
			.off = p->off,
			.last = p->last,
		},
		.posted = qp->req.posted,
	};
	enum xt_outcome outcome;
	struct xt_result res;
	struct xt_put put;

	begin_put(&put, qp, peer, false);
	put.kind = w->kind;
	rq.src.put = &put;
	rq.flags = xr_opcodes[rq.op].flags;
	if (xt_unreliable(qp) && p->first)
		xt_resp_begin_message(peer, qp->req.next);
	outcome = xt_resp_request(peer, &rq, &res);
	xt_resp_finish_put(&put, outcome);
	return data_done(qp, peer, p, outcome, &res);
}

/* Advances the peer's responder behind a request whose response was processed at once. */
static void peer_done(struct xt_qp *peer, const struct xt_piece *p)
{
	if (p->last)
		xt_use_remote(peer, xt_kind_of(p->wqe)->use, p->wqe->rkey, p->wqe->length);
	peer->resp.epsn += p->packets;
	peer->resp.msn += p->last;
	peer->counters.rx_messages += p->last;
}

static bool do_read(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	const struct xt_swqe *w = p->wqe;
	struct xt_sgl l = xt_swqe_sgl(qp, p->index);
	/* the first piece checks the whole range, as the RETH does; later ones check the rest */
	struct xr_key_use use = {
		.key = w->rkey,
		.access = XR_ACCESS_REMOTE_READ,
		.va = w->remote_addr + p->off,
		.len = w->length - p->off,
	};
	struct xt_put put;
	struct xt_source src = { .put = &put, .last = p->last };
	struct xt_wc_error error;
	struct xt_mem_at at = { 0 };
	enum xt_side side;
	int nak = xt_resp_check(peer, &use, &at);

	if (nak >= 0) {
		if (xt_has_posted(qp))
			return false;
		xt_resp_refuse(peer, nak);
		loopback_refused(qp, peer, p, (uint32_t)nak);
		return true;
	}
	begin_put(&put, qp, peer, true);
	src.mem = at.mem;
	src.off = at.off;
	side = XT_UNORDERED(xt_scatter(&l, p->off, &src, p->len, &error));
	xt_resp_finish_put(&put, side == XT_SIDE_NONE ? XT_ACCEPTED : XT_NOT_NOW);
	if (side == XT_SIDE_WAIT || (side != XT_SIDE_NONE && xt_has_posted(qp)))
		return false;
	if (side == XT_SIDE_SOURCE) {
		xt_resp_refuse(peer, XR_NAK_REMOTE_OPERATIONAL);
		loopback_refused(qp, peer, p, XR_NAK_REMOTE_OPERATIONAL);
	} else if (side == XT_SIDE_TARGET) {
		xt_sq_fail(qp, error);
	} else {
		peer_done(peer, p);
		if (shows(qp))
			loopback_show_single(qp, peer, p, 0);
		loopback_advance(qp, peer, p);
	}
	return true;
}

/* Sets the fields of a request that only its kind has. */
static void set_fields(struct xt_request *rq, const struct xt_swqe *w)
{
	switch (w->kind) {
	case XT_KIND_ATOMIC:
		rq->compare = w->atomic.compare;
		rq->swap_add = w->atomic.swap_add;
		break;
	case XT_KIND_FLUSH:
		rq->feth = w->flush.feth;
		rq->total = w->flush.length;
		break;
	}
}

/*
 * Executes a request of one packet. If its access is posted, the result of an atomic is that of the
 * access.
 */
static enum xt_outcome execute_single(struct xt_qp *qp, struct xt_qp *peer,
				      const struct xt_piece *p, struct xt_result *res)
{
	const struct xt_swqe *w = p->wqe;
	struct xt_put put;
	struct xt_request rq = {
		.op = xt_wr_opcode(w->opcode)->op,
		.va = w->remote_addr,
		.rkey = w->rkey,
		.len = w->length,
		.total = w->length,
		.src = { .qp = qp, .index = p->index, .put = &put },
	};
	enum xt_outcome outcome;

	if (qp->req.posted) {
		res->old = peer->resp.answer;
		return xt_posted(&peer->accesses, XT_RESPONDER) ? XT_POSTED : XT_ACCEPTED;
	}
	set_fields(&rq, w);
	begin_put(&put, qp, peer, false);
	put.kind = w->kind;
	outcome = xt_resp_execute(peer, &rq, res);
	if (outcome == XT_ACCEPTED && !xt_put_is_empty(&put))
		outcome = XT_POSTED;
	xt_resp_finish_put(&put, outcome);
	return outcome;
}

/* Stores the result of an atomic. */
static enum xt_side store_atomic(struct xt_qp *qp, uint64_t old, struct xt_wc_error *error)
{
	struct xt_put put;
	enum xt_side side;

	xt_put_begin(&put, qp, XT_REQUESTER, qp->req.next);
	side = xt_req_store_atomic(&put, old, error);
	xt_resp_finish_put(&put, side == XT_SIDE_NONE ? XT_ACCEPTED : XT_NOT_NOW);
	return side;
}

/* A request of one packet that is completed by a response without a payload */
static bool do_single(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	const struct xt_kind *kind = xt_kind_of(p->wqe);
	enum xt_side side = XT_SIDE_NONE;
	struct xt_result res;
	enum xt_outcome outcome = execute_single(qp, peer, p, &res);

	if (outcome == XT_NOT_NOW || outcome == XT_POSTED) {
		qp->req.posted = outcome == XT_POSTED ? p->full : 0;
		return false;
	}
	if (outcome == XT_REFUSED) {
		xt_resp_refuse(peer, res.nak);
		loopback_refused(qp, peer, p, res.nak);
		return true;
	}
	if (outcome == XT_ACCEPTED && kind->response == XT_RESPONSE_ATOMIC)
		side = store_atomic(qp, res.old, &res.error);
	/* the atomic is not executed again */
	if (side == XT_SIDE_WAIT) {
		peer->resp.answer = res.old;
		qp->req.posted = p->full;
		return false;
	}
	if (outcome == XT_ACCEPTED)
		peer_done(peer, p);
	if (outcome == XT_ACCEPTED && shows(qp))
		loopback_show_single(qp, peer, p, res.old);
	if (outcome == XT_ACCEPTED && side == XT_SIDE_NONE)
		loopback_advance(qp, peer, p);
	else
		xt_sq_fail(qp, res.error);
	return true;
}

/* Returns true if the responder must refuse a READ or atomic, as it would refuse a packet. */
static bool out_of_place(struct xt_qp *peer)
{
	return peer->resp.kind != XT_KIND_NONE || !peer->attr.max_dest_rd_atomic;
}

/* Returns false if the piece, or the rest of it, must be executed later. */
static bool perform(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p)
{
	const struct xt_kind *kind = xt_kind_of(p->wqe);
	bool done = true;

	xt_resp_established(peer);
	if (!kind->rd_atomic) {
		done = do_data(qp, peer, p);
	} else if (out_of_place(peer) || xt_resp_select_srq(peer, p->wqe->srqn) >= 0) {
		if (xt_has_posted(qp))
			return false;
		xt_resp_refuse(peer, XR_NAK_INVALID_REQUEST);
		loopback_refused(qp, peer, p, XR_NAK_INVALID_REQUEST);
	} else if (kind->response == XT_RESPONSE_READ) {
		done = do_read(qp, peer, p);
	} else {
		done = do_single(qp, peer, p);
	}
	xt_qp_store_psns(peer);
	return done;
}

/* ---- the send queue ---------------------------------------------------------------------- */

static enum loopback_step step(struct xt_qp *qp, const struct xt_piece *p)
{
	struct xt_reads *reads = &qp->accesses.reads[XT_READS_SEND];
	struct xt_engine *e = qp->engine, *other;
	struct xt_qp *peer = p->peer;
	bool done = true;

	xt_reads_take_over(reads, qp->sq.cur);
	if (!peer) {
		loopback_lost(qp, p);
	} else {
		other = peer->engine;
		if (!xt_engine_enter(e, other))
			return STEP_BUSY;
		if (!xt_loopback_check(qp, peer)) {
			xt_engine_leave(e, other);
			return xt_may_send(qp) ? STEP_ON : STEP_STOP;
		}
		if (reachable(qp, peer) && loopback_expected(qp, peer, p))
			done = perform(qp, peer, p);
		else if (xt_has_posted(qp))
			done = false;
		else
			loopback_lost(qp, p);
		if (reads->used && qp->sq.cur == p->index)
			xt_loopback_read_ahead(qp, peer, p);
		xt_loopback_began(qp, peer, done);
		xt_engine_leave(e, other);
	}
	if (!done)
		return STEP_WAIT;
	qp->req.posted = 0;
	xt_reads_end(reads);
	return xt_may_send(qp) && qp->req.wait == XT_WAIT_NONE ? STEP_ON : STEP_STOP;
}

/* Executes work requests that need none of the above. Returns the cost. */
static uint32_t run_sends(struct xt_qp *qp, uint32_t budget)
{
	struct xt_qp *peer = xt_qp_by_num(qp->engine->shared->qps, qp->attr.dest_qp_num);

	if (!peer || !xt_loopback_sends_possible(qp, peer) || !reachable(qp, peer))
		return 0;
	return xt_loopback_sends(qp, peer, budget);
}

uint32_t xt_loopback_run(struct xt_qp *qp, uint32_t budget, bool *more)
{
	struct xt_requester *r = &qp->req;
	uint32_t cost = run_sends(qp, budget);
	enum loopback_step next = STEP_ON;
	struct xt_swqe *w;
	struct xt_piece p;

	/* load no work request, so that run_sends() continues in the next round */
	if (cost >= budget || !xt_loopback_look(qp)) {
		*more = true;
		return cost;
	}
	while (next == STEP_ON && r->wait == XT_WAIT_NONE && xt_may_send(qp) &&
	       (w = xt_sq_current(qp))) {
		if (xt_has_posted(qp) && xt_loopback_must_settle(qp, w))
			break;
		if (w->error.status) {
			xt_sq_fail(qp, w->error);
			break;
		}
		/* in SQD, only work requests that were begun before are begun again */
		if (qp->info.state == XR_QPS_SQD && r->next == w->psn && r->next == r->max)
			break;
		if (!xt_pace_open(qp))
			break;
		if (cost >= budget) {
			*more = true;
			break;
		}
		if (w->kind == XT_KIND_LOCAL) {
			cost++;
			next = xt_req_run_local(qp, w) ? STEP_ON : STEP_STOP;
			continue;
		}
		loopback_cut(qp, w, &p);
		cost += xt_loopback_cost(p.len);
		next = step(qp, &p);
		if (next == STEP_WAIT)
			break;
		xt_flow_charge(qp->flow, XT_PACKET_COST + p.len);
		if (next != STEP_BUSY)
			xt_pace_spend(qp, xt_frame_len(&qp->tmpl, p.len));
	}
	if (next == STEP_BUSY)
		*more = true;
	return cost;
}
