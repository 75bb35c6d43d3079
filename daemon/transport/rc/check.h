/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether the peer may access memory of the responder */
#ifndef XT_CHECK_H
#define XT_CHECK_H

#include "daemon/transport/qp.h"

/*
 * Checks remote access to the responder's memory; key, access, va and len of @use are set. Returns
 * -1 with *at set, or a NAK code. at->mem is NULL if len is 0.
 */
int xt_resp_check(struct xt_qp *qp, struct xr_key_use *use, struct xt_mem_at *at);
/* The same check before the access has its turn. Counts no refusal. */
bool xt_resp_permits(const struct xt_qp *qp, struct xr_key_use *use, struct xt_mem_at *at);

#endif /* XT_CHECK_H */
