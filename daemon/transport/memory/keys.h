/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The key table, which decides what an L_Key or R_Key allows.
 *
 * A key is index << 8 | variant. The index is a slot and a generation, in a random order
 * (permute.h); index 0 is never allocated. The first variant of a slot is random. Each reuse of a
 * slot changes generation and variant, and the slot released first is reused first, so that a stale
 * key is refused for as long as possible.
 *
 * Rules: IBTA 10.6.3 (keys), 10.7.3 (access checks), 9.4.1 (remote access).
 */
#ifndef XT_KEYS_H
#define XT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/key_check.h>
#include <xroce/reason.h>
#include <xroce/tables.h>

#include "memory.h"
#include "usage.h"

struct xt_keys;

/*
 * A region or window. BPF maps mirror `entry`.
 *
 * One thread, which is not that of an engine, reserves a key, fills it and publishes it. To free
 * it, the thread withdraws it, waits until the rounds have ended in which engines may have looked
 * it up (daemon/datapath/grace.h), and releases it. Meanwhile, engines look up keys, and work
 * requests change them (key_wr.c): the other fields are valid only in state XR_KEY_VALID.
 */
struct xt_key {
	uint32_t index;
	uint32_t generation; /* times that the slot was reserved; atomic */
	uint32_t place;	     /* number of the slot */
	struct xr_key_entry entry;
	uint32_t windows;	    /* regions: number of windows bound to it; atomic */
	struct xt_key *parent;	    /* windows: the region, NULL: not bound */
	struct xt_key *next, *prev; /* bound windows of type 2: list of the QP */
	uint64_t base;		    /* offset of entry.va in mem */
	struct xt_mem *mem;	    /* owned by the daemon; of a window: the region's */
	void *owner;		    /* the object of the daemon or the host; NULL: none */
	/*
	 * Regions for fast registration: XR_FAST_LISTS page lists of max_pages entries, which the
	 * client writes. mem has room for max_pages segments, piece for half as many pieces.
	 */
	const uint64_t *pages;
	uint32_t max_pages;
	struct xt_mem_piece *piece;
	/* for tools: uses that were refused; of the last one, time and QP. Atomic, one by one */
	struct xt_refused {
		uint64_t at; /* engine's clock */
		uint32_t count;
		uint32_t qpn;
		uint32_t why; /* enum xr_reason */
	} refused;
	struct xt_usage usage; /* totals of a region, see usage.h. Atomic, one by one */
};

/* max: entries; memory grows with use. seed: of the random order */
struct xt_keys *xt_keys_new(uint32_t max, uint64_t seed);
void xt_keys_free(struct xt_keys *keys);

/*
 * Returns a key in state XR_KEY_FREE that cannot be looked up yet; NULL: the table is full or out
 * of memory.
 */
struct xt_key *xt_keys_reserve(struct xt_keys *keys);
/* From now on the key, which must be reserved, can be looked up. */
void xt_keys_publish(struct xt_keys *keys, struct xt_key *key);
/*
 * From now on the key cannot be looked up. Engines that have looked it up may use it until their
 * rounds end.
 */
void xt_keys_withdraw(struct xt_keys *keys, struct xt_key *key);
/* The same unless windows are bound to the key: returns false then. */
bool xt_keys_withdraw_unbound(struct xt_keys *keys, struct xt_key *key);
/* The key may be reserved again. Nobody uses it any more. */
void xt_keys_release(struct xt_keys *keys, struct xt_key *key);
/* Both steps at once, for hosts whose only engine does not run meanwhile */
struct xt_key *xt_keys_alloc(struct xt_keys *keys);
static inline uint32_t xt_key_value(const struct xt_key *key)
{
	return XR_KEY(key->index, __atomic_load_n(&key->entry.variant, __ATOMIC_RELAXED));
}
/*
 * Copies a key that work requests may change meanwhile. Returns false if one is changing it: the
 * copy has no meaning then.
 */
bool xt_keys_copy(const struct xt_key *key, struct xt_key *copy);
/* Returns the key of an index, in any state; NULL: there is none. Valid for the rest of a round. */
struct xt_key *xt_keys_by_index(struct xt_keys *keys, uint32_t index);

/*
 * Checks the use of a key (xr_key_check()). Returns XR_OK and sets *mem and *off to the memory that
 * the access starts at, or returns the reason, one of XR_KEY_*. An access of length 0 is always
 * allowed (IBTA 9.7.4.1.4) and sets *mem to NULL.
 */
enum xr_reason xt_keys_check(struct xt_keys *keys, const struct xr_key_use *use,
			     struct xt_mem **mem, uint64_t *off);
/* Notes for tools that a use was refused, if its key has an entry. */
void xt_keys_note(struct xt_keys *keys, const struct xr_key_use *use, enum xr_reason why,
		  uint64_t now);

#endif /* XT_KEYS_H */
