/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rings in memory shared with a client, and the workers that use them. */
#ifndef XD_RING_H
#define XD_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/clients/shm.h"

struct xd_client;
struct xd_workers;

/*
 * Allocates and initializes a struct xr_queue of `depth` entries of `stride` bytes. -EDQUOT,
 * -ENOMEM.
 */
int xd_ring_alloc(struct xd_client *c, uint32_t depth, uint32_t stride, struct xd_piece *ring);

/* The worker that uses a CQ or an SRQ: its index, or one of these */
#define XD_WORKER_NONE UINT32_MAX
#define XD_WORKER_SEVERAL (UINT32_MAX - 1)

/*
 * Adds a worker, or XD_WORKER_SEVERAL, to those that use a CQ or an SRQ, before it uses it. If
 * there are several then, sets *locked, which is that of the queue: all of them lock it from now
 * on.
 */
void xd_queue_add_user(struct xd_workers *ws, uint32_t *user, uint32_t worker, bool *locked);
/*
 * Keeps those that use it from it for a few instructions: pauses the only one, or takes the lock of
 * several. Does nothing if none uses it. lock: that of the queue
 */
void xd_queue_hold(struct xd_workers *ws, uint32_t user, int *lock);
void xd_queue_release(struct xd_workers *ws, uint32_t user, int *lock);

#endif /* XD_RING_H */
