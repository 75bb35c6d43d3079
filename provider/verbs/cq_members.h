/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The QPs and XRC SRQs that complete in a CQ. */
#ifndef XP_CQ_MEMBERS_H
#define XP_CQ_MEMBERS_H

#include "provider/verbs/cq.h"
#include "provider/verbs/qp.h"

/* Returns the hash chain pointer of this CQ in a QP. */
static inline struct xp_qp **xp_cq_chain(struct xp_qp *qp, const struct xp_cq *cq)
{
	return &qp->next_in_cq[&cq->ibcq != qp->ibqp.send_cq];
}

/* Returns NULL if no such QP completes here. Needs cq->lock. */
static inline struct xp_qp *xp_cq_find_qp(struct xp_cq *cq, uint32_t qpn)
{
	struct xp_qp *qp = cq->qps ? cq->qps[qpn & cq->qp_mask] : NULL;

	while (qp && qp->ibqp.qp_num != qpn)
		qp = *xp_cq_chain(qp, cq);
	return qp;
}

/* Adds a QP to those that complete here. Returns 0 or -ENOMEM. */
int xp_cq_attach(struct xp_cq *cq, struct xp_qp *qp);

/* Removes the QP and drops its completions. */
void xp_cq_detach(struct xp_cq *cq, struct xp_qp *qp);

/* Drops the completions of a QP. */
void xp_cq_drop(struct xp_cq *cq, uint32_t qpn);

/* Returns true if receives of the QP have completed here and were not polled. */
bool xp_cq_holds_recv(struct xp_cq *cq, uint32_t qpn);

/*
 * Like xp_cq_attach() and xp_cq_detach(), for an XRC SRQ. Its completions name target QPs, which
 * other programs may own.
 */
void xp_cq_attach_srq(struct xp_cq *cq, struct xp_srq *srq);
void xp_cq_detach_srq(struct xp_cq *cq, struct xp_srq *srq);

#endif /* XP_CQ_MEMBERS_H */
