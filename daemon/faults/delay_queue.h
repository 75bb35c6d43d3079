/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The delay queue: copies of frames that an injected fault delays. It holds a fixed number of
 * frames; those that do not fit are lost, as on a network.
 */
#ifndef XD_FAULTS_DELAY_QUEUE_H
#define XD_FAULTS_DELAY_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "rule.h"

struct xd_delay;

struct xd_delay *xd_delay_new(void);
void xd_delay_free(struct xd_delay *q);

/*
 * Copies a frame that is due at time `when` (ns, any clock). direction: XD_FAULT_RX or XD_FAULT_TX.
 * rule: the one that delays it, which may hold no more frames than are free; XD_FAULT_NO_RULE: no
 * such limit. Returns false if there is no room.
 */
bool xd_delay_add(struct xd_delay *q, uint32_t direction, uint64_t when, uint8_t rule,
		  const struct xt_frame *f);
/*
 * Removes the frame of that direction that has been due the longest; returns false if none is due.
 * *f has one segment and is valid until the next call.
 */
bool xd_delay_due(struct xd_delay *q, uint32_t direction, uint64_t now, struct xt_frame *f);
/* Returns false if no frame can be added. */
bool xd_delay_has_room(const struct xd_delay *q);
/* Returns the time at which the next frame is due, XT_NEVER if the queue is empty. */
uint64_t xd_delay_next(const struct xd_delay *q);

#endif /* XD_FAULTS_DELAY_QUEUE_H */
