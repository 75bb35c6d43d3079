/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rings as the daemon creates them. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/ring.h>

/* Returns an empty ring with @depth entries of @stride bytes; to be freed with free(). */
static inline struct xr_queue *queue_new(uint32_t depth, uint32_t stride)
{
	size_t size = sizeof(struct xr_queue) + (size_t)depth * stride;
	struct xr_queue *queue = aligned_alloc(XR_CACHELINE, (size + XR_CACHELINE - 1) &
								     ~(size_t)(XR_CACHELINE - 1));

	memset(queue, 0, size);
	queue->magic = XR_QUEUE_MAGIC;
	queue->depth = depth;
	queue->stride = stride;
	queue->entries_off = sizeof(*queue);
	return queue;
}

#endif /* SIM_QUEUE_H */
