// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stddef.h>

#include "doorbells.h"

static uint64_t take(__u64 *word)
{
	/* most words are 0 most of the time: look before writing to a shared cache line */
	if (!__atomic_load_n(word, __ATOMIC_RELAXED))
		return 0;
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

/* Slots that rang in one leaf */
static unsigned int scan_leaf(struct xd_doorbell *bell, uint32_t leaf, xd_ring_fn ring, void *arg)
{
	uint64_t bits = take(&bell->db->bits2[leaf]);
	unsigned int n = 0;
	uint32_t slot;

	for (; bits; bits &= bits - 1) {
		slot = leaf * 64 + (uint32_t)__builtin_ctzll(bits);
		if (slot >= bell->slots || !bell->qp[slot])
			continue;
		ring(bell->qp[slot], arg);
		n++;
	}
	return n;
}

static unsigned int scan_branch(struct xd_doorbell *bell, uint32_t branch, xd_ring_fn ring,
				void *arg)
{
	uint64_t bits = take(&bell->db->bits1[branch]);
	unsigned int n = 0;

	for (; bits; bits &= bits - 1)
		n += scan_leaf(bell, branch * 64 + (uint32_t)__builtin_ctzll(bits), ring, arg);
	return n;
}

/* From the top down: a bit set meanwhile below a word that was taken sets that word's bit again. */
unsigned int xd_doorbell_scan(struct xd_doorbell *bell, xd_ring_fn ring, void *arg)
{
	uint64_t bits = take(&bell->db->bits0);
	unsigned int n = 0;

	for (; bits; bits &= bits - 1)
		n += scan_branch(bell, (uint32_t)__builtin_ctzll(bits), ring, arg);
	return n;
}

bool xd_doorbell_arm(struct xd_doorbell *bell)
{
	__atomic_store_n(&bell->db->sleeping, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return !__atomic_load_n(&bell->db->bits0, __ATOMIC_SEQ_CST);
}

void xd_doorbell_disarm(struct xd_doorbell *bell)
{
	__atomic_store_n(&bell->db->sleeping, 0, __ATOMIC_RELAXED);
}
