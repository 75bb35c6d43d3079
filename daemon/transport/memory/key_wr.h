/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Work requests and packets that change keys. */
#ifndef XT_KEY_WR_H
#define XT_KEY_WR_H

#include "daemon/transport/queue/sq.h"

/* struct xt_kind.load of XT_KIND_LOCAL */
void xt_key_wr_load(struct xt_swqe *w, const struct xr_send_wqe *wqe);
/*
 * Executes a work request of XT_KIND_LOCAL. If it fails, returns false with w->error set and has no
 * effect. It may complete when xt_ending_key_waits() returns false for the requester.
 */
bool xt_key_wr_execute(struct xt_qp *qp, struct xt_swqe *w);
/*
 * Executes the peer's SEND with Invalidate. Returns XR_OK, or the reason why this is not allowed.
 * Its receive may complete when xt_ending_key_waits() returns false for the responder. pd: of the
 * request, which may be that of an SRQ
 */
enum xr_reason xt_invalidate_remote(struct xt_qp *qp, uint32_t pd, uint32_t rkey);

#endif /* XT_KEY_WR_H */
