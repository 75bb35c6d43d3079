// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The receive that is being filled, as it is copied from its ring */
#include "receive.h"

enum xt_take xt_receive_taken(const struct xt_receive *rq, struct xt_wc_error *error)
{
	if (!rq->bad)
		return XT_TAKE_OK;
	*error = (struct xt_wc_error){ IBV_WC_LOC_QP_OP_ERR, XR_VERR_BAD_SGE_COUNT };
	return XT_TAKE_BAD;
}

enum xt_take xt_receive_copy(struct xt_qp *qp, const uint8_t *slot, uint32_t max_sge,
			     struct xt_wc_error *error)
{
	struct xt_receive *rq = &qp->rq;
	struct xr_recv_wqe wqe;
	uint32_t i;

	memcpy(&wqe, slot, sizeof(wqe));
	rq->wr_id = wqe.wr_id;
	rq->num_sge = 0;
	rq->length = 0;
	rq->taken = true;
	rq->bad = wqe.num_sge > max_sge;
	if (!rq->bad)
		rq->num_sge = wqe.num_sge;
	memcpy(qp->rq_sge, slot + sizeof(wqe), rq->num_sge * sizeof(*qp->rq_sge));
	for (i = 0; i < rq->num_sge; i++)
		rq->length += qp->rq_sge[i].length;
	return xt_receive_taken(rq, error);
}
