/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shows the packets that loopback replaces to the host (xt_engine_show()): those that two
 * hosts would send, one request and one response for each piece. The payload is missing if its
 * memory is not mapped.
 */
#ifndef XT_LOOPBACK_SHOW_H
#define XT_LOOPBACK_SHOW_H

#include "daemon/transport/wire/packet.h"
#include "daemon/transport/qp.h"

/* Packets of a work request */
struct xt_shown {
	uint32_t index; /* of the work request */
	uint32_t psn, packets;
};

void xt_show_requests(struct xt_qp *qp, const struct xt_shown *s);
/* An ACK or NAK of the peer; syndrome: XR_AETH_* */
void xt_show_ack(struct xt_qp *peer, uint32_t psn, uint32_t syndrome);
void xt_show_atomic_ack(struct xt_qp *peer, uint32_t psn, uint64_t old);
/* READ responses of the peer, whose data has been placed */
void xt_show_responses(struct xt_qp *qp, struct xt_qp *peer, const struct xt_shown *s);
/* A datagram; p has all but the payload, unless that was collected. */
void xt_show_datagram(struct xt_qp *qp, const struct xt_packet *p, uint32_t index);

#endif /* XT_LOOPBACK_SHOW_H */
