/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef XT_LOOPBACK_STOP_H
#define XT_LOOPBACK_STOP_H

struct xt_qp;

/*
 * The QP stops: gives up the accesses that its peer has under way to its memory, which the program
 * may use for something else once the QP's receives are flushed.
 */
void xt_loopback_stop_peer(struct xt_qp *qp);

#endif /* XT_LOOPBACK_STOP_H */
