// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "permute.h"

/* A Feistel network: each round changes one half of the number by a function of the other half. */
#define HALF_BITS (XT_PERMUTE_BITS / 2)
#define HALF_MASK ((1u << HALF_BITS) - 1)

void xt_permutation_init(struct xt_permutation *p, uint64_t seed)
{
	for (unsigned i = 0; i < XT_PERMUTE_ROUNDS; i++)
		p->key[i] = xt_mix(seed + xt_mix(i + 1));
}

static uint32_t half(const struct xt_permutation *p, unsigned round, uint32_t other)
{
	return xt_mix(p->key[round] ^ other) & HALF_MASK;
}

static uint32_t forward(const struct xt_permutation *p, uint32_t n)
{
	uint32_t left = n >> HALF_BITS, right = n & HALF_MASK, next;

	for (unsigned i = 0; i < XT_PERMUTE_ROUNDS; i++) {
		next = left ^ half(p, i, right);
		left = right;
		right = next;
	}
	return left << HALF_BITS | right;
}

static uint32_t backward(const struct xt_permutation *p, uint32_t n)
{
	uint32_t left = n >> HALF_BITS, right = n & HALF_MASK, previous;

	for (unsigned i = XT_PERMUTE_ROUNDS; i-- > 0;) {
		previous = right ^ half(p, i, left);
		right = left;
		left = previous;
	}
	return left << HALF_BITS | right;
}

/* The number that the network maps to 0 gets the image of 0, as 0 stays in place. */
uint32_t xt_permute(const struct xt_permutation *p, uint32_t n)
{
	uint32_t image = n ? forward(p, n) : 0;

	return n && !image ? forward(p, 0) : image;
}

uint32_t xt_unpermute(const struct xt_permutation *p, uint32_t n)
{
	uint32_t origin = n ? backward(p, n) : 0;

	return n && !origin ? backward(p, 0) : origin;
}
