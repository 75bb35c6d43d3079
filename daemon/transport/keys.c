// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdbool.h>
#include <stdlib.h>

#include "keys.h"

/*
 * Slots live in chunks that are added when needed and never move, so that
 * pointers to keys stay valid. A freed index goes to the end of the free queue,
 * and the queue is touched only when it is long or nothing fresh is left: a
 * stale key must survive many other reuses before its index comes back, and
 * 256 of those before its variant does.
 */
#define CHUNK_SLOTS 1024
#define QUARANTINE 1024
#define MAX_INDEX 0xffffffu /* 24 bits */

struct slot {
	struct xt_key key;
	uint32_t next_free; /* index, 0 ends the queue */
	bool used;
};

struct xt_keys {
	uint32_t max;	/* highest index */
	uint32_t fresh; /* lowest index never given out */
	uint32_t free_head, free_tail, free_count;
	struct slot **chunk;
};

static struct slot *slot_at(struct xt_keys *keys, uint32_t index)
{
	return &keys->chunk[index / CHUNK_SLOTS][index % CHUNK_SLOTS];
}

struct xt_keys *xt_keys_new(uint32_t max)
{
	struct xt_keys *keys = calloc(1, sizeof(*keys));

	if (!keys)
		return NULL;
	keys->max = max < MAX_INDEX ? max : MAX_INDEX;
	keys->fresh = 1;
	keys->chunk = calloc(keys->max / CHUNK_SLOTS + 1, sizeof(*keys->chunk));
	if (!keys->chunk) {
		free(keys);
		return NULL;
	}
	return keys;
}

void xt_keys_free(struct xt_keys *keys)
{
	uint32_t i;

	if (!keys)
		return;
	for (i = 0; i <= keys->max / CHUNK_SLOTS; i++)
		free(keys->chunk[i]);
	free(keys->chunk);
	free(keys);
}

static struct slot *take_fresh(struct xt_keys *keys)
{
	struct slot **chunk = &keys->chunk[keys->fresh / CHUNK_SLOTS];
	struct slot *slot;

	if (!*chunk)
		*chunk = calloc(CHUNK_SLOTS, sizeof(**chunk));
	if (!*chunk)
		return NULL;
	slot = slot_at(keys, keys->fresh);
	slot->key.index = keys->fresh++;
	return slot;
}

static struct slot *take_freed(struct xt_keys *keys)
{
	struct slot *slot;

	if (!keys->free_head)
		return NULL;
	slot = slot_at(keys, keys->free_head);
	keys->free_head = slot->next_free;
	keys->free_count--;
	return slot;
}

struct xt_key *xt_keys_alloc(struct xt_keys *keys)
{
	bool fresh = keys->fresh <= keys->max && keys->free_count < QUARANTINE;
	struct slot *slot = fresh ? take_fresh(keys) : NULL;

	if (!slot)
		slot = take_freed(keys);
	if (!slot)
		return NULL;
	slot->used = true;
	return &slot->key;
}

void xt_keys_release(struct xt_keys *keys, struct xt_key *key)
{
	struct slot *slot = (struct slot *)key;

	if (!key || !slot->used)
		return;
	slot->used = false;
	key->entry = (struct xr_key_entry){ .variant = key->entry.variant + 1 };
	key->windows = key->parent = key->next = key->prev = 0;
	key->base = 0;
	key->mem = NULL;
	key->pages = NULL;
	key->max_pages = 0;
	slot->next_free = 0;
	if (keys->free_head)
		slot_at(keys, keys->free_tail)->next_free = key->index;
	else
		keys->free_head = key->index;
	keys->free_tail = key->index;
	keys->free_count++;
}

struct xt_key *xt_keys_by_index(struct xt_keys *keys, uint32_t index)
{
	struct slot *slot;

	if (!index || index >= keys->fresh)
		return NULL;
	slot = slot_at(keys, index);
	return slot->used ? &slot->key : NULL;
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
	/* the daemon never makes a key without memory valid; refuse it if it did */
	if (!k->mem)
		return XR_KEY_STATE;
	*mem = k->mem;
	*off = k->base + (use->va - k->entry.va);
	return XR_OK;
}
