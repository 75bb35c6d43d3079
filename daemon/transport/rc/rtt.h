/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Round-trip times of a QP's packets. They tell how long a response may take before it is worth a
 * packet to ask for it: four of the shortest times, or 300 us if that is longer, and less after a
 * loss; longer without losses if the times vary (xt_rtt_varies()), or if the path has become
 * slower, see rtt.c. Too early a packet costs little, because the next ones wait twice as long
 * each, and longer if the client has many busy QPs.
 */
#ifndef XT_RTT_H
#define XT_RTT_H

#include "daemon/transport/qp.h"

/* Forgets all times. */
void xt_rtt_reset(struct xt_qp *qp);
/*
 * A packet that requests a response was sent, and the response can be to this one only (Karn's
 * algorithm). No effect if another packet is being timed. again: the packet was sent before, and
 * lost.
 */
void xt_rtt_sent(struct xt_qp *qp, uint32_t psn, bool again);
/* All packets before a PSN have been acknowledged. */
void xt_rtt_acked(struct xt_qp *qp, uint32_t psn);
/* The response may be to another packet than the timed one, or may wait for a lost one. */
static inline void xt_rtt_cancel(struct xt_qp *qp)
{
	qp->rtt.timed = false;
}
/* The oldest packet is sent again to ask for a response, though there is no sign of loss. */
static inline void xt_rtt_asked(struct xt_qp *qp)
{
	qp->rtt.asked = true;
}
/*
 * The peer has asked for a packet, so a response that was late may have been lost. It says nothing
 * about a path that is known to be slower.
 */
static inline void xt_rtt_lost(struct xt_qp *qp)
{
	qp->rtt.doubts = 0;
}
/* Returns the time in ns after which a response is overdue. */
uint64_t xt_rtt_overdue(const struct xt_qp *qp);
/*
 * The same after a loss, when the peer is known to answer: twice the smoothed round-trip time of
 * packets that were sent again. If that is unknown, the time of others and four times its
 * deviation, as in RFC 6298. At most xt_rtt_overdue().
 */
uint64_t xt_rtt_late(const struct xt_qp *qp);
/*
 * The time in ns after which a response is late for the times seen so far (RFC 6298), at most 8 ms:
 * where programs share processors, responses wait for one now and then.
 */
uint64_t xt_rtt_varies(const struct xt_qp *qp);
/* Returns true if packets seem to wait in queues: the last round trips took much longer. */
bool xt_rtt_queued(const struct xt_qp *qp);

/* Sets the fields of round trips. */
void xt_rtt_stats(const struct xt_qp *qp, struct xt_qp_stats *s);
/* Adds the round trips of the QP to a sum. */
void xt_rtt_add_history(const struct xt_qp *qp, struct xt_traffic *sum);

#endif /* XT_RTT_H */
