/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes of pieces that are posted (memory/put.h): the next piece is moved meanwhile. Those of
 * WRITEs and SENDs are posted by the responder as for packets, those of READs by the requester.
 * `next` is behind the last piece that was moved, `unacked` behind the last one whose data is in
 * memory. All that cannot be undone waits until no write is posted.
 *
 * The engine of the responder tells the requester that writes have ended, or that the responder was
 * stopped and has given them up. A requester of another engine polls the responder.
 */
#ifndef XT_LOOPBACK_POSTED_H
#define XT_LOOPBACK_POSTED_H

#include "daemon/transport/memory/put.h"
#include "daemon/transport/queue/sq.h"

/* Completes the work requests whose data is in memory. */
void xt_loopback_settle(struct xt_qp *qp, const struct xt_qp *peer);
/* If writes are posted: returns true if a work request has to wait for them. */
bool xt_loopback_must_settle(const struct xt_qp *qp, const struct xt_swqe *w);
/*
 * To be called before pieces are moved: finds out what has become of posted writes. Returns false
 * if the peer's engine is busy.
 */
bool xt_loopback_look(struct xt_qp *qp);
/*
 * To be called when the peer's engine was entered, before a piece is moved. Returns false if posted
 * writes were given up: their pieces are sent again, or the QP has failed.
 */
bool xt_loopback_check(struct xt_qp *qp, const struct xt_qp *peer);
/* A piece was moved, or must wait (done: false). The peer's engine was entered. */
void xt_loopback_began(struct xt_qp *qp, struct xt_qp *peer, bool done);
/* Posted writes of a side of the QP have ended. */
void xt_loopback_written(struct xt_qp *qp, enum xt_qp_side side);
/* The QP was stopped, and its posted writes were given up. */
void xt_loopback_stopped(struct xt_qp *qp);

#endif /* XT_LOOPBACK_POSTED_H */
