/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opcodes of the BTH: transport class, operation, and which extended headers and payload a packet
 * has. IBTA 9.2.1 table 38; XRC: annex A14; CNP: annex A17.9.3; FLUSH and ATOMIC WRITE: annex A19.
 * For BPF and user space.
 */
#ifndef XROCE_OPCODE_H
#define XROCE_OPCODE_H

#include <linux/types.h>

#include "wire.h"

/* Extended headers, in their order on the wire */
#define XR_EXT_XRCETH 0x001
#define XR_EXT_DETH 0x002
#define XR_EXT_FETH 0x004
#define XR_EXT_RETH 0x008
#define XR_EXT_ATOMICETH 0x010
#define XR_EXT_AETH 0x020
#define XR_EXT_ATOMICACKETH 0x040
#define XR_EXT_IMMDT 0x080
#define XR_EXT_IETH 0x100

/* Transport classes: opcode bits 7:5, IBTA 9.2.1 table 38 */
#define XR_CLASS_MASK 0xe0
#define XR_CLASS_RC 0x00
#define XR_CLASS_UC 0x20
#define XR_CLASS_UD 0x60
#define XR_CLASS_XRC 0xa0

/* Operations: opcode bits 4:0. A class has a subset of them with the same numbers. */
enum xr_op {
	XR_OP_SEND_FIRST = 0x00,
	XR_OP_SEND_MIDDLE = 0x01,
	XR_OP_SEND_LAST = 0x02,
	XR_OP_SEND_LAST_IMM = 0x03,
	XR_OP_SEND_ONLY = 0x04,
	XR_OP_SEND_ONLY_IMM = 0x05,
	XR_OP_WRITE_FIRST = 0x06,
	XR_OP_WRITE_MIDDLE = 0x07,
	XR_OP_WRITE_LAST = 0x08,
	XR_OP_WRITE_LAST_IMM = 0x09,
	XR_OP_WRITE_ONLY = 0x0a,
	XR_OP_WRITE_ONLY_IMM = 0x0b,
	XR_OP_READ_REQUEST = 0x0c,
	XR_OP_READ_RESP_FIRST = 0x0d,
	XR_OP_READ_RESP_MIDDLE = 0x0e,
	XR_OP_READ_RESP_LAST = 0x0f,
	XR_OP_READ_RESP_ONLY = 0x10,
	XR_OP_ACK = 0x11,
	XR_OP_ATOMIC_ACK = 0x12,
	XR_OP_CMP_SWAP = 0x13,
	XR_OP_FETCH_ADD = 0x14,
	XR_OP_SEND_LAST_INV = 0x16,
	XR_OP_SEND_ONLY_INV = 0x17,
	XR_OP_FLUSH = 0x1c,
	XR_OP_ATOMIC_WRITE = 0x1d,
	XR_OP_COUNT = 0x20,
};

#define XR_OPCODE_CNP 0x81

/* Properties of an operation */
#define XR_OPF_REQUEST 0x0200  /* from requester to responder */
#define XR_OPF_RESPONSE 0x0400 /* from responder to requester */
#define XR_OPF_PAYLOAD 0x0800  /* payload is allowed */
#define XR_OPF_FULL_MTU 0x1000 /* FIRST and MIDDLE: the payload is one path MTU */
#define XR_OPF_START 0x2000    /* FIRST and ONLY: first packet of a message */
#define XR_OPF_END 0x4000      /* LAST and ONLY: last packet of a message */

/* Classes that have an operation */
#define XR_IN_RC 1
#define XR_IN_UC 2
#define XR_IN_UD 4
#define XR_IN_XRC 8
#define XR_IN_CONN (XR_IN_RC | XR_IN_UC | XR_IN_XRC)
#define XR_IN_REL (XR_IN_RC | XR_IN_XRC)

#define XR_OPF_FIRST_ (XR_OPF_REQUEST | XR_OPF_PAYLOAD | XR_OPF_FULL_MTU | XR_OPF_START)
#define XR_OPF_MIDDLE_ (XR_OPF_REQUEST | XR_OPF_PAYLOAD | XR_OPF_FULL_MTU)
#define XR_OPF_LAST_ (XR_OPF_REQUEST | XR_OPF_PAYLOAD | XR_OPF_END)
#define XR_OPF_ONLY_ (XR_OPF_REQUEST | XR_OPF_PAYLOAD | XR_OPF_START | XR_OPF_END)
#define XR_OPF_SINGLE_ (XR_OPF_REQUEST | XR_OPF_START | XR_OPF_END)

/*
 * One row for each operation: X(operation, XR_OPF_* and XR_EXT_* flags, classes). DETH, which every
 * UD packet has, and XRCETH, which every XRC request has, are added in xr_opcodes below.
 */
#define XR_OPERATIONS(X)                                                                           \
	X(SEND_FIRST, XR_OPF_FIRST_, XR_IN_CONN)                                                   \
	X(SEND_MIDDLE, XR_OPF_MIDDLE_, XR_IN_CONN)                                                 \
	X(SEND_LAST, XR_OPF_LAST_, XR_IN_CONN)                                                     \
	X(SEND_LAST_IMM, XR_OPF_LAST_ | XR_EXT_IMMDT, XR_IN_CONN)                                  \
	X(SEND_ONLY, XR_OPF_ONLY_, XR_IN_CONN | XR_IN_UD)                                          \
	X(SEND_ONLY_IMM, XR_OPF_ONLY_ | XR_EXT_IMMDT, XR_IN_CONN | XR_IN_UD)                       \
	X(WRITE_FIRST, XR_OPF_FIRST_ | XR_EXT_RETH, XR_IN_CONN)                                    \
	X(WRITE_MIDDLE, XR_OPF_MIDDLE_, XR_IN_CONN)                                                \
	X(WRITE_LAST, XR_OPF_LAST_, XR_IN_CONN)                                                    \
	X(WRITE_LAST_IMM, XR_OPF_LAST_ | XR_EXT_IMMDT, XR_IN_CONN)                                 \
	X(WRITE_ONLY, XR_OPF_ONLY_ | XR_EXT_RETH, XR_IN_CONN)                                      \
	X(WRITE_ONLY_IMM, XR_OPF_ONLY_ | XR_EXT_RETH | XR_EXT_IMMDT, XR_IN_CONN)                   \
	X(READ_REQUEST, XR_OPF_SINGLE_ | XR_EXT_RETH, XR_IN_REL)                                   \
	X(READ_RESP_FIRST,                                                                         \
	  XR_OPF_RESPONSE | XR_OPF_PAYLOAD | XR_OPF_FULL_MTU | XR_OPF_START | XR_EXT_AETH,         \
	  XR_IN_REL)                                                                               \
	X(READ_RESP_MIDDLE, XR_OPF_RESPONSE | XR_OPF_PAYLOAD | XR_OPF_FULL_MTU, XR_IN_REL)         \
	X(READ_RESP_LAST, XR_OPF_RESPONSE | XR_OPF_PAYLOAD | XR_OPF_END | XR_EXT_AETH, XR_IN_REL)  \
	X(READ_RESP_ONLY,                                                                          \
	  XR_OPF_RESPONSE | XR_OPF_PAYLOAD | XR_OPF_START | XR_OPF_END | XR_EXT_AETH, XR_IN_REL)   \
	X(ACK, XR_OPF_RESPONSE | XR_OPF_START | XR_OPF_END | XR_EXT_AETH, XR_IN_REL)               \
	X(ATOMIC_ACK,                                                                              \
	  XR_OPF_RESPONSE | XR_OPF_START | XR_OPF_END | XR_EXT_AETH | XR_EXT_ATOMICACKETH,         \
	  XR_IN_REL)                                                                               \
	X(CMP_SWAP, XR_OPF_SINGLE_ | XR_EXT_ATOMICETH, XR_IN_REL)                                  \
	X(FETCH_ADD, XR_OPF_SINGLE_ | XR_EXT_ATOMICETH, XR_IN_REL)                                 \
	X(SEND_LAST_INV, XR_OPF_LAST_ | XR_EXT_IETH, XR_IN_REL)                                    \
	X(SEND_ONLY_INV, XR_OPF_ONLY_ | XR_EXT_IETH, XR_IN_REL)                                    \
	X(FLUSH, XR_OPF_SINGLE_ | XR_EXT_FETH | XR_EXT_RETH, XR_IN_REL)                            \
	X(ATOMIC_WRITE, XR_OPF_SINGLE_ | XR_OPF_PAYLOAD | XR_EXT_RETH, XR_IN_REL)

/* Bytes of the extended headers named by XR_EXT_* flags */
#define XR_EXT_LEN_(flags, name, type) ((flags)&XR_EXT_##name ? sizeof(struct type) : 0)
#define XR_EXT_LEN(flags)                                                                          \
	(XR_EXT_LEN_(flags, XRCETH, xr_xrceth) + XR_EXT_LEN_(flags, DETH, xr_deth) +               \
	 XR_EXT_LEN_(flags, FETH, xr_feth) + XR_EXT_LEN_(flags, RETH, xr_reth) +                   \
	 XR_EXT_LEN_(flags, ATOMICETH, xr_atomiceth) + XR_EXT_LEN_(flags, AETH, xr_aeth) +         \
	 XR_EXT_LEN_(flags, ATOMICACKETH, xr_atomicacketh) + XR_EXT_LEN_(flags, IMMDT, xr_immdt) + \
	 XR_EXT_LEN_(flags, IETH, xr_ieth))

struct xr_opcode {
	__u16 flags;   /* XR_OPF_* and XR_EXT_*; 0: unknown opcode */
	__u16 ext_len; /* bytes of all extended headers */
};

#define XR_OPCODE_(class, op, classes, op_flags)                                                   \
	[XR_CLASS_##class | XR_OP_##op] = {                                                        \
		(classes)&XR_IN_##class ? (op_flags) : 0,                                          \
		XR_EXT_LEN(op_flags),                                                              \
	},
#define XR_XRC_FLAGS_(flags) ((flags) | ((flags)&XR_OPF_REQUEST ? XR_EXT_XRCETH : 0))

/* All opcodes. A CNP is neither a request nor a response. */
static const struct xr_opcode xr_opcodes[256] = {
#define X(op, flags, classes)                                                                      \
	XR_OPCODE_(RC, op, classes, flags)                                                         \
	XR_OPCODE_(UC, op, classes, flags)                                                         \
	XR_OPCODE_(UD, op, classes, (flags) | XR_EXT_DETH)                                         \
	XR_OPCODE_(XRC, op, classes, XR_XRC_FLAGS_(flags))
	XR_OPERATIONS(X)
#undef X
		[XR_OPCODE_CNP] = { XR_OPF_PAYLOAD | XR_OPF_START | XR_OPF_END, 0 },
};

#endif /* XROCE_OPCODE_H */
