/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RoCEv2 on the wire: headers, opcodes and constants, for the XDP program, the
 * transport engine and the tests. Nothing here but formats.
 *
 *   Ethernet | 0..2 VLAN tags | IPv4 or IPv6 | UDP dport 4791 |
 *   BTH | extended headers of the opcode | payload | pad | ICRC
 *
 * Multi-byte header fields are in network byte order (__be types); the ICRC is
 * the one exception: it is stored little-endian.
 *
 * Sources: InfiniBand Architecture Specification vol. 1 (IBTA) chapters 5.2, 9,
 * annexes A16 (RoCE) and A17 (RoCEv2); RFC 768, 791, 8200. The Linux kernel's
 * include/rdma/ib_pack.h and drivers/infiniband/sw/rxe/rxe_hdr.h name the same
 * fields.
 */
#ifndef XROCE_WIRE_H
#define XROCE_WIRE_H

#include <linux/types.h>

#define XR_UDP_PORT 4791 /* IANA "roce", IBTA A17.4.2 */
#define XR_ICRC_LEN 4
#define XR_PSN_MASK 0xffffffu /* PSN, MSN and QPN are 24 bits wide */
#define XR_QPN_MASK 0xffffffu
#define XR_DEFAULT_PKEY 0xffffu
#define XR_PKEY_MASK 0x7fffu	    /* without the membership bit */
#define XR_MAX_MSG_SIZE 0x80000000u /* 2^31 bytes, IBTA 9.7.7.1 */
#define XR_GRH_LEN 40		    /* UD receive buffers start with it */
#define XR_MULTICAST_QPN 0xffffffu
#define XR_GSI_QPN 1
#define XR_GSI_QKEY 0x80010000u
#define XR_QKEY_PRIVILEGED 0x80000000u

/* Base transport header, IBTA 9.2 */
struct xr_bth {
	__u8 opcode;
	__u8 flags; /* XR_BTH_* below; header version in bits 3:0 */
	__be16 pkey;
	__be32 fecn_dqpn; /* FECN 31, BECN 30, reserved 29:24, DestQP 23:0 */
	__be32 ack_psn;	  /* AckReq 31, reserved 30:24, PSN 23:0 */
};

#define XR_BTH_SE 0x80	   /* solicited event */
#define XR_BTH_MIGREQ 0x40 /* always sent as 1 */
#define XR_BTH_PAD_SHIFT 4
#define XR_BTH_PAD_MASK 0x30
#define XR_BTH_TVER_MASK 0x0f
#define XR_BTH_ACKREQ 0x80000000u /* in host order of ack_psn */
#define XR_BTH_FECN 0x80000000u	  /* in host order of fecn_dqpn */
#define XR_BTH_BECN 0x40000000u

/* RDMA extended transport header, IBTA 9.3.3 */
struct xr_reth {
	__be64 va;
	__be32 rkey;
	__be32 len;
} __attribute__((packed));

/* Atomic extended transport header, IBTA 9.3.5 */
struct xr_atomiceth {
	__be64 va;
	__be32 rkey;
	__be64 swap_add;
	__be64 compare;
} __attribute__((packed));

/* ACK extended transport header, IBTA 9.3.4 */
struct xr_aeth {
	__be32 syn_msn; /* syndrome 31:24, MSN 23:0 */
};

/* Atomic ACK extended transport header, IBTA 9.3.6 */
struct xr_atomicacketh {
	__be64 orig;
} __attribute__((packed));

/* Immediate data, IBTA 9.3.7 */
struct xr_immdt {
	__be32 imm;
};

/* Invalidate extended transport header, IBTA 9.3.8 */
struct xr_ieth {
	__be32 rkey;
};

/* Datagram extended transport header, IBTA 9.3.2 */
struct xr_deth {
	__be32 qkey;
	__be32 sqpn; /* reserved 31:24, source QP 23:0 */
};

/* XRC extended transport header, IBTA annex A14 */
struct xr_xrceth {
	__be32 srqn; /* reserved 31:24, SRQ number 23:0 */
};

/* FLUSH extended transport header, IBTA annex A19 */
struct xr_feth {
	__be32 sel_plt; /* placement type 3:0, selectivity level 5:4 */
};

/* Extended headers, one bit each, in the order in which they stand on the wire. */
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
#define XR_CLASS_RD 0x40
#define XR_CLASS_UD 0x60
#define XR_CLASS_CNP 0x80
#define XR_CLASS_XRC 0xa0

/* Operations: opcode bits 4:0, the same in each class that has them */
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
	XR_OP_RESYNC = 0x15,
	XR_OP_SEND_LAST_INV = 0x16,
	XR_OP_SEND_ONLY_INV = 0x17,
	XR_OP_FLUSH = 0x1c,
	XR_OP_ATOMIC_WRITE = 0x1d,
	XR_OP_COUNT = 0x20,
};

#define XR_OPCODE_CNP 0x81

/* What an operation is, for the table below */
#define XR_OPF_REQUEST 0x0200 /* requester to responder */
#define XR_OPF_RESPONSE 0x0400
#define XR_OPF_PAYLOAD 0x0800  /* may carry payload */
#define XR_OPF_FULL_MTU 0x1000 /* FIRST and MIDDLE: exactly one path MTU */
#define XR_OPF_START 0x2000    /* begins a message: FIRST or ONLY */
#define XR_OPF_END 0x4000      /* ends a message: LAST or ONLY */
#define XR_OPF_EXT_MASK 0x01ff /* XR_EXT_* */

/*
 * One row an operation: X(op, flags without DETH and XRCETH, classes).
 * DETH is added for every UD operation, XRCETH for every XRC request.
 */
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

/* AETH syndromes, IBTA 9.7.5.2.1 table 48 and 9.7.5.2.8 */
#define XR_AETH_TYPE_MASK 0x60
#define XR_AETH_VALUE_MASK 0x1f
#define XR_AETH_ACK 0x00     /* value: credit count code, 31 none given */
#define XR_AETH_RNR_NAK 0x20 /* value: RNR timer code */
#define XR_AETH_NAK 0x60     /* value: XR_NAK_* */
#define XR_AETH_CREDITS_INVALID 0x1f
enum xr_nak {
	XR_NAK_PSN_SEQUENCE = 0,
	XR_NAK_INVALID_REQUEST = 1,
	XR_NAK_REMOTE_ACCESS = 2,
	XR_NAK_REMOTE_OPERATIONAL = 3,
	XR_NAK_INVALID_RD_REQUEST = 4,
};

/* Atomics: remote address, 8-byte aligned, IBTA 9.4.5 */
#define XR_ATOMIC_LEN 8

/* Signed distance a - b of two 24-bit sequence numbers, IBTA 9.4.2 */
static inline __s32 xr_psn_diff(__u32 a, __u32 b)
{
	return (__s32)((a - b) << 8) >> 8;
}

static inline __u32 xr_psn_add(__u32 psn, __u32 n)
{
	return (psn + n) & XR_PSN_MASK;
}

#endif /* XROCE_WIRE_H */
