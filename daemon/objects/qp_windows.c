// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Windows that are bound to a queue pair. */
#include "daemon/base/loop.h"
#include "daemon/datapath/worker.h"
#include "objects.h"
#include "qp.h"

bool xd_qp_unbind_windows(struct xd_object *obj)
{
	struct xd_qp *qp = container_of(obj, struct xd_qp, obj);
	struct xd_client *c = obj->client;
	bool more;

	if (!qp->xt || qp->target || !xd_object_count(c, XD_MW))
		return true;
	do {
		xd_worker_pause(c->dev->workers, qp->worker);
		xt_qp_refuse_windows(qp->xt);
		more = xt_qp_unbind(qp->xt, XD_UNBIND_AT_ONCE);
		xd_worker_resume_no_wake(c->dev->workers, qp->worker);
	} while (more && !xd_loop_must_yield(c->dev->loop));
	return !more;
}
