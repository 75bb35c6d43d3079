// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Execution of requests of one packet: READ, atomics, ATOMIC WRITE, FLUSH */
#include <errno.h>

#include "check.h"
#include "daemon/transport/memory/copy.h"
#include "execute_single.h"
#include "daemon/transport/qp.h"

/* nak: -1, or the NAK code that the request is refused with */
static enum xt_outcome outcome_of(int nak, struct xt_result *res)
{
	if (nak < 0)
		return XT_ACCEPTED;
	res->nak = (uint32_t)nak;
	return XT_REFUSED;
}

/* ---- READ -------------------------------------------------------------------------- */

/* Checks only: the data is read when the response is sent. */
enum xt_outcome xt_resp_read(struct xt_qp *qp, const struct xt_request *rq, struct xt_result *res)
{
	struct xr_key_use use = {
		.key = rq->rkey,
		.access = XR_ACCESS_REMOTE_READ,
		.va = rq->va,
		.len = rq->total,
	};
	struct xt_mem_at at;

	if (rq->total > XR_MAX_MSG_SIZE)
		return outcome_of(XR_NAK_INVALID_REQUEST, res);
	return outcome_of(xt_resp_check(qp, &use, &at), res);
}

/* ---- atomics ----------------------------------------------------------------------- */

static enum xt_outcome outcome_of_access(const struct xt_put *put, int err, struct xt_result *res)
{
	if (!err && put->waits)
		return XT_NOT_NOW;
	return outcome_of(err ? XR_NAK_REMOTE_OPERATIONAL : -1, res);
}

/* Checks the key and the alignment of 8 bytes, in the order of the XDP program's checks. */
static int check_word(struct xt_qp *qp, const struct xt_request *rq, uint32_t access,
		      struct xt_mem_at *at)
{
	struct xr_key_use use = {
		.key = rq->rkey,
		.access = access,
		.va = rq->va,
		.len = XR_ATOMIC_LEN,
	};
	int nak = xt_resp_check(qp, &use, at);

	return nak < 0 && rq->va & (XR_ATOMIC_LEN - 1) ? XR_NAK_INVALID_REQUEST : nak;
}

enum xt_outcome xt_resp_atomic(struct xt_qp *qp, const struct xt_request *rq, struct xt_result *res)
{
	struct xt_mem_at at;
	int err, nak;

	nak = check_word(qp, rq, XR_ACCESS_REMOTE_ATOMIC, &at);
	if (nak >= 0)
		return outcome_of(nak, res);
	if (rq->op == XR_OP_CMP_SWAP)
		err = xt_mem_cmp_swap(rq->src.put, &at, rq->compare, rq->swap_add, &res->old);
	else
		err = xt_mem_fetch_add(rq->src.put, &at, rq->swap_add, &res->old);
	return outcome_of_access(rq->src.put, err, res);
}

/* ---- ATOMIC WRITE, IBTA annex A19: stores 8 bytes at once ---------------------------- */

enum xt_outcome xt_resp_atomic_write(struct xt_qp *qp, const struct xt_request *rq,
				     struct xt_result *res)
{
	uint64_t value = 0;
	struct xt_mem_seg seg = { .len = sizeof(value),
				  .ptr = (uint8_t *)&value,
				  .writable = true };
	struct xt_mem word = { .length = sizeof(value), .nseg = 1, .seg = &seg };
	struct xt_mem_at to = { &word, 0 }, at;
	int nak = XR_NAK_INVALID_REQUEST;
	enum xt_side side;

	if (rq->total == XR_ATOMIC_LEN && rq->len == XR_ATOMIC_LEN)
		nak = check_word(qp, rq, XR_ACCESS_REMOTE_WRITE, &at);
	if (nak >= 0)
		return outcome_of(nak, res);
	/* copying from a packet cannot fail, only from the memory of a loopback requester */
	side = xt_store(&to, &rq->src, XR_ATOMIC_LEN, &res->error);
	if (side != XT_SIDE_NONE)
		return side == XT_SIDE_WAIT ? XT_NOT_NOW : XT_SOURCE_ERROR;
	return outcome_of_access(rq->src.put, xt_mem_atomic_write(rq->src.put, &at, value), res);
}

/* ---- FLUSH, IBTA annex A19 ----------------------------------------------------- */

/*
 * Requests are executed in order by one thread at a time, so the data of earlier requests is in
 * memory, or posted, and then the response waits for it. A full fence makes it visible to other
 * threads. Persistence is not available, as a worker would have to wait for a disk: no key grants
 * that right.
 */
enum xt_outcome xt_resp_flush(struct xt_qp *qp, const struct xt_request *rq, struct xt_result *res)
{
	uint32_t type = rq->feth & XR_FETH_PLT_MASK;
	uint32_t level = (rq->feth & XR_FETH_SEL_MASK) >> XR_FETH_SEL_SHIFT;
	struct xr_key_use use = {
		.key = rq->rkey,
		.va = rq->va,
		.len = level == XR_FLUSH_MR ? 1 : rq->total,
		.whole = level == XR_FLUSH_MR,
	};
	struct xt_mem_at at;
	int nak;

	if (!type || type & ~(XR_FLUSH_GLOBAL | XR_FLUSH_PERSISTENT) || level > XR_FLUSH_MR)
		return outcome_of(XR_NAK_INVALID_REQUEST, res);
	if (type & XR_FLUSH_GLOBAL)
		use.access |= XR_ACCESS_FLUSH_GLOBAL;
	if (type & XR_FLUSH_PERSISTENT)
		use.access |= XR_ACCESS_FLUSH_PERSISTENT;
	nak = xt_resp_check(qp, &use, &at);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return outcome_of(nak, res);
}
