/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames in flight, a heap by time of arrival. struct flight is the first member of a frame. */
#ifndef FLIGHTS_H
#define FLIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct flight {
	uint64_t when, seq; /* frames with the same time arrive in the order of seq */
};

/* All zero: empty */
struct flights {
	struct flight **heap;
	unsigned len, room;
};

static inline bool flight_before(const struct flight *a, const struct flight *b)
{
	return a->when != b->when ? a->when < b->when : a->seq < b->seq;
}

static inline void flights_add(struct flights *fs, struct flight *f)
{
	unsigned i = fs->len++;

	if (i == fs->room) {
		fs->room = i ? i * 2 : 256;
		fs->heap = realloc(fs->heap, fs->room * sizeof(struct flight *));
	}
	for (; i && flight_before(f, fs->heap[(i - 1) / 2]); i = (i - 1) / 2)
		fs->heap[i] = fs->heap[(i - 1) / 2];
	fs->heap[i] = f;
}

/* Returns the first frame to arrive; NULL: none */
static inline void *flights_first(const struct flights *fs)
{
	return fs->len ? fs->heap[0] : NULL;
}

/* The same, and removes it. */
static inline void *flights_take(struct flights *fs)
{
	struct flight *first = flights_first(fs), *last;
	unsigned i = 0, child;

	if (!first)
		return NULL;
	last = fs->heap[--fs->len];
	while ((child = 2 * i + 1) < fs->len) {
		if (child + 1 < fs->len && flight_before(fs->heap[child + 1], fs->heap[child]))
			child++;
		if (!flight_before(fs->heap[child], last))
			break;
		fs->heap[i] = fs->heap[child];
		i = child;
	}
	fs->heap[i] = last;
	return first;
}

/* Frees all frames. */
static inline void flights_free(struct flights *fs)
{
	while (fs->len)
		free(flights_take(fs));
	free(fs->heap);
	*fs = (struct flights){ 0 };
}

#endif /* FLIGHTS_H */
