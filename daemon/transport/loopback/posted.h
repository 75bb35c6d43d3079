/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The writes of a piece to memory that may have to be waited for are posted, and the next piece is
 * moved meanwhile. Those of WRITEs and SENDs are posted at the responder as for packets, those of
 * READs at the requester. `next` is behind the last piece that was moved, `unacked` behind the last
 * one whose data is in memory. All that cannot be undone waits until no write is posted.
 */
#ifndef XT_LOOPBACK_POSTED_H
#define XT_LOOPBACK_POSTED_H

#include "daemon/transport/queue/sq.h"

/* Completes the work requests whose data is in memory. */
void xt_loopback_settle(struct xt_qp *qp, const struct xt_qp *peer);
/* If writes are posted: returns true if a work request has to wait for them. */
bool xt_loopback_must_settle(const struct xt_qp *qp, const struct xt_swqe *w);
/* Posted writes of pieces were taken from a list of the QP, as they were done. */
void xt_loopback_written(struct xt_qp *qp, enum xt_park_side side);
/* A posted write of a piece failed, and the QP that received it is in ERR: so is its peer now. */
void xt_loopback_write_failed(struct xt_qp *peer);

#endif /* XT_LOOPBACK_POSTED_H */
