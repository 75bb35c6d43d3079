// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * UC, IBTA 9.8.2: messages without acknowledgements. A work request completes when its last packet
 * is passed to the host. The responder drops a message that it cannot receive.
 */
#include "daemon/transport/engine.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/rc/build.h"
#include "daemon/transport/rc/requester.h"
#include "daemon/transport/rc/responder.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/scheduling/pace.h"
#include "daemon/transport/wire/packet.h"
#include "send_queue.h"
#include "unreliable.h"

uint32_t xt_uc_run(struct xt_qp *qp, uint32_t budget, bool *more)
{
	struct xt_requester *r = &qp->req;
	struct xt_packet p;
	struct xt_swqe *w;
	uint32_t cost;

	for (cost = 0; (w = xt_unreliable_current(qp)) && xt_pace_uc_open(qp); cost++) {
		if (cost == budget) {
			*more = true;
			break;
		}
		if (w->kind == XT_KIND_LOCAL) {
			if (!xt_req_run_local(qp, w))
				break;
			continue;
		}
		xt_packet_init(&p, 0, r->next);
		if (!xt_req_build(qp, &(struct xt_cursor){ qp->sq.cur, r->next, 1 }, &p)) {
			if (w->error.status)
				continue;
			break; /* its payload is being read */
		}
		if (!xt_send(qp, &p)) {
			*more = true;
			break;
		}
		xt_pace_uc_spend(qp, xt_frame_len(&qp->tmpl, p.ext_len + p.payload.len));
		r->unacked = r->max = ++r->next;
		if (r->next == w->psn + w->npsn && !xt_unreliable_finish(qp, w))
			break;
	}
	return cost;
}

/* IBTA 9.8.2.2: after a lost packet, packets are dropped until the next message begins. */
bool xt_uc_rx(struct xt_qp *qp, struct xt_rx *rx)
{
	struct xt_responder *resp = &qp->resp;
	uint32_t psn = resp->epsn + xr_psn_diff(rx->psn, resp->epsn & XR_PSN_MASK);
	enum xt_outcome outcome = XT_REFUSED;
	struct xt_request rq;
	struct xt_result res;
	struct xt_put put;

	xt_resp_established(qp);
	if (rx->flags & XR_OPF_START)
		xt_resp_begin_message(qp, psn);
	xt_resp_parse(qp, rx, &put, &rq);
	if (psn == resp->epsn)
		outcome = xt_resp_request(qp, &rq, &res);
	xt_resp_finish_put(&put, outcome);
	rx->posted = outcome == XT_POSTED;
	if (outcome == XT_NOT_NOW || outcome == XT_POSTED)
		return false;
	if (outcome != XT_ACCEPTED)
		xt_resp_drop_message(qp);
	return true;
}
