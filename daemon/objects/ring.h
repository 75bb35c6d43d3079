/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rings in memory shared with a client, and the workers that use them. */
#ifndef XD_RING_H
#define XD_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/clients/shm.h"

struct xd_client;

/*
 * Allocates and initializes a struct xr_queue of `depth` entries of `stride` bytes. -EDQUOT,
 * -ENOMEM.
 */
int xd_ring_alloc(struct xd_client *c, uint32_t depth, uint32_t stride, struct xd_piece *ring);

/* The worker that uses a CQ or an SRQ: its index, or one of these */
#define XD_WORKER_NONE UINT32_MAX
#define XD_WORKER_SEVERAL (UINT32_MAX - 1)

/*
 * Adds a worker to those that use a CQ or an SRQ. Returns true if there are several, which must
 * lock it. Workers paused.
 */
bool xd_worker_share(uint32_t *user, uint32_t worker);

#endif /* XD_RING_H */
