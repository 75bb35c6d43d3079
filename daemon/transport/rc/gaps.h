/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Missing READ responses. The requester keeps the responses that come early (early.h), so it sees
 * all gaps, and requests them together: the first gap of each READ request on the wire at once, the
 * next one of the same request when that one is filled. `rdma_rxe` drops a repeated READ that
 * begins before an earlier repetition of the same READ: if a second gap were requested together
 * with the first one, the first one could not be requested again if its response was lost again. A
 * READ request that the peer has asked for by a NAK is sent again at once as well.
 */
#ifndef XT_GAPS_H
#define XT_GAPS_H

#include "early.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/sq.h"

/* A walk through the gaps */
struct xt_gaps {
	struct xt_early_gap gap;
	uint32_t index;	 /* of the work request of `psn` */
	uint32_t psn;	 /* next one to look at in the gap */
	uint32_t behind; /* PSN behind the last READ request with a gap */
	uint32_t first;	 /* PSN of the READ request of the gap that was returned last */
};

void xt_gaps_begin(struct xt_qp *qp, struct xt_gaps *g);
/* Returns false if no other gap is to be requested now. */
bool xt_gaps_next(struct xt_qp *qp, struct xt_gaps *g, struct xt_cursor *at);
/* The gap that xt_gaps_next() returned was requested. */
void xt_gaps_requested(struct xt_qp *qp, const struct xt_gaps *g, const struct xt_cursor *at);
/* A response has arrived while gaps are requested. */
void xt_gaps_answered(struct xt_qp *qp, uint32_t psn);
/* Returns true if the READ request or atomic at a PSN was sent again a short time ago. */
bool xt_gaps_repeats(struct xt_qp *qp, uint32_t psn);

#endif /* XT_GAPS_H */
