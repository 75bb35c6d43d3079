/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A hash table whose entries are part of the structures that it finds. */
#ifndef XP_CM_TABLE_H
#define XP_CM_TABLE_H

#include <stdint.h>

struct xp_cm_entry {
	struct xp_cm_entry *next; /* in the bucket */
	uint64_t key;
};

struct xp_cm_table {
	struct xp_cm_entry **bucket;
	uint32_t buckets; /* a power of two, or 0 */
	uint32_t count;
};

/* Returns NULL if there is no entry with the key. */
struct xp_cm_entry *xp_cm_table_find(const struct xp_cm_table *t, uint64_t key);
/* Adds an entry with a key that no other entry has. Returns 0 or -ENOMEM. */
int xp_cm_table_add(struct xp_cm_table *t, struct xp_cm_entry *e, uint64_t key);
void xp_cm_table_remove(struct xp_cm_table *t, struct xp_cm_entry *e);
/* Frees the table, but not its entries. */
void xp_cm_table_free(struct xp_cm_table *t);

#endif /* XP_CM_TABLE_H */
