/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arithmetic with powers of two, and words of bits. */
#ifndef XROCE_BITS_H
#define XROCE_BITS_H

#include <linux/types.h>

static inline int xr_is_pow2(__u64 n)
{
	return n && !(n & (n - 1));
}

/* Returns the smallest power of two that is at least n, 1 for 0. n is at most 2^31. */
static inline __u32 xr_pow2_roundup(__u32 n)
{
	return n > 1 ? 1u << (32 - __builtin_clz(n - 1)) : 1;
}

/* Returns the number of the lowest bit of a word, which is not 0, and clears it. */
static inline __u32 xr_next_bit(__u64 *word)
{
	__u32 bit = (__u32)__builtin_ctzll(*word);

	*word &= *word - 1;
	return bit;
}

#endif /* XROCE_BITS_H */
