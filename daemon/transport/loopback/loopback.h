/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Loopback of RC, UC and XRC QPs whose peer belongs to the same daemon. */
#ifndef XT_LOOPBACK_H
#define XT_LOOPBACK_H

#include "daemon/transport/qp.h"

/*
 * Executes work requests up to a cost of budget packets (4 KiB cost as much as one) and returns the
 * cost. *more is set if the QP has to stay active.
 */
uint32_t xt_loopback_run(struct xt_qp *qp, uint32_t budget, bool *more);

#endif /* XT_LOOPBACK_H */
