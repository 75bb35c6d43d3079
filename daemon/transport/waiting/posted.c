// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "posted.h"

#include "daemon/transport/qp.h"
#include "daemon/transport/queue/rq.h"

void xt_posted_remove(struct xt_qp *qp, struct xt_mem_io *io)
{
	qp->accesses.posted_mapped[io->side] -= io->mapped;
	xt_io_free(io);
}

void xt_posted_update(struct xt_qp *qp)
{
	struct xt_accesses *a = &qp->accesses;

	a->busy = !xt_list_empty(&a->posted[XT_RESPONDER]) ||
		  !xt_list_empty(&a->posted[XT_REQUESTER]);
}

void xt_posted_free(struct xt_qp *qp, enum xt_qp_side side)
{
	struct xt_list *posted = &qp->accesses.posted[side];

	while (!xt_list_empty(posted))
		xt_posted_remove(qp, XT_IO_OF(posted->next));
	xt_posted_update(qp);
	if (side == XT_RESPONDER)
		xt_rq_take_back(qp);
}
