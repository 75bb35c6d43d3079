/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Execution of the peer's requests, from packets or over loopback. */
#ifndef XT_EXECUTE_H
#define XT_EXECUTE_H

#include "daemon/transport/memory/copy.h"
#include "daemon/transport/memory/put.h"

/* One packet of a request, or a larger part of one over loopback. Host byte order except imm. */
struct xt_request {
	uint8_t op;	/* enum xr_op */
	uint16_t flags; /* XR_OPF_* | XR_EXT_* */
	bool solicited;
	uint32_t psn;
	uint32_t len;	  /* bytes of payload */
	uint32_t full;	  /* bytes that a FIRST or MIDDLE must have */
	uint32_t packets; /* number of PSNs that it takes */
	uint32_t srqn;	  /* XRCETH */
	uint64_t va;
	uint32_t rkey;
	uint32_t total; /* RETH: DMA length */
	uint32_t feth;
	uint64_t compare, swap_add;
	__be32 imm;
	uint32_t inv_rkey;
	struct xt_source src; /* the payload */
	bool posted;	      /* its writes were started: XT_POSTED */
};

enum xt_outcome {
	XT_ACCEPTED,
	XT_RNR,
	XT_REFUSED,	 /* xt_result.nak has the reason; a reliable QP has moved to ERR */
	XT_SOURCE_ERROR, /* loopback: the requester's own memory failed, see xt_result.error */
	XT_NOT_NOW,	 /* nothing was done: it must be executed later, see put.h and posted.h */
	XT_POSTED, /* its writes are to be started; the rest is executed when these have ended */
};

struct xt_result {
	uint32_t nak; /* enum xr_nak */
	struct xt_wc_error error;
	uint64_t old; /* atomics: the value before */
};

/*
 * Executes a request that has the expected PSN. Advances epsn and msn if it is accepted. The caller
 * commits or drops rq->src.put, as xt_resp_finish_put() does.
 */
enum xt_outcome xt_resp_request(struct xt_qp *qp, const struct xt_request *rq,
				struct xt_result *res);
/*
 * Executes it without a look at the order of requests. Keeps no response; if the kind has one other
 * than an ACK, the caller advances epsn and msn.
 */
enum xt_outcome xt_resp_execute(struct xt_qp *qp, const struct xt_request *rq,
				struct xt_result *res);
/*
 * A message ends. Returns XT_ACCEPTED if its receive may complete: with a write of the message, if
 * *write is set and may_post permits that, or now. posted: its writes were started
 */
enum xt_outcome xt_resp_may_complete(const struct xt_qp *qp, const struct xt_put *put, bool posted,
				     bool may_post, struct xt_mem_io **write);
/* Starts the writes of a request, or does without them. */
static inline void xt_resp_finish_put(struct xt_put *put, enum xt_outcome outcome)
{
	if (__builtin_expect(xt_put_is_empty(put), true))
		return;
	if (outcome == XT_POSTED)
		put->qp->resp.write_failed = false;
	if (outcome == XT_ACCEPTED || outcome == XT_POSTED)
		xt_put_commit(put);
	else
		xt_put_drop(put);
}
/*
 * XRC: selects the SRQ that a request names; its PD applies to the request. Returns -1 or a NAK
 * code.
 */
int xt_resp_select_srq(struct xt_qp *qp, uint32_t srqn);
/* Moves the QP to ERR and raises the asynchronous event that IBTA requires for the NAK code. */
void xt_resp_refuse(struct xt_qp *qp, uint32_t nak);
/* Refuses a request. UC drops the message without a NAK (IBTA 9.9.3, class D). */
enum xt_outcome xt_resp_refuse_request(struct xt_qp *qp, struct xt_result *res, uint32_t nak);
/* The same for a request in which a test injects the error. */
enum xt_outcome xt_resp_refuse_injected(struct xt_qp *qp, struct xt_result *res, uint32_t nak);
/* Refuses a request because of its receive, which completes with *error. */
enum xt_outcome xt_resp_refuse_receive(struct xt_qp *qp, struct xt_result *res, uint32_t nak,
				       const struct xt_wc_error *error);
/* UC: begins a message with any PSN. A message still being received is lost (IBTA 9.8.2.2). */
void xt_resp_begin_message(struct xt_qp *qp, uint32_t psn);
/* UC: drops the rest of the message being received. */
void xt_resp_drop_message(struct xt_qp *qp);

#endif /* XT_EXECUTE_H */
