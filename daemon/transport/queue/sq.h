/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Send queue: work requests from the ring to their completion. */
#ifndef XT_SQ_H
#define XT_SQ_H

#include "daemon/transport/qp.h"

/* Kinds of send work requests; each is a row in wr_kind.c. */
enum xt_wr_kind {
	XT_KIND_NONE,
	XT_KIND_SEND,
	XT_KIND_WRITE,
	XT_KIND_LOCAL, /* changes keys and sends nothing */
	XT_KIND_READ,
	XT_KIND_ATOMIC,
	XT_KIND_ATOMIC_WRITE,
	XT_KIND_FLUSH,
	XT_KIND_COUNT,
};

/* A send work request, copied from the ring once and checked */
struct xt_swqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare, swap_add; /* as in the AtomicETH */
		} atomic;
		struct {
			uint32_t feth, length; /* as in the FETH and RETH, host byte order */
		} flush;
		struct {
			uint32_t mw_rkey, new_rkey, mr_lkey, access;
		} bind;
		struct {
			uint32_t key, access, pages;
			uint8_t list, page_shift;
		} reg;
	};
	uint64_t bind_len;
	uint32_t rkey;
	uint32_t srqn;	 /* XRC */
	uint32_t length; /* bytes of payload */
	uint32_t psn;	 /* first */
	uint32_t npsn;	 /* number of PSNs: at least 1, but 0 for XT_KIND_LOCAL */
	uint32_t ssn;	 /* number of its (last) message, IBTA 9.7.7.2 */
	uint32_t ah;	 /* UD: handle */
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint32_t rd_before; /* xt_send_queue.rd_last before this one, for fences */
	union {
		__be32 imm;
		uint32_t inv_rkey;
	};
	uint8_t opcode; /* enum xr_wr_opcode */
	uint8_t kind;	/* enum xt_wr_kind */
	uint8_t flags;	/* XR_SEND_* */
	uint8_t num_sge;
	bool executed; /* XT_KIND_LOCAL: took effect; a retry must not repeat it */
	bool done;     /* the same, and it may complete */
	/* status not 0: completes with this error once it is the oldest */
	struct xt_wc_error error;
};

/* A packet to be built */
struct xt_cursor {
	uint32_t index; /* of its work request */
	uint32_t psn;
	uint32_t span; /* PSNs that it takes: 1, or the response packets that a READ requests */
};

static inline struct xt_swqe *xt_swqe(struct xt_qp *qp, uint32_t index)
{
	return &qp->swqe[index & (qp->sq_depth - 1)];
}

static inline struct xr_sge *xt_swqe_sge(struct xt_qp *qp, uint32_t index)
{
	return &qp->swqe_sge[(size_t)(index & (qp->sq_depth - 1)) * qp->max_send_sge];
}

static inline bool xt_has_imm(const struct xt_swqe *w)
{
	return w->opcode == XR_WR_SEND_WITH_IMM || w->opcode == XR_WR_RDMA_WRITE_WITH_IMM;
}

/* Returns true if the last packet of a message completes a receive. */
static inline bool xt_takes_receive(const struct xt_swqe *w)
{
	return w->kind == XT_KIND_SEND || w->opcode == XR_WR_RDMA_WRITE_WITH_IMM;
}

/*
 * The QP begins to send: the first work request that has not completed gets this PSN.
 * read_packets: of the longest READ request, in response packets
 */
void xt_sq_reset(struct xt_qp *qp, uint32_t psn, uint32_t read_packets);
/* Allocates memory for xt_sq_alloc(); the engine may run meanwhile. -ENOMEM. */
int xt_sq_prepare(struct xt_qp *qp);
/* Allocates the private copies of entries, needed in RTS and later states. -ENOMEM. */
int xt_sq_alloc(struct xt_qp *qp);
void xt_sq_free(struct xt_qp *qp);
/* Reads the producer index. Returns false if it is corrupt; the QP is in ERR then. */
bool xt_sq_poll(struct xt_qp *qp);
/* Returns the work request to be sent from now, NULL if there is none. */
struct xt_swqe *xt_sq_current(struct xt_qp *qp);
/* Returns the work request behind the current one, NULL if there is none. The state must be RTS. */
struct xt_swqe *xt_sq_following(struct xt_qp *qp);
/*
 * Reads the payload of short messages behind a work request ahead. To be called when its own
 * payload has been, or is being, read from memory that may have to be waited for.
 */
void xt_sq_read_ahead(struct xt_qp *qp, uint32_t index);
/*
 * Retires the oldest work request, and local ones behind it that are done. They complete as soon as
 * no write of READ data up to them is posted. Returns false if the QP went to ERR.
 */
bool xt_sq_retire(struct xt_qp *qp);
/* Completes retired work requests. Returns false if the QP went to ERR. */
bool xt_sq_complete(struct xt_qp *qp);
/*
 * Completes a SEND that was executed without being loaded, one of several: see xt_cq_begin(). All
 * before it have completed. Returns false if the QP went to ERR. The caller calls xt_cq_publish()
 * and then xt_sq_publish().
 */
bool xt_sq_executed(struct xt_qp *qp, uint64_t wr_id, uint32_t length, bool signaled);
/* Tells the client of completed work requests. */
void xt_sq_publish(struct xt_qp *qp);
/*
 * Completes the oldest work request with an error and flushes: ERR, or SQE for unreliable types.
 * All retired ones must have completed, but for READs whose data cannot be stored.
 */
void xt_sq_fail(struct xt_qp *qp, struct xt_wc_error error);
/*
 * Completes at most @most posted work requests with IBV_WC_WR_FLUSH_ERR. Returns true if more are
 * left.
 */
bool xt_sq_flush(struct xt_qp *qp, uint32_t most);

#endif /* XT_SQ_H */
