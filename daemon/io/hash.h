/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A hash table that any number of threads read without a lock while others change it.
 *
 * Keys and values are arrays of 64-bit words. An entry is never changed in place: a new value is a
 * new node, and the old node is free once it cannot be found. Free nodes are used again, also while
 * a reader still looks at them, but never returned to the allocator. So each bucket counts the
 * nodes that left it, before they are used again; a reader whose bucket has counted one meanwhile
 * starts again. The table grows by one bucket at a time (linear hashing), so no operation takes
 * long. It does not shrink.
 *
 * Order of stores, for xd_hash_find(): a split publishes the number of buckets, then the new chain.
 * A node leaves its chain, then the bucket counts it, then the node is filled again. The words of
 * nodes are stored by release and loaded by acquire, so a reader that saw a later store sees all
 * earlier ones.
 */
#ifndef XD_HASH_H
#define XD_HASH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/cdefs.h>

#define XD_HASH_FIRST_BITS 4 /* of the number of buckets of an empty table */
#define XD_HASH_BITS 24	     /* of the largest number of buckets */
#define XD_HASH_KEY_WORDS 2  /* at most */
#define XD_HASH_TRIES 64     /* without the lock */

struct xd_hash_node {
	struct xd_hash_node *next;
	uint64_t word[]; /* key, value */
};

struct xd_hash_bucket {
	struct xd_hash_node *head;
	uint64_t left; /* nodes that have left it */
};

struct xd_hash_chunk;

struct xd_hash {
	uint32_t buckets;
	/* part 0: 2^FIRST_BITS buckets; each other part: as many as all before it */
	struct xd_hash_bucket *part[XD_HASH_BITS - XD_HASH_FIRST_BITS + 1];
	uint64_t seed[1 + 2 * XD_HASH_KEY_WORDS];

	/* for writers */
	pthread_mutex_t lock;
	uint32_t key_words, value_words;
	uint32_t used; /* entries */
	struct xd_hash_node *free;
	uint32_t free_count, chunk_nodes;
	struct xd_hash_chunk *chunks;
};

/* Returns 0 or a negative error; xd_hash_free() is to be called in both cases. */
int xd_hash_init(struct xd_hash *h, uint32_t key_words, uint32_t value_words);
void xd_hash_free(struct xd_hash *h);
/* Adds or replaces an entry. -ENOMEM only if the key is new */
int xd_hash_set(struct xd_hash *h, const uint64_t *key, const uint64_t *value);
void xd_hash_del(struct xd_hash *h, const uint64_t *key);
/* Like xd_hash_find(), under the lock. */
bool xd_hash_find_locked(struct xd_hash *h, const uint64_t *key, uint64_t *value);

/*
 * Multiplied by a secret seed, so that clients, who keep those of their keys that they like, cannot
 * make chains long. Then mixed: without that, some seeds make long chains of keys with regular
 * distances.
 */
static __always_inline uint32_t xd_hash_of(const struct xd_hash *h, const uint64_t *key,
					   uint32_t key_words)
{
	uint64_t sum = h->seed[0];

	for (uint32_t i = 0; i < key_words; i++) {
		sum += h->seed[1 + 2 * i] * (uint32_t)key[i];
		sum += h->seed[2 + 2 * i] * (key[i] >> 32);
	}
	sum ^= sum >> 32;
	return (uint32_t)(sum * 0x9e3779b97f4a7c15ull >> 32);
}

/* Returns the bucket of a hash value in a table of n buckets. */
static __always_inline struct xd_hash_bucket *xd_hash_bucket(const struct xd_hash *h, uint32_t hash,
							     uint32_t n)
{
	uint32_t mask = UINT32_MAX >> __builtin_clz(n), i = hash & mask, bits;

	if (i >= n)
		i &= mask >> 1;
	if (i < 1u << XD_HASH_FIRST_BITS)
		return &h->part[0][i];
	bits = 31 - (uint32_t)__builtin_clz(i);
	return &h->part[bits - XD_HASH_FIRST_BITS + 1][i - (1u << bits)];
}

static inline uint64_t xd_hash_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Searches a chain as long as no node leaves its bucket. Returns NULL if the key was not found. */
static __always_inline const struct xd_hash_node *
xd_hash_search(const struct xd_hash_bucket *bucket, uint64_t left, const uint64_t *key,
	       uint32_t key_words)
{
	const struct xd_hash_node *n = __atomic_load_n(&bucket->head, __ATOMIC_ACQUIRE);

	while (n) {
		uint64_t differ = 0;

		for (uint32_t i = 0; i < key_words; i++)
			differ |= xd_hash_word(&n->word[i]) ^ key[i];
		if (!differ)
			return n;
		n = __atomic_load_n(&n->next, __ATOMIC_ACQUIRE);
		if (xd_hash_word(&bucket->left) != left)
			return NULL;
	}
	return NULL;
}

/*
 * Copies the value of a key. Returns false if there is none. key_words and value_words: as in
 * xd_hash_init()
 */
static __always_inline bool xd_hash_find(struct xd_hash *h, const uint64_t *key, uint32_t key_words,
					 uint64_t *value, uint32_t value_words)
{
	uint32_t hash = xd_hash_of(h, key, key_words);

	for (int i = 0; i < XD_HASH_TRIES; i++) {
		uint32_t buckets = __atomic_load_n(&h->buckets, __ATOMIC_ACQUIRE);
		const struct xd_hash_bucket *b = xd_hash_bucket(h, hash, buckets);
		uint64_t left = xd_hash_word(&b->left);
		const struct xd_hash_node *n = xd_hash_search(b, left, key, key_words);

		for (uint32_t w = 0; n && w < value_words; w++)
			value[w] = xd_hash_word(&n->word[key_words + w]);
		if (xd_hash_word(&b->left) == left &&
		    __atomic_load_n(&h->buckets, __ATOMIC_ACQUIRE) == buckets)
			return n;
	}
	return xd_hash_find_locked(h, key, value);
}

#endif /* XD_HASH_H */
