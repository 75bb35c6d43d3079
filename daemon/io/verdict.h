/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checks received packets in user space. Provisional: format only. */
#ifndef XD_VERDICT_H
#define XD_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/reason.h>
#include <xroce/tables.h>

struct xd_verdict {
	struct xr_stat stat[XR_REASON_COUNT];
};

bool xd_verdict(struct xd_verdict *v, const uint8_t *headers, uint32_t copied, uint32_t len,
		struct xr_meta *meta);

#endif /* XD_VERDICT_H */
