/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RoCE v2 packet format: headers and constants. Opcodes are in opcode.h, the parser is in parse.h.
 *
 *   Ethernet | 0 to 2 VLAN tags | IPv4 or IPv6 | UDP, destination port 4791 |
 *   BTH | extended headers of the opcode | payload | pad | ICRC
 *
 * Header fields of more than one byte are in network byte order (__be types). The ICRC is stored
 * little-endian.
 *
 * Sources: InfiniBand Architecture Specification vol. 1 (IBTA), chapters 5.2 and 9, annexes A16
 * (RoCE) and A17 (RoCE v2); IEEE 802.3 and 802.1Q; RFC 768 (UDP), 791 (IPv4), 8200 (IPv6). Field
 * names are close to the Linux kernel's include/rdma/ib_pack.h and
 * drivers/infiniband/sw/rxe/rxe_hdr.h.
 */
#ifndef XROCE_WIRE_H
#define XROCE_WIRE_H

#include <linux/types.h>

#define XR_UDP_PORT 4791 /* IANA "roce", IBTA A17.4.2 */
#define XR_ICRC_LEN 4
#define XR_MAX_PAYLOAD 4096   /* bytes; the largest path MTU */
#define XR_PSN_MASK 0xffffffu /* PSN, MSN and QPN have 24 bits */
#define XR_QPN_MASK 0xffffffu
#define XR_DEFAULT_PKEY 0xffffu
#define XR_PKEY_MASK 0x7fffu	    /* without the membership bit */
#define XR_MAX_MSG_SIZE 0x80000000u /* bytes, IBTA 9.7.7.1 */
#define XR_GRH_LEN 40		    /* bytes before the payload in UD receive buffers */
#define XR_MULTICAST_QPN 0xffffffu
#define XR_GSI_QPN 1
#define XR_GSI_QKEY 0x80010000u
#define XR_QKEY_PRIVILEGED 0x80000000u
#define XR_ATOMIC_LEN 8	  /* bytes; the remote address is a multiple of it, IBTA 9.4.5 */
#define XR_CNP_PAYLOAD 16 /* bytes, reserved and zero, IBTA A17.9.3 */

/*
 * In user space headers can be at any address, so they are packed structures. For BPF, clang would
 * read packed fields byte by byte, so headers are declared with their real alignment of n bytes:
 * the verifier assumes that a frame starts 2 bytes (NET_IP_ALIGN) after an aligned address.
 */
#ifdef __bpf__
#define XR_HEADER(n) __attribute__((packed, aligned(n)))
#else
#define XR_HEADER(n) __attribute__((packed))
#endif

/* ---- Ethernet, IP, UDP ------------------------------------------------------- */

struct xr_eth {
	__u8 dst[6];
	__u8 src[6];
	__be16 type; /* of the next header: VLAN tag or IP */
} XR_HEADER(2);

/* Follows the ethertype 0x8100 or 0x88a8 */
struct xr_vlan {
	__be16 tci;
	__be16 type;
} XR_HEADER(2);

/* Without options */
struct xr_ipv4 {
	__u8 version_ihl; /* version 7:4, header length in words 3:0 */
	__u8 tos;
	__be16 len; /* bytes, of header and payload */
	__be16 id;
	__be16 frag; /* XR_IPV4_* */
	__u8 ttl;
	__u8 protocol;
	__be16 check;
	__be32 src;
	__be32 dst;
} XR_HEADER(4);
#define XR_IPV4_RESERVED 0x8000
#define XR_IPV4_FRAGMENT 0x3fff /* more fragments 13, offset 12:0 */

struct xr_ipv6 {
	__u8 version_class; /* version 7:4, upper half of the traffic class 3:0 */
	__u8 class_flow[3]; /* lower half of the traffic class 23:20, flow label 19:0 */
	__be16 len;	    /* bytes, of the payload */
	__u8 next_header;
	__u8 hop_limit;
	__u8 src[16];
	__u8 dst[16];
} XR_HEADER(4);

struct xr_udp {
	__be16 src;
	__be16 dst;
	__be16 len; /* bytes, of header and payload */
	__be16 check;
} XR_HEADER(4);

/* ---- InfiniBand transport ------------------------------------------------------ */

/* Base transport header, IBTA 9.2 */
struct xr_bth {
	__u8 opcode;
	__u8 flags; /* XR_BTH_* below; header version 3:0 */
	__be16 pkey;
	__be32 fecn_dqpn; /* FECN 31, BECN 30, reserved 29:24, destination QPN 23:0 */
	__be32 ack_psn;	  /* AckReq 31, reserved 30:24, PSN 23:0 */
} XR_HEADER(4);

#define XR_BTH_SE 0x80	   /* solicited event */
#define XR_BTH_MIGREQ 0x40 /* always sent as 1 */
#define XR_BTH_PAD_SHIFT 4
#define XR_BTH_PAD_MASK 0x30
#define XR_BTH_TVER_MASK 0x0f
#define XR_BTH_ACKREQ 0x80000000u /* in ack_psn, host order */

/* RDMA extended transport header, IBTA 9.3.3 */
struct xr_reth {
	__be64 va;
	__be32 rkey;
	__be32 len; /* bytes, of the whole message */
} XR_HEADER(4);

/* Atomic extended transport header, IBTA 9.3.5 */
struct xr_atomiceth {
	__be64 va;
	__be32 rkey;
	__be64 swap_add;
	__be64 compare;
} XR_HEADER(4);

/* ACK extended transport header, IBTA 9.3.4 */
struct xr_aeth {
	__be32 syn_msn; /* syndrome 31:24, MSN 23:0 */
} XR_HEADER(4);

/* Atomic ACK extended transport header, IBTA 9.3.6 */
struct xr_atomicacketh {
	__be64 orig; /* the value before the operation */
} XR_HEADER(4);

/* Immediate data, IBTA 9.3.7 */
struct xr_immdt {
	__be32 imm;
} XR_HEADER(4);

/* Invalidate extended transport header, IBTA 9.3.8 */
struct xr_ieth {
	__be32 rkey;
} XR_HEADER(4);

/* Datagram extended transport header, IBTA 9.3.2 */
struct xr_deth {
	__be32 qkey;
	__be32 sqpn; /* reserved 31:24, source QPN 23:0 */
} XR_HEADER(4);

/* XRC extended transport header, IBTA annex A14 */
struct xr_xrceth {
	__be32 srqn; /* reserved 31:24, SRQ number 23:0 */
} XR_HEADER(4);

/* FLUSH extended transport header, IBTA annex A19 */
struct xr_feth {
	__be32 sel_plt; /* selectivity level 5:4, placement type 3:0 */
} XR_HEADER(4);

#define XR_FETH_SEL_SHIFT 4
#define XR_FETH_SEL_MASK 0x30u
#define XR_FETH_PLT_MASK 0x0fu
/* Placement types, bits: the values of enum ib_placement_type of verbs */
#define XR_FLUSH_GLOBAL 1
#define XR_FLUSH_PERSISTENT 2
/* Selectivity levels: the values of enum ib_selectivity_level of verbs */
#define XR_FLUSH_RANGE 0
#define XR_FLUSH_MR 1 /* the whole region; address and length of the RETH are ignored */

#define XR_ETH_HLEN ((__u32)sizeof(struct xr_eth))
#define XR_VLAN_HLEN ((__u32)sizeof(struct xr_vlan))
#define XR_IPV4_HLEN ((__u32)sizeof(struct xr_ipv4))
#define XR_IPV6_HLEN ((__u32)sizeof(struct xr_ipv6))
#define XR_UDP_HLEN ((__u32)sizeof(struct xr_udp))
#define XR_BTH_HLEN ((__u32)sizeof(struct xr_bth))

_Static_assert(sizeof(struct xr_eth) == 14 && sizeof(struct xr_vlan) == 4, "Ethernet");
_Static_assert(sizeof(struct xr_ipv4) == 20 && sizeof(struct xr_ipv6) == 40, "IP");
_Static_assert(sizeof(struct xr_udp) == 8 && sizeof(struct xr_bth) == 12, "UDP, BTH");
_Static_assert(sizeof(struct xr_reth) == 16 && sizeof(struct xr_atomiceth) == 28,
	       "RETH, AtomicETH");

/* AETH syndromes: type 6:5, value 4:0, IBTA 9.7.5.2.1 table 48 and 9.7.5.2.8 */
#define XR_AETH_TYPE_MASK 0x60
#define XR_AETH_VALUE_MASK 0x1f
#define XR_AETH_ACK 0x00	     /* value: credit count code */
#define XR_AETH_RNR_NAK 0x20	     /* value: RNR timer code */
#define XR_AETH_NAK 0x60	     /* value: enum xr_nak */
#define XR_AETH_CREDITS_INVALID 0x1f /* no credit count: no end-to-end flow control */
enum xr_nak {
	XR_NAK_PSN_SEQUENCE = 0,
	XR_NAK_INVALID_REQUEST = 1,
	XR_NAK_REMOTE_ACCESS = 2,
	XR_NAK_REMOTE_OPERATIONAL = 3,
	XR_NAK_INVALID_RD_REQUEST = 4,
};

/* Returns the signed distance a - b of two 24-bit sequence numbers, IBTA 9.4.2. */
static inline __s32 xr_psn_diff(__u32 a, __u32 b)
{
	return (__s32)((a - b) << 8) >> 8;
}

#endif /* XROCE_WIRE_H */
