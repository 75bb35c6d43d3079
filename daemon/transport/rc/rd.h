/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* READs and atomics of the peer: kept until answered, and for as long as it may repeat them. */
#ifndef XT_RD_H
#define XT_RD_H

#include "daemon/transport/qp.h"

static inline struct xt_rd *xt_rd_at(struct xt_qp *qp, uint32_t index)
{
	if (__builtin_expect(qp->many_rd != NULL, false))
		return &qp->many_rd->rd[index % XT_MAX_RD_ATOMIC];
	return &qp->resp.rd[index % XT_FEW_RD_ATOMIC];
}

static inline struct xt_repeat *xt_repeat_at(struct xt_qp *qp, uint32_t index)
{
	if (__builtin_expect(qp->many_rd != NULL, false))
		return &qp->many_rd->repeat[index % XT_MAX_RD_ATOMIC];
	return &qp->resp.repeat[index % XT_FEW_RD_ATOMIC];
}

/*
 * Room for more than XT_FEW_RD_ATOMIC outstanding READs and atomics: xt_rd_prepare() allocates it,
 * or returns -ENOMEM, while the engine may run; xt_rd_grow() uses it from then on.
 */
int xt_rd_prepare(struct xt_qp *qp);
void xt_rd_grow(struct xt_qp *qp);
void xt_rd_free(struct xt_qp *qp);
/*
 * Returns an entry for a READ or atomic, to be filled in; NULL if the peer has more outstanding
 * than max_dest_rd_atomic (IBTA 9.7.4.1.2).
 */
struct xt_rd *xt_rd_new(struct xt_qp *qp);
/* Adds the entry of xt_rd_new(), after it was filled in. */
void xt_rd_added(struct xt_qp *qp);
/* Drops the entries from a PSN on, whose responses were not sent: the QP has failed. */
void xt_rd_drop(struct xt_qp *qp, uint32_t psn);

#endif /* XT_RD_H */
