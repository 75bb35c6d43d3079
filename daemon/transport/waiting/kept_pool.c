// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kept_pool.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

static const uint32_t bytes[XT_KEPT_SIZES] = { XT_KEPT_SMALL_BLOCK, XT_KEPT_LARGE_BLOCK };
static const uint32_t blocks[XT_KEPT_SIZES] = { XT_KEPT_SMALL_BLOCKS, XT_KEPT_LARGE_BLOCKS };

#define SMALL_BYTES ((size_t)XT_KEPT_SMALL_BLOCK * XT_KEPT_SMALL_BLOCKS)
#define LARGE_BYTES ((size_t)XT_KEPT_LARGE_BLOCK * XT_KEPT_LARGE_BLOCKS)

int xt_kept_pool_init(struct xt_kept_pool *p)
{
	void *memory = mmap(NULL, SMALL_BYTES + LARGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	p->memory = memory;
	for (unsigned int i = 0; i < XT_KEPT_SIZES; i++) {
		p->fresh[i] = 0;
		p->free[i] = blocks[i];
		xt_list_init(&p->recycled[i]);
	}
	return 0;
}

void xt_kept_pool_free(struct xt_kept_pool *p)
{
	if (p->memory)
		munmap(p->memory, SMALL_BYTES + LARGE_BYTES);
}

/* There is a free block. The one that was used last is likely to be in a cache. */
static struct xt_kept *next_block(struct xt_kept_pool *p, enum xt_kept_size size)
{
	struct xt_kept *block = (struct xt_kept *)p->recycled[size].next;

	if (xt_list_empty(&p->recycled[size]))
		block = (struct xt_kept *)(p->memory + (size == XT_KEPT_LARGE ? SMALL_BYTES : 0) +
					   (size_t)p->fresh[size]++ * bytes[size]);
	else
		xt_list_del(&block->link);
	return block;
}

struct xt_kept *xt_kept_pool_take(struct xt_kept_pool *p, uint32_t held[XT_KEPT_SIZES],
				  uint32_t len)
{
	enum xt_kept_size size = len <= XT_KEPT_SMALL_BLOCK ? XT_KEPT_SMALL : XT_KEPT_LARGE;
	struct xt_kept *block;

	if (len > bytes[size] || held[size] >= p->free[size])
		return NULL;
	block = next_block(p, size);
	block->size = size;
	p->free[size]--;
	held[size]++;
	return block;
}

void xt_kept_pool_put(struct xt_kept_pool *p, struct xt_kept *block)
{
	xt_list_add_tail(p->recycled[block->size].next, &block->link);
	p->free[block->size]++;
}
