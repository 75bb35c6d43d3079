/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Round-trip times of a QP's packets, smoothed as in RFC 6298. They tell how long a response may
 * take before it is worth a packet to ask for it.
 */
#ifndef XT_RTT_H
#define XT_RTT_H

#include "qp.h"

/* Forgets all times. */
void xt_rtt_reset(struct xt_qp *qp);
/* A packet that requests a response was sent for the first time. */
void xt_rtt_sent(struct xt_qp *qp, uint32_t psn);
/* All packets before a PSN have been acknowledged. */
void xt_rtt_acked(struct xt_qp *qp, uint32_t psn);
/*
 * Packets are sent again: a response may belong to either (Karn's algorithm), or it may have waited
 * for the one that was lost.
 */
static inline void xt_rtt_cancel(struct xt_qp *qp)
{
	qp->rtt.timed = false;
}
/* Returns the time in ns after which a response is overdue. */
uint64_t xt_rtt_overdue(const struct xt_qp *qp);

#endif /* XT_RTT_H */
