// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reports from the parts of a QP to their engine, and access to other engines. */

#include "daemon/transport/engine.h"
#include "flow.h"
#include "daemon/transport/qp.h"

/* For this time after a loss, more losses are expected. */
#define LOSSY_NS 10000000u

void xt_event(struct xt_qp *qp, uint32_t type)
{
	xt_flow_charge(qp->flow, XT_EVENT_COST);
	qp->engine->ops->async_event(qp->engine->ctx, qp, NULL, type);
}

void xt_schedule_response(struct xt_qp *qp)
{
	if (xt_list_empty(&qp->ack_link))
		xt_list_add_tail(&qp->engine->acks_due, &qp->ack_link);
}

void xt_engine_lossy(struct xt_engine *e)
{
	e->lossy_until = e->now + LOSSY_NS;
}

bool xt_engine_enter(struct xt_engine *e, struct xt_engine *other)
{
	if (other != e && (!e->ops->engine_lock || !e->ops->engine_lock(e->ctx, other))) {
		e->lock_failed = true;
		return false;
	}
	if (other->now < e->now)
		other->now = e->now;
	other->entered = other != e;
	return true;
}

void xt_engine_leave(struct xt_engine *e, struct xt_engine *other)
{
	if (other == e)
		return;
	other->entered = false;
	e->ops->engine_unlock(e->ctx, other);
}

void xt_forward(struct xt_engine *e, struct xt_engine *other, const struct xt_frame *frame)
{
	if (e->ops->forward && e->ops->forward(e->ctx, other, frame))
		e->counters.rx_forwarded++;
	else
		e->counters.rx_forward_lost++;
}
