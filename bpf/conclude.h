/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns a reason into the end of an XDP program: rate limit, metadata, counters, XDP action. */
#ifndef XROCE_BPF_CONCLUDE_H
#define XROCE_BPF_CONCLUDE_H

#include <xroce/verdict.h>

#include "maps.h"
#include "refused.h"

/* Limit of packets with action ANSWER that go to the daemon, per second and CPU */
const volatile __u32 nak_rate = 10000;

/* Returns the number of packets in a frame. */
static __always_inline __u32 packets_in(const struct xr_packet *pkt, __u32 frame_len)
{
	__u32 payload = frame_len - pkt->bth_off;

	/* no BTH: not RoCE v2 */
	if (!pkt->gso_size || !pkt->bth_off || pkt->bth_off > frame_len)
		return 1;
	return (payload + pkt->gso_size - 1) / pkt->gso_size;
}

static __always_inline void count(enum xr_reason reason, __u32 packets, __u32 bytes)
{
	__u32 index = reason;
	struct xr_stat *stat = bpf_map_lookup_elem(&stats, &index);

	if (!stat)
		return;
	stat->packets += packets;
	stat->bytes += bytes;
}

static __always_inline bool may_answer(void)
{
	__u32 zero = 0;
	struct xr_limiter *l = bpf_map_lookup_elem(&limiter, &zero);

	return l && xr_limiter_take(l, nak_rate, bpf_ktime_get_ns());
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
