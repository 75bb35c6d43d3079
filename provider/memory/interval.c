// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A table of address ranges with reference counts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider/memory/interval.h"

size_t xp_intervals_find(const struct xp_intervals *t, uint64_t addr)
{
	size_t lo = 0, hi = t->count, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (t->at[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

int xp_intervals_reserve(struct xp_intervals *t, size_t n)
{
	struct xp_interval *more;
	size_t room = t->room * 2 + n;

	if (t->count + n <= t->room)
		return 0;
	more = realloc(t->at, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->at = more;
	t->room = room;
	return 0;
}

void xp_intervals_insert(struct xp_intervals *t, size_t i, const struct xp_interval *interval)
{
	memmove(&t->at[i + 1], &t->at[i], (t->count - i) * sizeof(*t->at));
	t->at[i] = *interval;
	t->count++;
}

void xp_intervals_remove(struct xp_intervals *t, size_t i)
{
	t->count--;
	memmove(&t->at[i], &t->at[i + 1], (t->count - i) * sizeof(*t->at));
}

struct xp_interval *xp_intervals_split(struct xp_intervals *t, uint64_t addr)
{
	size_t i = xp_intervals_find(t, addr);
	struct xp_interval tail;

	if (i == t->count || t->at[i].start >= addr)
		return NULL;
	tail = t->at[i];
	tail.offset += addr - tail.start;
	tail.start = addr;
	t->at[i].end = addr;
	xp_intervals_insert(t, i + 1, &tail);
	return &t->at[i + 1];
}

int xp_intervals_ref(struct xp_intervals *t, uint64_t start, uint64_t end)
{
	size_t first = xp_intervals_find(t, start), last = xp_intervals_find(t, end), i;
	struct xp_interval gap = { .refs = 1 };
	uint64_t at, stop;

	/* Two splits, and the gaps before, between and after the intervals that overlap */
	if (xp_intervals_reserve(t, last - first + 4))
		return -ENOMEM;
	xp_intervals_split(t, start);
	xp_intervals_split(t, end);
	for (at = start; at < end; at = stop) {
		i = xp_intervals_find(t, at);
		if (i < t->count && t->at[i].start <= at) {
			stop = t->at[i].end;
			t->at[i].refs++;
		} else {
			stop = i < t->count && t->at[i].start < end ? t->at[i].start : end;
			gap.start = at;
			gap.end = stop;
			xp_intervals_insert(t, i, &gap);
		}
	}
	return 0;
}

void xp_intervals_unref(struct xp_intervals *t, uint64_t start, uint64_t end)
{
	size_t i = xp_intervals_find(t, start);

	while (i < t->count && t->at[i].start < end) {
		if (--t->at[i].refs)
			i++;
		else
			xp_intervals_remove(t, i);
	}
}

bool xp_intervals_overlap(const struct xp_intervals *t, uint64_t start, uint64_t end,
			  struct xp_interval *overlap)
{
	size_t i = xp_intervals_find(t, start);

	if (i == t->count || t->at[i].start >= end)
		return false;
	*overlap = t->at[i];
	if (overlap->start < start)
		overlap->start = start;
	if (overlap->end > end)
		overlap->end = end;
	return true;
}
