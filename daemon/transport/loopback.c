// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loopback: both QPs belong to this daemon, so payload is copied from memory to memory in large
 * pieces, without packets. Requests are executed by the same responder code that serves packets. If
 * the peer is missing, not ready or expects another PSN, the piece is lost as on a network, and a
 * reliable QP times out.
 */
#include "completer.h"
#include "copy.h"
#include "engine.h"
#include "flow.h"
#include "integrity.h"
#include "loopback.h"
#include "loopback_sends.h"
#include "loopback_show.h"
#include "pace.h"
#include "packet.h"
#include "qp.h"
#include "requester.h"
#include "resend.h"
#include "responder.h"
#include "rings.h"
#include "sq.h"
#include "wr_kind.h"

enum step { STEP_ON, STEP_STOP, STEP_BUSY, STEP_PARKED };

/* The next part of the oldest work request */
struct piece {
	struct xt_swqe *wqe;
	uint32_t index, off, len, packets;
	uint32_t full; /* bytes of all pieces but the last */
	bool first, last;
	struct xt_step *step;
	struct xt_qp *peer; /* NULL: there is none */
};

/* True if the QP may use integrity regions, also those of its peer. */
static bool has_integrity(const struct xt_qp *qp, const struct xt_qp *peer)
{
	return qp->integrity || (peer && __atomic_load_n(&peer->integrity, __ATOMIC_RELAXED));
}

/*
 * Bytes that one piece may have; one packet if the QP has a rate limit. Integrity regions need more
 * accesses and more staging memory for the same bytes.
 */
static uint32_t chunk(const struct xt_qp *qp, const struct xt_qp *peer)
{
	if (qp->attr.rate_limit)
		return qp->mtu;
	return has_integrity(qp, peer) ? XT_INTEGRITY_MOVE : XT_LOOPBACK_MOVE;
}

/* All accesses to memory, also to that of the peer, are of the requester's step. */
static struct xt_step *step_of(struct xt_qp *qp)
{
	struct xt_step *step = &qp->park.step[XT_STEP_SEND];

	xt_step_take_over(step, qp->req.cur);
	return step;
}

static void cut(struct xt_qp *qp, struct xt_swqe *w, struct piece *p)
{
	uint32_t left;

	p->wqe = w;
	p->peer = xt_qp_by_num(qp->engine->shared->qps, qp->attr.dest_qp_num);
	p->index = qp->req.cur;
	p->step = step_of(qp);
	p->off = (qp->req.next - w->psn) << qp->mtu_shift;
	left = w->length - p->off;
	/* the rate limit may have changed since the writes of the piece have started */
	p->full = p->step->settled ? p->step->full : chunk(qp, p->peer);
	p->step->full = p->full;
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
static bool expected(const struct xt_qp *qp, const struct xt_qp *peer, const struct piece *p)
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
	       !xt_park_waits(&peer->park, XT_PARK_RESPONDER) &&
	       peer->attr.dest_qp_num == qp->info.qpn &&
	       !memcmp(&path->dgid, &back->sgid, sizeof(path->dgid)) &&
	       !memcmp(&path->sgid, &back->dgid, sizeof(path->sgid));
}

/* ---- posted writes -------------------------------------------------------------------------- */

/*
 * The writes of a piece to memory that may have to be waited for are posted, and the next piece is
 * moved meanwhile. Those of WRITEs and SENDs are posted at the responder as for packets, those of
 * READs at the requester. `next` is behind the last piece that was moved, `unacked` behind the last
 * one whose data is in memory. All that cannot be undone waits until no write is posted.
 */

/* Most bytes of posted writes of a QP, but for the last piece */
#define MAX_POSTED (256u << 10)

static bool has_posted(const struct xt_qp *qp)
{
	return qp->req.next != qp->req.unacked;
}

/* Returns the PSN behind the last piece whose data is in memory. */
static uint32_t settled_psn(const struct xt_qp *qp, const struct xt_qp *peer)
{
	const struct xt_requester *r = &qp->req;
	uint32_t psn, msn;

	if (xt_posted(&qp->park, XT_PARK_REQUESTER))
		return xt_posted_first(&qp->park, XT_PARK_REQUESTER);
	if (xt_unreliable(qp) || !peer || !xt_posted(&peer->park, XT_PARK_RESPONDER))
		return r->next;
	psn = xt_posted_psn(peer, &msn);
	return r->unacked + xr_psn_diff(psn & XR_PSN_MASK, r->unacked & XR_PSN_MASK);
}

/* Completes the work requests whose data is in memory. */
static void settle(struct xt_qp *qp, const struct xt_qp *peer)
{
	struct xt_requester *r = &qp->req;
	uint32_t psn = settled_psn(qp, peer), end;
	const struct xt_swqe *w;

	if (xt_diff(psn, r->unacked) <= 0 || xt_diff(psn, r->max) > 0)
		return;
	while (r->retired != r->cur && xt_swqe(qp, r->retired)->kind != XT_KIND_LOCAL) {
		w = xt_swqe(qp, r->retired);
		end = w->psn + w->npsn;
		if (xt_diff(end, psn) > 0)
			break;
		r->unacked = end;
		if (!xt_sq_retire(qp))
			return;
	}
	r->unacked = psn;
	xt_req_progress(qp, 0);
	xt_req_check_drained(qp);
	xt_qp_store_psns(qp);
}

/* Returns the QP whose pieces a QP receives over loopback, if its engine is the same. */
static struct xt_qp *sender_of(struct xt_qp *peer)
{
	struct xt_qp *qp = xt_qp_by_num(peer->engine->shared->qps, peer->attr.dest_qp_num);

	if (!peer->path.loopback || !qp || qp->engine != peer->engine || !qp->path.loopback ||
	    qp->attr.dest_qp_num != peer->info.qpn || !xt_may_send(qp))
		return NULL;
	return qp;
}

void xt_loopback_written(struct xt_qp *qp, enum xt_park_side side)
{
	struct xt_qp *sender = side == XT_PARK_REQUESTER ? qp : sender_of(qp);

	if (!qp->path.loopback || !sender || !xt_may_send(sender))
		return;
	settle(sender, side == XT_PARK_REQUESTER ? NULL : qp);
	xt_activate(sender);
}

void xt_loopback_write_failed(struct xt_qp *peer)
{
	struct xt_qp *qp = sender_of(peer);

	if (qp)
		xt_req_nak(qp, XR_NAK_REMOTE_OPERATIONAL);
}

/* The data of a READ flows from the peer. */
static void count_bytes(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	bool read = xt_kind_of(p->wqe)->response == XT_RESPONSE_READ;

	(read ? peer : qp)->counters.tx_bytes += p->len;
	(read ? qp : peer)->counters.rx_bytes += p->len;
}

static void advance(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	struct xt_requester *r = &qp->req;

	if (peer)
		count_bytes(qp, peer, p);
	r->next += p->packets;
	if (xt_diff(r->next, r->max) > 0)
		r->max = r->next;
	if (p->last) {
		r->cur++;
		qp->engine->counters.loopback_operations++;
	}
	settle(qp, peer);
}

/* Returns true if writes that are posted keep a work request from being executed. */
static bool must_settle(const struct xt_qp *qp, const struct xt_swqe *w)
{
	bool reads = xt_posted(&qp->park, XT_PARK_REQUESTER);
	uint32_t posted = (qp->req.next - qp->req.unacked) << qp->mtu_shift;

	if (!has_posted(qp))
		return false;
	if (posted >= MAX_POSTED || w->error.status || w->flags & XR_SEND_FENCE)
		return true;
	if (w->kind == XT_KIND_READ)
		return !reads;
	return reads ||
	       (w->kind != XT_KIND_WRITE && w->kind != XT_KIND_SEND && w->kind != XT_KIND_LOCAL);
}

/* Returns true if the writes of the last piece of a work request may be posted. */
static bool posts_last(const struct xt_qp *peer, const struct xt_swqe *w)
{
	if (w->kind == XT_KIND_SEND)
		return xt_resp_posts_receive(peer, w->opcode == XR_WR_SEND_WITH_INV);
	return !xt_has_imm(w);
}

/* Returns the step at which the writes of a piece are posted, NULL if they must be waited for. */
static struct xt_step *post_at(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	const struct xt_swqe *w = p->wqe;

	if (qp->info.type != XR_QPT_RC || peer->engine != qp->engine)
		return NULL;
	if (w->kind == XT_KIND_READ)
		return &qp->park.step[XT_STEP_PLACE_POST];
	if (p->last && !posts_last(peer, w))
		return NULL;
	return w->kind == XT_KIND_WRITE || w->kind == XT_KIND_SEND ? &peer->park.step[XT_STEP_POST]
								   : NULL;
}

/* The piece is lost: a reliable QP times out; UC and UD complete as if it had been sent. */
static void lost(struct xt_qp *qp, const struct piece *p)
{
	struct xt_sgl l = xt_swqe_sgl(qp, qp->req.retired);
	struct piece rest = *p;

	/* until the next try, the memory of the peer may change */
	xt_step_end(&qp->park.step[XT_STEP_AHEAD]);
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
	advance(qp, NULL, &rest);
}

/* ---- packets for captures ------------------------------------------------------------------ */

/* A QP that sends to itself may be in ERR already. */
static bool shows(const struct xt_qp *qp)
{
	return __builtin_expect(qp->engine->show_len, 0) && xt_may_send(qp);
}

static struct xt_shown shown(const struct xt_qp *qp, const struct piece *p)
{
	return (struct xt_shown){ p->index, qp->req.next, p->packets };
}

/* Requests of data, and the ACK that follows the last one */
static void show_data(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	const struct xt_shown s = shown(qp, p);

	xt_show_requests(qp, &s);
	if (p->last && !xt_unreliable(qp))
		xt_show_ack(peer, s.psn + s.packets - 1, XR_AETH_ACK | XR_AETH_CREDITS_INVALID);
}

static void show_nak(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p, uint32_t syndrome)
{
	const struct xt_shown s = shown(qp, p);

	xt_show_requests(qp, &s);
	xt_show_ack(peer, s.psn, syndrome);
}

/* A request that is completed by a response of its own */
static void show_single(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p, uint64_t old)
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
static void refused(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p, uint32_t code)
{
	if (shows(qp))
		show_nak(qp, peer, p, XR_AETH_NAK | code);
	if (xt_may_send(qp))
		xt_req_nak(qp, code);
}

/* Drops a message of an unreliable QP on both sides, because the peer could not receive it. */
static void dropped(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	xt_resp_drop_message(peer);
	if (xt_may_send(qp))
		lost(qp, p);
}

/*
 * A peer that has no receive looks for one some times before it answers with an RNR NAK, so that a
 * program that is about to post one costs less than the RNR timer, which is 640 us by default.
 */
#define LOOKS 6 /* after 4, 8, 16, 32, 64 and 128 us */
#define FIRST_LOOK_NS 4000ull

static void no_receive(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
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

/* Each returns false if memory must be waited for. */
static bool do_data(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
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
			.step = p->step,
		},
	};
	struct xt_result res;
	enum xt_outcome outcome;

	rq.flags = xr_opcodes[rq.op].flags;
	if (xt_unreliable(qp) && p->first)
		xt_resp_begin_message(peer, qp->req.next);
	outcome = xt_resp_request(peer, &rq, &res);
	/* not before the pieces in front of this one have succeeded */
	if ((outcome == XT_RNR || outcome == XT_SOURCE_ERROR) && has_posted(qp))
		return false;
	if (xt_unreliable(qp) && (outcome == XT_RNR || outcome == XT_REFUSED)) {
		dropped(qp, peer, p);
		return true;
	}
	switch (outcome) {
	case XT_ACCEPTED:
		if (shows(qp))
			show_data(qp, peer, p);
		/* a QP that sends to itself may have failed with its own receive completion */
		if (xt_may_send(qp))
			advance(qp, peer, p);
		break;
	case XT_RNR:
		no_receive(qp, peer, p);
		break;
	case XT_SOURCE_ERROR:
		xt_sq_fail(qp, res.error);
		break;
	case XT_REFUSED:
		refused(qp, peer, p, res.nak);
		break;
	case XT_PARKED:
		return false;
	}
	return true;
}

/* Advances the peer's responder behind a request whose response was processed at once. */
static void peer_done(struct xt_qp *peer, const struct piece *p)
{
	peer->resp.epsn += p->packets;
	peer->resp.msn += p->last;
	peer->counters.rx_messages += p->last;
}

static bool do_read(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
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
	struct xt_source src = { .step = p->step };
	struct xt_wc_error error;
	struct xt_mem_at at = { 0 };
	enum xt_side side;
	int nak;

	nak = p->step->settled ? -1 : xt_resp_check(peer, &use, &at);
	if (nak >= 0) {
		if (has_posted(qp))
			return false;
		xt_resp_refuse(peer, nak);
		refused(qp, peer, p, (uint32_t)nak);
		return true;
	}
	src.mem = at.mem;
	src.off = at.off;
	side = xt_scatter(&l, p->off, &src, p->len, &error);
	if (side == XT_SIDE_WAIT || (side != XT_SIDE_NONE && has_posted(qp)))
		return false;
	if (side == XT_SIDE_SOURCE) {
		xt_resp_refuse(peer, XR_NAK_REMOTE_OPERATIONAL);
		refused(qp, peer, p, XR_NAK_REMOTE_OPERATIONAL);
	} else if (side == XT_SIDE_TARGET) {
		xt_sq_fail(qp, error);
	} else {
		peer_done(peer, p);
		if (shows(qp))
			show_single(qp, peer, p, 0);
		advance(qp, peer, p);
	}
	return true;
}

/* A request of one packet that is completed by a response without a payload */
static bool do_single(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	const struct xt_swqe *w = p->wqe;
	struct xt_request rq = {
		.op = xt_wr_opcode(w->opcode)->op,
		.va = w->remote_addr,
		.rkey = w->rkey,
		.len = w->length,
		.total = w->length,
		.src = { .qp = qp, .index = p->index, .step = p->step },
	};
	const struct xt_kind *kind = xt_kind_of(w);
	enum xt_side side = XT_SIDE_NONE;
	enum xt_outcome outcome;
	struct xt_result res;

	if (kind->request)
		kind->request(w, &rq);
	if (p->step->atomic_done) {
		outcome = XT_ACCEPTED;
		res.old = p->step->atomic_old;
	} else {
		outcome = kind->execute(peer, &rq, &res);
	}
	if (outcome == XT_PARKED)
		return false;
	if (outcome == XT_REFUSED) {
		xt_resp_refuse(peer, res.nak);
		refused(qp, peer, p, res.nak);
		return true;
	}
	if (outcome == XT_ACCEPTED && kind->response == XT_RESPONSE_ATOMIC)
		side = xt_req_store_atomic(p->step, res.old, &res.error);
	if (side == XT_SIDE_WAIT) {
		xt_step_executed(p->step, res.old);
		return false;
	}
	if (outcome == XT_ACCEPTED)
		peer_done(peer, p);
	if (outcome == XT_ACCEPTED && shows(qp))
		show_single(qp, peer, p, res.old);
	if (outcome == XT_ACCEPTED && side == XT_SIDE_NONE)
		advance(qp, peer, p);
	else
		xt_sq_fail(qp, res.error);
	return true;
}

/* Returns true if the responder must refuse a READ or atomic, as it would refuse a packet. */
static bool out_of_place(struct xt_qp *peer)
{
	return peer->resp.kind != XT_KIND_NONE || !peer->attr.max_dest_rd_atomic;
}

/* Returns false if memory must be waited for. */
static bool perform(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	const struct xt_kind *kind = xt_kind_of(p->wqe);
	bool done = true;

	xt_resp_established(peer);
	if (!kind->rd_atomic) {
		done = do_data(qp, peer, p);
	} else if (out_of_place(peer) || xt_resp_select_srq(peer, p->wqe->srqn) >= 0) {
		if (has_posted(qp))
			return false;
		xt_resp_refuse(peer, XR_NAK_INVALID_REQUEST);
		refused(qp, peer, p, XR_NAK_INVALID_REQUEST);
	} else if (kind->response == XT_RESPONSE_READ) {
		done = do_read(qp, peer, p);
	} else {
		done = do_single(qp, peer, p);
	}
	xt_qp_store_psns(peer);
	return done;
}

/* ---- the send queue ---------------------------------------------------------------------- */

/* READs behind the current one whose data is read ahead */
#define AHEAD_READS 16

/* Returns true if all these bytes are in one segment of the peer that must be waited for. */
static bool waits(struct xt_qp *qp, struct xt_qp *peer, struct xr_key_use *use,
		  struct xt_mem_at *at)
{
	use->access = XR_ACCESS_REMOTE_READ;
	return xt_resp_check(peer, use, at) < 0 &&
	       xt_mem_waits(&qp->park.step[XT_STEP_AHEAD], at->mem, at->off, use->len);
}

/* Starts to read the data of a READ that is posted, but not loaded; see xt_sq_read_ahead(). */
static bool fetch_read(struct xt_qp *qp, struct xt_qp *peer, uint32_t index)
{
	const uint8_t *slot = xt_ring_entry(qp->sq_ring, index, qp->sq_depth, qp->sq_stride);
	struct xr_key_use use = { 0 };
	struct xr_send_wqe wqe;
	struct xt_mem_at at;
	struct xr_sge sge;

	memcpy(&wqe, slot, sizeof(wqe));
	if (xt_wr_opcode(wqe.opcode)->kind != XT_KIND_READ || wqe.num_sge != 1 ||
	    !qp->max_send_sge || wqe.flags & (XR_SEND_INLINE | XR_SEND_FENCE))
		return false;
	memcpy(&sge, slot + sizeof(wqe), sizeof(sge));
	use.key = wqe.rkey;
	use.va = wqe.remote_addr;
	use.len = sge.length;
	return sge.length && sge.length <= XT_MEM_IO_MAX && waits(qp, peer, &use, &at) &&
	       xt_mem_fetch(&qp->park.step[XT_STEP_AHEAD], index, at.mem, at.off, use.len);
}

/*
 * An earlier WRITE may change what a READ returns, so data is read ahead behind READs only. READs
 * are executed in order, so none is read ahead of an earlier one.
 */
static void read_ahead(struct xt_qp *qp, struct xt_qp *peer, const struct piece *p)
{
	struct xt_step *ahead = &qp->park.step[XT_STEP_AHEAD];
	uint32_t index = p->index, end = index + 1 + AHEAD_READS;
	struct xr_key_use use = {
		.key = p->wqe->rkey,
		.va = p->wqe->remote_addr + p->off,
		.len = p->len,
	};
	struct xt_mem_at at;

	/* pieces are shorter than what would be read */
	if (qp->attr.rate_limit || has_integrity(qp, peer))
		return;
	if (p->wqe->kind == XT_KIND_SEND || p->wqe->kind == XT_KIND_WRITE)
		xt_sq_read_ahead(qp, index);
	if (p->wqe->kind != XT_KIND_READ || !p->last || qp->info.state != XR_QPS_RTS)
		return;
	if (xt_diff(end, qp->req.producer) > 0)
		end = qp->req.producer;
	if (!waits(qp, peer, &use, &at) || !xt_step_look_ahead(ahead, index, end))
		return;
	while (xt_step_may_fetch(ahead, end) && fetch_read(qp, peer, ahead->item))
		ahead->item++;
}

static enum step step(struct xt_qp *qp, const struct piece *p)
{
	struct xt_engine *e = qp->engine, *other;
	struct xt_qp *peer = p->peer;
	bool done = true;

	if (!peer) {
		lost(qp, p);
	} else {
		other = peer->engine;
		if (!xt_engine_enter(e, other))
			return STEP_BUSY;
		p->step->moving = true;
		p->step->post = post_at(qp, peer, p);
		p->step->fenced = xt_posted(&peer->park, XT_PARK_RESPONDER);
		if (reachable(qp, peer) && expected(qp, peer, p))
			done = perform(qp, peer, p);
		else if (has_posted(qp))
			done = false;
		else
			lost(qp, p);
		if (p->step->used && qp->req.cur == p->index)
			read_ahead(qp, peer, p);
		p->step->moving = p->step->fenced = false;
		p->step->post = NULL;
		xt_engine_leave(e, other);
	}
	if (!done) {
		xt_step_park(p->step);
		return STEP_PARKED;
	}
	xt_step_end(p->step);
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
	enum step next = STEP_ON;
	struct xt_swqe *w;
	struct piece p;

	/* no work request is loaded, so that run_sends() goes on */
	if (cost >= budget) {
		*more = true;
		return cost;
	}
	while (next == STEP_ON && r->wait == XT_WAIT_NONE && (w = xt_sq_current(qp))) {
		if (must_settle(qp, w))
			break;
		if (w->error.status) {
			xt_sq_fail(qp, w->error);
			break;
		}
		/* one that was begun before is begun again */
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
		cut(qp, w, &p);
		cost += xt_loopback_cost(p.len);
		next = step(qp, &p);
		if (next == STEP_PARKED)
			break;
		xt_flow_charge(qp->flow, XT_PACKET_COST + p.len);
		if (next != STEP_BUSY)
			xt_pace_spend(qp, xt_frame_len(&qp->tmpl, p.len));
	}
	if (next == STEP_BUSY)
		*more = true;
	return cost;
}

void xt_loopback_stop_peer(struct xt_qp *qp)
{
	struct xt_engine *e = qp->engine;
	struct xt_qp *peer = xt_qp_by_num(e->shared->qps, qp->attr.dest_qp_num);
	struct xt_step *step = peer ? &peer->park.step[XT_STEP_SEND] : NULL;
	/* stopped by a piece that it moves itself */
	bool entered = qp->park.step[XT_STEP_SEND].moving;

	if (!peer || peer == qp || !peer->path.loopback || peer->attr.dest_qp_num != qp->info.qpn)
		return;
	/* the writes that it had posted were given up */
	if (peer->engine == e && has_posted(peer) && xt_may_send(peer))
		xt_req_go_back(peer);
	if (!__atomic_load_n(&step->used, __ATOMIC_RELAXED))
		return;
	/* stopped by a piece that the peer moves, which sees the result */
	if (step->moving)
		return;
	/* if the peer's engine is busy, the accesses take effect */
	if (!entered && !xt_engine_enter(e, peer->engine))
		return;
	if (step->used) {
		xt_step_clear(step);
		xt_step_end(&peer->park.step[XT_STEP_AHEAD]);
		xt_activate(peer);
		if (peer->engine != e && e->ops->wake)
			e->ops->wake(e->ctx, peer->engine);
	}
	if (!entered)
		xt_engine_leave(e, peer->engine);
}
