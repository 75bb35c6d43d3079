/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The responder: packets of requests, in the order of their PSNs. */
#ifndef XT_RESPONDER_H
#define XT_RESPONDER_H

#include "execute.h"

/* Initializes the responder when the QP moves to RTR. */
void xt_resp_reset(struct xt_qp *qp);
/* Returns false if the packet must be held (waiting/waiting.h). */
bool xt_responder_rx(struct xt_qp *qp, struct xt_rx *rx);
/*
 * Refuses a request that was accepted, as its posted write failed. Over loopback, the caller
 * reports it to the peer.
 */
void xt_resp_write_failed(struct xt_qp *qp, const struct xt_mem_io *io);
/* Refuses the request of a posted write; the QP has moved to ERR. */
void xt_resp_nak_posted(struct xt_qp *qp, const struct xt_mem_io *io);
/* Reads the fields of a packet, and begins the put of its payload. */
void xt_resp_parse(struct xt_qp *qp, const struct xt_rx *rx, struct xt_put *put,
		   struct xt_request *rq);
/* Begins the put of a request of the peer, or of a piece over loopback. */
void xt_resp_begin_put(struct xt_put *put, struct xt_qp *qp);
/* Returns the PSN behind the requests whose data is in memory. */
uint32_t xt_resp_done_psn(const struct xt_qp *qp);
/* Handles the first packet of the peer: raises IBV_EVENT_COMM_EST in RTR. */
void xt_resp_established(struct xt_qp *qp);

#endif /* XT_RESPONDER_H */
