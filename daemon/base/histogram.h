/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Histogram of durations on a logarithmic scale: each power of two has XD_HISTOGRAM_STEPS buckets,
 * so a quantile is at most an eighth too high. Not thread-safe.
 */
#ifndef XD_HISTOGRAM_H
#define XD_HISTOGRAM_H

#include <stdint.h>

#define XD_HISTOGRAM_STEPS 8
#define XD_HISTOGRAM_BUCKETS (62 * XD_HISTOGRAM_STEPS)

/* All zero: empty */
struct xd_histogram {
	uint64_t count, longest, sum;
	uint64_t bucket[XD_HISTOGRAM_BUCKETS];
};

void xd_histogram_add(struct xd_histogram *h, uint64_t value);
/*
 * Returns the upper bound of the bucket that holds the given quantile, at most the longest value; 0
 * if the histogram is empty. permille: 0..1000, e.g. 990 for p99.
 */
uint64_t xd_histogram_quantile(const struct xd_histogram *h, uint32_t permille);
/* Returns the number of values below 2^bits, exactly. bits: 3..63. */
uint64_t xd_histogram_below(const struct xd_histogram *h, uint32_t bits);

#endif /* XD_HISTOGRAM_H */
