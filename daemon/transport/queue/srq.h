/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared receive queues, the engine's side; see transport.h for the rest. */
#ifndef XT_SRQ_H
#define XT_SRQ_H

#include "receive.h"

/*
 * Returns the QP's SRQ; XRC: the one with this number, NULL if there is none in the QP's XRC
 * domain.
 */
struct xt_srq *xt_srq_of(const struct xt_qp *qp, uint32_t number);
/* Takes the next receive of the QP's SRQ; its slot is free at once. Returns as xt_rq_take(). */
enum xt_take xt_srq_take(struct xt_qp *qp, struct xt_wc_error *error);

/* Raises IBV_EVENT_SRQ_ERR for a test; the SRQ works on. */
void xt_srq_inject(struct xt_qp *qp, struct xt_srq *srq);

#endif /* XT_SRQ_H */
