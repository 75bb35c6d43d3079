// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Numbers of QPs and SRQs in packets, see transport.h. */
#include <stdlib.h>

#include "permute.h"
#include "slots.h"
#include "daemon/transport/transport.h"

#define MIN_FREED 256
#define MAX_SLOTS (1u << 22) /* at least four generations in 24 bits */
/* Slots that are tried for a number of the rest that is wanted */
#define MOST_TRIED 512
#define NO_NUMBER UINT32_MAX

struct number {
	struct xt_slot slot;
	uint32_t number;
	uint32_t generation; /* of the next number */
	void *item;
};

struct xt_numbers {
	struct xt_slots slots;
	struct xt_permutation order;
	uint32_t bits; /* low bits of a number before its permutation that are its slot */
	uint32_t gsi;  /* slot of the item with number XR_GSI_QPN; XT_NO_SLOT: none; atomic */
	/*
	 * Taken slots that had no number of a rest, linked by next_free: they are tried again when
	 * no other is left. In the queue of free slots they would be tried before unused ones.
	 */
	uint32_t passed;
};

struct xt_numbers *xt_numbers_new(uint32_t max, uint64_t seed)
{
	struct xt_numbers *t = calloc(1, sizeof(*t));
	uint32_t end = max < MAX_SLOTS ? max : MAX_SLOTS;

	if (!t)
		return NULL;
	if (xt_slots_init(&t->slots, sizeof(struct number), 0, end, MIN_FREED)) {
		free(t);
		return NULL;
	}
	while (1u << t->bits < end)
		t->bits++;
	xt_permutation_init(&t->order, seed);
	t->gsi = t->passed = XT_NO_SLOT;
	return t;
}

void xt_numbers_free(struct xt_numbers *t)
{
	if (!t)
		return;
	xt_slots_destroy(&t->slots);
	free(t);
}

static uint32_t numbers_slot_of(const struct xt_numbers *t, uint32_t number)
{
	if (number == XR_GSI_QPN)
		return __atomic_load_n(&t->gsi, __ATOMIC_RELAXED);
	return xt_unpermute(&t->order, number & XR_QPN_MASK) & ((1u << t->bits) - 1);
}

static struct number *number_at(const struct xt_numbers *t, uint32_t slot, uint32_t number)
{
	struct number *n = xt_slots_used(&t->slots, slot);

	return n && n->number == number ? n : NULL;
}

/* As xt_keys_by_index() */
static struct number *numbers_find(const struct xt_numbers *t, uint32_t number)
{
	static __thread uint32_t recent[XT_RECENT];
	uint32_t *slot = &recent[number % XT_RECENT];
	struct number *n = number_at(t, *slot, number);

	if (__builtin_expect(n != NULL, true))
		return n;
	*slot = numbers_slot_of(t, number);
	return number_at(t, *slot, number);
}

void *xt_numbers_get(struct xt_numbers *t, uint32_t number)
{
	struct number *n = numbers_find(t, number);

	return n ? __atomic_load_n(&n->item, __ATOMIC_RELAXED) : NULL;
}

/*
 * Generations give a slot numbers of many rests: one is found after `modulus` attempts on average.
 * Returns 0 if no generation of the slot has one, which happens if there are not many more
 * generations than rests.
 */
static uint32_t next_number(const struct xt_numbers *t, struct number *n, uint32_t slot,
			    uint32_t modulus, uint32_t rest)
{
	uint32_t generations = 1u << (XT_PERMUTE_BITS - t->bits), number;

	for (uint32_t i = 0; i < generations; i++) {
		number = xt_permute(&t->order, (n->generation++ << t->bits | slot) & XR_QPN_MASK);
		if (number >= 2 && number != XR_MULTICAST_QPN &&
		    (!modulus || number % modulus == rest))
			return number;
	}
	return 0;
}

int xt_numbers_prepare(struct xt_numbers *t)
{
	return xt_slots_prepare(&t->slots);
}

static void pass_over(struct xt_numbers *t, uint32_t slot)
{
	struct number *n = xt_slots_at(&t->slots, slot);

	n->number = NO_NUMBER;
	n->slot.next_free = t->passed;
	t->passed = slot;
}

static uint32_t take_slot(struct xt_numbers *t)
{
	uint32_t slot = xt_slots_reserve(&t->slots), next;

	if (slot != XT_NO_SLOT || t->passed == XT_NO_SLOT)
		return slot;
	for (slot = t->passed; slot != XT_NO_SLOT; slot = next) {
		next = ((struct xt_slot *)xt_slots_at(&t->slots, slot))->next_free;
		xt_slots_release(&t->slots, slot);
	}
	t->passed = XT_NO_SLOT;
	return xt_slots_reserve(&t->slots);
}

/* The number cannot be looked up yet. */
static bool numbers_reserve(struct xt_numbers *t, void *item, uint32_t modulus, uint32_t rest,
			    uint32_t *slot, uint32_t *number)
{
	struct number *n;

	for (uint32_t i = 0; i < MOST_TRIED; i++) {
		*slot = take_slot(t);
		if (*slot == XT_NO_SLOT)
			return false;
		n = xt_slots_at(&t->slots, *slot);
		*number = next_number(t, n, *slot, modulus, rest);
		if (*number) {
			n->number = *number;
			n->item = item;
			return true;
		}
		pass_over(t, *slot);
	}
	return false;
}

bool xt_numbers_add_of(struct xt_numbers *t, void *item, uint32_t modulus, uint32_t rest,
		       uint32_t *slot, uint32_t *number)
{
	if (!numbers_reserve(t, item, modulus, rest, slot, number))
		return false;
	xt_slots_publish(&t->slots, *slot);
	return true;
}

bool xt_numbers_add_gsi(struct xt_numbers *t, void *item, uint32_t *slot)
{
	struct number *n;
	uint32_t number;

	if (t->gsi != XT_NO_SLOT || !numbers_reserve(t, item, 0, 0, slot, &number))
		return false;
	n = xt_slots_at(&t->slots, *slot);
	n->number = XR_GSI_QPN;
	xt_slots_publish(&t->slots, *slot);
	__atomic_store_n(&t->gsi, *slot, __ATOMIC_RELEASE);
	return true;
}

void xt_numbers_del(struct xt_numbers *t, uint32_t number)
{
	struct number *n = numbers_find(t, number);

	if (!n)
		return;
	__atomic_store_n(&n->item, NULL, __ATOMIC_RELAXED);
	xt_slots_release(&t->slots, numbers_slot_of(t, number));
	if (number == XR_GSI_QPN)
		__atomic_store_n(&t->gsi, XT_NO_SLOT, __ATOMIC_RELAXED);
}
