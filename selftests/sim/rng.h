/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Seeded random numbers (splitmix64), identical on all machines. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Returns 0..n-1; 0 if n is 0. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return n ? rng_next(r) % n : 0;
}

/* Returns lo..hi, inclusive. */
static inline uint64_t rng_between(struct rng *r, uint64_t lo, uint64_t hi)
{
	return lo + rng_below(r, hi - lo + 1);
}

static inline bool rng_chance(struct rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

static inline void rng_bytes(struct rng *r, void *dst, size_t len)
{
	uint8_t *p = dst;
	uint64_t v;

	for (; len >= sizeof(v); p += sizeof(v), len -= sizeof(v)) {
		v = rng_next(r);
		memcpy(p, &v, sizeof(v));
	}
	v = rng_next(r);
	memcpy(p, &v, len);
}

#endif /* SIM_RNG_H */
