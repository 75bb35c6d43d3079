// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "park_pool.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

static const uint32_t bytes[XT_PARK_SIZES] = { XT_PARK_SMALL_BLOCK, XT_PARK_LARGE_BLOCK };
static const uint32_t blocks[XT_PARK_SIZES] = { XT_PARK_SMALL_BLOCKS, XT_PARK_LARGE_BLOCKS };

#define SMALL_BYTES ((size_t)XT_PARK_SMALL_BLOCK * XT_PARK_SMALL_BLOCKS)
#define LARGE_BYTES ((size_t)XT_PARK_LARGE_BLOCK * XT_PARK_LARGE_BLOCKS)

int xt_park_pool_init(struct xt_park_pool *p)
{
	void *memory = mmap(NULL, SMALL_BYTES + LARGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	p->memory = memory;
	for (unsigned int i = 0; i < XT_PARK_SIZES; i++) {
		p->fresh[i] = 0;
		p->free[i] = blocks[i];
		xt_list_init(&p->recycled[i]);
	}
	return 0;
}

void xt_park_pool_free(struct xt_park_pool *p)
{
	if (p->memory)
		munmap(p->memory, SMALL_BYTES + LARGE_BYTES);
}

/* There is a free block. The one that was used last is likely to be in a cache. */
static struct xt_parked *next_block(struct xt_park_pool *p, enum xt_park_size size)
{
	struct xt_parked *block = (struct xt_parked *)p->recycled[size].next;

	if (xt_list_empty(&p->recycled[size]))
		block = (struct xt_parked *)(p->memory + (size == XT_PARK_LARGE ? SMALL_BYTES : 0) +
					     (size_t)p->fresh[size]++ * bytes[size]);
	else
		xt_list_del(&block->link);
	return block;
}

struct xt_parked *xt_park_pool_take(struct xt_park_pool *p, uint32_t held[XT_PARK_SIZES],
				    uint32_t len)
{
	enum xt_park_size size = len <= XT_PARK_SMALL_BLOCK ? XT_PARK_SMALL : XT_PARK_LARGE;
	struct xt_parked *block;

	if (len > bytes[size] || held[size] >= p->free[size])
		return NULL;
	block = next_block(p, size);
	block->size = size;
	p->free[size]--;
	held[size]++;
	return block;
}

void xt_park_pool_put(struct xt_park_pool *p, struct xt_parked *block)
{
	xt_list_add_tail(p->recycled[block->size].next, &block->link);
	p->free[block->size]++;
}
