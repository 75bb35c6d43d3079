// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether the peer may access memory of the responder */
#include "check.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/memory/keys.h"
#include "daemon/transport/qp.h"

/* The QP's access flags apply before the key's (IBTA 9.9.3, 11.6.2). */
static bool qp_permits(const struct xt_qp *qp, const struct xr_key_use *use)
{
	return !(use->access & ~qp->attr.qp_access_flags);
}

static enum xr_reason rc_check_key(const struct xt_qp *qp, struct xr_key_use *use,
				   struct xt_mem_at *at)
{
	use->pd = qp->resp.pd;
	use->qpn = qp->info.qpn;
	return xt_keys_check(qp->engine->shared->keys, use, &at->mem, &at->off);
}

int xt_resp_check(struct xt_qp *qp, struct xr_key_use *use, struct xt_mem_at *at)
{
	enum xr_reason why;

	if (!qp_permits(qp, use))
		return XR_NAK_INVALID_REQUEST;
	why = rc_check_key(qp, use, at);
	if (why == XR_OK)
		return -1;
	xt_keys_note(qp->engine->shared->keys, use, why, qp->engine->now);
	return XR_NAK_REMOTE_ACCESS;
}

bool xt_resp_permits(const struct xt_qp *qp, struct xr_key_use *use, struct xt_mem_at *at)
{
	return qp_permits(qp, use) && rc_check_key(qp, use, at) == XR_OK;
}
