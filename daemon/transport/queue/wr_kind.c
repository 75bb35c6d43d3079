// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Properties of each kind of work request, and the kinds of opcodes */
#include "daemon/transport/memory/key_wr.h"
#include "sq.h"
#include "wr_kind.h"

/* ---- fields of the ring's entry that only one kind has ------------------------------------- */

static void load_atomic(struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	bool swap = wqe->opcode == XR_WR_ATOMIC_CMP_AND_SWP;

	w->atomic.compare = swap ? wqe->atomic.compare_add : 0;
	w->atomic.swap_add = swap ? wqe->atomic.swap : wqe->atomic.compare_add;
}

static void load_flush(struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	w->flush.feth = (wqe->flush.type & XR_FETH_PLT_MASK) |
			(wqe->flush.level << XR_FETH_SEL_SHIFT & XR_FETH_SEL_MASK);
	w->flush.length = wqe->flush.length;
}

/* ---- the tables -------------------------------------------------------------------- */

const struct xt_kind xt_kinds[XT_KIND_COUNT] = {
	[XT_KIND_SEND] = {
		.inline_ok = true,
		.response = XT_RESPONSE_ACK,
	},
	[XT_KIND_WRITE] = {
		.inline_ok = true,
		.response = XT_RESPONSE_ACK,
		.use = XT_USE_REMOTE_WRITE,
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
	},
	[XT_KIND_ATOMIC] = {
		.fixed_length = XR_ATOMIC_LEN,
		.local_access = XR_ACCESS_LOCAL_WRITE,
		.rd_atomic = true,
		.response = XT_RESPONSE_ATOMIC,
		.use = XT_USE_REMOTE_ATOMIC,
		.load = load_atomic,
	},
	[XT_KIND_ATOMIC_WRITE] = {
		.fixed_length = XR_ATOMIC_LEN,
		.inline_ok = true,
		.rd_atomic = true,
		.response = XT_RESPONSE_EMPTY,
		.use = XT_USE_REMOTE_WRITE,
	},
	[XT_KIND_FLUSH] = {
		.no_data = true,
		.rd_atomic = true,
		.response = XT_RESPONSE_EMPTY,
		.load = load_flush,
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
