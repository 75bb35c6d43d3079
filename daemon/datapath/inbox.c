/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "inbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 1024u /* a power of two */

struct slot {
	uint32_t len;
	struct xr_meta meta;
	uint8_t bytes[XT_MAX_FRAME];
};

struct xd_inbox {
	pthread_mutex_t lock; /* a leaf: nothing else is taken while it is held */
	uint32_t head,
		tail; /* taken from, put to; free-running. Who looks without the lock looks atomically */
	struct slot slot[SLOTS];
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

static void copy_in(struct slot *s, const struct xt_frame *f)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < f->nseg; i++) {
		memcpy(s->bytes + at, f->seg[i].data, f->seg[i].len);
		at += f->seg[i].len;
	}
	s->len = at;
	s->meta = f->meta;
}

bool xd_inbox_put(struct xd_inbox *in, const struct xt_frame *f)
{
	bool room;

	if (f->len > XT_MAX_FRAME)
		return false;
	pthread_mutex_lock(&in->lock);
	room = in->tail - in->head < SLOTS;
	if (room) {
		copy_in(&in->slot[in->tail & (SLOTS - 1)], f);
		__atomic_store_n(&in->tail, in->tail + 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&in->lock);
	return room;
}

unsigned int xd_inbox_take(struct xd_inbox *in, struct xt_frame *frames)
{
	unsigned int n;

	/* most rounds find nothing; what comes just now is for the next one */
	if (__atomic_load_n(&in->tail, __ATOMIC_RELAXED) == in->head)
		return 0;
	pthread_mutex_lock(&in->lock);
	n = in->tail - in->head;
	pthread_mutex_unlock(&in->lock);
	if (n > XD_INBOX_BATCH)
		n = XD_INBOX_BATCH;
	for (unsigned int i = 0; i < n; i++) {
		struct slot *s = &in->slot[(in->head + i) & (SLOTS - 1)];

		memset(&frames[i], 0, sizeof(frames[i]));
		frames[i].seg[0].data = s->bytes;
		frames[i].seg[0].len = frames[i].len = s->len;
		frames[i].nseg = 1;
		frames[i].meta = s->meta;
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
