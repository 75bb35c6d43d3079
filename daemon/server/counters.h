/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of the counters of XDP and of all engines, and memory in use, for SHOW and metrics. */
#ifndef XD_COUNTERS_H
#define XD_COUNTERS_H

#include <xroce/tables.h>

#include "daemon/transport/transport.h"

struct xd_server;

struct xd_reason {
	const char *name, *action, *text;
};
extern const struct xd_reason xd_reasons[XR_REASON_COUNT];

struct xd_sums {
	struct xr_stat reason[XR_REASON_COUNT];
	struct xt_counters transport;
	/*
	 * Of direct contexts: packets that rules applied to, that the kernel did not send, and that
	 * went through memory
	 */
	uint64_t direct_faults, direct_tx_refused, direct_tx_by_memory;
};
/* Of all workers and direct contexts. Pauses each worker in turn. */
void xd_sum_counters(struct xd_server *s, struct xd_sums *sums);

/* Memory that malloc() handed out and that is still in use. All zero: not counted yet */
struct xd_malloced {
	uint64_t bytes, until; /* until: time at which it is counted again */
};
/* Counts it, or returns the last number: counting may take long. */
uint64_t xd_heap_bytes(struct xd_malloced *m);

#endif /* XD_COUNTERS_H */
