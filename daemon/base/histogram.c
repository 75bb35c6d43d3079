// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "histogram.h"

#define STEP_BITS 3 /* log2 of XD_HISTOGRAM_STEPS */

/* Values below XD_HISTOGRAM_STEPS have a bucket each. */
static uint32_t histogram_bucket_of(uint64_t value)
{
	uint32_t shift;

	if (value < XD_HISTOGRAM_STEPS)
		return (uint32_t)value;
	shift = 63 - (uint32_t)__builtin_clzll(value) - STEP_BITS;
	return shift * XD_HISTOGRAM_STEPS + (uint32_t)(value >> shift);
}

/* Returns the highest value of a bucket. */
static uint64_t top_of(uint32_t bucket)
{
	uint32_t shift;

	if (bucket < 2 * XD_HISTOGRAM_STEPS)
		return bucket;
	shift = bucket / XD_HISTOGRAM_STEPS - 1;
	return ((uint64_t)(bucket - shift * XD_HISTOGRAM_STEPS) << shift) + ((1ull << shift) - 1);
}

void xd_histogram_add(struct xd_histogram *h, uint64_t value)
{
	h->count++;
	h->sum += value;
	if (value > h->longest)
		h->longest = value;
	h->bucket[histogram_bucket_of(value)]++;
}

uint64_t xd_histogram_quantile(const struct xd_histogram *h, uint32_t permille)
{
	/* rank of the value, counted from the longest; of few values, p99 is the longest */
	uint64_t rank = h->count * (1000 - permille) / 1000 + 1, top;
	uint32_t i = XD_HISTOGRAM_BUCKETS;

	if (!h->count)
		return 0;
	if (rank > h->count)
		rank = h->count;
	while (rank > h->bucket[--i])
		rank -= h->bucket[i];
	top = top_of(i);
	return top < h->longest ? top : h->longest;
}

uint64_t xd_histogram_below(const struct xd_histogram *h, uint32_t bits)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < histogram_bucket_of(1ull << bits); i++)
		n += h->bucket[i];
	return n;
}
