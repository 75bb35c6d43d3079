// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory that the daemon writes by address, through /proc/self/mem: ranges, sorted, not
 * overlapping, each with the number of regions that hold it. Pages of them are not moved. A write
 * by that way fails while userfaultfd protects the page (it may not wait), and one that had the
 * page before the protection can fall between the copy and the swap, and be lost. Under adopt.c's
 * lock.
 */
#include <stdlib.h>
#include <string.h>

#include "convert.h"

struct range {
	uint64_t start, end; /* whole pages */
	unsigned int refs;
};

static struct range *ranges;
static size_t count, room;

/* The first range that ends after the address */
static size_t find(uint64_t addr)
{
	size_t lo = 0, hi = count, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (ranges[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* A gap and two ends: each may split a range or fill a gap. */
static int make_room(size_t more)
{
	struct range *r;

	if (count + more <= room)
		return 0;
	r = realloc(ranges, (room * 2 + more) * sizeof(*r));
	if (!r)
		return -ENOMEM;
	ranges = r;
	room = room * 2 + more;
	return 0;
}

static void insert(size_t i, uint64_t start, uint64_t end, unsigned int refs)
{
	memmove(&ranges[i + 1], &ranges[i], (count - i) * sizeof(*ranges));
	ranges[i] = (struct range){ start, end, refs };
	count++;
}

static void split(uint64_t addr)
{
	size_t i = find(addr);

	if (i == count || ranges[i].start >= addr)
		return;
	insert(i + 1, addr, ranges[i].end, ranges[i].refs);
	ranges[i].end = addr;
}

int xp_byway_hold(uint64_t start, uint64_t end)
{
	size_t first = find(start), last = find(end), i;
	uint64_t at, stop;

	/* two splits, and a gap before, between and behind what is there */
	if (make_room(last - first + 4))
		return -ENOMEM;
	split(start);
	split(end);
	for (at = start; at < end; at = stop) {
		i = find(at);
		if (i < count && ranges[i].start <= at) {
			stop = ranges[i].end;
			ranges[i].refs++;
		} else {
			stop = i < count && ranges[i].start < end ? ranges[i].start : end;
			insert(i, at, stop, 1);
		}
	}
	return 0;
}

void xp_byway_let_go(uint64_t start, uint64_t end)
{
	size_t i = find(start);

	while (i < count && ranges[i].start < end) {
		if (--ranges[i].refs) {
			i++;
			continue;
		}
		count--;
		memmove(&ranges[i], &ranges[i + 1], (count - i) * sizeof(*ranges));
	}
}

bool xp_byway_next(uint64_t addr, uint64_t end, uint64_t *from, uint64_t *to)
{
	size_t i = find(addr);

	if (i == count || ranges[i].start >= end)
		return false;
	*from = ranges[i].start > addr ? ranges[i].start : addr;
	*to = ranges[i].end < end ? ranges[i].end : end;
	return true;
}

void xp_byway_forget(void)
{
	count = 0;
}
