/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A random permutation of the 24-bit numbers, selected by a seed. QPNs, SRQ numbers and key indices
 * are permuted slots. So they are neither sequential nor the same after a restart, and a lookup
 * needs only the table of slots. The seed is secret, but the permutation does not claim the
 * strength of a cipher.
 */
#ifndef XT_PERMUTE_H
#define XT_PERMUTE_H

#include <stdint.h>

/* Returns a number that looks random, always the same for the same argument. */
static inline uint64_t xt_mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}

#define XT_PERMUTE_BITS 24
#define XT_PERMUTE_ROUNDS 2
#define XT_PERMUTE_MASK ((1u << XT_PERMUTE_BITS) - 1)

/* Odd factors, and their inverses modulo 2^24 */
struct xt_permutation {
	uint32_t factor[XT_PERMUTE_ROUNDS], inverse[XT_PERMUTE_ROUNDS];
};

void xt_permutation_init(struct xt_permutation *p, uint64_t seed);

/* Changes the lower half of a number by its upper half; its own inverse. */
static inline uint32_t xt_fold(uint32_t n)
{
	return n ^ n >> XT_PERMUTE_BITS / 2;
}

/* Maps [1, 2^24) to itself, and 0 to 0. n must be below 2^24. */
static inline uint32_t xt_permute(const struct xt_permutation *p, uint32_t n)
{
	for (unsigned i = 0; i < XT_PERMUTE_ROUNDS; i++)
		n = xt_fold(n) * p->factor[i] & XT_PERMUTE_MASK;
	return xt_fold(n);
}

/* Results of xt_unpermute() that a thread keeps for its next lookups, which saves 2 to 3 ns each */
#define XT_RECENT 64

/* The inverse of xt_permute(). It is part of each lookup, so it must be fast. */
static inline uint32_t xt_unpermute(const struct xt_permutation *p, uint32_t n)
{
	for (unsigned i = XT_PERMUTE_ROUNDS; i-- > 0;)
		n = xt_fold(n) * p->inverse[i] & XT_PERMUTE_MASK;
	return xt_fold(n);
}

#endif /* XT_PERMUTE_H */
