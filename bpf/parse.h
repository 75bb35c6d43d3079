/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From the bytes of a frame to struct packet. Bounds and formats only; the
 * daemon's xt_parse() says the same of the same frame.
 *
 * Helpers take a cursor, check bounds, advance, and return XR_OK or the reason.
 * Header fields keep network order (__be) until they are stored in struct
 * packet, whose numbers are all in host order.
 */
#ifndef XROCE_BPF_PARSE_H
#define XROCE_BPF_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <xroce/gid.h>
#include <xroce/reason.h>
#include <xroce/tables.h>
#include <xroce/wire.h>

/* Leave the function with the reason unless it is XR_OK. */
#define REQUIRE(check)                                                                             \
	do {                                                                                       \
		enum xr_reason why_ = (check);                                                     \
		if (why_ != XR_OK)                                                                 \
			return why_;                                                               \
	} while (0)

#define MAX_VLAN_TAGS 2
#define MAX_PAYLOAD 4096
#define CNP_PAYLOAD 16 /* reserved, zero: IBTA A17.9.3 */

struct vlan_tag {
	__be16 tci;
	__be16 proto;
};

/* How RETH and ATOMICETH begin, and the RETH's length: in words, as nothing aligns them to 8. */
struct remote_address {
	__be32 va_high, va_low;
	__be32 rkey;
	__be32 len;
};

/* The most that parsing reads: all headers up to the fields above */
#define MAX_HEADERS                                                                                \
	(sizeof(struct ethhdr) + MAX_VLAN_TAGS * sizeof(struct vlan_tag) +                         \
	 sizeof(struct ipv6hdr) + sizeof(struct udphdr) + sizeof(struct xr_bth) +                  \
	 sizeof(struct xr_xrceth) + sizeof(struct xr_feth) + sizeof(struct remote_address))

struct packet {
	struct xr_addr src, dst;
	__u64 va; /* with XR_EXT_RETH or XR_EXT_ATOMICETH */
	__u64 len;
	__u32 rkey;
	__u32 qkey; /* with XR_EXT_DETH */
	__u32 qpn;
	__u32 psn;
	__u16 pkey;
	__u16 op_flags; /* XR_OPF_* | XR_EXT_* of the opcode */
	__u8 opcode;
	__u8 ip_version;
	bool group; /* to a multicast group */
	__u16 ip_off;
	__u16 bth_off;
	__u16 payload_off;
	__u16 payload_len;
};

/* `left`: bytes up to the end that the headers so far have announced; `end`: for the verifier */
struct cursor {
	void *pos, *end;
	__u32 off;
	__u32 left;
};

static __always_inline void *take(struct cursor *c, __u32 n)
{
	void *p = c->pos;

	if (n > c->left || p + n > c->end)
		return NULL;
	c->pos = p + n;
	c->off += n;
	c->left -= n;
	return p;
}

/* ---- Ethernet, IP, UDP ------------------------------------------------------- */

static __always_inline bool is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

/* *proto: the ethertype behind the tags, in network order */
static __always_inline enum xr_reason parse_ethernet(struct cursor *c, __be16 *proto)
{
	struct ethhdr *eth = take(c, sizeof(*eth));
	struct vlan_tag *tag;
	int i;

	if (!eth)
		return XR_TRUNC_ETH;
	*proto = eth->h_proto;
#pragma unroll
	for (i = 0; i < MAX_VLAN_TAGS; i++) {
		if (!is_vlan(*proto))
			break;
		tag = take(c, sizeof(*tag));
		if (!tag)
			return XR_TRUNC_ETH;
		*proto = tag->proto;
	}
	return is_vlan(*proto) ? XR_VLAN_DEPTH : XR_OK;
}

static __always_inline void addr_from_ipv6(struct xr_addr *gid, const struct in6_addr *addr)
{
	__be32 *word = xr_gid_words(gid);

	word[0] = addr->in6_u.u6_addr32[0];
	word[1] = addr->in6_u.u6_addr32[1];
	word[2] = addr->in6_u.u6_addr32[2];
	word[3] = addr->in6_u.u6_addr32[3];
}

/* *ip_len: bytes behind the IP header, as it says; negative when it contradicts itself */
static __always_inline enum xr_reason parse_ipv4(struct cursor *c, struct packet *pkt, int *ip_len)
{
	struct iphdr *ip = take(c, sizeof(*ip));

	if (!ip)
		return XR_TRUNC_IP;
	if (ip->version != 4)
		return XR_IP_VERSION;
	if (ip->protocol != IPPROTO_UDP)
		return XR_NOT_UDP;
	if (ip->ihl != sizeof(*ip) / 4)
		return XR_IP_OPTIONS;
	if (ip->frag_off & bpf_htons(0x3fff)) /* more fragments, or not the first */
		return XR_IP_FRAGMENT;
	pkt->ip_version = 4;
	xr_gid_set_ipv4(&pkt->src, ip->saddr);
	xr_gid_set_ipv4(&pkt->dst, ip->daddr);
	*ip_len = bpf_ntohs(ip->tot_len) - (int)sizeof(*ip);
	return XR_OK;
}

static __always_inline enum xr_reason parse_ipv6(struct cursor *c, struct packet *pkt, int *ip_len)
{
	struct ipv6hdr *ip = take(c, sizeof(*ip));

	if (!ip)
		return XR_TRUNC_IP;
	if (ip->version != 6)
		return XR_IP_VERSION;
	if (ip->nexthdr != IPPROTO_UDP)
		return XR_NOT_UDP;
	pkt->ip_version = 6;
	addr_from_ipv6(&pkt->src, &ip->saddr);
	addr_from_ipv6(&pkt->dst, &ip->daddr);
	*ip_len = bpf_ntohs(ip->payload_len);
	return XR_OK;
}

static __always_inline enum xr_reason parse_ip(struct cursor *c, struct packet *pkt, __be16 proto,
					       int *ip_len)
{
	pkt->ip_off = c->off;
	if (proto == bpf_htons(ETH_P_IP))
		return parse_ipv4(c, pkt, ip_len);
	if (proto == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(c, pkt, ip_len);
	return XR_NOT_IP;
}

/* *udp_len: whole datagram, as the header says */
static __always_inline enum xr_reason parse_udp(struct cursor *c, int *udp_len)
{
	struct udphdr *udp = take(c, sizeof(*udp));

	if (!udp)
		return XR_TRUNC_UDP;
	if (udp->dest != bpf_htons(XR_UDP_PORT))
		return XR_NOT_ROCE_PORT;
	*udp_len = bpf_ntohs(udp->len);
	return XR_OK;
}

/*
 * Brings the lengths of frame, IP and UDP together; the cursor stands behind the
 * UDP header and ends with the datagram from here on. A frame may be longer than
 * its IP packet (Ethernet pads short ones), but IP and UDP must agree, or the place
 * of the ICRC would be open to argument.
 */
static __always_inline enum xr_reason check_lengths(struct cursor *c, int ip_len, int udp_len)
{
	int payload = ip_len - (int)sizeof(struct udphdr);

	if (payload < 0 || (__u32)payload > c->left)
		return XR_IP_LEN;
	if (udp_len != ip_len)
		return XR_UDP_LEN;
	c->left = payload;
	return XR_OK;
}

/* ---- InfiniBand transport ------------------------------------------------------ */

#define EXT_LEN(flags, name, type) ((flags)&XR_EXT_##name ? sizeof(struct type) : 0)
#define ALL_EXT_LEN(flags)                                                                         \
	(EXT_LEN(flags, XRCETH, xr_xrceth) + EXT_LEN(flags, DETH, xr_deth) +                       \
	 EXT_LEN(flags, FETH, xr_feth) + EXT_LEN(flags, RETH, xr_reth) +                           \
	 EXT_LEN(flags, ATOMICETH, xr_atomiceth) + EXT_LEN(flags, AETH, xr_aeth) +                 \
	 EXT_LEN(flags, ATOMICACKETH, xr_atomicacketh) + EXT_LEN(flags, IMMDT, xr_immdt) +         \
	 EXT_LEN(flags, IETH, xr_ieth))

/* What an opcode is; flags 0: unknown */
struct opcode {
	__u16 flags;   /* XR_OPF_* | XR_EXT_* */
	__u16 ext_len; /* of all its extended headers */
};

#define OPCODE(class, op, allowed, op_flags)                                                       \
	[XR_CLASS_##class | XR_OP_##op] = {                                                        \
		(allowed)&XR_IN_##class ? (op_flags) : 0,                                          \
		ALL_EXT_LEN(op_flags),                                                             \
	},
#define XRC_FLAGS(flags) ((flags) | ((flags)&XR_OPF_REQUEST ? XR_EXT_XRCETH : 0))

static const struct opcode opcodes[256] = {
#define X(op, flags, classes)                                                                      \
	OPCODE(RC, op, classes, flags)                                                             \
	OPCODE(UC, op, classes, flags)                                                             \
	OPCODE(UD, op, classes, (flags) | XR_EXT_DETH)                                             \
	OPCODE(XRC, op, classes, XRC_FLAGS(flags))
	XR_OPERATIONS(X)
#undef X
		[XR_OPCODE_CNP] = { XR_OPF_PAYLOAD | XR_OPF_START | XR_OPF_END, 0 },
};

static __always_inline __u8 class_of(const struct packet *pkt)
{
	return pkt->opcode & XR_CLASS_MASK;
}

static __always_inline __u8 operation_of(const struct packet *pkt)
{
	return pkt->opcode & ~XR_CLASS_MASK;
}

/* Extended headers: the checks look into two kinds, the others are stepped over. */
static __always_inline enum xr_reason parse_extended(struct cursor *c, struct packet *pkt,
						     __u32 ext_len)
{
	__u32 off = c->off, left = c->left;
	struct remote_address *remote;
	struct xr_deth *deth;

	if (ext_len > left)
		return XR_TRUNC_EXT;
	if (pkt->op_flags & XR_EXT_XRCETH && !take(c, sizeof(struct xr_xrceth)))
		return XR_TRUNC_EXT;
	if (pkt->op_flags & XR_EXT_FETH && !take(c, sizeof(struct xr_feth)))
		return XR_TRUNC_EXT;
	if (pkt->op_flags & XR_EXT_DETH) {
		deth = take(c, sizeof(*deth));
		if (!deth)
			return XR_TRUNC_EXT;
		pkt->qkey = bpf_ntohl(deth->qkey);
	} else if (pkt->op_flags & (XR_EXT_RETH | XR_EXT_ATOMICETH)) {
		remote = take(c, sizeof(*remote));
		if (!remote)
			return XR_TRUNC_EXT;
		pkt->va = (__u64)bpf_ntohl(remote->va_high) << 32 | bpf_ntohl(remote->va_low);
		pkt->rkey = bpf_ntohl(remote->rkey);
		pkt->len = pkt->op_flags & XR_EXT_RETH ? bpf_ntohl(remote->len) : XR_ATOMIC_LEN;
	}
	c->off = off + ext_len;
	c->left = left - ext_len;
	return XR_OK;
}

static __always_inline bool is_path_mtu(__u32 len)
{
	return len >= 256 && len <= MAX_PAYLOAD && !(len & (len - 1));
}

/* What an opcode says of its payload, whatever the QP's path MTU is */
static __always_inline enum xr_reason check_payload(const struct packet *pkt, __u32 len, __u32 pad)
{
	__u16 flags = pkt->op_flags;

	if (len > (flags & XR_OPF_PAYLOAD ? MAX_PAYLOAD : 0))
		return XR_BAD_LENGTH;
	if (flags & XR_OPF_FULL_MTU) {
		if (pad)
			return XR_BAD_PAD;
		return is_path_mtu(len) ? XR_OK : XR_BAD_LENGTH;
	}
	if ((flags & (XR_OPF_START | XR_OPF_END)) == XR_OPF_END && !len)
		return XR_BAD_LENGTH;
	if (pkt->opcode == XR_OPCODE_CNP && len != CNP_PAYLOAD)
		return XR_BAD_LENGTH;
	if (operation_of(pkt) == XR_OP_ATOMIC_WRITE && len != XR_ATOMIC_LEN)
		return XR_BAD_LENGTH;
	return XR_OK;
}

/* The cursor stands behind the extended headers; payload, pad and ICRC are left. */
static __always_inline enum xr_reason parse_payload(struct cursor *c, struct packet *pkt, __u32 pad)
{
	if (c->left < pad + XR_ICRC_LEN)
		return XR_TRUNC_ICRC;
	if (c->left % 4)
		return XR_BAD_LENGTH;
	pkt->payload_off = c->off;
	pkt->payload_len = c->left - XR_ICRC_LEN - pad;
	return check_payload(pkt, c->left - XR_ICRC_LEN - pad, pad);
}

static __always_inline enum xr_reason parse_transport(struct cursor *c, struct packet *pkt)
{
	struct xr_bth *bth;
	__u32 ext_len, pad;

	pkt->bth_off = c->off;
	bth = take(c, sizeof(*bth));
	if (!bth)
		return XR_TRUNC_BTH;
	if (bth->flags & XR_BTH_TVER_MASK)
		return XR_BTH_VERSION;
	pkt->opcode = bth->opcode;
	pkt->op_flags = opcodes[bth->opcode].flags;
	if (!pkt->op_flags)
		return XR_BAD_OPCODE;
	ext_len = opcodes[bth->opcode].ext_len;
	pad = (bth->flags & XR_BTH_PAD_MASK) >> XR_BTH_PAD_SHIFT;
	pkt->pkey = bpf_ntohs(bth->pkey);
	pkt->qpn = bpf_ntohl(bth->fecn_dqpn) & XR_QPN_MASK;
	pkt->psn = bpf_ntohl(bth->ack_psn) & XR_PSN_MASK;
	REQUIRE(parse_extended(c, pkt, ext_len));
	return parse_payload(c, pkt, pad);
}

#endif /* XROCE_BPF_PARSE_H */
