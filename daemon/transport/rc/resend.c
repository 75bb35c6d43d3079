// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sending again: after the timeout of the program, after a NAK, for a missing READ response, and to
 * ask for a response that is overdue.
 */
#include <xroce/probes.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/qp.h"
#include "requester.h"
#include "resend.h"
#include "rtt.h"
#include "sent.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/scheduling/timer.h"

/* Smallest window after losses */
#define SHRUNK_WINDOW XT_ACK_EVERY
/* After this time without a response, a QP gives back its share of the engine's window. */
#define STALL_NS 1000000000ull
/* Probes without a response that are sent before their interval doubles */
#define EARLY_PROBES 4
#define MAX_DOUBLINGS 3

/* ---- the timer ------------------------------------------------------------------------- */

static void resend_charge(struct xt_qp *qp)
{
	uint32_t inflight = qp->req.stalled ? 0 : qp->req.next - qp->req.unacked;

	xt_flow_set_inflight(qp, inflight);
}

static uint64_t ack_timeout_ns(const struct xt_qp *qp)
{
	return qp->attr.timeout ? 4096ull << qp->attr.timeout : XT_NEVER;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * A response that is overdue is asked for, and after the first few times after twice the time each.
 * They are likely to be lost in the same burst, which may last for some packets, however late these
 * are sent. But if packets wait in queues, the response probably does, too. Packets of busy QPs of
 * a client queue behind each other, so the time is multiplied by the number of these QPs. Otherwise
 * responses to thousands of QPs are overdue without a loss, and probes lengthen the queue.
 * While no packets are lost, a response is not overdue either if others came as late.
 */
static uint64_t next_probe(const struct xt_qp *qp)
{
	uint64_t busy = qp->flow->busy ? qp->flow->busy : 1;
	bool again = xt_sends_again(&qp->req);
	uint64_t ns = busy * (again ? xt_rtt_late(qp) : xt_rtt_overdue(qp));
	bool lossy = again || qp->engine->now < qp->engine->lossy_until;
	uint64_t varies = lossy ? 0 : xt_rtt_varies(qp);
	unsigned int early = xt_rtt_queued(qp) ? 1 : EARLY_PROBES;
	unsigned int doublings = qp->req.probes > early ? qp->req.probes - early : 0;

	if (doublings > MAX_DOUBLINGS)
		doublings = MAX_DOUBLINGS;
	return qp->engine->now + ((ns > varies ? ns : varies) << doublings);
}

static void set_timer(struct xt_qp *qp)
{
	uint64_t stall_at = qp->req.stalled ? XT_NEVER : qp->req.stall_at;

	xt_timer_set_retry(qp, earlier(qp->req.ack_deadline, earlier(qp->req.probe_at, stall_at)));
}

void xt_req_arm_ack_timer(struct xt_qp *qp)
{
	uint64_t now = qp->engine->now, timeout = ack_timeout_ns(qp);

	qp->req.ack_deadline = timeout == XT_NEVER ? XT_NEVER : now + timeout;
	qp->req.probe_at = timeout == XT_NEVER || qp->path.loopback ? XT_NEVER : next_probe(qp);
	qp->req.stall_at = now + STALL_NS;
	set_timer(qp);
}

void xt_req_update(struct xt_qp *qp, bool progress)
{
	struct xt_requester *r = &qp->req;

	resend_charge(qp);
	if (r->next == r->unacked) {
		if (r->wait == XT_WAIT_ACK) {
			r->wait = XT_WAIT_NONE;
			xt_timer_set_retry(qp, XT_NEVER);
		}
	} else if (progress || r->wait == XT_WAIT_NONE) {
		r->wait = XT_WAIT_ACK;
		xt_req_arm_ack_timer(qp);
	}
}

void xt_req_go_back(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;

	/* Acknowledged WRs are retired, so `unacked` belongs to the oldest WR left. */
	r->next = r->unacked;
	qp->sq.cur = qp->sq.retired;
	r->sent.count = 0;
	r->resend = r->probe = false;
	r->lost = r->executed;
	r->dropped = false;
	r->rd_inflight = 0;
	r->posted = 0;
	r->since_ackreq = XT_ACK_EVERY;
	r->ackreq_psn = r->unacked - 1;
	xt_rtt_cancel(qp);
	if (r->wait == XT_WAIT_ACK) {
		r->wait = XT_WAIT_NONE;
		xt_timer_set_retry(qp, XT_NEVER);
	}
	resend_charge(qp);
	xt_activate(qp);
}

bool xt_req_resend_ackreq(struct xt_qp *qp)
{
	struct xt_send_queue *sq = &qp->sq;
	struct xt_requester *r = &qp->req;
	const struct xt_swqe *w = xt_swqe(qp, sq->cur);
	uint32_t begun = sq->cur == sq->loaded ? 0 : r->next - w->psn;

	/* since_ackreq also counts the packets of `cur` that were already sent */
	if (qp->path.loopback || sq->cur == sq->retired || r->since_ackreq <= begun)
		return false;
	/* Only a SEND or WRITE omits AckReq from its last packet, so `cur - 1` is one. */
	w = xt_swqe(qp, --sq->cur);
	r->next = w->psn + w->npsn - 1;
	return true;
}

/*
 * Shrinks the window once for the losses of a round trip. If the peer keeps what follows a lost
 * packet, and packets do not wait in queues, the loss is no sign of overload. A smaller window
 * would only stop the requester while it waits for what is missing.
 */
static void shrink(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;
	uint32_t less = r->window / 4 * 3;

	if (xt_diff(r->unacked, r->shrunk_psn) < 0)
		return;
	r->shrunk_psn = r->next;
	if (r->run == 1 && !xt_rtt_queued(qp))
		return;
	if (r->window > SHRUNK_WINDOW)
		r->window = less > SHRUNK_WINDOW ? less : SHRUNK_WINDOW;
}

/* Uses one retry. Returns false if none was left; the QP is in ERR then. */
static bool use_retry(struct xt_qp *qp)
{
	static const struct xt_wc_error exceeded = { IBV_WC_RETRY_EXC_ERR, XR_VERR_TIMEOUT };
	struct xt_requester *r = &qp->req;

	/* earlier ones have to complete first, whose data is being stored */
	if (!r->retry_left && qp->sq.completed != qp->sq.retired) {
		xt_req_arm_ack_timer(qp);
		return false;
	}
	if (!r->retry_left) {
		xt_sq_fail(qp, exceeded);
		return false;
	}
	r->retry_left--;
	shrink(qp);
	return true;
}

/* Something is to be sent again. */
static void resend(struct xt_qp *qp)
{
	xt_engine_lossy(qp->engine);
	qp->req.resend = true;
	xt_activate(qp);
}

static struct xt_sent *oldest(struct xt_requester *r)
{
	return xt_sent_find(&r->sent, r->unacked, r->unacked + 1);
}

/*
 * Returns true if the oldest packet is to be sent again now. If the peer has asked for it, the
 * first time costs a retry. Otherwise its loss is inferred, maybe from the response to a probe that
 * came too early. Later times cost none, as the timeout of the program limits them; a response to
 * the last time has to be overdue, or was passed.
 */
static bool may_resend(struct xt_qp *qp, bool asked)
{
	struct xt_requester *r = &qp->req;
	struct xt_sent *s = oldest(r);

	if (r->wait == XT_WAIT_RNR)
		return false;
	if (s) {
		s->passed |= qp->engine->now - s->at >= xt_rtt_late(qp);
		return s->passed;
	}
	if (r->resend)
		return true;
	xt_rtt_cancel(qp);
	if (asked)
		return use_retry(qp);
	shrink(qp);
	return true;
}

/*
 * The oldest packet is lost. A peer may keep the packets behind it, or drop them (go back N). The
 * number of packets to be sent again follows from what happens: it doubles while the next one turns
 * out to be missing, and is 1 again when the peer turns out to have kept that, but not all others.
 */
static void resend_lost(struct xt_qp *qp, bool asked)
{
	struct xt_requester *r = &qp->req;
	uint32_t in_flight = r->next - r->unacked;

	if (!may_resend(qp, asked))
		return;
	if (r->dropped && r->run < r->most)
		r->run *= 2;
	/* what is inferred may be wrong, and says nothing of later packets */
	if (asked || r->dropped)
		r->horizon = r->next;
	r->dropped = false;
	if (xt_diff(r->executed, r->unacked) <= 0)
		r->lost = r->unacked + (in_flight < r->run ? in_flight : r->run);
	resend(qp);
}

void xt_req_lost(struct xt_qp *qp)
{
	xt_rtt_lost(qp);
	resend_lost(qp, true);
}

void xt_req_acked(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;
	struct xt_acked acked = { .horizon = r->unacked };

	xt_req_executed(qp, r->unacked);
	r->probe = false;
	if (__builtin_expect(r->sent.count, 0))
		acked = xt_sent_acked(&r->sent, r->unacked);
	if (acked.kept)
		r->run = 1;
	if (r->resend)
		return;
	r->horizon = acked.horizon;
	r->dropped = acked.dropped;
}

void xt_req_check_rest(struct xt_qp *qp)
{
	if (!qp->req.resend && xt_diff(qp->req.horizon, qp->req.unacked) > 0)
		resend_lost(qp, false);
}

void xt_req_executed(struct xt_qp *qp, uint32_t psn)
{
	struct xt_requester *r = &qp->req;

	if (xt_diff(psn, r->executed) > 0)
		r->executed = psn;
	if (xt_diff(r->executed, r->lost) > 0)
		r->lost = r->executed;
}

void xt_req_response_lost(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;

	if (r->wait == XT_WAIT_RNR)
		return;
	if (!r->resend && !oldest(r)) {
		xt_rtt_cancel(qp);
		if (!use_retry(qp))
			return;
	}
	resend(qp);
}

void xt_req_next_lost(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;

	if (r->wait == XT_WAIT_RNR)
		return;
	if (r->lost == r->executed)
		r->lost++;
	resend(qp);
}

/*
 * Returns true if a missing response is no sign of loss: it may be held, or no packet in flight
 * requests one, because the packet that would waits for memory.
 */
static bool waits_for_memory(const struct xt_qp *qp)
{
	const struct xt_requester *r = &qp->req;

	return qp->waiting.held[XT_REQUESTER] ||
	       (qp->accesses.reads[XT_READS_SEND].waits && xt_diff(r->ackreq_psn, r->unacked) < 0);
}

/*
 * Asks for a response that is overdue by sending the oldest packet again. That costs no retry, as
 * the timeout that the program has set has not expired.
 */
static void resend_probe(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;

	if (!r->resend) {
		if (xt_diff(r->executed, r->unacked) <= 0)
			r->lost = r->unacked + 1;
		r->probe = true;
		r->horizon = r->next;
		resend(qp);
		xt_rtt_asked(qp);
	}
	if (r->probes < EARLY_PROBES + MAX_DOUBLINGS)
		r->probes++;
	qp->req.probe_at = next_probe(qp);
}

/* The timer has expired before the timeout of the program. */
static void resend_overdue(struct xt_qp *qp)
{
	uint64_t now = qp->engine->now;

	if (now >= qp->req.probe_at)
		resend_probe(qp);
	if (now >= qp->req.stall_at) {
		qp->req.stalled = true;
		resend_charge(qp);
	}
	set_timer(qp);
}

void xt_req_timeout(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;

	if (!xt_may_send(qp))
		return; /* it has failed in this round */
	if (r->wait == XT_WAIT_RNR) {
		r->wait = XT_WAIT_NONE;
		xt_activate(qp);
		return;
	}
	if (r->wait == XT_WAIT_NONE)
		return;
	if (waits_for_memory(qp)) {
		xt_req_arm_ack_timer(qp);
		return;
	}
	if (qp->engine->now < qp->req.ack_deadline) {
		resend_overdue(qp);
		return;
	}
	XT_QP_COUNT(qp, timeouts, 1);
	XR_PROBE3(retry, qp->info.qpn, r->unacked & XR_PSN_MASK, r->retry_left);
	if (!use_retry(qp))
		return;
	r->wait = XT_WAIT_NONE;
	r->window = SHRUNK_WINDOW;
	xt_req_go_back(qp);
}
