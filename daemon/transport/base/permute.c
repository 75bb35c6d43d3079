// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "permute.h"

/* Returns the inverse of an odd number modulo 2^32, by Newton's method. */
static uint32_t inverse(uint32_t a)
{
	uint32_t x = a; /* right in the lowest 3 bits; each step doubles their number */

	for (unsigned bits = 3; bits < XT_PERMUTE_BITS; bits *= 2)
		x *= 2 - a * x;
	return x;
}

void xt_permutation_init(struct xt_permutation *p, uint64_t seed)
{
	for (unsigned i = 0; i < XT_PERMUTE_ROUNDS; i++) {
		p->factor[i] = (uint32_t)xt_mix(seed + xt_mix(i + 1)) | 1;
		p->inverse[i] = inverse(p->factor[i]);
	}
}
