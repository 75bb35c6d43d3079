/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The requester: work requests to packets, windows. */
#ifndef XT_REQUESTER_H
#define XT_REQUESTER_H

#include "sq.h"

/* Initializes the requester when the QP moves to RTS. */
void xt_req_reset(struct xt_qp *qp);
/* Sends up to budget packets and returns their cost. *more is set if the QP has to stay active. */
uint32_t xt_req_run(struct xt_qp *qp, uint32_t budget, bool *more);
/* SQD: raises IBV_EVENT_SQ_DRAINED once all work requests that were begun have completed. */
void xt_req_check_drained(struct xt_qp *qp);
/* READ: number of response packets of the wire request that starts at a PSN */
uint32_t xt_req_read_span(const struct xt_qp *qp, const struct xt_swqe *w, uint32_t psn);
/*
 * Executes the current work request, of XT_KIND_LOCAL. Returns true if the caller may continue with
 * the next work request, false if this one has to wait or the QP is in ERR.
 */
bool xt_req_run_local(struct xt_qp *qp, struct xt_swqe *w);
/* SEND or WRITE: returns the operation (enum xr_op) of its first, last, only or a middle packet. */
uint8_t xt_data_opcode(const struct xt_swqe *w, bool first, bool last);
/* struct xt_kind.build of SEND and WRITE */
/* The same without the payload */
void xt_req_data_headers(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p);
bool xt_req_build_data(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p);

#endif /* XT_REQUESTER_H */
