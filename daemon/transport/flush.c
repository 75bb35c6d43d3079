// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Stops QPs, and flushes those that have failed. */
#include "daemon/transport/memory/ending.h"
#include "engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "flush.h"
#include "daemon/transport/loopback/posted.h"
#include "qp.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/rc/responder.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/scheduling/timer.h"

#define OF_FAILED(l) ((struct xt_qp *)((char *)(l)-offsetof(struct xt_qp, failed_link)))

void xt_qp_stop(struct xt_qp *qp)
{
	xt_flow_forget(qp);
	xt_list_del(&qp->ack_link);
	xt_list_del(&qp->failed_link);
	xt_timer_remove(qp);
	xt_flow_set_inflight(qp, 0);
	qp->req.stalled = false;
	qp->req.wait = XT_WAIT_NONE;
	qp->resp.ack_due = XT_ACK_DUE_NONE;
	xt_waiting_stop(qp, xt_resp_done_psn(qp));
	xt_ending_stop(qp);
	if (qp->path.loopback)
		xt_loopback_stopped(qp);
}

bool xt_qp_flush(struct xt_qp *qp, uint32_t most)
{
	bool more = xt_sq_flush(qp, most);

	if (qp->info.state == XR_QPS_ERR)
		more |= xt_rq_flush(qp, most);
	return more;
}

/* The caller may be the control thread while the worker is paused. */
static void begin_flush(struct xt_qp *qp)
{
	struct xt_engine *e = qp->engine;

	if (!xt_qp_flush(qp, XT_FLUSH_AT_ONCE))
		return;
	xt_activate(qp);
	if (e->ops->wake)
		e->ops->wake(e->ctx, e);
}

/* IBTA 10.3.1: the QP takes no more receives of the SRQ, and those taken have completed. */
static void flush_in_error(struct xt_qp *qp)
{
	begin_flush(qp);
	if (qp->srq)
		xt_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

bool xt_qp_ending(struct xt_qp *qp)
{
	return !xt_list_empty(&qp->accesses.given_up) ||
	       xt_ending_key_waits(&qp->ending.key[XT_REQUESTER], qp->engine);
}

/* The QP is flushed when what it has given up has ended. Callers as above. */
static void flush_hold(struct xt_qp *qp)
{
	struct xt_engine *e = qp->engine;

	qp->ending.hold_until = e->now + XT_ENDING_NS;
	xt_ending_poll(qp);
	if (e->ops->wake)
		e->ops->wake(e->ctx, e);
}

bool xt_qp_may_flush(struct xt_qp *qp)
{
	struct xt_ending *ending = &qp->ending;

	if (!xt_list_empty(&qp->failed_link))
		return false;
	if (__builtin_expect(!ending->hold_until, true))
		return true;
	if (qp->engine->now < ending->hold_until && xt_qp_ending(qp)) {
		xt_ending_poll(qp);
		return false;
	}
	ending->hold_until = 0;
	flush_in_error(qp);
	return true;
}

/* A QP in ERR still sends its last NAK, and the READ responses before it. */
static void stop_failed(struct xt_qp *qp)
{
	bool nak = qp->resp.ack_due == XT_ACK_DUE_NAK;

	xt_qp_stop(qp);
	if (!nak)
		return;
	qp->resp.ack_due = XT_ACK_DUE_NAK;
	xt_schedule_response(qp);
}

static void in_error(struct xt_qp *qp)
{
	if (xt_qp_ending(qp))
		flush_hold(qp);
	else
		flush_in_error(qp);
}

static void in_sq_error(struct xt_qp *qp)
{
	struct xt_requester *r = &qp->req;

	xt_reads_end(&qp->accesses.reads[XT_READS_SEND]);
	xt_reads_end(&qp->accesses.reads[XT_READS_SEND_AHEAD]);
	/* WRs that were loaded but not sent release their PSNs */
	qp->sq.load_psn = r->next;
	begin_flush(qp);
}

void xt_flush_if_failed(struct xt_qp *qp)
{
	struct xt_engine *e = qp->engine;
	bool in_err = qp->info.state == XR_QPS_ERR;

	if (xt_list_empty(&qp->failed_link))
		return;
	xt_list_del(&qp->failed_link);
	if (in_err)
		stop_failed(qp);
	if (qp->unreported)
		e->ops->qp_state(e->ctx, qp);
	qp->unreported = false;
	if (in_err)
		in_error(qp);
	else
		in_sq_error(qp);
}

void xt_flush_failed(struct xt_engine *e)
{
	while (__builtin_expect(!xt_list_empty(&e->failed), false))
		xt_flush_if_failed(OF_FAILED(e->failed.next));
}
