// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Arming of CQs that may hold completions. */
#include <errno.h>

#include "provider/base/debug.h"
#include "provider/host/host.h"
#include "provider/verbs/channel_set.h"
#include "provider/verbs/comp_channel.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_arm.h"
#include "provider/verbs/cq_members.h"
#include "provider/verbs/post.h"
#include "provider/verbs/request.h"

bool xp_cq_report_armed(struct xp_cq *cq)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t i, n = xp_cq_ready(r), qpn;
	struct xp_qp *qp;

	if (cq->flushing || !cq->ibcq.channel ||
	    __atomic_load_n(&cq->unpolled_event, __ATOMIC_RELAXED))
		return false;
	for (i = 0; i < n; i++) {
		qpn = xp_cq_entry(r, r->consumer + i)->qpn;
		if (qpn == XP_NO_QPN)
			continue;
		qp = xp_cq_find_qp(cq, qpn);
		if (qp)
			xp_ring_doorbell(qp);
		return !qp;
	}
	return false;
}

int xp_cq_ask_for_event(struct xp_cq *cq)
{
	struct xr_handle_req req = { .handle = cq->ibcq.handle };
	int err = xp_request(cq->ctx, XR_MSG_CHECK_CQ, &req, sizeof(req), NULL, 0);

	/* if the daemon is gone, ibv_get_cq_event() finds the armed CQ */
	return err == -EIO ? 0 : -err;
}

/* Needs cq->lock. A CQ that was armed before stays armed since then. */
static void note_time(struct xp_cq *cq)
{
	const struct xp_context *ctx = cq->ctx;

	if (ctx->host && !(__atomic_load_n(&cq->ring.queue->word, __ATOMIC_RELAXED) & XR_ARM_ANY))
		cq->armed_at = ctx->host_ops->received(ctx->host);
}

int xp_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct xp_cq *cq = xp_cq(ibcq);
	bool ask;

	if (xp_health(xp_cq(ibcq)->ctx) == XP_FORKED)
		return -xp_refuse("ibv_req_notify_cq", EIO, "%s", XP_FORKED_TEXT);
	if (ibcq->channel && solicited_only)
		xp_channel_events_only(xp_channel(ibcq->channel));
	xp_lock(&cq->lock); /* against ibv_resize_cq() */
	note_time(cq);
	xp_cq_arm(cq->ring.queue, solicited_only ? XR_ARM_SOLICITED : XR_ARM_ANY);
	ask = xp_cq_report_armed(cq);
	xp_unlock(&cq->lock);
	if (ibcq->channel)
		xp_channel_armed(xp_channel(ibcq->channel));
	return ask ? xp_cq_ask_for_event(cq) : 0;
}
