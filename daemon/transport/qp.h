/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue pair and its parts. All fields belong to the QP's engine: its worker's lock is held, or
 * no engine runs.
 *
 * Sequence numbers are 32 bits wide and free-running, so that a message of 2^31 bytes at PMTU 256
 * (2^23 packets) still compares correctly; the wire carries the low 24 bits.
 */
#ifndef XT_QP_H
#define XT_QP_H

#include <infiniband/verbs.h>
#include <string.h>

#include "daemon/transport/base/list.h"
#include "daemon/transport/memory/ending.h"
#include "daemon/transport/wire/packet.h"
#include "daemon/transport/waiting/waiting.h"
#include "daemon/transport/queue/part.h"
#include "daemon/transport/rc/part.h"
#include "daemon/transport/scheduling/part.h"
#include "daemon/transport/scheduling/timer.h"
#include "transport.h"
#include "daemon/transport/memory/usage.h"

/* ---- the queue pair ------------------------------------------------------------------------- */

struct xt_qp {
	struct xt_qp_info info;
	struct xt_engine *engine;
	struct xt_flow *flow; /* of its client */
	struct xt_qp_counters counters;

	struct xt_send_queue sq;
	struct xt_requester req;
	struct xt_receive rq;
	struct xt_responder resp;
	struct xr_qp_attr attr; /* as the client set them */
	struct xt_path path;
	struct xt_pace pace;
	struct xt_turn turn;
	struct xt_rtt rtt;
	uint32_t mtu; /* bytes of payload; UD: the port's MTU */
	uint8_t mtu_shift;
	bool ring_bad;		/* corrupt ring indices: the rings are never read again */
	bool drained;		/* SQD: IBV_EVENT_SQ_DRAINED was raised */
	bool no_windows;	/* no more windows can be bound */
	bool integrity;		/* has registered an integrity region */
	struct xt_key *windows; /* first of the type 2 windows bound to the QP */

	struct xt_list ack_link;    /* in engine->acks_due */
	struct xt_list failed_link; /* in engine->failed */
	bool unreported;	    /* its failure is to be reported through xt_ops.qp_state */
	struct xt_timer retry_timer, rate_timer;
	uint16_t ip_id;

	struct xt_cq *send_cq, *recv_cq;
	struct xt_srq *srq; /* with an SRQ there is no rq_ring; XRC looks it up for each message */
	uint32_t xrcd;	    /* XRC_RECV: XRC domain */
	uint8_t class;	    /* XR_CLASS_* of the packets it sends */
	struct xr_queue *sq_ring, *rq_ring;
	struct xt_swqe *swqe;	 /* [sq_depth], since the QP first moved to RTS */
	struct xr_sge *swqe_sge; /* [sq_depth * max_send_sge] */
	struct xt_sq_memory {
		struct xt_swqe *swqe;
		struct xr_sge *sge;
	} prepared; /* of the control thread: memory for these two */
	struct xt_many_rd *many_rd, *prepared_many; /* the same; NULL: not needed yet */
	struct xr_sge *rq_sge;		       /* [max_recv_sge] of the receive that was taken */
	struct xt_usage_entry *usage[XT_USES]; /* in the engine's table, of the keys used last */
	uint32_t sq_depth, rq_depth, sq_stride, rq_stride;
	uint32_t max_send_sge, max_recv_sge, max_inline;
	bool sq_sig_all;
	struct xt_mem *const *reserved_lkey_mem; /* see struct xt_qp_init */
	const struct xt_ahs *ahs;		 /* UD */
	struct xr_psn_entry *psn;
	struct xt_template tmpl; /* not for UD: each address handle has its own */
	struct xt_waiting waiting;
	struct xt_accesses accesses;
	struct xt_ending ending;
	struct xt_failure failure;
};

/* Counts for the QP and for its engine. */
#define XT_QP_COUNT(qp, field, n)                                                                  \
	do {                                                                                       \
		(qp)->engine->counters.field += (n);                                               \
		(qp)->counters.field += (n);                                                       \
	} while (0)

/* Signed distance a - b of free-running indices or PSNs */
static inline int32_t xt_diff(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static inline bool xt_may_send(const struct xt_qp *qp)
{
	return qp->info.state == XR_QPS_RTS || qp->info.state == XR_QPS_SQD;
}

static inline bool xt_may_receive(const struct xt_qp *qp)
{
	return qp->info.state >= XR_QPS_RTR && qp->info.state <= XR_QPS_SQE;
}

/* UC and UD have no ACKs: a work request completes when it has been sent. */
static inline bool xt_unreliable(const struct xt_qp *qp)
{
	return qp->info.type == XR_QPT_UC || qp->info.type == XR_QPT_UD;
}

/* Notes why the QP is about to move to ERR or SQE, unless it is in ERR already. */
void xt_qp_note(struct xt_qp *qp, enum xt_cause cause, uint32_t status, uint32_t verr);
/*
 * Moves the QP to ERR. xt_flush_failed() does the rest. by_engine: report it through
 * xt_ops.qp_state.
 */
void xt_qp_error(struct xt_qp *qp, bool by_engine);
/* Unreliable types: moves the QP to SQE likewise; it still receives (IBTA 10.3.1). */
void xt_qp_sq_error(struct xt_qp *qp);
/* Moves the QP to ERR and raises IBV_EVENT_QP_FATAL, because ring indices are corrupt. */
void xt_qp_fatal(struct xt_qp *qp);
/*
 * Moves the QP to ERR and raises IBV_EVENT_QP_FATAL, because a CQ overrun lost a completion: a work
 * queue catastrophic error of IBTA 11.6.3.2.
 */
void xt_qp_completion_lost(struct xt_qp *qp);
/* Stores a state in the QP and in its rings, where the provider reads it. */
void xt_qp_store_state(struct xt_qp *qp, uint32_t state);
/* Copies the PSNs to the array that the XDP program reads. */
void xt_qp_store_psns(struct xt_qp *qp);

#endif /* XT_QP_H */
