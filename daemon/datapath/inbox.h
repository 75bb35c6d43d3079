/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames that other workers received for this worker's QPs. The NIC's hash chooses the receive
 * queue, so packets of a QP can arrive at a worker that does not own it; that worker copies them
 * into the owner's inbox. Any worker may put, only the owner takes. The lock is held for one copy
 * at most, never for a round.
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

/* Copies a frame; returns false if the inbox is full and the frame lost, as on a network. */
bool xd_inbox_put(struct xd_inbox *in, const struct xt_frame *frame);
/* Returns up to XD_INBOX_BATCH frames, oldest first, which are valid until xd_inbox_release(). */
unsigned int xd_inbox_take(struct xd_inbox *in, struct xt_frame *frames);
void xd_inbox_release(struct xd_inbox *in, unsigned int n);

#endif /* XD_INBOX_H */
