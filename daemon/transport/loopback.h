/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Loopback of RC, UC and XRC QPs whose peer belongs to the same daemon. */
#ifndef XT_LOOPBACK_H
#define XT_LOOPBACK_H

#include "qp.h"

/*
 * Executes work requests up to a cost of budget packets (4 KiB cost as much as one) and returns the
 * cost. *more is set if the QP has to stay active.
 */
uint32_t xt_loopback_run(struct xt_qp *qp, uint32_t budget, bool *more);

/*
 * The QP stops: gives up the accesses that its peer has under way to its memory, which the program
 * may use for something else once the QP's receives are flushed.
 */
void xt_loopback_stop_peer(struct xt_qp *qp);

/* Posted writes of pieces were taken from a list of the QP, as they were done. */
void xt_loopback_written(struct xt_qp *qp, enum xt_park_side side);
/* A posted write of a piece failed, and the QP that received it is in ERR: so is its peer now. */
void xt_loopback_write_failed(struct xt_qp *peer);

#endif /* XT_LOOPBACK_H */
