// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The QPs and XRC SRQs that complete in a CQ. */
#include <errno.h>
#include <stdlib.h>

#include "provider/verbs/cq.h"
#include "provider/verbs/cq_arm.h"
#include "provider/verbs/cq_members.h"
#include "provider/verbs/srq.h"

/* Doubles the hash table. Needs cq->lock. */
static int cq_members_grow(struct xp_cq *cq)
{
	uint32_t size = cq->qps ? (cq->qp_mask + 1) * 2 : 8, i;
	struct xp_qp **qps = calloc(size, sizeof(*qps)), *qp, **bucket;

	if (!qps)
		return -ENOMEM;
	for (i = 0; cq->qps && i <= cq->qp_mask; i++) {
		while ((qp = cq->qps[i])) {
			cq->qps[i] = *xp_cq_chain(qp, cq);
			bucket = &qps[qp->ibqp.qp_num & (size - 1)];
			*xp_cq_chain(qp, cq) = *bucket;
			*bucket = qp;
		}
	}
	free(cq->qps);
	cq->qps = qps;
	cq->qp_mask = size - 1;
	return 0;
}

int xp_cq_attach(struct xp_cq *cq, struct xp_qp *qp)
{
	struct xp_qp **bucket;
	int err = 0;

	xp_lock(&cq->lock);
	if (!cq->qps || cq->nqps > cq->qp_mask)
		err = cq_members_grow(cq);
	if (!err) {
		bucket = &cq->qps[qp->ibqp.qp_num & cq->qp_mask];
		*xp_cq_chain(qp, cq) = *bucket;
		*bucket = qp;
		cq->nqps++;
	}
	xp_unlock(&cq->lock);
	return err;
}

/*
 * Marks the completions of a QP so that polling skips them. The entries between the two indices
 * belong to the provider. Needs cq->lock.
 */
static void drop_entries(struct xp_cq *cq, uint32_t qpn)
{
	struct xp_cq_ring *r = &cq->ring;
	uint32_t i, n = xp_cq_ready(r);

	for (i = 0; i < n; i++) {
		struct xr_cqe *cqe = xp_cq_entry(r, r->consumer + i);

		if (cqe->qpn == qpn)
			cqe->qpn = XP_NO_QPN;
	}
}

void xp_cq_drop(struct xp_cq *cq, uint32_t qpn)
{
	xp_lock(&cq->lock);
	drop_entries(cq, qpn);
	xp_unlock(&cq->lock);
}

bool xp_cq_holds_recv(struct xp_cq *cq, uint32_t qpn)
{
	struct xp_cq_ring *r = &cq->ring;
	bool holds = false;
	uint32_t i, n;

	xp_lock(&cq->lock);
	n = cq->flushing ? 0 : xp_cq_ready(r);
	for (i = 0; i < n && !holds; i++) {
		const struct xr_cqe *cqe = xp_cq_entry(r, r->consumer + i);

		holds = cqe->is_recv && cqe->qpn == qpn;
	}
	xp_unlock(&cq->lock);
	return holds;
}

void xp_cq_detach(struct xp_cq *cq, struct xp_qp *qp)
{
	struct xp_qp **p;
	bool ask;

	xp_lock(&cq->lock);
	drop_entries(cq, qp->ibqp.qp_num);
	for (p = &cq->qps[qp->ibqp.qp_num & cq->qp_mask]; *p != qp; p = xp_cq_chain(*p, cq))
		;
	*p = *xp_cq_chain(qp, cq);
	cq->nqps--;
	/* the doorbell may have been that of this QP */
	ask = xp_cq_armed(cq->ring.queue) && xp_cq_report_armed(cq);
	xp_unlock(&cq->lock);
	if (ask)
		xp_cq_ask_for_event(cq);
}

void xp_cq_attach_srq(struct xp_cq *cq, struct xp_srq *srq)
{
	xp_lock(&cq->lock);
	srq->next_in_cq = cq->srqs;
	cq->srqs = srq;
	xp_unlock(&cq->lock);
}

void xp_cq_detach_srq(struct xp_cq *cq, struct xp_srq *srq)
{
	struct xp_cq_ring *r = &cq->ring;
	struct xp_srq **p = &cq->srqs;
	uint32_t i, n;

	xp_lock(&cq->lock);
	n = xp_cq_ready(r);
	for (i = 0; i < n; i++) {
		struct xr_cqe *cqe = xp_cq_entry(r, r->consumer + i);

		if (cqe->srqn == srq->number)
			cqe->qpn = XP_NO_QPN;
	}
	while (*p != srq)
		p = &(*p)->next_in_cq;
	*p = srq->next_in_cq;
	xp_unlock(&cq->lock);
}
