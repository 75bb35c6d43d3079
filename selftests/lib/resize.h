/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Resizes a CQ or SRQ in one step, for tests in which no engine runs meanwhile.
 */
#ifndef XR_TEST_RESIZE_H
#define XR_TEST_RESIZE_H

#include "daemon/transport/transport.h"

static inline int cq_resize(struct xt_cq *cq, struct xr_queue *queue, uint32_t depth)
{
	struct xt_cq_move m;
	int err = xt_cq_move_begin(cq, queue, depth, &m);

	if (err)
		return err;
	xt_cq_move_copy(&m);
	return xt_cq_move_end(cq, &m);
}

static inline int srq_resize(struct xt_srq *srq, struct xr_queue *queue, uint32_t depth)
{
	struct xt_srq_move m;
	int err = xt_srq_move_begin(srq, queue, depth, &m);

	if (err)
		return err;
	xt_srq_move_copy(srq, &m);
	return xt_srq_move_end(srq, &m);
}

#endif /* XR_TEST_RESIZE_H */
