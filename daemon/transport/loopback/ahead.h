/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef XT_LOOPBACK_AHEAD_H
#define XT_LOOPBACK_AHEAD_H

#include "piece.h"

/*
 * Starts to read data for the work requests behind that of a piece, if its own data is in memory
 * that must be waited for.
 */
void xt_loopback_read_ahead(struct xt_qp *qp, struct xt_qp *peer, const struct xt_piece *p);

#endif /* XT_LOOPBACK_AHEAD_H */
