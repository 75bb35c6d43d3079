// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The code of each kind of work request, and the tables of kinds and opcodes */
#include <errno.h>

#include "build.h"
#include "copy.h"
#include "key_wr.h"
#include "packet.h"
#include "execute.h"
#include "wr_kind.h"

/* nak: -1, or the NAK code that the request is refused with */
static enum xt_outcome outcome_of(int nak, struct xt_result *res)
{
	if (nak < 0)
		return XT_ACCEPTED;
	res->nak = (uint32_t)nak;
	return XT_REFUSED;
}

/* ---- READ -------------------------------------------------------------------------- */

static bool build_read(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	uint32_t off = (at->psn - w->psn) << qp->mtu_shift, left = w->length - off;
	uint64_t len = (uint64_t)at->span << qp->mtu_shift;

	p->opcode = XR_OP_READ_REQUEST;
	xt_ext_reth(p, w->remote_addr + off, w->rkey, left < len ? left : len);
	return true;
}

/* Checks only: the data is read when the response is sent. */
static enum xt_outcome execute_read(struct xt_qp *qp, const struct xt_request *rq,
				    struct xt_result *res)
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

static void load_atomic(struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	bool swap = wqe->opcode == XR_WR_ATOMIC_CMP_AND_SWP;

	w->atomic.compare = swap ? wqe->atomic.compare_add : 0;
	w->atomic.swap_add = swap ? wqe->atomic.swap : wqe->atomic.compare_add;
}

static bool build_atomic(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	struct xr_atomiceth eth = {
		.va = htobe64(w->remote_addr),
		.rkey = htobe32(w->rkey),
		.swap_add = htobe64(w->atomic.swap_add),
		.compare = htobe64(w->atomic.compare),
	};

	p->opcode = xt_wr_opcode(w->opcode)->op;
	xt_ext_put(p, &eth, sizeof(eth));
	return true;
}

static void request_atomic(const struct xt_swqe *w, struct xt_request *rq)
{
	rq->compare = w->atomic.compare;
	rq->swap_add = w->atomic.swap_add;
}

static enum xt_outcome outcome_of_access(int err, struct xt_result *res)
{
	if (err == -EINPROGRESS)
		return XT_PARKED;
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

/* The atomic of a step was started in an earlier execution. */
static enum xt_outcome settled_atomic(struct xt_step *step, struct xt_result *res)
{
	int err = xt_step_atomic_result(step);

	res->old = step->atomic_old;
	return outcome_of_access(err, res);
}

static enum xt_outcome execute_atomic(struct xt_qp *qp, const struct xt_request *rq,
				      struct xt_result *res)
{
	struct xt_mem_at at;
	int err, nak;

	if (rq->src.step->settled)
		return settled_atomic(rq->src.step, res);
	nak = check_word(qp, rq, XR_ACCESS_REMOTE_ATOMIC, &at);
	if (nak >= 0)
		return outcome_of(nak, res);
	if (rq->op == XR_OP_CMP_SWAP)
		err = xt_mem_cmp_swap(rq->src.step, &at, rq->compare, rq->swap_add, &res->old);
	else
		err = xt_mem_fetch_add(rq->src.step, &at, rq->swap_add, &res->old);
	return outcome_of_access(err, res);
}

/* ---- ATOMIC WRITE, IBTA annex A19: stores 8 bytes at once ---------------------------- */

static bool build_atomic_write(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	struct xt_swqe *w = xt_swqe(qp, at->index);

	p->opcode = XR_OP_ATOMIC_WRITE;
	xt_ext_reth(p, w->remote_addr, w->rkey, XR_ATOMIC_LEN);
	return xt_gather(qp, at->index, 0, XR_ATOMIC_LEN, &p->payload, &w->error);
}

static enum xt_outcome execute_atomic_write(struct xt_qp *qp, const struct xt_request *rq,
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

	if (rq->src.step->settled)
		return settled_atomic(rq->src.step, res);
	if (rq->total == XR_ATOMIC_LEN && rq->len == XR_ATOMIC_LEN)
		nak = check_word(qp, rq, XR_ACCESS_REMOTE_WRITE, &at);
	if (nak >= 0)
		return outcome_of(nak, res);
	/* copying from a packet cannot fail, only from the memory of a loopback requester */
	side = xt_put(&to, &rq->src, XR_ATOMIC_LEN, &res->error);
	if (side != XT_SIDE_NONE)
		return side == XT_SIDE_WAIT ? XT_PARKED : XT_SOURCE_ERROR;
	return outcome_of_access(xt_mem_atomic_write(rq->src.step, &at, value), res);
}

/* ---- FLUSH, IBTA annex A19 ----------------------------------------------------- */

static void load_flush(struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	w->flush.feth = (wqe->flush.type & XR_FETH_PLT_MASK) |
			(wqe->flush.level << XR_FETH_SEL_SHIFT & XR_FETH_SEL_MASK);
	w->flush.length = wqe->flush.length;
}

static bool build_flush(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	struct xr_feth feth = { htobe32(w->flush.feth) };

	p->opcode = XR_OP_FLUSH;
	xt_ext_put(p, &feth, sizeof(feth));
	xt_ext_reth(p, w->remote_addr, w->rkey, w->flush.length);
	return true;
}

static void request_flush(const struct xt_swqe *w, struct xt_request *rq)
{
	rq->feth = w->flush.feth;
	rq->total = w->flush.length;
}

/*
 * Requests are executed in order by one thread at a time, so the data of earlier requests is
 * already in memory, in every tier. A full fence makes it visible to other threads. Persistence is
 * not available, as a worker would have to wait for a disk: no key grants that right.
 */
static enum xt_outcome execute_flush(struct xt_qp *qp, const struct xt_request *rq,
				     struct xt_result *res)
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

/* ---- the tables -------------------------------------------------------------------- */

const struct xt_kind xt_kinds[XT_KIND_COUNT] = {
	[XT_KIND_SEND] = {
		.inline_ok = true,
		.response = XT_RESPONSE_ACK,
		.build = xt_req_build_data,
		.execute = xt_resp_send,
	},
	[XT_KIND_WRITE] = {
		.inline_ok = true,
		.response = XT_RESPONSE_ACK,
		.use = XT_USE_REMOTE_WRITE,
		.build = xt_req_build_data,
		.execute = xt_resp_write,
	},
	[XT_KIND_LOCAL] = {
		.no_data = true,
		.load = xt_key_wr_load,
	},
	[XT_KIND_READ] = {
		.local_access = XR_ACCESS_LOCAL_WRITE,
		.rd_atomic = true,
		.response = XT_RESPONSE_READ,
		.use = XT_USE_REMOTE_READ,
		.build = build_read,
		.execute = execute_read,
	},
	[XT_KIND_ATOMIC] = {
		.fixed_length = XR_ATOMIC_LEN,
		.local_access = XR_ACCESS_LOCAL_WRITE,
		.rd_atomic = true,
		.response = XT_RESPONSE_ATOMIC,
		.use = XT_USE_REMOTE_ATOMIC,
		.load = load_atomic,
		.build = build_atomic,
		.request = request_atomic,
		.execute = execute_atomic,
	},
	[XT_KIND_ATOMIC_WRITE] = {
		.fixed_length = XR_ATOMIC_LEN,
		.inline_ok = true,
		.rd_atomic = true,
		.response = XT_RESPONSE_EMPTY,
		.use = XT_USE_REMOTE_WRITE,
		.build = build_atomic_write,
		.execute = execute_atomic_write,
	},
	[XT_KIND_FLUSH] = {
		.no_data = true,
		.rd_atomic = true,
		.response = XT_RESPONSE_EMPTY,
		.load = load_flush,
		.build = build_flush,
		.request = request_flush,
		.execute = execute_flush,
	},
};

/* clang-format off */
const uint8_t xt_op_kinds[XR_OP_COUNT] = {
	[XR_OP_SEND_FIRST] = XT_KIND_SEND,
	[XR_OP_SEND_MIDDLE] = XT_KIND_SEND,
	[XR_OP_SEND_LAST] = XT_KIND_SEND,
	[XR_OP_SEND_LAST_IMM] = XT_KIND_SEND,
	[XR_OP_SEND_ONLY] = XT_KIND_SEND,
	[XR_OP_SEND_ONLY_IMM] = XT_KIND_SEND,
	[XR_OP_SEND_LAST_INV] = XT_KIND_SEND,
	[XR_OP_SEND_ONLY_INV] = XT_KIND_SEND,
	[XR_OP_WRITE_FIRST] = XT_KIND_WRITE,
	[XR_OP_WRITE_MIDDLE] = XT_KIND_WRITE,
	[XR_OP_WRITE_LAST] = XT_KIND_WRITE,
	[XR_OP_WRITE_LAST_IMM] = XT_KIND_WRITE,
	[XR_OP_WRITE_ONLY] = XT_KIND_WRITE,
	[XR_OP_WRITE_ONLY_IMM] = XT_KIND_WRITE,
	[XR_OP_READ_REQUEST] = XT_KIND_READ,
	[XR_OP_CMP_SWAP] = XT_KIND_ATOMIC,
	[XR_OP_FETCH_ADD] = XT_KIND_ATOMIC,
	[XR_OP_ATOMIC_WRITE] = XT_KIND_ATOMIC_WRITE,
	[XR_OP_FLUSH] = XT_KIND_FLUSH,
};
/* clang-format on */

#define RELIABLE (1u << XR_QPT_RC | 1u << XR_QPT_XRC_SEND)
#define CONNECTED (RELIABLE | 1u << XR_QPT_UC)
#define ALL (CONNECTED | 1u << XR_QPT_UD)

/* IBV_WC_FLUSH, which verbs.h defines since rdma-core 45 */
#define WC_FLUSH 8

_Static_assert(XT_KIND_NONE == 0 && IBV_WC_SEND == 0, "rows of unknown opcodes are zero");

/* clang-format off */
const struct xt_wr_opcode xt_wr_opcodes[UINT8_MAX + 1] = {
	[XR_WR_RDMA_WRITE] =
		{ XT_KIND_WRITE, IBV_WC_RDMA_WRITE, .qp_types = CONNECTED },
	[XR_WR_RDMA_WRITE_WITH_IMM] =
		{ XT_KIND_WRITE, IBV_WC_RDMA_WRITE, .qp_types = CONNECTED },
	[XR_WR_SEND] =
		{ XT_KIND_SEND, IBV_WC_SEND, .qp_types = ALL },
	[XR_WR_SEND_WITH_IMM] =
		{ XT_KIND_SEND, IBV_WC_SEND, .qp_types = ALL },
	[XR_WR_SEND_WITH_INV] =
		{ XT_KIND_SEND, IBV_WC_SEND, .qp_types = RELIABLE },
	[XR_WR_RDMA_READ] =
		{ XT_KIND_READ, IBV_WC_RDMA_READ, XR_OP_READ_REQUEST, RELIABLE },
	[XR_WR_ATOMIC_CMP_AND_SWP] =
		{ XT_KIND_ATOMIC, IBV_WC_COMP_SWAP, XR_OP_CMP_SWAP, RELIABLE },
	[XR_WR_ATOMIC_FETCH_AND_ADD] =
		{ XT_KIND_ATOMIC, IBV_WC_FETCH_ADD, XR_OP_FETCH_ADD, RELIABLE },
	[XR_WR_ATOMIC_WRITE] =
		{ XT_KIND_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE, XR_OP_ATOMIC_WRITE, RELIABLE },
	[XR_WR_FLUSH] =
		{ XT_KIND_FLUSH, WC_FLUSH, XR_OP_FLUSH, RELIABLE },
	[XR_WR_LOCAL_INV] =
		{ XT_KIND_LOCAL, IBV_WC_LOCAL_INV, .qp_types = CONNECTED },
	[XR_WR_BIND_MW] =
		{ XT_KIND_LOCAL, IBV_WC_BIND_MW, .qp_types = CONNECTED },
	[XR_WR_REG_MR] =
		{ XT_KIND_LOCAL, IBV_WC_DRIVER1, .qp_types = CONNECTED },
	[XR_WR_REG_INTEGRITY] =
		{ XT_KIND_LOCAL, IBV_WC_DRIVER1, .qp_types = CONNECTED },
};
/* clang-format on */
