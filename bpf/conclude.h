/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns a reason into the end of an XDP program: rate limit, metadata, report, XDP action. */
#ifndef XROCE_BPF_CONCLUDE_H
#define XROCE_BPF_CONCLUDE_H

#include <xroce/verdict.h>

#include "count.h"
#include "refused.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 256); /* at least XR_MAX_WORKERS */
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

/* Returns the number of packets in a frame. */
static __always_inline __u32 packets_in(const struct xr_packet *pkt, __u32 frame_len)
{
	__u32 payload = frame_len - pkt->bth_off;

	/* no BTH: not RoCE v2 */
	if (!pkt->gso_size || !pkt->bth_off || pkt->bth_off > frame_len)
		return 1;
	return (payload + pkt->gso_size - 1) / pkt->gso_size;
}

/*
 * Writes the metadata. Returns false if there is no room, or if a previous XDP program has left
 * metadata, which would be between ours and the frame.
 */
static __always_inline bool write_meta(struct xdp_md *ctx, const struct xr_packet *pkt,
				       enum xr_reason reason)
{
	struct xr_meta *meta = (void *)(long)ctx->data_meta;
	void *data = (void *)(long)ctx->data;

	if ((void *)meta < data || bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
		return false;
	meta = (void *)(long)ctx->data_meta;
	data = (void *)(long)ctx->data;
	if ((void *)(meta + 1) > data)
		return false;
	xr_fill_meta(meta, pkt, reason);
	return true;
}

/*
 * Prepares a packet for the daemon. Returns `reason`, or the reason why the packet cannot be passed
 * to the daemon.
 */
static __always_inline enum xr_reason prepare(struct xdp_md *ctx, const struct xr_packet *pkt,
					      enum xr_reason reason, __u32 queue)
{
	if (xr_actions[reason] == XR_ACT_ANSWER && !may_answer())
		return XR_RATE_LIMIT;
	if (!bpf_map_lookup_elem(&xsks, &queue))
		return XR_NO_SOCKET;
	return write_meta(ctx, pkt, reason) ? reason : XR_NO_METADATA;
}

static __always_inline void fill_report(struct xdp_md *ctx, const struct xr_packet *pkt,
					enum xr_reason reason, struct xr_refused *r)
{
	__u32 n = bpf_xdp_get_buff_len(ctx);

	xr_fill_refused(r, pkt, reason, n, bpf_ktime_get_ns());
	r->queue = ctx->rx_queue_index;
	/* keep the compiler from comparing copies of n: the verifier has to see the bounds of n */
	if (n > sizeof(r->bytes))
		n = sizeof(r->bytes);
	barrier_var(n);
	if (n < sizeof(struct xr_eth) || n > sizeof(r->bytes) ||
	    bpf_xdp_load_bytes(ctx, 0, r->bytes, n))
		n = 0;
	r->captured = n;
}

static __always_inline void report(struct xdp_md *ctx, const struct xr_packet *pkt,
				   enum xr_reason reason)
{
	struct xr_refused *r = reserve_report();

	if (!r)
		return;
	fill_report(ctx, pkt, reason, r);
	submit_report(r);
}

/* Counts the packet under one reason and returns the XDP action. */
static __always_inline int conclude(struct xdp_md *ctx, const struct xr_packet *pkt,
				    enum xr_reason reason, __u32 frame_len)
{
	__u32 queue = ctx->rx_queue_index, packets = packets_in(pkt, frame_len);
	enum xr_reason final = reason;

	if (xr_is_for_engine(pkt, reason)) {
		final = prepare(ctx, pkt, reason, queue);
		count(final, packets, frame_len);
		if (final == reason)
			return bpf_redirect_map(&xsks, queue, XDP_DROP);
	} else {
		count(reason, packets, frame_len);
		if (xr_actions[reason] == XR_ACT_PASS)
			return XDP_PASS;
	}
	report(ctx, pkt, final);
	return XDP_DROP;
}

#endif /* XROCE_BPF_CONCLUDE_H */
