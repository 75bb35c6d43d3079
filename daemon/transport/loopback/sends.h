/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Many common SENDs over loopback at once. */
#ifndef XT_LOOPBACK_SENDS_H
#define XT_LOOPBACK_SENDS_H

#include "daemon/transport/qp.h"

/* Bytes moved at a time; a multiple of every path MTU */
#define XT_LOOPBACK_MOVE (128u << 10)

/* Cost of a piece in packets: copying 4 KiB costs as much as a packet. */
static inline uint32_t xt_loopback_cost(uint32_t len)
{
	return 1 + len / 4096;
}

/* Returns true if the QP may execute SENDs now. The peer is reachable (loopback.c). */
bool xt_loopback_sends_possible(const struct xt_qp *qp, const struct xt_qp *peer);
/* Executes SENDs up to the first unusual one, or up to a cost of @budget. Returns the cost. */
uint32_t xt_loopback_sends(struct xt_qp *qp, struct xt_qp *peer, uint32_t budget);

#endif /* XT_LOOPBACK_SENDS_H */
