/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Receive queue: receives taken from the ring or an SRQ, and their completions. */
#ifndef XT_RQ_H
#define XT_RQ_H

#include "daemon/transport/memory/copy.h"
#include "receive.h"

/*
 * Takes the next receive unless one is taken already. XT_TAKE_BAD: the work request is invalid and
 * has to complete with *error.
 */
enum xt_take xt_rq_take(struct xt_qp *qp, struct xt_wc_error *error);
/* The SGL of the receive that was taken */
static inline struct xt_sgl xt_receive_sgl(struct xt_qp *qp)
{
	return (struct xt_sgl){
		.qp = qp,
		.pd = qp->rq.pd,
		.n = qp->rq.num_sge,
		.sge = qp->rq_sge,
	};
}

/*
 * Copies the element of a later receive of the QP's own queue, which is not taken. Returns false if
 * it is not posted, or has not exactly one element. index: free-running
 */
bool xt_rq_peek(struct xt_qp *qp, uint32_t index, struct xr_sge *sge);
/*
 * Returns the number of posted receives. May be too low: it reads the index only if few are left.
 */
uint32_t xt_rq_credits(struct xt_qp *qp);
/* Completes the receive that was taken. Returns false if the QP went to ERR. */
bool xt_rq_complete(struct xt_qp *qp, const struct xr_cqe *what, bool solicited);
/*
 * Completes the next receive of the QP's own queue, one of several: see xt_cq_begin(). The caller
 * has set rq.wr_id and rq_sge, and calls xt_cq_publish() and then xt_rq_publish().
 */
bool xt_rq_received(struct xt_qp *qp, uint32_t len, bool solicited);
/* Tells the client of completed receives. */
void xt_rq_publish(struct xt_qp *qp);
/*
 * The receive that was taken is received, but its posted writes are not done. The last of them,
 * @io, keeps its completion for xt_rq_written(). Not for receives of an SRQ.
 */
void xt_rq_post(struct xt_qp *qp, const struct xr_cqe *what, bool solicited, struct xt_mem_io *io);
/* Completes the oldest such receive: its data is in memory. Returns false if the QP went to ERR. */
bool xt_rq_written(struct xt_qp *qp, const struct xr_cqe *what, bool solicited);
/* Makes such receives the next ones of the queue again, so that they are flushed. */
void xt_rq_take_back(struct xt_qp *qp);
/*
 * Completes at most @most posted receives (SRQ: the one that was taken) with IBV_WC_WR_FLUSH_ERR.
 * Returns true if more are left.
 */
bool xt_rq_flush(struct xt_qp *qp, uint32_t most);

#endif /* XT_RQ_H */
