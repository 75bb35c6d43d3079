// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doorbells.h"

#include <stddef.h>

static uint64_t take(__u64 *word)
{
	/* most words are 0: a load does not take the cache line from the client */
	if (!__atomic_load_n(word, __ATOMIC_RELAXED))
		return 0;
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

static unsigned int scan_leaf(struct xd_doorbell *d, uint32_t leaf, xd_ring_fn ring, void *arg)
{
	uint64_t bits = take(&d->shared->bits2[leaf]);
	unsigned int n = 0;
	uint32_t slot;

	for (; bits; bits &= bits - 1) {
		slot = leaf * 64 + (uint32_t)__builtin_ctzll(bits);
		if (slot >= d->slots || !d->qp[slot])
			continue;
		ring(d->qp[slot], arg);
		n++;
	}
	return n;
}

static unsigned int scan_middle(struct xd_doorbell *d, uint32_t i, xd_ring_fn ring, void *arg)
{
	uint64_t bits = take(&d->shared->bits1[i]);
	unsigned int n = 0;

	for (; bits; bits &= bits - 1)
		n += scan_leaf(d, i * 64 + (uint32_t)__builtin_ctzll(bits), ring, arg);
	return n;
}

/*
 * Clears words from the top level down: a client that sets a bit below a word just cleared sets
 * the bit in that word again.
 */
unsigned int xd_doorbell_scan(struct xd_doorbell *d, xd_ring_fn ring, void *arg)
{
	uint64_t bits = take(&d->shared->bits0);
	unsigned int n = 0;

	for (; bits; bits &= bits - 1)
		n += scan_middle(d, (uint32_t)__builtin_ctzll(bits), ring, arg);
	return n;
}

bool xd_doorbell_arm(struct xd_doorbell *d)
{
	__atomic_store_n(&d->shared->sleeping, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return !__atomic_load_n(&d->shared->bits0, __ATOMIC_SEQ_CST);
}

void xd_doorbell_disarm(struct xd_doorbell *d)
{
	__atomic_store_n(&d->shared->sleeping, 0, __ATOMIC_RELAXED);
}
