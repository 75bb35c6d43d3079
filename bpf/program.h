/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The body of all XDP programs: the checks of include/xroce/verdict.h, and what follows from them.
 * docs/xdp.md describes it.
 */
#ifndef XROCE_BPF_PROGRAM_H
#define XROCE_BPF_PROGRAM_H

#include <linux/bpf.h>

#include <xroce/verdict.h>

#include "conclude.h"
#include "view.h"

static __always_inline const struct xr_key_entry *xr_find_key(struct xr_view *view, __u32 index)
{
	return bpf_map_lookup_elem(&keys, &index);
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
	return xr_parse_frame(NULL, &c, pkt);
}

static __always_inline enum xr_reason parse_frame(struct xdp_md *ctx, __u32 frame_len,
						  struct xr_packet *pkt)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct xr_cursor c = { .pos = data, .end = data_end, .left = frame_len };

	if (data + XR_MAX_PARSED > data_end && data_end - data < frame_len)
		return parse_copy(ctx, frame_len, pkt);
	return xr_parse_frame(NULL, &c, pkt);
}

static __always_inline enum xr_reason examine(struct xdp_md *ctx, __u32 frame_len,
					      struct xr_packet *pkt)
{
	XR_REQUIRE(parse_frame(ctx, frame_len, pkt));
	return xr_check_packet(NULL, pkt);
}

static __always_inline int handle(struct xdp_md *ctx, __u16 gso_size)
{
	__u32 frame_len = bpf_xdp_get_buff_len(ctx);
	struct xr_packet pkt = { .gso_size = gso_size };

	return conclude(ctx, &pkt, examine(ctx, frame_len, &pkt), frame_len);
}

#endif /* XROCE_BPF_PROGRAM_H */
