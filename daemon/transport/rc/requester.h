/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The requester: work requests to packets, windows. */
#ifndef XT_REQUESTER_H
#define XT_REQUESTER_H

#include "daemon/transport/queue/sq.h"

/* Initializes the requester when the QP moves to RTS. */
void xt_req_reset(struct xt_qp *qp);
/* Sends up to budget packets and returns their cost. *more is set if the QP has to stay active. */
uint32_t xt_req_run(struct xt_qp *qp, uint32_t budget, bool *more);
/* SQD: raises IBV_EVENT_SQ_DRAINED once all work requests that were begun have completed. */
void xt_req_check_drained(struct xt_qp *qp);
/* READ: number of response packets of the wire request that starts at a PSN */
static inline uint32_t xt_req_read_span(const struct xt_qp *qp, const struct xt_swqe *w,
					uint32_t psn)
{
	uint32_t packets = qp->sq.read_packets;
	uint32_t to_boundary = packets - (psn - w->psn) % packets;
	uint32_t left = w->npsn - (psn - w->psn);

	return to_boundary < left ? to_boundary : left;
}

/*
 * Executes the current work request, of XT_KIND_LOCAL. Returns true if the caller may continue with
 * the next work request, false if this one has to wait or the QP is in ERR.
 */
bool xt_req_run_local(struct xt_qp *qp, struct xt_swqe *w);
#endif /* XT_REQUESTER_H */
