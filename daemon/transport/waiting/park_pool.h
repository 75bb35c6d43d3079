/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory for the parked packets of an engine. It is allocated with the engine, so that a worker
 * never allocates memory for a packet; pages that were never used take no memory.
 *
 * A flow may hold at most half of the blocks of a size, and no more than are free. Each of n flows
 * that take what they can gets one block in n + 1, so that a flow that begins to park always
 * finds some (A. K. Choudhury and E. L. Hahne, 1998: dynamic thresholds).
 */
#ifndef XT_PARK_POOL_H
#define XT_PARK_POOL_H

#include <stdint.h>

#include "daemon/transport/base/list.h"

enum xt_park_size {
	XT_PARK_SMALL, /* packets without payload, short messages */
	XT_PARK_LARGE, /* any packet */
	XT_PARK_SIZES
};

#define XT_PARK_SMALL_BLOCK 512u
#define XT_PARK_SMALL_BLOCKS 8192u
#define XT_PARK_LARGE_BLOCK 5120u
#define XT_PARK_LARGE_BLOCKS 3328u

/* The start of a block while it is in use */
struct xt_parked {
	struct xt_list link;
	uint8_t size; /* enum xt_park_size */
};

struct xt_park_pool {
	uint8_t *memory;
	uint32_t fresh[XT_PARK_SIZES];		/* blocks from this number on were never used */
	uint32_t free[XT_PARK_SIZES];		/* number of blocks that are not in use */
	struct xt_list recycled[XT_PARK_SIZES]; /* struct xt_parked */
};

/* Returns 0 or -ENOMEM. */
int xt_park_pool_init(struct xt_park_pool *p);
void xt_park_pool_free(struct xt_park_pool *p);
/*
 * Returns a block of at least len bytes, or NULL if there is none. held: numbers of blocks that the
 * flow holds; the caller subtracts one when the flow releases a block.
 */
struct xt_parked *xt_park_pool_take(struct xt_park_pool *p, uint32_t held[XT_PARK_SIZES],
				    uint32_t len);
void xt_park_pool_put(struct xt_park_pool *p, struct xt_parked *block);

#endif /* XT_PARK_POOL_H */
