/* SPDX-License-Identifier: GPL-2.0-only */
/* Reports dropped packets to the daemon while it captures packets. */
#ifndef XROCE_BPF_REFUSED_H
#define XROCE_BPF_REFUSED_H

#include <xroce/verdict.h>

#include "maps.h"

/* Written by the daemon: 1 while it captures packets */
volatile __u32 report_refused;
/* Read by the daemon: packets that the ring had no room for */
volatile __u64 refused_lost;

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
	struct xr_refused *r;

	if (!report_refused)
		return;
	r = bpf_ringbuf_reserve(&refused, sizeof(*r), 0);
	if (!r) {
		__sync_fetch_and_add(&refused_lost, 1);
		return;
	}
	fill_report(ctx, pkt, reason, r);
	/* the daemon polls the ring at intervals */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

#endif /* XROCE_BPF_REFUSED_H */
