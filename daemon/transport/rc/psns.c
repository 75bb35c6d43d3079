// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The PSNs of a QP, where the XDP program reads them */
#include "daemon/transport/qp.h"

void xt_qp_store_psns(struct xt_qp *qp)
{
	__atomic_store_n(&qp->psn->expected, qp->resp.epsn & XR_PSN_MASK, __ATOMIC_RELAXED);
	__atomic_store_n(&qp->psn->unacked, qp->req.unacked & XR_PSN_MASK, __ATOMIC_RELAXED);
	__atomic_store_n(&qp->psn->next, qp->req.max & XR_PSN_MASK, __ATOMIC_RELAXED);
}
