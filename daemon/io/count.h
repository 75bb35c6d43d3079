/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters with one writer and any number of readers. The writer needs no atomic read-modify-write:
 * a load and a store suffice.
 */
#ifndef XD_COUNT_H
#define XD_COUNT_H

#include <stdint.h>

static inline void xd_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline uint64_t xd_counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif /* XD_COUNT_H */
