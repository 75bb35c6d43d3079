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

/* [va, va + len) inside of the region; va + len may be beyond 2^64 */
static bool in_range(const struct xr_key_entry *e, uint64_t va, uint64_t len)
{
	uint64_t off = va - e->va;

	return va >= e->va && off <= e->length && len <= e->length - off;
}

static enum xr_reason check_entry(const struct xr_key_entry *e, uint32_t key, uint32_t pd,
				  uint32_t qpn, uint32_t access, uint64_t va, uint64_t len)
{
	/* first: another engine may be changing the rest, then whatever is found there is no matter */
	bool valid = __atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == XR_KEY_VALID;

	if (e->variant != XR_KEY_VARIANT(key))
		return XR_KEY_VARIANT;
	if (!valid || (e->qpn && e->qpn != qpn))
		return XR_KEY_STATE;
	if (e->pd != pd)
		return XR_KEY_PD;
	/* windows are for peers: IBTA 10.6.7.1 */
	if (access & ~e->access || (e->type == XR_KEY_MW && !(access & XR_ACCESS_REMOTE)))
		return XR_KEY_ACCESS;
	return in_range(e, va, len) ? XR_OK : XR_KEY_RANGE;
}

enum xr_reason xt_keys_check(struct xt_keys *keys, uint32_t key, uint32_t pd, uint32_t qpn,
			     uint32_t access, uint64_t va, uint64_t len, struct xt_mem **mem,
			     uint64_t *off)
{
	struct xt_key *k;
	enum xr_reason why;

	*mem = NULL;
	*off = 0;
	if (!len)
		return XR_OK;
	k = xt_keys_by_index(keys, XR_KEY_INDEX(key));
	if (!k)
		return XR_KEY_INDEX;
	why = check_entry(&k->entry, key, pd, qpn, access, va, len);
	if (why != XR_OK)
		return why;
	/* a valid key that no memory stands behind is a bug above; refuse it */
	if (!k->mem)
		return XR_KEY_STATE;
	*mem = k->mem;
	*off = k->base + (va - k->entry.va);
	return XR_OK;
}
