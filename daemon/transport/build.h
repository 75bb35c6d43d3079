/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packets of SENDs and WRITEs. */
#ifndef XT_BUILD_H
#define XT_BUILD_H

#include "sq.h"

/* Returns the operation (enum xr_op) of the first, last, only or a middle packet. */
uint8_t xt_data_opcode(const struct xt_swqe *w, bool first, bool last);
/* struct xt_kind.build of SEND and WRITE */
bool xt_req_build_data(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p);
/* The same without the payload */
void xt_req_data_headers(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p);

#endif /* XT_BUILD_H */
