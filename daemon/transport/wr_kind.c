// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wr_kind.h"

#include "key_wr.h"
#include "requester.h"

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
		.build = xt_req_build_data,
		.execute = xt_resp_write,
	},
	[XT_KIND_LOCAL] = {
		.load = xt_key_wr_load,
	},
	[XT_KIND_READ] = {
		.local_access = XR_ACCESS_LOCAL_WRITE,
		.rd_atomic = true,
		.response = XT_RESPONSE_READ,
		.build = xt_req_build_read,
		.execute = xt_resp_read,
	},
	[XT_KIND_ATOMIC] = {
		.fixed_length = XR_ATOMIC_LEN,
		.local_access = XR_ACCESS_LOCAL_WRITE,
		.rd_atomic = true,
		.response = XT_RESPONSE_ATOMIC,
		.load = xt_req_load_atomic,
		.build = xt_req_build_atomic,
		.execute = xt_resp_atomic,
	},
	[XT_KIND_ATOMIC_WRITE] = {
		.fixed_length = XR_ATOMIC_LEN,
		.inline_ok = true,
		.rd_atomic = true,
		.response = XT_RESPONSE_EMPTY,
		.build = xt_req_build_atomic_write,
		.execute = xt_resp_atomic_write,
	},
};

const uint8_t xt_op_kinds[XR_OP_COUNT] = {
	[XR_OP_SEND_FIRST] = XT_KIND_SEND,    [XR_OP_SEND_MIDDLE] = XT_KIND_SEND,
	[XR_OP_SEND_LAST] = XT_KIND_SEND,     [XR_OP_SEND_LAST_IMM] = XT_KIND_SEND,
	[XR_OP_SEND_ONLY] = XT_KIND_SEND,     [XR_OP_SEND_ONLY_IMM] = XT_KIND_SEND,
	[XR_OP_SEND_LAST_INV] = XT_KIND_SEND, [XR_OP_SEND_ONLY_INV] = XT_KIND_SEND,
	[XR_OP_WRITE_FIRST] = XT_KIND_WRITE,  [XR_OP_WRITE_MIDDLE] = XT_KIND_WRITE,
	[XR_OP_WRITE_LAST] = XT_KIND_WRITE,   [XR_OP_WRITE_LAST_IMM] = XT_KIND_WRITE,
	[XR_OP_WRITE_ONLY] = XT_KIND_WRITE,   [XR_OP_WRITE_ONLY_IMM] = XT_KIND_WRITE,
	[XR_OP_READ_REQUEST] = XT_KIND_READ,  [XR_OP_CMP_SWAP] = XT_KIND_ATOMIC,
	[XR_OP_FETCH_ADD] = XT_KIND_ATOMIC,   [XR_OP_ATOMIC_WRITE] = XT_KIND_ATOMIC_WRITE,
};

#define RELIABLE (1u << XR_QPT_RC | 1u << XR_QPT_XRC_SEND)
#define CONNECTED (RELIABLE | 1u << XR_QPT_UC)
#define ALL (CONNECTED | 1u << XR_QPT_UD)

/* clang-format off */
static const struct xt_wr_opcode opcodes[] = {
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
	[XR_WR_LOCAL_INV] =
		{ XT_KIND_LOCAL, IBV_WC_LOCAL_INV, .qp_types = CONNECTED },
	[XR_WR_BIND_MW] =
		{ XT_KIND_LOCAL, IBV_WC_BIND_MW, .qp_types = CONNECTED },
	[XR_WR_REG_MR] =
		{ XT_KIND_LOCAL, IBV_WC_DRIVER1, .qp_types = CONNECTED },
};
/* clang-format on */

const struct xt_wr_opcode *xt_wr_opcode(uint8_t opcode)
{
	static const struct xt_wr_opcode unknown = { .wc_opcode = IBV_WC_SEND };
	const struct xt_wr_opcode *row = opcode < sizeof(opcodes) / sizeof(opcodes[0])
						 ? &opcodes[opcode]
						 : &unknown;

	return row->kind == XT_KIND_NONE ? &unknown : row;
}
