// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* READs and atomics of the peer that are kept for duplicates. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/transport/scheduling/flow.h"
#include "rd.h"

int xt_rd_prepare(struct xt_qp *qp)
{
	if (!qp->many_rd && !qp->prepared_many)
		qp->prepared_many = calloc(1, sizeof(*qp->prepared_many));
	return qp->many_rd || qp->prepared_many ? 0 : -ENOMEM;
}

void xt_rd_grow(struct xt_qp *qp)
{
	const struct xt_responder *resp = &qp->resp;
	struct xt_many_rd *many = qp->prepared_many;
	uint32_t i;

	if (!many)
		return;
	for (i = resp->rd_tail - resp->rd_kept; i != resp->rd_tail; i++)
		many->rd[i % XT_MAX_RD_ATOMIC] = *xt_rd_at(qp, i);
	for (i = resp->repeat_head; i != resp->repeat_tail; i++)
		many->repeat[i % XT_MAX_RD_ATOMIC] = *xt_repeat_at(qp, i);
	qp->many_rd = many;
	qp->prepared_many = NULL;
}

void xt_rd_free(struct xt_qp *qp)
{
	free(qp->prepared_many);
	free(qp->many_rd);
}

struct xt_rd *xt_rd_new(struct xt_qp *qp)
{
	struct xt_responder *resp = &qp->resp;
	uint32_t max = qp->attr.max_dest_rd_atomic;

	if (resp->rd_tail - resp->rd_cur >= max)
		return NULL;
	if (resp->rd_kept > max - 1)
		resp->rd_kept = max - 1;
	return xt_rd_at(qp, resp->rd_tail);
}

void xt_rd_added(struct xt_qp *qp)
{
	qp->resp.rd_tail++;
	qp->resp.rd_kept++;
	xt_activate(qp);
}

void xt_rd_drop(struct xt_qp *qp, uint32_t psn)
{
	struct xt_responder *resp = &qp->resp;

	while (resp->rd_tail != resp->rd_cur &&
	       xt_diff(xt_rd_at(qp, resp->rd_tail - 1)->psn, psn) >= 0) {
		resp->rd_tail--;
		resp->rd_kept--;
	}
}
