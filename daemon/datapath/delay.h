/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies of frames that injected faults keep back for a while. A fixed number
 * of them: what does not fit is lost, as on a network.
 */
#ifndef XD_DELAY_H
#define XD_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

struct xd_delay;

struct xd_delay *xd_delay_new(void);
void xd_delay_free(struct xd_delay *h);

/* direction: XR_FAULT_RX or XR_FAULT_TX. The frame's bytes are copied. */
bool xd_delay_add(struct xd_delay *h, uint32_t direction, uint64_t when, const struct xt_frame *f);
/*
 * The frame of that direction which has been due the longest; false: none is. It is
 * one piece and valid until the next call with `h`.
 */
bool xd_delay_due(struct xd_delay *h, uint32_t direction, uint64_t now, struct xt_frame *f);
uint64_t xd_delay_next(const struct xd_delay *h); /* XT_NEVER: nothing is held */

#endif /* XD_DELAY_H */
