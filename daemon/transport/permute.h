/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A random permutation of the 24-bit numbers, selected by a seed. QPNs, SRQ numbers and key indices
 * are permuted slots, so that they are neither sequential nor the same after a restart, while a
 * lookup needs no table but that of the slots. The seed is secret, but the permutation does not
 * claim the strength of a cipher.
 */
#ifndef XT_PERMUTE_H
#define XT_PERMUTE_H

#include <stdint.h>

#define XT_PERMUTE_BITS 24
#define XT_PERMUTE_ROUNDS 4

struct xt_permutation {
	uint64_t key[XT_PERMUTE_ROUNDS];
};

void xt_permutation_init(struct xt_permutation *p, uint64_t seed);
/* Maps [1, 2^24) to itself, and 0 to 0. n must be below 2^24. */
uint32_t xt_permute(const struct xt_permutation *p, uint32_t n);
/* The inverse of xt_permute() */
uint32_t xt_unpermute(const struct xt_permutation *p, uint32_t n);

/* Returns a number that looks random, always the same for the same argument. */
static inline uint64_t xt_mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}

#endif /* XT_PERMUTE_H */
