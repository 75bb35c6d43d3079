/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* UC and UD, requester and responder. */
#ifndef XT_UNRELIABLE_H
#define XT_UNRELIABLE_H

#include "daemon/transport/qp.h"

/* Each sends up to budget packets and returns the number sent; *more as in xt_req_run(). */
uint32_t xt_uc_run(struct xt_qp *qp, uint32_t budget, bool *more);
uint32_t xt_ud_run(struct xt_qp *qp, uint32_t budget, bool *more);
/* Returns false if the packet must be held (waiting/waiting.h). */
bool xt_uc_rx(struct xt_qp *qp, struct xt_rx *rx);
void xt_ud_rx(struct xt_qp *qp, const struct xt_rx *rx);
/* Delivers a datagram that was held. Returns false if it must go on waiting. */
bool xt_ud_resume(struct xt_qp *qp, struct xt_kept *item);
/* A posted write of a datagram failed, and all posted writes were given up. */
void xt_ud_write_failed(struct xt_qp *qp);
/* Delivers a packet that was sent to a multicast group to each member. */
void xt_ud_rx_group(struct xt_engine *e, const struct xt_rx *rx);

#endif /* XT_UNRELIABLE_H */
