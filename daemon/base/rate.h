/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Token buckets. A bucket is one time stamp; 0 is a full bucket. */
#ifndef XD_RATE_H
#define XD_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct xd_rate {
	uint64_t interval_ns; /* one token is added per interval */
	uint32_t burst;	      /* tokens of a full bucket */
};

/* Returns the time until the bucket has a token, in ns; 0: it has one. */
static inline uint64_t xd_rate_wait(const struct xd_rate *rate, uint64_t bucket, uint64_t now)
{
	uint64_t full = now + rate->interval_ns * rate->burst;

	return bucket + rate->interval_ns > full ? bucket + rate->interval_ns - full : 0;
}

/* Takes a token. Returns false if there is none. */
static inline bool xd_rate_take(const struct xd_rate *rate, uint64_t *bucket, uint64_t now)
{
	if (*bucket < now)
		*bucket = now;
	if (xd_rate_wait(rate, *bucket, now))
		return false;
	*bucket += rate->interval_ns;
	return true;
}

#endif /* XD_RATE_H */
