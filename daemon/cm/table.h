/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hash tables of entries that contain their node. A table doubles when it is full. */
#ifndef XC_TABLE_H
#define XC_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct xc_node {
	struct xc_node *next; /* in the bucket */
	uint64_t hash;
	bool linked;
};

struct xc_table {
	struct xc_node **bucket;
	uint32_t size; /* buckets, a power of two */
	uint32_t count;
};

/* Returns 0 or -ENOMEM. */
int xc_table_init(struct xc_table *t);
void xc_table_free(struct xc_table *t);
/* The node must not be in a table. Without memory to grow, the buckets get longer. */
void xc_table_add(struct xc_table *t, struct xc_node *node, uint64_t hash);
/* Also allowed for a node that is in no table. */
void xc_table_del(struct xc_table *t, struct xc_node *node);
/* Return the nodes with a hash; the caller compares the keys. */
struct xc_node *xc_table_first(const struct xc_table *t, uint64_t hash);
struct xc_node *xc_table_next(const struct xc_node *node);

/* Returns a hash of x that cannot be predicted without the seed. */
static inline uint64_t xc_hash(uint64_t seed, uint64_t x)
{
	x ^= seed;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 32) * (seed | 1);
	return x ^ x >> 32;
}

#endif /* XC_TABLE_H */
