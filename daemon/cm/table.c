// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hash tables, see table.h. */
#include <errno.h>
#include <stdlib.h>

#include "table.h"

#define FIRST_SIZE 64

int xc_table_init(struct xc_table *t)
{
	t->count = 0;
	t->size = FIRST_SIZE;
	t->bucket = calloc(t->size, sizeof(*t->bucket));
	return t->bucket ? 0 : -ENOMEM;
}

void xc_table_free(struct xc_table *t)
{
	free(t->bucket);
}

static struct xc_node **table_bucket_of(const struct xc_table *t, uint64_t hash)
{
	return &t->bucket[hash & (t->size - 1)];
}

static void link_node(struct xc_table *t, struct xc_node *node)
{
	struct xc_node **head = table_bucket_of(t, node->hash);

	node->next = *head;
	*head = node;
}

static void table_grow(struct xc_table *t)
{
	struct xc_table old = *t;
	struct xc_node *node, *next;

	t->bucket = calloc(old.size * 2, sizeof(*t->bucket));
	if (!t->bucket) {
		t->bucket = old.bucket;
		return;
	}
	t->size = old.size * 2;
	for (uint32_t i = 0; i < old.size; i++)
		for (node = old.bucket[i]; node; node = next) {
			next = node->next;
			link_node(t, node);
		}
	free(old.bucket);
}

void xc_table_add(struct xc_table *t, struct xc_node *node, uint64_t hash)
{
	if (t->count == t->size)
		table_grow(t);
	node->hash = hash;
	node->linked = true;
	link_node(t, node);
	t->count++;
}

void xc_table_del(struct xc_table *t, struct xc_node *node)
{
	struct xc_node **at;

	if (!node->linked)
		return;
	for (at = table_bucket_of(t, node->hash); *at != node; at = &(*at)->next)
		;
	*at = node->next;
	node->linked = false;
	t->count--;
}

static struct xc_node *with_hash(struct xc_node *node, uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

struct xc_node *xc_table_first(const struct xc_table *t, uint64_t hash)
{
	return with_hash(*table_bucket_of(t, hash), hash);
}

struct xc_node *xc_table_next(const struct xc_node *node)
{
	return with_hash(node->next, node->hash);
}
