// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "provider/cm/table.h"

#define BUCKETS_MIN 16

static struct xp_cm_entry **cm_bucket_of(const struct xp_cm_table *t, uint64_t key)
{
	return &t->bucket[(key * 0x9e3779b97f4a7c15ull >> 32) & (t->buckets - 1)];
}

struct xp_cm_entry *xp_cm_table_find(const struct xp_cm_table *t, uint64_t key)
{
	struct xp_cm_entry *e = t->buckets ? *cm_bucket_of(t, key) : NULL;

	while (e && e->key != key)
		e = e->next;
	return e;
}

static void table_insert(struct xp_cm_table *t, struct xp_cm_entry *e)
{
	struct xp_cm_entry **head = cm_bucket_of(t, e->key);

	e->next = *head;
	*head = e;
}

/* If there is no memory, the table keeps its size. */
static void cm_grow(struct xp_cm_table *t)
{
	struct xp_cm_table larger = { .buckets = t->buckets ? t->buckets * 2 : BUCKETS_MIN };
	struct xp_cm_entry *e, *next;
	uint32_t i;

	larger.bucket = calloc(larger.buckets, sizeof(*larger.bucket));
	if (!larger.bucket)
		return;
	for (i = 0; i < t->buckets; i++) {
		for (e = t->bucket[i]; e; e = next) {
			next = e->next;
			table_insert(&larger, e);
		}
	}
	free(t->bucket);
	t->bucket = larger.bucket;
	t->buckets = larger.buckets;
}

int xp_cm_table_add(struct xp_cm_table *t, struct xp_cm_entry *e, uint64_t key)
{
	if (t->count >= t->buckets)
		cm_grow(t);
	if (!t->buckets)
		return -ENOMEM;
	e->key = key;
	table_insert(t, e);
	t->count++;
	return 0;
}

void xp_cm_table_remove(struct xp_cm_table *t, struct xp_cm_entry *e)
{
	struct xp_cm_entry **p = cm_bucket_of(t, e->key);

	while (*p != e)
		p = &(*p)->next;
	*p = e->next;
	t->count--;
}

void xp_cm_table_free(struct xp_cm_table *t)
{
	free(t->bucket);
	*t = (struct xp_cm_table){ 0 };
}
