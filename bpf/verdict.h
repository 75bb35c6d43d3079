/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns a reason into a verdict: rate limit, metadata, counters, XDP action. */
#ifndef XROCE_BPF_VERDICT_H
#define XROCE_BPF_VERDICT_H

#include <xroce/parse.h>

#include "maps.h"
#include "qp.h"
#include "refused.h"

#define NSEC_PER_SEC 1000000000ull

/* Limit of packets with action ANSWER that go to the daemon, per second and CPU */
const volatile __u32 nak_rate = 10000;

static const __u8 actions[] = {
#define X(name, action, text) [XR_##name] = XR_ACT_##action,
	XR_REASONS(X)
#undef X
};

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

/* Adds tokens for the time since last_ns, and advances last_ns by the time that they stand for. */
static __always_inline void refill(struct xr_limiter *l, __u64 now)
{
	__u64 elapsed = now - l->last_ns, earned;

	if (elapsed >= NSEC_PER_SEC) {
		l->tokens = nak_rate;
		l->last_ns = now;
		return;
	}
	earned = elapsed * nak_rate / NSEC_PER_SEC;
	l->tokens += earned;
	l->last_ns += earned * NSEC_PER_SEC / nak_rate;
	if (l->tokens > nak_rate)
		l->tokens = nak_rate;
}

static __always_inline bool may_answer(void)
{
	__u32 zero = 0;
	struct xr_limiter *l = bpf_map_lookup_elem(&limiter, &zero);

	if (!l || !nak_rate)
		return false;
	refill(l, bpf_ktime_get_ns());
	if (!l->tokens)
		return false;
	l->tokens--;
	return true;
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
	meta->magic = XR_META_MAGIC;
	meta->reason = reason;
	meta->ip_version = pkt->ip_version;
	meta->ip_off = pkt->ip_off;
	meta->bth_off = pkt->bth_off;
	meta->payload_off = pkt->payload_off;
	meta->payload_len = pkt->payload_len;
	meta->qpn = pkt->qpn;
	meta->gso_size = pkt->gso_size;
	meta->reserved = 0;
	return true;
}

/*
 * Prepares a packet for the daemon. Returns `reason`, or the reason why the packet cannot be passed
 * to the daemon.
 */
static __always_inline enum xr_reason prepare(struct xdp_md *ctx, const struct xr_packet *pkt,
					      enum xr_reason reason, __u32 queue)
{
	if (actions[reason] == XR_ACT_ANSWER && !may_answer())
		return XR_RATE_LIMIT;
	if (!bpf_map_lookup_elem(&xsks, &queue))
		return XR_NO_SOCKET;
	return write_meta(ctx, pkt, reason) ? reason : XR_NO_METADATA;
}

/* On unreliable transports, which have no NAK, packets with action ANSWER are dropped. */
static __always_inline bool goes_to_daemon(const struct xr_packet *pkt, enum xr_reason reason)
{
	return reason == XR_OK || (actions[reason] == XR_ACT_ANSWER && is_reliable(pkt));
}

/* Counts the packet under one reason and returns the XDP action. */
static __always_inline int conclude(struct xdp_md *ctx, const struct xr_packet *pkt,
				    enum xr_reason reason, __u32 frame_len)
{
	__u32 queue = ctx->rx_queue_index, packets = packets_in(pkt, frame_len);
	enum xr_reason final = reason;

	if (goes_to_daemon(pkt, reason)) {
		final = prepare(ctx, pkt, reason, queue);
		count(final, packets, frame_len);
		if (final == reason)
			return bpf_redirect_map(&xsks, queue, XDP_DROP);
	} else {
		count(reason, packets, frame_len);
		if (actions[reason] == XR_ACT_PASS)
			return XDP_PASS;
	}
	report(ctx, pkt, final);
	return XDP_DROP;
}

#endif /* XROCE_BPF_VERDICT_H */
