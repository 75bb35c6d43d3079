/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Access to the rings of <xroce/ring.h> by free-running index. */
#ifndef XT_RINGS_H
#define XT_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/ring.h>

#include "daemon/transport/transport.h"

/*
 * depth: a power of two; stride: bytes. Both are the daemon's private copies, not those in the
 * ring.
 */
static inline uint8_t *xt_ring_entry(struct xr_queue *ring, uint32_t index, uint32_t depth,
				     uint32_t stride)
{
	return (uint8_t *)(ring + 1) + (size_t)(index & (depth - 1)) * stride;
}

/*
 * Reads the client's producer index into *producer, which holds the value read before. Returns
 * false and keeps *producer if the index is corrupt: less than before, or more than depth ahead of
 * @consumer.
 */
static inline bool xt_ring_poll(const struct xr_queue *ring, uint32_t *producer, uint32_t consumer,
				uint32_t depth)
{
	uint32_t now = __atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE);

	if (now - consumer > depth || now - consumer < *producer - consumer)
		return false;
	*producer = now;
	return true;
}

/* Frees the client's entries before @consumer. */
static inline void xt_ring_publish(struct xr_queue *ring, uint32_t consumer)
{
	__atomic_store_n(&ring->consumer, consumer, __ATOMIC_RELEASE);
}

/* Notes an asynchronous error of a CQ or an SRQ, under the lock of the queue. */
static inline void xt_queue_note(struct xt_queue_error *error, enum xt_cause cause, uint32_t qpn,
				 uint64_t now)
{
	__atomic_store_n(&error->cause, cause, __ATOMIC_RELAXED);
	__atomic_store_n(&error->qpn, qpn, __ATOMIC_RELAXED);
	__atomic_store_n(&error->at, now, __ATOMIC_RELEASE);
}

#endif /* XT_RINGS_H */
