// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The hash table that is read without a lock: against a model; with changes between any two loads
 * of a reader; with readers in threads while the table grows and changes. Each value is made from
 * its key and a version, so a reader detects a value of another key, or parts of two values.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Each load of xd_hash_find() calls before_load() first. */
static void before_load(void);
#define __atomic_load_n(at, order) (before_load(), __atomic_load_n(at, order))
#include "daemon/io/hash.h"
#undef __atomic_load_n
#include "selftests/lib/tap.h"

#define VALUE_WORDS 7

static void make_value(uint64_t *value, uint64_t key, uint32_t version)
{
	for (uint32_t i = 0; i < VALUE_WORDS; i++)
		value[i] = (key << 32 | version) + i;
}

/* Returns the version of a value, -1 if it is not a value of this key. */
static int64_t version_of(const uint64_t *value, uint64_t key)
{
	uint64_t right[VALUE_WORDS];

	make_value(right, key, (uint32_t)value[0]);
	return memcmp(value, right, sizeof(right)) ? -1 : (int64_t)(uint32_t)value[0];
}

static bool set(struct xd_hash *h, uint64_t key, uint32_t version)
{
	uint64_t value[VALUE_WORDS];

	make_value(value, key, version);
	return !xd_hash_set(h, &key, value);
}

static void del(struct xd_hash *h, uint64_t key)
{
	xd_hash_del(h, &key);
}

#define ABSENT (-2)

/* Returns the version of a key, ABSENT, or -1 if the value is wrong. */
static int64_t find(struct xd_hash *h, uint64_t key)
{
	uint64_t value[VALUE_WORDS];

	if (!xd_hash_find(h, &key, 1, value, VALUE_WORDS))
		return ABSENT;
	return version_of(value, key);
}

/* Returns the length of the longest chain. */
static uint32_t longest_chain(const struct xd_hash *h)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < h->buckets; i++) {
		uint32_t length = 0;

		/* a number below that of the buckets is a hash value of its own bucket */
		for (const struct xd_hash_node *n = xd_hash_bucket(h, i, h->buckets)->head; n;
		     n = n->next)
			length++;
		if (length > longest)
			longest = length;
	}
	return longest;
}

/* ---- one thread --------------------------------------------------------------------------- */

static uint64_t random_state = 88172645463325252ull;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32) % n;
}

#define MODEL_KEYS 4096

static void test_model(void)
{
	static int64_t model[MODEL_KEYS];
	struct xd_hash h;
	bool ok = !xd_hash_init(&h, 1, VALUE_WORDS);

	for (uint32_t i = 0; i < MODEL_KEYS; i++)
		model[i] = ABSENT;
	for (uint32_t i = 0; i < 400000 && ok; i++) {
		uint32_t key = random_below(MODEL_KEYS);

		switch (random_below(4)) {
		case 0:
			ok = set(&h, key, i);
			model[key] = i;
			break;
		case 1:
			del(&h, key);
			model[key] = ABSENT;
			break;
		default:
			ok = find(&h, key) == model[key];
		}
	}
	TAP_OK(ok, "400000 random operations give the results of a model");
	xd_hash_free(&h);
}

static uint32_t chunks_of(const struct xd_hash *h)
{
	struct chunk {
		struct chunk *next;
	} *c = (struct chunk *)h->chunks;
	uint32_t n = 0;

	for (; c; c = c->next)
		n++;
	return n;
}

static void test_growth(void)
{
	uint32_t n = 300000, chunks;
	struct xd_hash h;
	bool ok = !xd_hash_init(&h, 1, VALUE_WORDS);

	for (uint32_t i = 0; i < n && ok; i++)
		ok = set(&h, i * 64, 0);
	for (uint32_t i = 0; i < n && ok; i++)
		ok = find(&h, i * 64) == 0 && find(&h, i * 64 + 1) == ABSENT;
	TAP_OK(ok, "300000 entries: each is found, and no other");
	TAP_OK(h.used == n && h.buckets == n && longest_chain(&h) < 16,
	       "as many buckets as entries; the longest chain has %u", longest_chain(&h));
	chunks = chunks_of(&h);
	for (uint32_t i = 0; i < n && ok; i++)
		ok = set(&h, 64 * (i % 1000), i + 1);
	for (uint32_t i = 0; i < n && ok; i++)
		del(&h, i * 64);
	ok &= !h.used;
	for (uint32_t i = 0; i < n && ok; i++)
		ok = find(&h, i * 64) == ABSENT && set(&h, i, 1);
	TAP_OK(ok && chunks_of(&h) == chunks, "changed and new entries use the memory of old ones");
	xd_hash_free(&h);
}

static void test_two_words(void)
{
	uint64_t key[2], value;
	struct xd_hash h;
	bool ok = !xd_hash_init(&h, 2, 1);

	for (uint64_t i = 0; i < 1000 && ok; i++) {
		key[0] = i << 32;
		key[1] = i * i;
		ok = !xd_hash_set(&h, key, &i);
	}
	for (uint64_t i = 0; i < 1000 && ok; i++) {
		key[0] = i << 32;
		key[1] = i * i;
		ok = xd_hash_find(&h, key, 2, &value, 1) && value == i;
		ok &= xd_hash_find_locked(&h, key, &value) && value == i;
		key[1]++;
		ok &= !xd_hash_find(&h, key, 2, &value, 1);
		ok &= !xd_hash_find_locked(&h, key, &value);
	}
	TAP_OK(ok, "keys of two words");
	xd_hash_free(&h);
}

/* ---- changes between loads ---------------------------------------------------------------- */

#define CONSTANT 64	/* keys that are there all the time, and change */
#define MOVING 300	/* keys that come and go */
#define MISSING 1000000 /* a key that is never there, and those behind it */

static struct {
	struct xd_hash *h; /* to change; NULL: none */
	uint32_t version[CONSTANT];
	uint32_t added; /* of the keys that come and go */
} changes;

static void change(struct xd_hash *h)
{
	uint32_t key = random_below(CONSTANT);

	switch (random_below(4)) {
	case 0:
		set(h, key, ++changes.version[key]);
		break;
	case 1:
		del(h, CONSTANT + random_below(MOVING));
		break;
	default:
		/* one that is likely new, so that the table grows */
		set(h, CONSTANT + changes.added++ % MOVING, 1);
	}
}

static void before_load(void)
{
	struct xd_hash *h = changes.h;

	if (!h || random_below(8))
		return;
	changes.h = NULL;
	for (uint32_t n = 1 + random_below(4); n; n--)
		change(h);
	changes.h = h;
}

/* Returns whether the reader got a value that the key had during the search. */
static bool read_changing(struct xd_hash *h)
{
	uint32_t key = random_below(CONSTANT), first = changes.version[key];
	int64_t version = find(h, key);

	return version >= first && version <= changes.version[key] &&
	       find(h, CONSTANT + random_below(MOVING)) != -1 &&
	       find(h, MISSING + random_below(MOVING)) == ABSENT;
}

static void test_changes(void)
{
	struct xd_hash h;
	bool ok = true;

	for (uint32_t i = 0; i < 300 && ok; i++) {
		ok = !xd_hash_init(&h, 1, VALUE_WORDS);
		memset(&changes, 0, sizeof(changes));
		for (uint32_t key = 0; key < CONSTANT && ok; key++)
			ok = set(&h, key, 0);
		changes.h = &h;
		for (uint32_t n = 0; n < 300 && ok; n++)
			ok = read_changing(&h);
		changes.h = NULL;
		xd_hash_free(&h);
	}
	TAP_OK(ok, "the table changes between any two loads of a reader: it gets a right value");
}

/* ---- threads ------------------------------------------------------------------------------ */

#define READERS 3

struct threads {
	struct xd_hash h;
	bool stop, failed;
	uint64_t found, absent;
};

/* Versions of a key never go back. */
static bool read_round(struct threads *t, int64_t *last, uint32_t round)
{
	uint32_t moving = CONSTANT + round * 7919 % MOVING;
	int64_t version;
	bool ok = true;

	for (uint32_t key = 0; key < CONSTANT && ok; key++) {
		version = find(&t->h, key);
		ok = version >= last[key];
		last[key] = version;
	}
	version = find(&t->h, moving);
	__atomic_fetch_add(version < 0 ? &t->absent : &t->found, 1, __ATOMIC_RELAXED);
	return ok && version != -1 && find(&t->h, MISSING + moving) == ABSENT;
}

static void *reader(void *arg)
{
	int64_t last[CONSTANT] = { 0 };
	struct threads *t = arg;

	for (uint32_t i = 0; !__atomic_load_n(&t->stop, __ATOMIC_RELAXED); i++)
		if (!read_round(t, last, i))
			__atomic_store_n(&t->failed, true, __ATOMIC_RELAXED);
	return NULL;
}

/* Two writers, each with its own keys */
struct writer {
	struct threads *t;
	uint32_t first, step;
};

static void *writer(void *arg)
{
	const struct writer *w = arg;
	struct xd_hash *h = &w->t->h;
	uint32_t version = 0;

	for (uint32_t round = 0; round < 60; round++) {
		for (uint32_t i = w->first; i < MOVING; i += 2) {
			set(h, CONSTANT + i, round);
			if (i % w->step == w->first)
				set(h, (i / 2 * 2 + w->first) % CONSTANT, ++version);
		}
		for (uint32_t i = w->first; i < MOVING; i += 2)
			del(h, CONSTANT + i);
	}
	return NULL;
}

static void test_threads(void)
{
	static struct threads t;
	struct writer writers[2] = { { &t, 0, 2 }, { &t, 1, 3 } };
	pthread_t thread[READERS + 2];
	bool ok = !xd_hash_init(&t.h, 1, VALUE_WORDS);

	for (uint32_t key = 0; key < CONSTANT; key++)
		ok &= set(&t.h, key, 0);
	for (int i = 0; i < READERS; i++)
		pthread_create(&thread[i], NULL, reader, &t);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[READERS + i], NULL, writer, &writers[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[READERS + i], NULL);
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	TAP_OK(ok && !t.failed,
	       "readers beside writers: no entry is missed, and no value is mixed or goes back");
	printf("# of keys that come and go, %llu were found and %llu were not\n",
	       (unsigned long long)t.found, (unsigned long long)t.absent);
	xd_hash_free(&t.h);
}

int main(void)
{
	test_model();
	test_growth();
	test_two_words();
	test_changes();
	test_threads();
	return tap_end();
}
