/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A set of addresses that only grows, in granules of 2 MiB: "not in the set" is certain, "in the
 * set" is not, as addresses whose distance is a multiple of 128 GiB share a bit. No locks, for
 * signal handlers.
 */
#ifndef XP_GRANULES_H
#define XP_GRANULES_H

#include <stdbool.h>
#include <stdint.h>

#define XP_GRANULES 65536u /* bits */
#define XP_GRANULE_SHIFT 21

struct xp_granules {
	bool any;
	uint64_t bits[XP_GRANULES / 64];
};

static inline void xp_granules_add(struct xp_granules *g, uint64_t start, uint64_t end)
{
	uint64_t i = start >> XP_GRANULE_SHIFT, last = (end - 1) >> XP_GRANULE_SHIFT;

	for (; i <= last; i++)
		__atomic_or_fetch(&g->bits[i % XP_GRANULES / 64], 1ull << i % 64, __ATOMIC_RELAXED);
	__atomic_store_n(&g->any, true, __ATOMIC_SEQ_CST);
}

/* Returns true if an address of [start, end), which is not empty, may be in the set. */
static inline bool xp_granules_have(const struct xp_granules *g, uint64_t start, uint64_t end)
{
	uint64_t i = start >> XP_GRANULE_SHIFT, last = (end - 1) >> XP_GRANULE_SHIFT;
	uint64_t bits;

	if (!__atomic_load_n(&g->any, __ATOMIC_SEQ_CST))
		return false;
	if (last - i >= XP_GRANULES)
		return true;
	for (; i <= last; i++) {
		bits = __atomic_load_n(&g->bits[i % XP_GRANULES / 64], __ATOMIC_RELAXED);
		if (bits & 1ull << i % 64)
			return true;
	}
	return false;
}

#endif /* XP_GRANULES_H */
