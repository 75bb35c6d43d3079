// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine_events.h"

#include <infiniband/verbs.h>

#include "daemon/gsi/gsi.h"
#include "cq.h"
#include "objects.h"
#include "qp.h"
#include "srq.h"
#include "xrc_target.h"

static void cq_event(struct xt_cq *cq)
{
	struct xd_cq *owner = cq->owner;

	if (owner)
		xd_event_raise(&owner->completions, 0);
	else
		xd_gsi_cq_event(cq);
}

/* A target QP of XRC has one handle for each client that opened it. */
static void target_event(struct xd_target *target, uint32_t type)
{
	struct xd_qp *qp;

	for (qp = target->handles; qp; qp = qp->next_handle)
		xd_event_raise(&qp->async, type);
}

static void established(const struct xd_qp *qp)
{
	struct xd_objects *o = xd_objects_of(qp->obj.client);

	if (o->comm_est)
		o->comm_est(o, qp->qpn);
}

static void async_event(struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct xd_qp *qp_owner = qp ? xt_qp_info(qp)->owner : NULL;
	struct xd_cq *cq_owner = cq ? cq->owner : NULL;

	if (qp_owner && type == IBV_EVENT_COMM_EST && xt_qp_info(qp)->type == XR_QPT_RC)
		established(qp_owner);
	if (qp_owner && xt_qp_info(qp)->type == XR_QPT_XRC_RECV)
		target_event(xt_qp_info(qp)->owner, type);
	else if (qp_owner)
		xd_event_raise(&qp_owner->async, type);
	else if (cq_owner)
		xd_event_raise(&cq_owner->async, type);
}

static void srq_event(struct xt_srq *srq, uint32_t type)
{
	struct xd_srq *owner = srq->owner;

	xd_event_raise(&owner->async, type);
}

/* The worker of the target may be another one. */
static const struct xd_qp *engine_events_handle_of(const struct xd_target *target)
{
	return __atomic_load_n(&target->handles, __ATOMIC_ACQUIRE);
}

/* A target QP of XRC belongs to the program that opened it last. */
static const uint64_t *fault_rules(const struct xt_qp *qp)
{
	const struct xd_qp *owner = xt_qp_info(qp)->owner;

	if (owner && xt_qp_info(qp)->type == XR_QPT_XRC_RECV)
		owner = engine_events_handle_of(xt_qp_info(qp)->owner);
	return owner ? &owner->obj.client->fault_rules : NULL;
}

const struct xd_engine_events xd_engine_events = {
	.cq = cq_event,
	.async = async_event,
	.srq = srq_event,
	.fault_rules = fault_rules,
};
