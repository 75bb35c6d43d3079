// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>

#include "keys.h"
#include "daemon/transport/base/permute.h"
#include "daemon/transport/base/slots.h"

/*
 * Freed slots to keep back (slots.h). A stale key is refused until its slot was reused 256 times.
 */
#define MIN_FREED 1024
#define MAX_INDEX 0xffffffu /* 24 bits */

struct key_slot {
	struct xt_slot slot;
	bool reserved;
	struct xt_key key;
};

struct xt_keys {
	struct xt_slots slots;
	struct xt_permutation order;
	uint64_t seed;
	uint32_t bits; /* low bits of an index before its permutation that are its slot */
};

struct xt_keys *xt_keys_new(uint32_t max, uint64_t seed)
{
	struct xt_keys *keys = calloc(1, sizeof(*keys));
	uint32_t end = max < MAX_INDEX ? max + 1 : MAX_INDEX + 1;

	if (!keys)
		return NULL;
	if (xt_slots_init(&keys->slots, sizeof(struct key_slot), 1, end, MIN_FREED)) {
		free(keys);
		return NULL;
	}
	while (1u << keys->bits < end)
		keys->bits++;
	keys->seed = seed;
	xt_permutation_init(&keys->order, seed);
	return keys;
}

void xt_keys_free(struct xt_keys *keys)
{
	if (!keys)
		return;
	xt_slots_destroy(&keys->slots);
	free(keys);
}

static uint32_t keys_slot_of(const struct xt_keys *keys, uint32_t index)
{
	return xt_unpermute(&keys->order, index & MAX_INDEX) & ((1u << keys->bits) - 1);
}

/* Engines may still add what they have counted for an earlier key of the slot, see usage.c. */
static void reset_usage(struct xt_key *key)
{
	for (uint32_t i = 0; i < XT_USES; i++) {
		__atomic_store_n(&key->usage.of[i].count, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&key->usage.of[i].bytes, 0, __ATOMIC_RELAXED);
	}
}

struct xt_key *xt_keys_reserve(struct xt_keys *keys)
{
	uint32_t at = xt_slots_reserve(&keys->slots), generation;
	struct key_slot *slot;

	if (at == XT_NO_SLOT)
		return NULL;
	slot = xt_slots_at(&keys->slots, at);
	if (!slot->key.index)
		slot->key.entry.variant = (uint8_t)xt_mix(keys->seed + at);
	slot->reserved = true;
	slot->key.place = at;
	generation = slot->key.generation;
	slot->key.index = xt_permute(&keys->order, (generation << keys->bits | at) & MAX_INDEX);
	__atomic_store_n(&slot->key.generation, generation + 1, __ATOMIC_RELAXED);
	reset_usage(&slot->key);
	return &slot->key;
}

void xt_keys_publish(struct xt_keys *keys, struct xt_key *key)
{
	xt_slots_publish(&keys->slots, key->place);
}

struct xt_key *xt_keys_alloc(struct xt_keys *keys)
{
	struct xt_key *key = xt_keys_reserve(keys);

	if (key)
		xt_keys_publish(keys, key);
	return key;
}

void xt_keys_withdraw(struct xt_keys *keys, struct xt_key *key)
{
	xt_slots_withdraw(&keys->slots, key->place);
}

/* A bind takes its reference before it checks that the key is still published (key_wr.c). */
bool xt_keys_withdraw_unbound(struct xt_keys *keys, struct xt_key *key)
{
	if (__atomic_load_n(&key->windows, __ATOMIC_SEQ_CST))
		return false;
	xt_keys_withdraw(keys, key);
	if (!__atomic_load_n(&key->windows, __ATOMIC_SEQ_CST))
		return true;
	xt_keys_publish(keys, key);
	return false;
}

void xt_keys_release(struct xt_keys *keys, struct xt_key *key)
{
	struct key_slot *slot = key ? xt_slots_at(&keys->slots, key->place) : NULL;

	if (!slot || !slot->reserved)
		return;
	slot->reserved = false;
	key->entry = (struct xr_key_entry){ .variant = key->entry.variant + 1 };
	key->windows = key->max_pages = 0;
	key->parent = key->next = key->prev = NULL;
	key->base = 0;
	key->mem = NULL;
	key->owner = NULL;
	key->pages = NULL;
	key->piece = NULL;
	key->refused = (struct xt_refused){ 0 };
	xt_slots_release(&keys->slots, key->place);
}

/* Returns NULL if the slot is not that of the index. */
static struct xt_key *key_at(struct xt_keys *keys, uint32_t at, uint32_t index)
{
	struct key_slot *slot = xt_slots_used(&keys->slots, at);

	return slot && slot->key.index == index ? &slot->key : NULL;
}

/* A work request that binds a window or registers memory gives the key another variant. */
bool xt_keys_copy(const struct xt_key *key, struct xt_key *copy)
{
	uint8_t state = __atomic_load_n(&key->entry.state, __ATOMIC_ACQUIRE);

	*copy = *key;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return state != XR_KEY_INVALID &&
	       state == __atomic_load_n(&key->entry.state, __ATOMIC_RELAXED) &&
	       xt_key_value(copy) == xt_key_value(key);
}

/* Tries the slot of the index that this thread looked up last of those with the same low bits. */
struct xt_key *xt_keys_by_index(struct xt_keys *keys, uint32_t index)
{
	static __thread uint32_t recent[XT_RECENT];
	uint32_t *at = &recent[index % XT_RECENT];
	struct xt_key *key = key_at(keys, *at, index);

	if (__builtin_expect(key != NULL, true) || !index)
		return index ? key : NULL;
	*at = keys_slot_of(keys, index);
	return key_at(keys, *at, index);
}

enum xr_reason xt_keys_check(struct xt_keys *keys, const struct xr_key_use *use,
			     struct xt_mem **mem, uint64_t *off)
{
	struct xt_key *k;
	enum xr_reason why;

	*mem = NULL;
	*off = 0;
	if (!use->len)
		return XR_OK;
	k = xt_keys_by_index(keys, XR_KEY_INDEX(use->key));
	if (!k)
		return XR_KEY_INDEX;
	why = xr_key_check(&k->entry, use);
	if (why != XR_OK)
		return why;
	/* a valid key always has memory; checked as a safeguard against errors in the daemon */
	if (!k->mem)
		return XR_KEY_STATE;
	*mem = k->mem;
	*off = k->base + (use->va - k->entry.va);
	return XR_OK;
}

void xt_keys_note(struct xt_keys *keys, const struct xr_key_use *use, enum xr_reason why,
		  uint64_t now)
{
	struct xt_key *k = xt_keys_by_index(keys, XR_KEY_INDEX(use->key));

	if (!k)
		return;
	__atomic_add_fetch(&k->refused.count, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&k->refused.at, now, __ATOMIC_RELAXED);
	__atomic_store_n(&k->refused.qpn, use->qpn, __ATOMIC_RELAXED);
	__atomic_store_n(&k->refused.why, (uint32_t)why, __ATOMIC_RELAXED);
}
