// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "slots.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t chunks_of(const struct xt_slots *t)
{
	return t->end / XT_SLOTS_PER_CHUNK + 1;
}

int xt_slots_init(struct xt_slots *t, size_t size, uint32_t first, uint32_t end, uint32_t min_freed)
{
	*t = (struct xt_slots){
		.size = size,
		.end = end,
		.fresh = first,
		.min_freed = min_freed,
		.free_head = XT_NO_SLOT,
		.free_tail = XT_NO_SLOT,
	};
	t->chunk = calloc(chunks_of(t), sizeof(*t->chunk));
	return t->chunk ? 0 : -ENOMEM;
}

void xt_slots_destroy(struct xt_slots *t)
{
	uint32_t i;

	for (i = 0; t->chunk && i < chunks_of(t); i++)
		free(t->chunk[i]);
	free(t->chunk);
	t->chunk = NULL;
}

int xt_slots_prepare(struct xt_slots *t)
{
	uint8_t **chunk = &t->chunk[t->fresh / XT_SLOTS_PER_CHUNK], *new;
	uint32_t i;

	if (t->fresh >= t->end || *chunk)
		return 0;
	new = calloc(XT_SLOTS_PER_CHUNK, t->size);
	if (!new)
		return -ENOMEM;
	/* the first write to a page takes a page fault */
	for (i = 0; i < XT_SLOTS_PER_CHUNK; i++)
		((struct xt_slot *)(new + i * t->size))->next_free = XT_NO_SLOT;
	__atomic_store_n(chunk, new, __ATOMIC_RELEASE);
	return 0;
}

static uint32_t take_fresh(struct xt_slots *t)
{
	if (t->fresh >= t->end || xt_slots_prepare(t))
		return XT_NO_SLOT;
	__atomic_store_n(&t->fresh, t->fresh + 1, __ATOMIC_RELEASE);
	return t->fresh - 1;
}

static uint32_t slots_take_freed(struct xt_slots *t)
{
	uint32_t index = t->free_head;
	struct xt_slot *slot;

	if (index == XT_NO_SLOT)
		return index;
	slot = xt_slots_at(t, index);
	t->free_head = slot->next_free;
	t->free_count--;
	return index;
}

uint32_t xt_slots_reserve(struct xt_slots *t)
{
	uint32_t index = t->free_count < t->min_freed ? take_fresh(t) : XT_NO_SLOT;

	if (index == XT_NO_SLOT)
		index = slots_take_freed(t);
	return index == XT_NO_SLOT ? take_fresh(t) : index;
}

void xt_slots_publish(struct xt_slots *t, uint32_t index)
{
	struct xt_slot *slot = xt_slots_at(t, index);

	__atomic_store_n(&slot->used, true, __ATOMIC_RELEASE);
}

void xt_slots_withdraw(struct xt_slots *t, uint32_t index)
{
	struct xt_slot *slot = xt_slots_at(t, index);

	__atomic_store_n(&slot->used, false, __ATOMIC_SEQ_CST);
}

void xt_slots_release(struct xt_slots *t, uint32_t index)
{
	struct xt_slot *slot = xt_slots_at(t, index), *tail;

	xt_slots_withdraw(t, index);
	slot->next_free = XT_NO_SLOT;
	if (t->free_head == XT_NO_SLOT) {
		t->free_head = index;
	} else {
		tail = xt_slots_at(t, t->free_tail);
		tail->next_free = index;
	}
	t->free_tail = index;
	t->free_count++;
}
