// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The send queue of a QP without acknowledgements, so `unacked`, `next` and `max` of the requester
 * are always equal.
 */
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/rc/requester.h"
#include "send_queue.h"

bool xt_unreliable_finish(struct xt_qp *qp, const struct xt_swqe *w)
{
	struct xt_requester *r = &qp->req;

	r->unacked = r->next = r->max = w->psn + w->npsn;
	qp->sq.cur = qp->sq.retired + 1;
	if (!xt_sq_retire(qp))
		return false;
	xt_req_check_drained(qp);
	return true;
}

struct xt_swqe *xt_unreliable_current(struct xt_qp *qp)
{
	struct xt_swqe *w = xt_sq_current(qp);

	if (!w)
		return NULL;
	if (w->error.status) {
		xt_sq_fail(qp, w->error);
		return NULL;
	}
	/* SQD: work requests not begun yet must wait */
	if (qp->info.state == XR_QPS_SQD && qp->req.next == w->psn)
		return NULL;
	return w;
}
