/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rate limits of QPs (IBV_QP_RATE_LIMIT). Lengths are bytes of whole frames. */
#ifndef XT_PACE_H
#define XT_PACE_H

#include "qp.h"

/* To be called when the rate limit was set. burst: bytes; 0: the engine chooses */
void xt_pace_set(struct xt_qp *qp, uint32_t burst);
bool xt_pace_limited_open(struct xt_qp *qp);
void xt_pace_limited_spend(struct xt_qp *qp, uint32_t bytes);
bool xt_pace_limited_last(const struct xt_qp *qp, uint32_t bytes);

/* Returns true if a packet may be sent now; else sets the timer that activates the QP again. */
static inline bool xt_pace_open(struct xt_qp *qp)
{
	return !qp->attr.rate_limit || xt_pace_limited_open(qp);
}

/* Accounts for frames that were sent. */
static inline void xt_pace_spend(struct xt_qp *qp, uint32_t bytes)
{
	if (qp->attr.rate_limit)
		xt_pace_limited_spend(qp, bytes);
}

/* Returns true if the QP will have to wait after a frame of this length. */
static inline bool xt_pace_last(const struct xt_qp *qp, uint32_t bytes)
{
	return qp->attr.rate_limit && xt_pace_limited_last(qp, bytes);
}

#endif /* XT_PACE_H */
