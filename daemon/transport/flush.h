/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stops QPs, and flushes those that have failed. */
#ifndef XT_FLUSH_H
#define XT_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

struct xt_engine;
struct xt_qp;

/* Work requests of each queue that are flushed at once; the others when the QP is scheduled */
#define XT_FLUSH_AT_ONCE 256

/*
 * Stops QPs that have failed (xt_qp_error()), reports it through xt_ops.qp_state, and begins to
 * flush them. Each function that the host calls and that can fail a QP does so at its end, and
 * those of a round at their beginning, too. So a QP is never stopped while one of its parts runs.
 */
void xt_flush_failed(struct xt_engine *e);
/* The same for one QP, if it has failed */
void xt_flush_if_failed(struct xt_qp *qp);
/*
 * ERR: flushes at most @most entries of each queue; SQE: of the send queue. Returns true if more
 * are left.
 */
bool xt_qp_flush(struct xt_qp *qp, uint32_t most);
/*
 * ERR and SQE: returns true if the QP may be flushed now, and begins that if it could not before.
 */
bool xt_qp_may_flush(struct xt_qp *qp);
/* Removes the QP from all lists and timers, and clears its packets in flight and the ACK due. */
void xt_qp_stop(struct xt_qp *qp);

#endif /* XT_FLUSH_H */
