/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Responses to the peer: ACKs, NAKs, READ responses, ATOMIC ACKNOWLEDGEs, and their repetition. */
#ifndef XT_RESPONSES_H
#define XT_RESPONSES_H

#include "execute.h"

/* Repeats the response to a request that was executed before. psn: its first PSN, 32 bits */
void xt_resp_duplicate(struct xt_qp *qp, const struct xt_request *rq, enum xt_wr_kind kind,
		       uint32_t psn);
void xt_resp_schedule(struct xt_qp *qp, enum xt_ack_due due);
/* Schedules an ACK unless an ACK or NAK is due already. */
void xt_resp_schedule_ack(struct xt_qp *qp);
/*
 * Sends READ responses, at most budget packets, and then the ACK or NAK that is due. Returns the
 * number of packets sent; *more is set if the QP has to stay active.
 */
uint32_t xt_resp_run(struct xt_qp *qp, uint32_t budget, bool *more);

#endif /* XT_RESPONSES_H */
