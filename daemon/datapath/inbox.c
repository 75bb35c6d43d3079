// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inbox.h"

#include <pthread.h>
#include <stdlib.h>

#include "daemon/transport/wire/frame_copy.h"

#define SLOTS 1024u /* a power of two */

struct xd_inbox {
	pthread_mutex_t lock; /* innermost: no other lock is taken while it is held */
	/*
	 * Free-running indices of the oldest frame and behind the newest. The owner reads tail
	 * without the lock first, hence the atomic stores.
	 */
	uint32_t head, tail;
	struct xt_frame_copy slot[SLOTS];
};

struct xd_inbox *xd_inbox_new(void)
{
	struct xd_inbox *in = calloc(1, sizeof(*in));

	if (in)
		pthread_mutex_init(&in->lock, NULL);
	return in;
}

void xd_inbox_free(struct xd_inbox *in)
{
	if (in)
		pthread_mutex_destroy(&in->lock);
	free(in);
}

bool xd_inbox_put(struct xd_inbox *in, const struct xt_frame *f)
{
	bool room;

	if (f->len > XT_MAX_FRAME)
		return false;
	pthread_mutex_lock(&in->lock);
	room = in->tail - in->head < SLOTS;
	if (room) {
		xt_frame_copy(&in->slot[in->tail & (SLOTS - 1)], f);
		__atomic_store_n(&in->tail, in->tail + 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&in->lock);
	return room;
}

unsigned int xd_inbox_take(struct xd_inbox *in, struct xt_frame *frames)
{
	unsigned int n;

	/*
	 * Most rounds find nothing and take no lock. A frame put at this moment is taken in the
	 * next round.
	 */
	if (__atomic_load_n(&in->tail, __ATOMIC_RELAXED) == in->head)
		return 0;
	pthread_mutex_lock(&in->lock);
	n = in->tail - in->head;
	pthread_mutex_unlock(&in->lock);
	if (n > XD_INBOX_BATCH)
		n = XD_INBOX_BATCH;
	for (unsigned int i = 0; i < n; i++) {
		frames[i] = xt_frame_of(&in->slot[(in->head + i) & (SLOTS - 1)]);
		frames[i].forwarded = true;
	}
	return n;
}

void xd_inbox_release(struct xd_inbox *in, unsigned int n)
{
	pthread_mutex_lock(&in->lock);
	in->head += n;
	pthread_mutex_unlock(&in->lock);
}
