/* SPDX-License-Identifier: GPL-2.0-only */
/* Counters of reasons, and the limit on NAKs. */
#ifndef XROCE_BPF_COUNT_H
#define XROCE_BPF_COUNT_H

#include <xroce/verdict.h>

#include "maps.h"

/* Limit of packets with action ANSWER that go to the daemon, per second and CPU */
const volatile __u32 nak_rate = 10000;

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

#endif /* XROCE_BPF_COUNT_H */
