/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Responses to the peer: ACKs, NAKs, READ responses, ATOMIC ACKNOWLEDGEs, and their repetition. */
#ifndef XT_RESPONSES_H
#define XT_RESPONSES_H

#include "responder.h"

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
