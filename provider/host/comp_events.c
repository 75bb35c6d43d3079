// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The events of a completion channel: a queue in memory, and an eventfd that is readable while it
 * has events.
 *
 * Events are raised in rounds, by one thread at a time, perhaps in a signal handler, so that never
 * waits. A thread that takes events has a mutex, but not the engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "requests.h"

#define FIRST_SIZE 4u /* of the queue */

/* ---- the descriptor ----------------------------------------------------------------------- */

/* The functions of the C library are cancellation points. */
static void signal_events(struct xp_channel_object *ch)
{
	const uint64_t one = 1;

	if (!__atomic_exchange_n(&ch->signaled, true, __ATOMIC_SEQ_CST))
		syscall(SYS_write, ch->fd, &one, sizeof(one));
}

static bool comp_events_is_empty(const struct xp_channel_object *ch)
{
	return ch->head == __atomic_load_n(&ch->tail, __ATOMIC_SEQ_CST);
}

/* The queue has become empty. If a thread is about to write to the descriptor, waits for that. */
static void end_signal(struct xp_channel_object *ch)
{
	uint64_t n;

	if (!__atomic_load_n(&ch->signaled, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&ch->ended, __ATOMIC_SEQ_CST))
		return;
	while (syscall(SYS_read, ch->fd, &n, sizeof(n)) < 0 && errno == EINTR)
		;
	__atomic_store_n(&ch->signaled, false, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!comp_events_is_empty(ch) || __atomic_load_n(&ch->ended, __ATOMIC_SEQ_CST))
		signal_events(ch);
}

/* ---- the queue ---------------------------------------------------------------------------- */

static struct xp_comp_events **comp_events_place(const struct xp_channel_object *ch, uint32_t at)
{
	return &ch->queue[at & (ch->size - 1)];
}

void xp_channel_raise(struct xp_host *h, struct xp_channel_object *ch, struct xp_comp_events *e)
{
	xp_reader_raised(&h->reader);
	if (!__atomic_fetch_add(&e->count, 1, __ATOMIC_SEQ_CST)) {
		*comp_events_place(ch, ch->tail) = e;
		__atomic_store_n(&ch->tail, ch->tail + 1, __ATOMIC_SEQ_CST);
	}
	if (ch != h->takes)
		signal_events(ch);
}

static struct xp_comp_events *take_first(struct xp_channel_object *ch)
{
	struct xp_comp_events *e = *comp_events_place(ch, ch->head);

	/* From here on, a round may put it into the queue once more. */
	if (__atomic_fetch_sub(&e->count, 1, __ATOMIC_SEQ_CST) == 1)
		ch->head++;
	return e;
}

int xp_channel_take(struct xp_channel_object *ch, void (*taken)(uint64_t cookie), uint64_t *cookie)
{
	int err = 0;

	pthread_mutex_lock(&ch->taking);
	if (comp_events_is_empty(ch)) {
		err = __atomic_load_n(&ch->ended, __ATOMIC_SEQ_CST) ? -ENODATA : -EAGAIN;
	} else {
		*cookie = take_first(ch)->cookie;
		taken(*cookie);
		if (comp_events_is_empty(ch))
			end_signal(ch);
		else
			signal_events(ch);
	}
	pthread_mutex_unlock(&ch->taking);
	return err;
}

void xp_channel_end(struct xp_channel_object *ch)
{
	__atomic_store_n(&ch->ended, true, __ATOMIC_SEQ_CST);
	signal_events(ch);
}

/* ---- CQs ---------------------------------------------------------------------------------- */

/* Makes room for n entries. */
static int comp_events_grow(struct xp_channel_object *ch, uint32_t n)
{
	struct xp_channel_object old = *ch;
	struct xp_comp_events **queue;

	while (ch->size < n)
		ch->size = ch->size ? 2 * ch->size : FIRST_SIZE;
	queue = calloc(ch->size, sizeof(queue[0]));
	if (!queue) {
		ch->size = old.size;
		return -ENOMEM;
	}
	ch->queue = queue;
	for (uint32_t i = old.head; i != old.tail; i++)
		*comp_events_place(ch, i) = *comp_events_place(&old, i);
	free(old.queue);
	return 0;
}

/* A CQ has one entry, and a second one while a thread takes the last event of the first. */
int xp_channel_add_cq(struct xp_channel_object *ch)
{
	uint32_t n = ch->obj.refs + 2;
	int err = 0;

	pthread_mutex_lock(&ch->taking);
	if (n > ch->size)
		err = comp_events_grow(ch, n);
	pthread_mutex_unlock(&ch->taking);
	if (!err)
		ch->obj.refs++;
	return err;
}

void xp_channel_remove_cq(struct xp_host *h, struct xp_channel_object *ch, struct xp_comp_events *e)
{
	uint32_t to = ch->head;

	ch->obj.refs--;
	pthread_mutex_lock(&ch->taking);
	for (uint32_t i = ch->head; i != ch->tail; i++)
		if (*comp_events_place(ch, i) != e)
			*comp_events_place(ch, to++) = *comp_events_place(ch, i);
	__atomic_store_n(&ch->tail, to, __ATOMIC_SEQ_CST);
	xp_reader_dropped(&h->reader, e->count);
	e->count = 0;
	if (comp_events_is_empty(ch))
		end_signal(ch);
	pthread_mutex_unlock(&ch->taking);
}
