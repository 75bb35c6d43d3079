/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of the counters of XDP and of all engines, for SHOW and metrics. */
#ifndef XD_COUNTERS_H
#define XD_COUNTERS_H

#include <xroce/tables.h>

#include "daemon/transport/transport.h"

struct xd_device;

struct xd_reason {
	const char *name, *action, *text;
};
extern const struct xd_reason xd_reasons[XR_REASON_COUNT];

struct xd_sums {
	struct xr_stat reason[XR_REASON_COUNT];
	struct xt_counters transport;
};
/* Pauses the workers once. */
void xd_sum_counters(struct xd_device *dev, struct xd_sums *sums);

#endif /* XD_COUNTERS_H */
