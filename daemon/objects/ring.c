// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ring.h"

#include <xroce/ring.h>

int xd_ring_alloc(struct xd_client *c, uint32_t depth, uint32_t stride, struct xd_piece *ring)
{
	int err = xd_shm_alloc(c, sizeof(struct xr_queue) + (uint64_t)depth * stride, ring);
	struct xr_queue *queue = ring->ptr;

	if (err)
		return err;
	queue->magic = XR_QUEUE_MAGIC;
	queue->depth = depth;
	queue->stride = stride;
	queue->entries_off = sizeof(*queue);
	return 0;
}

bool xd_worker_share(uint32_t *user, uint32_t worker)
{
	if (*user == XD_WORKER_NONE)
		*user = worker;
	else if (*user != worker)
		*user = XD_WORKER_SEVERAL;
	return *user == XD_WORKER_SEVERAL;
}
