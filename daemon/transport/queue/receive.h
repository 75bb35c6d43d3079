/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The receive that is being filled, as it is copied from the ring of its QP or SRQ */
#ifndef XT_RECEIVE_H
#define XT_RECEIVE_H

#include "daemon/transport/qp.h"

enum xt_take { XT_TAKE_OK, XT_TAKE_EMPTY, XT_TAKE_BAD };

/* Copies an entry with at most max_sge elements. XT_TAKE_BAD sets *error. */
enum xt_take xt_receive_copy(struct xt_qp *qp, const uint8_t *slot, uint32_t max_sge,
			     struct xt_wc_error *error);
/*
 * The same for a receive that was copied before, as its packet may have to wait: it is as bad as
 * the first time.
 */
enum xt_take xt_receive_taken(const struct xt_receive *rq, struct xt_wc_error *error);

#endif /* XT_RECEIVE_H */
