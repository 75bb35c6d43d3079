/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The requester: timeouts, and packets that are sent again. */
#ifndef XT_RESEND_H
#define XT_RESEND_H

#include "daemon/transport/qp.h"

/* Handles the expiry of the retry timer. */
void xt_req_timeout(struct xt_qp *qp);
/*
 * Sets the timer and the in-flight count according to `unacked` and `next`. progress: packets were
 * acknowledged, so the timeout starts again
 */
void xt_req_update(struct xt_qp *qp, bool progress);
/* Starts the local ACK timeout. */
void xt_req_arm_ack_timer(struct xt_qp *qp);
/* Goes back to the oldest PSN not acknowledged. */
void xt_req_go_back(struct xt_qp *qp);
/*
 * The peer has asked for the oldest packet not acknowledged: sends it again, and as many behind it
 * as are likely to be lost too. Packets that were not sent before follow.
 */
void xt_req_lost(struct xt_qp *qp);
/* Packets were acknowledged: notes what that says of those behind them. */
void xt_req_acked(struct xt_qp *qp);
/*
 * To be called after an ACK: if it covers packets that were sent again, but not all that were sent
 * before them, the next one was lost as well.
 */
void xt_req_check_rest(struct xt_qp *qp);
/* The peer has executed the requests before a PSN. */
void xt_req_executed(struct xt_qp *qp, uint32_t psn);
/* Responses to executed READs and atomics are lost, unless they came early. */
void xt_req_response_lost(struct xt_qp *qp);
/* The peer has asked for the request behind the executed ones, to which responses are missing. */
void xt_req_next_lost(struct xt_qp *qp);
/*
 * Goes back to the last packet of the previous message, to send it with AckReq set: the packet that
 * should have requested the ACK was cancelled. Returns false if a response is requested already.
 */
bool xt_req_resend_ackreq(struct xt_qp *qp);
/* Returns true if packets were or will be sent again, and are not acknowledged. */
static inline bool xt_sends_again(const struct xt_requester *r)
{
	return r->resend || r->sent.count;
}

#endif /* XT_RESEND_H */
