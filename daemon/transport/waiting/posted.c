// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "posted.h"

#include "daemon/transport/qp.h"
#include "daemon/transport/queue/rq.h"

uint32_t xt_posted_psn(const struct xt_qp *qp, uint32_t *msn)
{
	const struct xt_list *posted = &qp->waiting.posted[XT_RESPONDER];
	const struct xt_mem_io *io = XT_IO_OF(posted->next);

	*msn = xt_list_empty(posted) ? qp->resp.msn : io->msn;
	return xt_list_empty(posted) ? qp->resp.epsn : io->psn;
}

void xt_posted_remove(struct xt_qp *qp, struct xt_mem_io *io)
{
	qp->waiting.posted_mapped[io->side] -= io->mapped;
	xt_io_free(io);
}

void xt_posted_free(struct xt_qp *qp, enum xt_qp_side side)
{
	struct xt_list *posted = &qp->waiting.posted[side];

	while (!xt_list_empty(posted))
		xt_posted_remove(qp, XT_IO_OF(posted->next));
	if (side == XT_RESPONDER)
		xt_rq_take_back(qp);
}
