/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Access to the rings of <xroce/ring.h> by free-running index. */
#ifndef XT_RINGS_H
#define XT_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/ring.h>

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
 * Returns false if the client's producer index @now went back from @before or runs too far ahead.
 */
static inline bool xt_ring_sane(uint32_t now, uint32_t before, uint32_t consumer, uint32_t depth)
{
	return now - consumer <= depth && now - consumer >= before - consumer;
}

#endif /* XT_RINGS_H */
