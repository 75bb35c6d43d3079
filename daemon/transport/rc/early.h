/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Early packets: a packet that is received before an earlier one is kept in the order of PSNs, and
 * processed once the missing ones have arrived. So one lost packet costs one packet. IBTA 9.7.4.1.1
 * permits a responder to drop such packets; both ways look the same to the peer.
 *
 * A packet is copied, because the buffers that it is received into are needed again
 * (docs/performance-findings.md). If its payload can be placed (place.h), only headers are copied.
 */
#ifndef XT_EARLY_H
#define XT_EARLY_H

#include "daemon/transport/waiting/waiting.h"
#include "daemon/transport/qp.h"

/* xt_place_request() or xt_place_response() */
typedef bool (*xt_place_fn)(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn);
/* Keeps a packet that came early, if there is room and it is not kept already. psn: 32 bits */
void xt_early_keep(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn, xt_place_fn place);
/*
 * Keeps a packet that had its turn and cannot be executed now (waiting/waiting.h). UC: behind those
 * that are kept already, as its PSNs have no order across messages.
 */
void xt_early_hold(struct xt_qp *qp, const struct xt_rx *rx);
/*
 * Returns whether packets are kept, and whether the expected one is: then the QP is resumed, unless
 * that one is held.
 */
enum xt_early { XT_EARLY_NONE, XT_EARLY_GAP, XT_EARLY_DUE };
enum xt_early xt_early_check(struct xt_qp *qp, enum xt_qp_side side);
/* A walk through what is missing between early packets: PSNs [psn, end) */
struct xt_early_gap {
	const struct xt_list *packet; /* first one behind the gap */
	uint32_t psn, end;
};
/* Begins at the expected PSN. */
void xt_early_begin(const struct xt_qp *qp, enum xt_qp_side side, struct xt_early_gap *g);
/* Moves to the next gap. Returns false behind the last packet: psn is that of no packet then. */
bool xt_early_next(const struct xt_qp *qp, enum xt_qp_side side, struct xt_early_gap *g);
/* Drops the early packets of a side. */
void xt_early_drop(struct xt_qp *qp, enum xt_qp_side side);

#endif /* XT_EARLY_H */
