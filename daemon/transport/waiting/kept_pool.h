/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory for the packets that QPs of an engine keep. It is allocated with the engine, so that a
 * worker never allocates memory for a packet; pages that were never used take no memory.
 *
 * A flow may hold at most half of the blocks of a size, and no more than are free. Each of n flows
 * that take what they can gets one block in n + 1, so that a flow that begins to keep some always
 * finds some (A. K. Choudhury and E. L. Hahne, 1998: dynamic thresholds).
 */
#ifndef XT_KEPT_POOL_H
#define XT_KEPT_POOL_H

#include <stdint.h>

#include "daemon/transport/base/list.h"

enum xt_kept_size {
	XT_KEPT_SMALL, /* packets without payload, short messages */
	XT_KEPT_LARGE, /* any packet */
	XT_KEPT_SIZES
};

#define XT_KEPT_SMALL_BLOCK 512u
#define XT_KEPT_SMALL_BLOCKS 8192u
#define XT_KEPT_LARGE_BLOCK 5120u
#define XT_KEPT_LARGE_BLOCKS 3328u

/* The start of a block while it is in use */
struct xt_kept {
	struct xt_list link;
	uint8_t size; /* enum xt_kept_size */
};

struct xt_kept_pool {
	uint8_t *memory;
	uint32_t fresh[XT_KEPT_SIZES];		/* blocks from this number on were never used */
	uint32_t free[XT_KEPT_SIZES];		/* number of blocks that are not in use */
	struct xt_list recycled[XT_KEPT_SIZES]; /* struct xt_kept */
};

/* Returns 0 or -ENOMEM. */
int xt_kept_pool_init(struct xt_kept_pool *p);
void xt_kept_pool_free(struct xt_kept_pool *p);
/*
 * Returns a block of at least len bytes, or NULL if there is none. held: numbers of blocks that the
 * flow holds; the caller subtracts one when the flow releases a block.
 */
struct xt_kept *xt_kept_pool_take(struct xt_kept_pool *p, uint32_t held[XT_KEPT_SIZES],
				  uint32_t len);
void xt_kept_pool_put(struct xt_kept_pool *p, struct xt_kept *block);

#endif /* XT_KEPT_POOL_H */
