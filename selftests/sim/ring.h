/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The client's side of the rings of include/xroce/ring.h. */
#ifndef SIM_RING_H
#define SIM_RING_H

#include "sim.h"

static inline void *ring_entry(const struct ring *r, uint32_t index)
{
	return (uint8_t *)(r->queue + 1) + (size_t)(index & (r->depth - 1)) * r->stride;
}

static inline uint32_t ring_free(const struct ring *r)
{
	uint32_t consumer = __atomic_load_n(&r->queue->consumer, __ATOMIC_ACQUIRE);

	return r->depth - (r->producer - consumer);
}

static inline void ring_publish(struct ring *r)
{
	__atomic_store_n(&r->queue->producer, ++r->producer, __ATOMIC_RELEASE);
}

#endif /* SIM_RING_H */
