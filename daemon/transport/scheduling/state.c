// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * States of QPs, where the program and the host read them. A part of a QP that finds an error only
 * marks the QP as failed: flush.c stops and flushes it when the engine has finished what it does.
 */
#include <xroce/probes.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"

/* ---- states for others ------------------------------------------------------------- */

/* The QP of the GSI is always there, and its datagrams are few. */
static void count_receivers(struct xt_qp *qp, int change)
{
	struct xt_receivers *r = &qp->engine->shared->receivers;

	if (qp->info.qpn != XR_GSI_QPN && xt_may_receive(qp))
		__atomic_add_fetch(xt_unreliable(qp) ? &r->unreliable : &r->reliable, change,
				   __ATOMIC_RELAXED);
}

/* Must precede a flush: clients store their index before they read the state (ring.h). */
void xt_qp_store_state(struct xt_qp *qp, uint32_t state)
{
	count_receivers(qp, -1);
	qp->info.state = state;
	count_receivers(qp, 1);
	if (qp->sq_ring)
		__atomic_store_n(&qp->sq_ring->word, state, __ATOMIC_RELAXED);
	if (qp->rq_ring)
		__atomic_store_n(&qp->rq_ring->word, state, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- failures ------------------------------------------------------------------------------- */

void xt_qp_note(struct xt_qp *qp, enum xt_cause cause, uint32_t status, uint32_t verr)
{
	if (qp->info.state == XR_QPS_ERR)
		return;
	qp->failure = (struct xt_failure){
		.at = qp->engine->now,
		.cause = (uint8_t)cause,
		.status = (uint8_t)status,
		.verr = verr,
	};
	XR_PROBE4(qp_error, qp->info.qpn, xt_failure_cause(&qp->failure), status, verr);
}

/* The caller may be another engine, or the control thread while the worker is paused. */
static void state_fail(struct xt_qp *qp, bool by_engine)
{
	struct xt_engine *e = qp->engine;

	qp->unreported |= by_engine;
	if (xt_list_empty(&qp->failed_link))
		xt_list_add_tail(&e->failed, &qp->failed_link);
	if (e->ops->wake)
		e->ops->wake(e->ctx, e);
}

void xt_qp_error(struct xt_qp *qp, bool by_engine)
{
	if (qp->info.state == XR_QPS_ERR)
		return;
	xt_qp_store_state(qp, XR_QPS_ERR);
	state_fail(qp, by_engine);
}

void xt_qp_sq_error(struct xt_qp *qp)
{
	xt_qp_store_state(qp, XR_QPS_SQE);
	state_fail(qp, true);
}

void xt_qp_fatal(struct xt_qp *qp)
{
	if (qp->ring_bad)
		return;
	qp->ring_bad = true;
	xt_qp_note(qp, XT_CAUSE_RING, 0, 0);
	xt_event(qp, IBV_EVENT_QP_FATAL);
	xt_qp_error(qp, true);
}

void xt_qp_completion_lost(struct xt_qp *qp)
{
	if (qp->info.state == XR_QPS_ERR)
		return;
	xt_qp_note(qp, XT_CAUSE_COMPLETION, 0, 0);
	xt_event(qp, IBV_EVENT_QP_FATAL);
	xt_qp_error(qp, true);
}
