/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The RoCE v2 parser: from the bytes of a frame to struct xr_packet, for BPF and user space.
 *
 * The parser checks formats and lengths only, not addresses, queue pairs or keys. Each step takes a
 * header from the cursor and returns XR_OK or the reason why the frame is refused. The caller runs
 * the two halves, xr_parse_network() and xr_parse_transport(), and looks up the destination address
 * between them, so that malformed RoCE v2 packets for other hosts are not dropped. The UDP checksum
 * and the ICRC, which cover the payload, are not checked here.
 */
#ifndef XROCE_PARSE_H
#define XROCE_PARSE_H

#include <linux/if_ether.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#ifdef __bpf__
#include <bpf/bpf_helpers.h> /* __always_inline */
#endif

#include "bits.h"
#include "byteorder.h"
#include "gid.h"
#include "opcode.h"
#include "reason.h"
#include "tables.h"
#include "wire.h"

/* Returns the reason from the calling function unless it is XR_OK. */
#define XR_REQUIRE(check)                                                                          \
	do {                                                                                       \
		enum xr_reason why_ = (check);                                                     \
		if (why_ != XR_OK)                                                                 \
			return why_;                                                               \
	} while (0)

#define XR_IPPROTO_UDP 17
#define XR_MAX_VLAN_TAGS 2

/* Length of the longest headers that the parser reads: from the BTH on, and all */
#define XR_MAX_PARSED_BTH                                                                          \
	(sizeof(struct xr_bth) + sizeof(struct xr_xrceth) + sizeof(struct xr_feth) +               \
	 sizeof(struct xr_reth))
#define XR_MAX_PARSED                                                                              \
	(sizeof(struct xr_eth) + XR_MAX_VLAN_TAGS * sizeof(struct xr_vlan) +                       \
	 sizeof(struct xr_ipv6) + sizeof(struct xr_udp) + XR_MAX_PARSED_BTH)

/*
 * A parsed packet. Numbers are in host order. Offsets count from the start of the Ethernet header.
 */
struct xr_packet {
	struct xr_addr src, dst;
	__u64 va;  /* with XR_EXT_RETH or XR_EXT_ATOMICETH */
	__u64 len; /* bytes at va */
	__u32 rkey;
	__u32 feth; /* with XR_EXT_FETH */
	__u32 qkey; /* with XR_EXT_DETH */
	__u32 qpn;
	__u32 psn;
	__u16 pkey;
	__u16 op_flags; /* XR_OPF_* and XR_EXT_* of the opcode */
	__u8 opcode;
	__u8 ip_version;
	bool group; /* the destination is a multicast group; set by the caller */
	__u16 ip_off;
	__u16 bth_off;
	__u16 payload_off; /* behind all extended headers */
	__u16 payload_len; /* bytes, without pad and ICRC */
	/*
	 * Set by the caller: 0, or the UDP payload of the first packet of a frame that has several
	 * behind one UDP header (docs/gso.md). Only that packet is parsed.
	 */
	__u16 gso_size;
};

/*
 * Parts of the IP and UDP headers that are checked only after the destination address has been
 * looked up. Lengths are in bytes, as the headers state them.
 */
struct xr_outer {
	const struct xr_ipv4 *ipv4; /* NULL: IPv6 */
	int ip_len;  /* from the UDP header to the end of the IP packet; negative if inconsistent */
	int udp_len; /* UDP header and payload */
	__u8 ttl;    /* or hop limit */
};

/*
 * The next header. `end` is the end of the memory that can be read. `left` is the number of bytes
 * up to the end of the frame, or of the UDP datagram once xr_check_lengths() has run.
 */
struct xr_cursor {
	const void *pos, *end;
	__u32 off; /* of pos, from the start of the Ethernet header */
	__u32 left;
};

static __always_inline __u8 xr_class_of(const struct xr_packet *pkt)
{
	return pkt->opcode & XR_CLASS_MASK;
}

static __always_inline __u8 xr_operation_of(const struct xr_packet *pkt)
{
	return pkt->opcode & ~XR_CLASS_MASK;
}

/* Returns the next n bytes and moves behind them; NULL if there are fewer. */
static __always_inline const void *xr_take(struct xr_cursor *c, __u32 n)
{
	const void *p = c->pos;

	if (n > c->left || p + n > c->end)
		return NULL;
	c->pos = p + n;
	c->off += n;
	c->left -= n;
	return p;
}

/* ---- Ethernet, IP, UDP ------------------------------------------------------- */

static __always_inline bool xr_is_vlan(__be16 type)
{
	return type == xr_be16(ETH_P_8021Q) || type == xr_be16(ETH_P_8021AD);
}

/* Sets *type to the ethertype behind the VLAN tags, in network order. */
static __always_inline enum xr_reason xr_parse_ethernet(struct xr_cursor *c, __be16 *type)
{
	const struct xr_eth *eth = xr_take(c, sizeof(*eth));
	const struct xr_vlan *tag;
	int i;

	if (!eth)
		return XR_TRUNC_ETH;
	*type = eth->type;
	for (i = 0; i < XR_MAX_VLAN_TAGS; i++) {
		if (!xr_is_vlan(*type))
			break;
		tag = xr_take(c, sizeof(*tag));
		if (!tag)
			return XR_TRUNC_ETH;
		*type = tag->type;
	}
	return xr_is_vlan(*type) ? XR_VLAN_DEPTH : XR_OK;
}

static __always_inline enum xr_reason xr_parse_ipv4(struct xr_cursor *c, struct xr_packet *pkt,
						    struct xr_outer *outer)
{
	const struct xr_ipv4 *ip = xr_take(c, sizeof(*ip));

	if (!ip)
		return XR_TRUNC_IP;
	if (ip->version_ihl >> 4 != 4)
		return XR_IP_VERSION;
	if (ip->protocol != XR_IPPROTO_UDP)
		return XR_NOT_UDP;
	if ((ip->version_ihl & 0x0f) != sizeof(*ip) / 4)
		return XR_IP_OPTIONS;
	if (ip->frag & xr_be16(XR_IPV4_FRAGMENT))
		return XR_IP_FRAGMENT;
	pkt->ip_version = 4;
	xr_gid_set_ipv4(&pkt->src, ip->src);
	xr_gid_set_ipv4(&pkt->dst, ip->dst);
	outer->ipv4 = ip;
	outer->ip_len = xr_be16(ip->len) - (int)sizeof(*ip);
	outer->ttl = ip->ttl;
	return XR_OK;
}

static __always_inline enum xr_reason xr_parse_ipv6(struct xr_cursor *c, struct xr_packet *pkt,
						    struct xr_outer *outer)
{
	const struct xr_ipv6 *ip = xr_take(c, sizeof(*ip));

	if (!ip)
		return XR_TRUNC_IP;
	if (ip->version_class >> 4 != 6)
		return XR_IP_VERSION;
	if (ip->next_header != XR_IPPROTO_UDP)
		return XR_NOT_UDP;
	pkt->ip_version = 6;
	__builtin_memcpy(&pkt->src, ip->src, sizeof(pkt->src));
	__builtin_memcpy(&pkt->dst, ip->dst, sizeof(pkt->dst));
	outer->ipv4 = NULL;
	outer->ip_len = xr_be16(ip->len);
	outer->ttl = ip->hop_limit;
	return XR_OK;
}

static __always_inline enum xr_reason xr_parse_ip(struct xr_cursor *c, struct xr_packet *pkt,
						  __be16 type, struct xr_outer *outer)
{
	pkt->ip_off = c->off;
	if (type == xr_be16(ETH_P_IP))
		return xr_parse_ipv4(c, pkt, outer);
	if (type == xr_be16(ETH_P_IPV6))
		return xr_parse_ipv6(c, pkt, outer);
	return XR_NOT_IP;
}

static __always_inline enum xr_reason xr_parse_udp(struct xr_cursor *c, int *udp_len)
{
	const struct xr_udp *udp = xr_take(c, sizeof(*udp));

	if (!udp)
		return XR_TRUNC_UDP;
	if (udp->dst != xr_be16(XR_UDP_PORT))
		return XR_NOT_ROCE_PORT;
	*udp_len = xr_be16(udp->len);
	return XR_OK;
}

/*
 * Parses the IP and the UDP header. Sets src, dst, ip_version and ip_off of *pkt, and *outer, which
 * is not checked yet. type: ethertype in network order. The result is XR_OK or a reason with action
 * PASS.
 */
static __always_inline enum xr_reason xr_parse_ip_udp(struct xr_cursor *c, struct xr_packet *pkt,
						      __be16 type, struct xr_outer *outer)
{
	XR_REQUIRE(xr_parse_ip(c, pkt, type, outer));
	return xr_parse_udp(c, &outer->udp_len);
}

/* Parses from the Ethernet to the UDP header, like xr_parse_ip_udp(). */
static __always_inline enum xr_reason xr_parse_network(struct xr_cursor *c, struct xr_packet *pkt,
						       struct xr_outer *outer)
{
	__be16 type;

	XR_REQUIRE(xr_parse_ethernet(c, &type));
	return xr_parse_ip_udp(c, pkt, type, outer);
}

/* ---- IP and UDP of a packet for this device ------------------------------------- */

/*
 * Returns the ones' complement sum of an IPv4 header without options, which is 0xffff if its
 * checksum is right (RFC 1071). Independent of the byte order.
 */
static __always_inline __u32 xr_ipv4_sum(const struct xr_ipv4 *ip)
{
	__u32 word[sizeof(*ip) / 4];
	__u64 sum;

	__builtin_memcpy(word, ip, sizeof(word));
	sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];
	sum = (sum >> 32) + (__u32)sum;
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return (sum >> 16) + (sum & 0xffff);
}

static __always_inline enum xr_reason xr_check_ip(const struct xr_outer *outer)
{
	if (outer->ipv4 && xr_ipv4_sum(outer->ipv4) != 0xffff)
		return XR_IP_CHECKSUM;
	if (outer->ipv4 && outer->ipv4->frag & xr_be16(XR_IPV4_RESERVED))
		return XR_IP_RESERVED;
	return outer->ttl ? XR_OK : XR_IP_TTL;
}

/*
 * Compares the lengths of frame, IP packet and UDP datagram. Afterwards the cursor ends at the end
 * of the datagram; in a GSO frame, of the first packet. A frame may be longer than its IP packet,
 * because Ethernet pads short frames. The lengths of IP and UDP must match, because the ICRC is at
 * the end of the datagram.
 */
static __always_inline enum xr_reason xr_check_lengths(struct xr_cursor *c,
						       const struct xr_outer *outer, __u32 gso_size)
{
	int payload = outer->ip_len - (int)sizeof(struct xr_udp);

	if (payload < 0 || (__u32)payload > c->left)
		return XR_IP_LEN;
	if (outer->udp_len != outer->ip_len)
		return XR_UDP_LEN;
	c->left = gso_size && gso_size < (__u32)payload ? gso_size : (__u32)payload;
	return XR_OK;
}

/* ---- InfiniBand transport ------------------------------------------------------ */

/* Skips all extended headers. Reads DETH, FETH, and the fields that RETH and AtomicETH share. */
static __always_inline enum xr_reason xr_parse_extended(struct xr_cursor *c, struct xr_packet *pkt,
							__u32 ext_len)
{
	__u32 off = c->off, left = c->left;
	const struct xr_reth *reth;
	const struct xr_deth *deth;
	const struct xr_feth *feth;

	if (ext_len > left)
		return XR_TRUNC_EXT;
	if (pkt->op_flags & XR_EXT_XRCETH && !xr_take(c, sizeof(struct xr_xrceth)))
		return XR_TRUNC_EXT;
	if (pkt->op_flags & XR_EXT_FETH) {
		feth = xr_take(c, sizeof(*feth));
		if (!feth)
			return XR_TRUNC_EXT;
		pkt->feth = xr_be32(feth->sel_plt);
	}
	if (pkt->op_flags & XR_EXT_DETH) {
		deth = xr_take(c, sizeof(*deth));
		if (!deth)
			return XR_TRUNC_EXT;
		pkt->qkey = xr_be32(deth->qkey);
	} else if (pkt->op_flags & (XR_EXT_RETH | XR_EXT_ATOMICETH)) {
		reth = xr_take(c, sizeof(*reth));
		if (!reth)
			return XR_TRUNC_EXT;
		pkt->va = xr_be64(reth->va);
		pkt->rkey = xr_be32(reth->rkey);
		pkt->len = pkt->op_flags & XR_EXT_RETH ? xr_be32(reth->len) : XR_ATOMIC_LEN;
	}
	c->off = off + ext_len;
	c->left = left - ext_len;
	return XR_OK;
}

static __always_inline bool xr_is_path_mtu(__u32 len)
{
	return len >= 256 && len <= XR_MAX_PAYLOAD && xr_is_pow2(len);
}

/* Checks payload length and pad against the opcode. The path MTU of the QP is not known here. */
static __always_inline enum xr_reason xr_check_payload(const struct xr_packet *pkt, __u32 len,
						       __u32 pad)
{
	__u16 flags = pkt->op_flags;

	if (len > (flags & XR_OPF_PAYLOAD ? XR_MAX_PAYLOAD : 0))
		return XR_BAD_LENGTH;
	if (flags & XR_OPF_FULL_MTU) {
		if (pad)
			return XR_BAD_PAD;
		return xr_is_path_mtu(len) ? XR_OK : XR_BAD_LENGTH;
	}
	if ((flags & (XR_OPF_START | XR_OPF_END)) == XR_OPF_END && !len)
		return XR_BAD_LENGTH;
	if (pkt->opcode == XR_OPCODE_CNP && len != XR_CNP_PAYLOAD)
		return XR_BAD_LENGTH;
	if (xr_operation_of(pkt) == XR_OP_ATOMIC_WRITE && len != XR_ATOMIC_LEN)
		return XR_BAD_LENGTH;
	return XR_OK;
}

/* Parses the rest of the datagram, behind the extended headers: payload, pad and ICRC. */
static __always_inline enum xr_reason xr_parse_payload(struct xr_cursor *c, struct xr_packet *pkt,
						       __u32 pad)
{
	if (c->left < pad + XR_ICRC_LEN)
		return XR_TRUNC_ICRC;
	if (c->left % 4)
		return XR_BAD_LENGTH;
	pkt->payload_off = c->off;
	pkt->payload_len = c->left - XR_ICRC_LEN - pad;
	return xr_check_payload(pkt, c->left - XR_ICRC_LEN - pad, pad);
}

/*
 * Parses from the BTH, at the cursor, to the ICRC, at its end. Sets the other fields of *pkt,
 * except `group`. The result is XR_OK or a reason with action DROP.
 */
static __always_inline enum xr_reason xr_parse_bth(struct xr_cursor *c, struct xr_packet *pkt)
{
	const struct xr_bth *bth;
	__u32 ext_len, pad;

	pkt->bth_off = c->off;
	bth = xr_take(c, sizeof(*bth));
	if (!bth)
		return XR_TRUNC_BTH;
	if (bth->flags & XR_BTH_TVER_MASK)
		return XR_BTH_VERSION;
	pkt->opcode = bth->opcode;
	pkt->op_flags = xr_opcodes[bth->opcode].flags;
	if (!pkt->op_flags)
		return XR_BAD_OPCODE;
	ext_len = xr_opcodes[bth->opcode].ext_len;
	pad = (bth->flags & XR_BTH_PAD_MASK) >> XR_BTH_PAD_SHIFT;
	pkt->pkey = xr_be16(bth->pkey);
	pkt->qpn = xr_be32(bth->fecn_dqpn) & XR_QPN_MASK;
	pkt->psn = xr_be32(bth->ack_psn) & XR_PSN_MASK;
	XR_REQUIRE(xr_parse_extended(c, pkt, ext_len));
	return xr_parse_payload(c, pkt, pad);
}

/* Checks *outer, and parses the rest of the frame. The result is as that of xr_parse_bth(). */
static __always_inline enum xr_reason xr_parse_transport(struct xr_cursor *c, struct xr_packet *pkt,
							 const struct xr_outer *outer)
{
	XR_REQUIRE(xr_check_ip(outer));
	XR_REQUIRE(xr_check_lengths(c, outer, pkt->gso_size));
	return xr_parse_bth(c, pkt);
}

#endif /* XROCE_PARSE_H */
