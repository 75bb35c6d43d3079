// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "posted.h"
#include "daemon/transport/memory/ending.h"
#include "daemon/transport/rc/completer.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "piece.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/rc/requester.h"
#include "daemon/transport/rc/resend.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/waiting/posted.h"

/* Most bytes of posted writes of a QP, but for the last piece */
#define MAX_POSTED (256u << 10)

/* Returns a PSN of the peer as the requester counts it. */
static uint32_t posted_from_peer(const struct xt_requester *r, uint32_t psn)
{
	return r->unacked + xr_psn_diff(psn & XR_PSN_MASK, r->unacked & XR_PSN_MASK);
}

/* Returns the PSN behind the last piece whose data is in memory. */
static uint32_t settled_psn(const struct xt_qp *qp, const struct xt_qp *peer)
{
	const struct xt_requester *r = &qp->req;

	if (xt_posted(&qp->accesses, XT_REQUESTER))
		return xt_posted_first(&qp->accesses, XT_REQUESTER);
	if (xt_unreliable(qp) || !peer)
		return r->next;
	/* it has given up what was posted, see lose_pieces() */
	if (!xt_may_receive(peer))
		return r->unacked;
	if (!xt_posted(&peer->accesses, XT_RESPONDER))
		return r->next;
	return posted_from_peer(r, xt_posted_first(&peer->accesses, XT_RESPONDER));
}

/* The data before a PSN is in memory. */
static void settle_to(struct xt_qp *qp, uint32_t psn)
{
	const struct xt_send_queue *sq = &qp->sq;
	struct xt_requester *r = &qp->req;
	const struct xt_swqe *w;
	uint32_t end;

	if (xt_diff(psn, r->unacked) <= 0 || xt_diff(psn, r->max) > 0)
		return;
	while (sq->retired != sq->cur && xt_swqe(qp, sq->retired)->kind != XT_KIND_LOCAL) {
		w = xt_swqe(qp, sq->retired);
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

void xt_loopback_settle(struct xt_qp *qp, const struct xt_qp *peer)
{
	settle_to(qp, settled_psn(qp, peer));
}

/* Returns true if the peer has posted writes of the QP that have not ended. */
static bool is_pending(const struct xt_qp *qp)
{
	return xt_has_posted(qp) || qp->req.posted;
}

static bool posted_sends_to(const struct xt_qp *qp, const struct xt_qp *peer)
{
	return qp->path.loopback && qp->attr.dest_qp_num == peer->info.qpn;
}

/* Returns the QP that sends to the peer over loopback, if its engine is the same. */
static struct xt_qp *sender_here(struct xt_qp *peer)
{
	struct xt_qp *qp = xt_qp_by_num(peer->engine->shared->qps, peer->attr.dest_qp_num);

	if (!peer->path.loopback || !qp || qp->engine != peer->engine ||
	    !posted_sends_to(qp, peer) || !xt_may_send(qp))
		return NULL;
	return qp;
}

void xt_loopback_written(struct xt_qp *qp, enum xt_qp_side side)
{
	struct xt_qp *sender = side == XT_REQUESTER ? qp : sender_here(qp);

	if (!qp->path.loopback || !sender || !xt_may_send(sender))
		return;
	xt_loopback_settle(sender, side == XT_REQUESTER ? NULL : qp);
	xt_activate(sender);
}

void xt_loopback_stopped(struct xt_qp *qp)
{
	struct xt_qp *sender = sender_here(qp);

	/* it may have posted writes here, or wait for those of earlier pieces */
	if (sender && sender != qp)
		xt_activate(sender);
}

/* ---- the peer ------------------------------------------------------------------------------ */

void xt_loopback_began(struct xt_qp *qp, struct xt_qp *peer, bool done)
{
	struct xt_engine *e = qp->engine;

	qp->req.peer_stops = peer->waiting.stops;
	if (peer->engine == e || (done && !is_pending(qp)))
		return;
	xt_ending_poll(qp);
	/* it may sleep, and collects the results of accesses */
	if (e->ops->wake)
		e->ops->wake(e->ctx, peer->engine);
}

/* Returns the PSN behind the data that was in memory when the peer was stopped. */
static uint32_t stopped_psn(const struct xt_requester *r, const struct xt_qp *peer)
{
	/* it was connected again, and stopped again */
	if (peer->waiting.stops != r->peer_stops + 1)
		return r->unacked;
	return posted_from_peer(r, peer->waiting.stopped_psn);
}

/*
 * The pieces whose writes were posted, and given up, are lost. If one failed, it is refused. Those
 * before them are done: the program of the peer may have seen that, and so have stopped its QP.
 */
static void lose_pieces(struct xt_qp *qp, const struct xt_qp *peer)
{
	struct xt_requester *r = &qp->req;

	r->posted = 0;
	if (peer && !xt_unreliable(qp))
		settle_to(qp, stopped_psn(r, peer));
	if (!xt_may_send(qp))
		return;
	if (peer && !xt_unreliable(qp) && peer->resp.write_failed)
		xt_req_nak(qp, XR_NAK_REMOTE_OPERATIONAL);
	else
		xt_req_go_back(qp);
}

bool xt_loopback_check(struct xt_qp *qp, const struct xt_qp *peer)
{
	/* the data of READs is posted here */
	if (__builtin_expect(!is_pending(qp), true) || xt_posted(&qp->accesses, XT_REQUESTER))
		return true;
	if (peer && peer->waiting.stops == qp->req.peer_stops)
		return true;
	lose_pieces(qp, peer);
	return false;
}

struct xt_qp *xt_loopback_sender(const struct xt_qp *peer)
{
	struct xt_qp *qp = xt_qp_by_num(peer->engine->shared->qps, peer->attr.dest_qp_num);

	return peer->path.loopback && qp && qp != peer && posted_sends_to(qp, peer) ? qp : NULL;
}

void xt_loopback_peer_stopped(struct xt_qp *sender, const struct xt_qp *peer, uint64_t now)
{
	sender->engine->now = now;
	if (!xt_may_send(sender))
		return;
	xt_loopback_check(sender, peer);
	xt_activate(sender);
}

bool xt_loopback_look(struct xt_qp *qp)
{
	struct xt_engine *e = qp->engine;
	struct xt_qp *peer;

	if (__builtin_expect(!is_pending(qp), true))
		return true;
	peer = xt_qp_by_num(e->shared->qps, qp->attr.dest_qp_num);
	if (!peer) {
		xt_loopback_check(qp, NULL);
		return true;
	}
	if (!xt_engine_enter(e, peer->engine))
		return false;
	if (xt_loopback_check(qp, peer) && peer->engine != e) {
		xt_loopback_settle(qp, peer);
		if (is_pending(qp))
			xt_ending_poll(qp);
	}
	xt_engine_leave(e, peer->engine);
	return true;
}

bool xt_loopback_must_settle(const struct xt_qp *qp, const struct xt_swqe *w)
{
	bool reads = xt_posted(&qp->accesses, XT_REQUESTER);
	uint32_t posted = (qp->req.next - qp->req.unacked) << qp->mtu_shift;

	if (posted >= MAX_POSTED || w->error.status || w->flags & XR_SEND_FENCE)
		return true;
	if (w->kind == XT_KIND_READ)
		return !reads;
	return reads ||
	       (w->kind != XT_KIND_WRITE && w->kind != XT_KIND_SEND && w->kind != XT_KIND_LOCAL);
}
