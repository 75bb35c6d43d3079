// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MOST_BUCKETS (1u << XD_HASH_BITS)
#define FIRST_NODES 16
#define MOST_NODES 1024 /* of a chunk */

struct xd_hash_chunk {
	struct xd_hash_chunk *next;
	uint64_t memory[];
};

static void hash_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void point(struct xd_hash_node **at, struct xd_hash_node *to)
{
	__atomic_store_n(at, to, __ATOMIC_RELEASE);
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* Frees a node. Its bucket has counted it. */
static void hash_give(struct xd_hash *h, struct xd_hash_node *n)
{
	point(&n->next, h->free);
	h->free = n;
	h->free_count++;
}

static struct xd_hash_node *hash_take(struct xd_hash *h)
{
	struct xd_hash_node *n = h->free;

	h->free = n->next;
	h->free_count--;
	return n;
}

static int hash_add_chunk(struct xd_hash *h)
{
	size_t size = sizeof(struct xd_hash_node) +
		      (h->key_words + h->value_words) * sizeof(uint64_t);
	struct xd_hash_chunk *chunk = malloc(sizeof(*chunk) + h->chunk_nodes * size);

	if (!chunk)
		return -ENOMEM;
	chunk->next = h->chunks;
	h->chunks = chunk;
	for (uint32_t i = h->chunk_nodes; i--;)
		hash_give(h, (void *)((char *)chunk->memory + i * size));
	if (h->chunk_nodes < MOST_NODES)
		h->chunk_nodes *= 2;
	return 0;
}

/* Makes sure that n nodes are free. */
static int hash_reserve(struct xd_hash *h, uint32_t n)
{
	int err = 0;

	while (h->free_count < n && !err)
		err = hash_add_chunk(h);
	return err;
}

static void hash_fill(const struct xd_hash *h, struct xd_hash_node *n, const uint64_t *key,
		      const uint64_t *value)
{
	for (uint32_t i = 0; i < h->key_words; i++)
		hash_store(&n->word[i], key[i]);
	for (uint32_t i = 0; i < h->value_words; i++)
		hash_store(&n->word[h->key_words + i], value[i]);
}

/* ---- growth ------------------------------------------------------------------------------- */

/* Allocates the part of a bucket that is its first one. */
static int add_part(struct xd_hash *h, uint32_t bucket)
{
	uint32_t part = 32 - (uint32_t)__builtin_clz(bucket) - XD_HASH_FIRST_BITS;

	if (!h->part[part])
		h->part[part] = calloc(bucket, sizeof(**h->part));
	return h->part[part] ? 0 : -ENOMEM;
}

static uint32_t chain_length(const struct xd_hash_bucket *b)
{
	uint32_t length = 0;

	for (const struct xd_hash_node *n = b->head; n; n = n->next)
		length++;
	return length;
}

/* Copies a node to the head of a chain, which readers do not see yet. */
static void hash_copy_to(struct xd_hash *h, struct xd_hash_node **chain,
			 const struct xd_hash_node *n)
{
	struct xd_hash_node *copy = hash_take(h);

	hash_fill(h, copy, n->word, n->word + h->key_words);
	point(&copy->next, *chain);
	*chain = copy;
}

/*
 * Adds a bucket and moves a part of another one's entries there. Nodes are copied, so that readers
 * find the old chain or the new ones. Without memory, chains become longer instead.
 */
static void hash_split(struct xd_hash *h)
{
	uint32_t n = h->buckets, top = 1u << (31 - __builtin_clz(n));
	struct xd_hash_node *stay = NULL, *move = NULL, *old, *next;
	struct xd_hash_bucket *from, *to;

	if (n == MOST_BUCKETS || (n == top && add_part(h, n)))
		return;
	from = xd_hash_bucket(h, n - top, n);
	/* one more: as set_new() leaves it */
	if (hash_reserve(h, chain_length(from) + 1))
		return;
	for (old = from->head; old; old = old->next) {
		bool moves = xd_hash_of(h, old->word, h->key_words) & top;

		hash_copy_to(h, moves ? &move : &stay, old);
	}
	to = xd_hash_bucket(h, n, n + 1);
	old = from->head;
	point(&to->head, move);
	__atomic_store_n(&h->buckets, n + 1, __ATOMIC_RELEASE);
	point(&from->head, stay);
	hash_store(&from->left, from->left + 1);
	for (; old; old = next) {
		next = old->next;
		hash_give(h, old);
	}
}

/* ---- entries ------------------------------------------------------------------------------ */

static struct xd_hash_bucket *hash_bucket_of(const struct xd_hash *h, const uint64_t *key)
{
	return xd_hash_bucket(h, xd_hash_of(h, key, h->key_words), h->buckets);
}

/* Returns the pointer to the node of a key, or to the NULL at the end of its chain. */
static struct xd_hash_node **hash_find(const struct xd_hash *h, struct xd_hash_bucket *b,
				       const uint64_t *key)
{
	struct xd_hash_node **at = &b->head;

	while (*at && memcmp((*at)->word, key, h->key_words * sizeof(*key)))
		at = &(*at)->next;
	return at;
}

/* A node is free: set_new() leaves one, and each replacement frees one. */
static void hash_replace(struct xd_hash *h, struct xd_hash_bucket *b, struct xd_hash_node **at,
			 const uint64_t *value)
{
	struct xd_hash_node *old = *at, *n = hash_take(h);

	hash_fill(h, n, old->word, value);
	point(&n->next, old->next);
	point(at, n);
	hash_store(&b->left, b->left + 1);
	hash_give(h, old);
}

static int set_new(struct xd_hash *h, struct xd_hash_bucket *b, const uint64_t *key,
		   const uint64_t *value)
{
	struct xd_hash_node *n;
	int err = hash_reserve(h, 2);

	if (err)
		return err;
	n = hash_take(h);
	hash_fill(h, n, key, value);
	point(&n->next, b->head);
	point(&b->head, n);
	if (++h->used > h->buckets)
		hash_split(h);
	return 0;
}

int xd_hash_set(struct xd_hash *h, const uint64_t *key, const uint64_t *value)
{
	struct xd_hash_node **at;
	struct xd_hash_bucket *b;
	int err = 0;

	pthread_mutex_lock(&h->lock);
	b = hash_bucket_of(h, key);
	at = hash_find(h, b, key);
	if (*at)
		hash_replace(h, b, at, value);
	else
		err = set_new(h, b, key, value);
	pthread_mutex_unlock(&h->lock);
	return err;
}

void xd_hash_del(struct xd_hash *h, const uint64_t *key)
{
	struct xd_hash_node **at, *old;
	struct xd_hash_bucket *b;

	pthread_mutex_lock(&h->lock);
	b = hash_bucket_of(h, key);
	at = hash_find(h, b, key);
	old = *at;
	if (old) {
		point(at, old->next);
		hash_store(&b->left, b->left + 1);
		hash_give(h, old);
		h->used--;
	}
	pthread_mutex_unlock(&h->lock);
}

bool xd_hash_find_locked(struct xd_hash *h, const uint64_t *key, uint64_t *value)
{
	const struct xd_hash_node *n;

	pthread_mutex_lock(&h->lock);
	n = *hash_find(h, hash_bucket_of(h, key), key);
	if (n)
		memcpy(value, n->word + h->key_words, h->value_words * sizeof(*value));
	pthread_mutex_unlock(&h->lock);
	return n;
}

/* ---- creation ----------------------------------------------------------------------------- */

int xd_hash_init(struct xd_hash *h, uint32_t key_words, uint32_t value_words)
{
	*h = (struct xd_hash){
		.buckets = 1u << XD_HASH_FIRST_BITS,
		.key_words = key_words,
		.value_words = value_words,
		.chunk_nodes = FIRST_NODES,
	};
	pthread_mutex_init(&h->lock, NULL);
	if (getrandom(h->seed, sizeof(h->seed), 0) != sizeof(h->seed))
		return -EIO;
	h->part[0] = calloc(h->buckets, sizeof(*h->part[0]));
	return h->part[0] ? 0 : -ENOMEM;
}

void xd_hash_free(struct xd_hash *h)
{
	struct xd_hash_chunk *chunk, *next;

	for (chunk = h->chunks; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	for (uint32_t i = 0; i < sizeof(h->part) / sizeof(*h->part); i++)
		free(h->part[i]);
	pthread_mutex_destroy(&h->lock);
}
