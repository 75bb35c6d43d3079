/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames for another worker. The NIC's hash chooses the receive queue, so a packet may meet a
 * worker that does not own its QP: it is copied into the owner's inbox. Any worker puts,
 * the owner takes; the mutex is held for one copy at most and never across a round.
 */
#ifndef XD_INBOX_H
#define XD_INBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

#define XD_INBOX_BATCH 64

struct xd_inbox;

struct xd_inbox *xd_inbox_new(void);
void xd_inbox_free(struct xd_inbox *in);

/* false: full, the frame is lost as on a network. */
bool xd_inbox_put(struct xd_inbox *in, const struct xt_frame *frame);
/* Up to XD_INBOX_BATCH frames in their order, valid until xd_inbox_release(). */
unsigned int xd_inbox_take(struct xd_inbox *in, struct xt_frame *frames);
void xd_inbox_release(struct xd_inbox *in, unsigned int n);

#endif /* XD_INBOX_H */
