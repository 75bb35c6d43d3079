/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table of slots, addressed by index. Slots are allocated in chunks that never move, so that
 * pointers to slots stay valid. Freed slots queue up: a slot is reused only after many others were
 * freed, or if no unused slot is left, so that stale indices do not match soon.
 *
 * One thread changes the table, others may look up slots meanwhile: a slot is filled between
 * xt_slots_reserve() and xt_slots_publish(). It is freed by xt_slots_withdraw(), and by
 * xt_slots_release() when no thread uses it any more; or by the latter alone, if none is reserved
 * before that.
 */
#ifndef XT_SLOTS_H
#define XT_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XT_SLOTS_PER_CHUNK 128
#define XT_NO_SLOT UINT32_MAX

/* First member of each slot */
struct xt_slot {
	uint32_t next_free; /* index, XT_NO_SLOT: end of the queue */
	bool used;	    /* can be looked up; atomic */
};

struct xt_slots {
	size_t size;	    /* bytes of a slot */
	uint32_t end;	    /* indices are below this one */
	uint32_t fresh;	    /* lowest index never used; atomic */
	uint32_t min_freed; /* freed slots that are kept back while unused ones are left */
	uint32_t free_head, free_tail, free_count;
	uint8_t **chunk;
};

/* Indices are in [first, end). Returns 0 or -ENOMEM. */
int xt_slots_init(struct xt_slots *t, size_t size, uint32_t first, uint32_t end,
		  uint32_t min_freed);
void xt_slots_destroy(struct xt_slots *t);

/*
 * Allocates memory, so that the next xt_slots_reserve() does not. Other threads may look up slots
 * meanwhile. Returns 0 or -ENOMEM.
 */
int xt_slots_prepare(struct xt_slots *t);
/* Returns the index of a slot that cannot be looked up yet, or XT_NO_SLOT. New slots are zeroed. */
uint32_t xt_slots_reserve(struct xt_slots *t);
/* From now on the slot, which must be reserved, can be looked up. */
void xt_slots_publish(struct xt_slots *t, uint32_t index);
/* From now on it cannot be looked up. */
void xt_slots_withdraw(struct xt_slots *t, uint32_t index);
/* Withdraws the slot, and allows that it is reserved again. */
void xt_slots_release(struct xt_slots *t, uint32_t index);

/* The index must have been returned by xt_slots_reserve() before. */
static inline void *xt_slots_at(const struct xt_slots *t, uint32_t index)
{
	return t->chunk[index / XT_SLOTS_PER_CHUNK] + index % XT_SLOTS_PER_CHUNK * t->size;
}

/* Returns the slot, or NULL if it is not used. Any index is allowed. */
static inline void *xt_slots_used(const struct xt_slots *t, uint32_t index)
{
	struct xt_slot *slot;

	if (index >= __atomic_load_n(&t->fresh, __ATOMIC_ACQUIRE) ||
	    !__atomic_load_n(&t->chunk[index / XT_SLOTS_PER_CHUNK], __ATOMIC_RELAXED))
		return NULL;
	slot = xt_slots_at(t, index);
	return __atomic_load_n(&slot->used, __ATOMIC_ACQUIRE) ? slot : NULL;
}

#endif /* XT_SLOTS_H */
