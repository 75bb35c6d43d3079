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

/* Returns a report to fill and submit; NULL if reports are off, or if there is no room. */
static __always_inline struct xr_refused *reserve_report(void)
{
	struct xr_refused *r;

	if (!report_refused)
		return NULL;
	r = bpf_ringbuf_reserve(&refused, sizeof(*r), 0);
	if (!r)
		__sync_fetch_and_add(&refused_lost, 1);
	return r;
}

static __always_inline void submit_report(struct xr_refused *r)
{
	/* the daemon polls the ring at intervals */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

#endif /* XROCE_BPF_REFUSED_H */
