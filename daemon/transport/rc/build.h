/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packets of work requests */
#ifndef XT_BUILD_H
#define XT_BUILD_H

#include "daemon/transport/queue/sq.h"

/* Returns the operation (enum xr_op) of the first, last, only or a middle packet. */
uint8_t xt_data_opcode(const struct xt_swqe *w, bool first, bool last);
/*
 * Builds a packet. Returns false with the work request's error set, or without one if its payload
 * has to be waited for.
 */
bool xt_req_build(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p);
/* The headers of a packet of a SEND or WRITE */
void xt_req_data_headers(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p);

#endif /* XT_BUILD_H */
