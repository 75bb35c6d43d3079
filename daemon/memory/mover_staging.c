// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The pieces of a mover's staging memory. */

#include "daemon/transport/base/spinlock.h"
#include "mover_internal.h"

uint8_t *xd_staging_data(struct xd_mover *m, uint32_t i)
{
	if (i < XD_STAGING_LARGE)
		return m->staging + (size_t)i * XT_MEM_IO_MAX;
	return m->staging + (size_t)XD_STAGING_LARGE * XT_MEM_IO_MAX +
	       (size_t)(i - XD_STAGING_LARGE) * XD_STAGING_SMALL_SIZE;
}

static uint16_t mover_staging_pop(struct xd_mover *m, uint16_t *list)
{
	uint16_t i = *list;

	if (i != NO_PIECE)
		*list = m->piece[i].next;
	return i;
}

uint16_t xd_staging_take(struct xd_mover *m, uint32_t len)
{
	uint16_t i = NO_PIECE;

	xt_spin_lock(&m->lock);
	if (len <= XD_STAGING_SMALL_SIZE)
		i = mover_staging_pop(m, &m->free_small);
	if (i == NO_PIECE)
		i = mover_staging_pop(m, &m->free_large);
	xt_spin_unlock(&m->lock);
	return i;
}

/* Wakes the QPs of all workers that wait: the piece may be of the size that any of them needs. */
static void announce_room(struct xd_mover *m, const struct channel *own)
{
	for (uint32_t i = 0; i < m->all->workers; i++) {
		struct channel *c = &m->channel[i];

		if (!__atomic_exchange_n(&c->room, true, __ATOMIC_SEQ_CST) && c != own)
			xd_mover_wake_worker(m->all, i);
	}
}

void xd_staging_put(struct piece *p)
{
	struct channel *own = p->channel;
	struct xd_mover *m = own->mover;
	uint16_t i = (uint16_t)(p - m->piece);
	uint16_t *list = i < XD_STAGING_LARGE ? &m->free_large : &m->free_small;

	p->state = PIECE_FREE;
	xt_spin_lock(&m->lock);
	p->next = *list;
	*list = i;
	xt_spin_unlock(&m->lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with wait_for_room() of mover_io.c */
	if (__atomic_load_n(&m->starving, __ATOMIC_RELAXED))
		announce_room(m, own);
	xd_mover_unref(m);
}
