/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef XT_LOOPBACK_STOP_H
#define XT_LOOPBACK_STOP_H

#include <stdbool.h>

struct xt_qp;

/*
 * The QP stops: gives up the accesses that its peer has under way to its memory, which the program
 * may use for something else once the QP's receives are flushed.
 */
void xt_loopback_stop_peer(struct xt_qp *qp);
/*
 * Returns true if some of them could not be given up yet, or are being executed. Tries again to
 * give them up.
 */
bool xt_loopback_ending(struct xt_qp *qp);

#endif /* XT_LOOPBACK_STOP_H */
