// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Numbers of QPs and SRQs, as the wire names them. */
#include <stdlib.h>

#include "transport.h"

/*
 * Slots come in chunks that never move. A freed slot waits behind others before
 * it is used again, with the next generation in the high bits of the number.
 */
#define CHUNK_SLOTS 1024
#define QUARANTINE 256
#define MAX_SLOTS (1u << 22) /* four generations at least */
#define NO_SLOT UINT32_MAX

struct slot {
	void *item;
	uint32_t number;
	uint32_t next_free;
	uint32_t generation;
};

struct xt_numbers {
	uint32_t max;
	uint32_t bits;	/* of a number that are the slot */
	uint32_t fresh; /* lowest slot never used */
	uint32_t free_head, free_tail, free_count;
	uint32_t gsi; /* slot of what has the number XR_GSI_QPN */
	struct slot **chunk;
};

static struct slot *slot_at(struct xt_numbers *t, uint32_t slot)
{
	return &t->chunk[slot / CHUNK_SLOTS][slot % CHUNK_SLOTS];
}

struct xt_numbers *xt_numbers_new(uint32_t max)
{
	struct xt_numbers *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->max = max < MAX_SLOTS ? max : MAX_SLOTS;
	while (1u << t->bits < t->max)
		t->bits++;
	t->free_head = t->free_tail = t->gsi = NO_SLOT;
	t->chunk = calloc(t->max / CHUNK_SLOTS + 1, sizeof(*t->chunk));
	if (!t->chunk) {
		free(t);
		return NULL;
	}
	return t;
}

void xt_numbers_free(struct xt_numbers *t)
{
	uint32_t i;

	if (!t)
		return;
	for (i = 0; i <= t->max / CHUNK_SLOTS; i++)
		free(t->chunk[i]);
	free(t->chunk);
	free(t);
}

static uint32_t slot_of(const struct xt_numbers *t, uint32_t number)
{
	return number == XR_GSI_QPN ? t->gsi : number & ((1u << t->bits) - 1);
}

static struct slot *find(struct xt_numbers *t, uint32_t number)
{
	uint32_t slot = slot_of(t, number);
	struct slot *s = slot < t->fresh ? slot_at(t, slot) : NULL;

	return s && s->item && s->number == number ? s : NULL;
}

void *xt_numbers_get(struct xt_numbers *t, uint32_t number)
{
	struct slot *s = find(t, number);

	return s ? s->item : NULL;
}

static uint32_t take_fresh(struct xt_numbers *t)
{
	struct slot **chunk = &t->chunk[t->fresh / CHUNK_SLOTS];

	if (t->fresh == t->max)
		return NO_SLOT;
	if (!*chunk)
		*chunk = calloc(CHUNK_SLOTS, sizeof(**chunk));
	return *chunk ? t->fresh++ : NO_SLOT;
}

static uint32_t take_freed(struct xt_numbers *t)
{
	uint32_t slot = t->free_head;

	if (slot == NO_SLOT)
		return slot;
	t->free_head = slot_at(t, slot)->next_free;
	t->free_count--;
	return slot;
}

static uint32_t next_number(struct xt_numbers *t, uint32_t slot)
{
	struct slot *s = slot_at(t, slot);
	uint32_t number;

	do
		number = (s->generation++ << t->bits | slot) & XR_QPN_MASK;
	while (number < 2 || number == XR_MULTICAST_QPN);
	return number;
}

bool xt_numbers_add(struct xt_numbers *t, void *item, uint32_t *slot, uint32_t *number)
{
	*slot = t->free_count < QUARANTINE ? take_fresh(t) : NO_SLOT;
	if (*slot == NO_SLOT)
		*slot = take_freed(t);
	if (*slot == NO_SLOT)
		*slot = take_fresh(t);
	if (*slot == NO_SLOT)
		return false;
	*number = next_number(t, *slot);
	slot_at(t, *slot)->item = item;
	slot_at(t, *slot)->number = *number;
	return true;
}

void xt_numbers_del(struct xt_numbers *t, uint32_t number)
{
	struct slot *s = find(t, number);
	uint32_t slot = slot_of(t, number);

	if (!s)
		return;
	if (number == XR_GSI_QPN)
		t->gsi = NO_SLOT;
	s->item = NULL;
	s->next_free = NO_SLOT;
	if (t->free_head == NO_SLOT)
		t->free_head = slot;
	else
		slot_at(t, t->free_tail)->next_free = slot;
	t->free_tail = slot;
	t->free_count++;
}

bool xt_numbers_add_gsi(struct xt_numbers *t, void *item, uint32_t *slot)
{
	uint32_t number;

	if (t->gsi != NO_SLOT || !xt_numbers_add(t, item, slot, &number))
		return false;
	t->gsi = *slot;
	slot_at(t, *slot)->number = XR_GSI_QPN;
	return true;
}
