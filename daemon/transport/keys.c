// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>

#include "keys.h"
#include "slots.h"

/*
 * Freed indices to keep back (slots.h). A stale key is refused until its index was reused 256
 * times.
 */
#define MIN_FREED 1024
#define MAX_INDEX 0xffffffu /* 24 bits */

struct key_slot {
	struct xt_slot slot;
	struct xt_key key;
};

struct xt_keys {
	struct xt_slots slots;
};

struct xt_keys *xt_keys_new(uint32_t max)
{
	struct xt_keys *keys = calloc(1, sizeof(*keys));
	uint32_t end = max < MAX_INDEX ? max + 1 : MAX_INDEX + 1;

	if (keys && xt_slots_init(&keys->slots, sizeof(struct key_slot), 1, end, MIN_FREED)) {
		free(keys);
		return NULL;
	}
	return keys;
}

void xt_keys_free(struct xt_keys *keys)
{
	if (!keys)
		return;
	xt_slots_destroy(&keys->slots);
	free(keys);
}

struct xt_key *xt_keys_alloc(struct xt_keys *keys)
{
	uint32_t index = xt_slots_take(&keys->slots);
	struct key_slot *slot;

	if (index == XT_NO_SLOT)
		return NULL;
	slot = xt_slots_at(&keys->slots, index);
	slot->key.index = index;
	return &slot->key;
}

void xt_keys_release(struct xt_keys *keys, struct xt_key *key)
{
	if (!key || !xt_keys_by_index(keys, key->index))
		return;
	*key = (struct xt_key){
		.index = key->index,
		.entry.variant = key->entry.variant + 1,
	};
	xt_slots_release(&keys->slots, key->index);
}

struct xt_key *xt_keys_by_index(struct xt_keys *keys, uint32_t index)
{
	struct key_slot *slot = index ? xt_slots_used(&keys->slots, index) : NULL;

	return slot ? &slot->key : NULL;
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
