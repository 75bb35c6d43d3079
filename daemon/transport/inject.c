// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Errors that tests inject into a QP. The responder injects NAKs, see responder.c. */
#include <infiniband/verbs.h>

#include "daemon/transport/queue/cq_event.h"
#include "engine.h"
#include "flush.h"
#include "qp.h"
#include "daemon/transport/queue/rings.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/queue/srq.h"

/* Returns true if the oldest send WR was sent, and may complete now. */
static bool may_fail(const struct xt_qp *qp)
{
	const struct xt_send_queue *sq = &qp->sq;

	return xt_may_send(qp) && sq->completed == sq->retired &&
	       xt_diff(sq->loaded, sq->completed) > 0;
}

static void inject_fail(struct xt_qp *qp)
{
	xt_qp_note(qp, XT_CAUSE_INJECTED, 0, XR_VERR_INJECTED);
	xt_event(qp, IBV_EVENT_QP_FATAL);
	xt_qp_error(qp, true);
}

static void inject_error(struct xt_qp *qp, uint32_t status)
{
	if (status && may_fail(qp))
		xt_sq_fail(qp, (struct xt_wc_error){ status, XR_VERR_INJECTED });
	else
		inject_fail(qp);
}

static void inject_event(struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct xt_engine *e = qp->engine;
	bool of_srq = type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED;

	if (type != IBV_EVENT_CQ_ERR && !of_srq) {
		xt_event(qp, type);
		return;
	}
	if (!of_srq) {
		if (cq)
			xt_cq_inject(qp->flow, cq, qp->info.qpn, false);
		return;
	}
	xt_flow_charge(qp->flow, XT_EVENT_COST);
	if (!qp->srq)
		return;
	if (type == IBV_EVENT_SRQ_ERR)
		xt_srq_inject(qp, qp->srq);
	else
		e->ops->srq_event(e->ctx, qp->srq, type);
}

void xt_qp_inject(struct xt_qp *qp, struct xt_inject what, bool received)
{
	struct xt_cq *cq = received ? qp->recv_cq : qp->send_cq;

	if (qp->info.state == XR_QPS_ERR || (!xt_may_send(qp) && !xt_may_receive(qp)))
		return;
	switch (what.kind) {
	case XT_INJECT_ERROR:
		inject_error(qp, what.value);
		break;
	case XT_INJECT_CQ:
		if (cq) {
			xt_cq_inject(qp->flow, cq, qp->info.qpn, true);
			inject_fail(qp);
		}
		break;
	case XT_INJECT_EVENT:
		inject_event(qp, cq, what.value);
		break;
	}
	xt_flush_failed(qp->engine);
}
