/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The body of all XDP programs: a sequence of checks, cheap ones first. The first check that fails
 * gives the reason (include/xroce/reason.h). docs/xdp.md describes it.
 */
#ifndef XROCE_BPF_PROGRAM_H
#define XROCE_BPF_PROGRAM_H

#include <linux/bpf.h>

#include <xroce/parse.h>

#include "maps.h"
#include "qp.h"
#include "key.h"
#include "verdict.h"

/*
 * Looks up the destination and sets pkt->group. A GID in IPv4-mapped form stands for an IPv4
 * address and is not valid as the address of an IPv6 packet.
 */
static __always_inline bool is_ours(struct xr_packet *pkt)
{
	const struct xr_addr_entry *entry;

	if (pkt->ip_version == 6 && xr_gid_is_ipv4(&pkt->dst))
		return false;
	entry = bpf_map_lookup_elem(&addrs, &pkt->dst);
	if (!entry)
		return false;
	pkt->group = entry->gid_index == XR_ADDR_GROUP;
	return true;
}

static __always_inline enum xr_reason parse(struct xr_cursor *c, struct xr_packet *pkt)
{
	struct xr_outer outer;

	XR_REQUIRE(xr_parse_network(c, pkt, &outer));
	if (!is_ours(pkt))
		return XR_NOT_OUR_ADDR;
	return xr_parse_transport(c, pkt, &outer);
}

/* Parses a copy of the headers, for frames whose first buffer ends within the headers. */
static __always_inline enum xr_reason parse_copy(struct xdp_md *ctx, __u32 frame_len,
						 struct xr_packet *pkt)
{
	/* the verifier requires aligned words on the stack; IP is 14 + 4n bytes behind the start */
	__u8 buf[2 + XR_MAX_PARSED] __attribute__((aligned(8))) = {};
	struct xr_cursor c = { .pos = buf + 2, .end = buf + sizeof(buf), .left = frame_len };
	__u32 n = frame_len < XR_MAX_PARSED ? frame_len : XR_MAX_PARSED;

	/* keep the compiler from comparing copies of n: the verifier has to see the bounds of n */
	barrier_var(n);
	if (n < sizeof(struct xr_eth))
		return XR_TRUNC_ETH;
	barrier_var(n);
	if (n > XR_MAX_PARSED || bpf_xdp_load_bytes(ctx, 0, buf + 2, n))
		return XR_TRUNC_ETH;
	return parse(&c, pkt);
}

static __always_inline enum xr_reason parse_frame(struct xdp_md *ctx, __u32 frame_len,
						  struct xr_packet *pkt)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct xr_cursor c = { .pos = data, .end = data_end, .left = frame_len };

	if (data + XR_MAX_PARSED > data_end && data_end - data < frame_len)
		return parse_copy(ctx, frame_len, pkt);
	return parse(&c, pkt);
}

static __always_inline enum xr_reason examine(struct xdp_md *ctx, __u32 frame_len,
					      struct xr_packet *pkt)
{
	const struct xr_qp_entry *qp;

	XR_REQUIRE(parse_frame(ctx, frame_len, pkt));
	if (pkt->group || pkt->qpn == XR_MULTICAST_QPN)
		return check_group(pkt);
	qp = bpf_map_lookup_elem(&qps, &pkt->qpn);
	if (!qp)
		return XR_NO_QP;
	XR_REQUIRE(check_pkey(pkt, qp));
	XR_REQUIRE(check_state(qp));
	XR_REQUIRE(check_type(pkt, qp));
	XR_REQUIRE(check_addresses(pkt, qp));
	XR_REQUIRE(check_qkey(pkt, qp));
	XR_REQUIRE(check_psn(pkt, qp));
	XR_REQUIRE(check_mtu(pkt, qp));
	return check_rkey(pkt, qp);
}

static __always_inline int handle(struct xdp_md *ctx, __u16 gso_size)
{
	__u32 frame_len = bpf_xdp_get_buff_len(ctx);
	struct xr_packet pkt = { .gso_size = gso_size };

	return conclude(ctx, &pkt, examine(ctx, frame_len, &pkt), frame_len);
}

#endif /* XROCE_BPF_PROGRAM_H */
