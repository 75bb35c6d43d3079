// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The histogram of durations. */
#include "daemon/base/histogram.h"
#include "selftests/lib/tap.h"

static struct xd_histogram h;

static void empty(void)
{
	h = (struct xd_histogram){ 0 };
}

static void test_quantiles(void)
{
	uint64_t p99, p50;

	empty();
	TAP_OK(!xd_histogram_quantile(&h, 990), "an empty histogram has quantile 0");
	xd_histogram_add(&h, 1234567);
	TAP_OK(xd_histogram_quantile(&h, 990) == 1234567 && xd_histogram_quantile(&h, 0) == 1234567,
	       "all quantiles of one value are that value");
	empty();
	for (uint64_t i = 1; i <= 10000; i++)
		xd_histogram_add(&h, i);
	p50 = xd_histogram_quantile(&h, 500);
	p99 = xd_histogram_quantile(&h, 990);
	TAP_OK(p50 >= 5000 && p50 <= 5625, "p50 of 1..10000 is %lu", (unsigned long)p50);
	TAP_OK(p99 >= 9900 && p99 <= 10000, "p99 of 1..10000 is %lu", (unsigned long)p99);
	TAP_OK(h.count == 10000 && h.longest == 10000 && h.sum == 50005000,
	       "count, longest value and sum are exact");
	TAP_OK(xd_histogram_below(&h, 10) == 1023 && xd_histogram_below(&h, 63) == 10000,
	       "the number of values below a power of two is exact");
	TAP_OK(xd_histogram_quantile(&h, 1000) == 10000 && xd_histogram_quantile(&h, 0) == 1,
	       "the extreme quantiles are the longest and the shortest value");
}

static void test_outlier(void)
{
	empty();
	for (int i = 0; i < 1000; i++)
		xd_histogram_add(&h, 5);
	xd_histogram_add(&h, 1000000000);
	TAP_OK(xd_histogram_quantile(&h, 990) == 5 && h.longest == 1000000000,
	       "one long value in a thousand does not change p99");
}

static void test_scale(void)
{
	bool bounded = true;
	uint64_t q;

	for (uint32_t bit = 0; bit < 64; bit++) {
		for (int64_t d = -1; d <= 1; d++) {
			uint64_t value = (1ull << bit) + (uint64_t)d;

			empty();
			xd_histogram_add(&h, value);
			xd_histogram_add(&h, UINT64_MAX);
			q = xd_histogram_quantile(&h, 0);
			bounded &= q >= value && q - value <= value / XD_HISTOGRAM_STEPS;
		}
	}
	TAP_OK(bounded, "a quantile of any 64-bit value is at most an eighth too high");
}

int main(void)
{
	test_quantiles();
	test_outlier();
	test_scale();
	return tap_end();
}
