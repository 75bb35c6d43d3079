/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The completer: responses of the peer. */
#ifndef XT_COMPLETER_H
#define XT_COMPLETER_H

#include "daemon/transport/memory/copy.h"
#include "daemon/transport/queue/sq.h"

/* Credits by AETH code, IBTA table 47 */
extern const uint16_t xt_credits[XR_AETH_CREDITS_INVALID];

/* Returns false if the packet must be held (waiting/waiting.h). */
bool xt_completer_rx(struct xt_qp *qp, const struct xt_rx *rx);
/* Resets retry counters and opens the window. packets: number of newly acknowledged packets */
void xt_req_progress(struct xt_qp *qp, uint32_t packets);
/*
 * Stores the result of the oldest work request, an atomic; host byte order. Sets *error unless the
 * result is XT_SIDE_NONE.
 */
enum xt_side xt_req_store_atomic(struct xt_put *put, uint64_t value, struct xt_wc_error *error);
/* Processes an RNR NAK. code: AETH timer code */
void xt_req_rnr(struct xt_qp *qp, uint32_t code);
/* Processes a NAK. code: enum xr_nak */
void xt_req_nak(struct xt_qp *qp, uint32_t code);

#endif /* XT_COMPLETER_H */
