// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The provider's table of address ranges with reference counts, against one counter per address. */
#include <stdlib.h>
#include <string.h>

#include "provider/memory/interval.h"
#include "selftests/lib/tap.h"

#define ADDRESSES 64
#define STEPS 20000

static struct xp_intervals t;
static unsigned int counter[ADDRESSES];

/* True if the table is sorted, without overlaps, and has the references of `counter`. */
static bool table_matches(void)
{
	uint64_t at = 0;
	size_t i;

	for (i = 0; i < t.count; i++) {
		const struct xp_interval *p = &t.at[i];

		if (p->start < at || p->end <= p->start || p->end > ADDRESSES || !p->refs)
			return false;
		for (; at < p->start; at++)
			if (counter[at])
				return false;
		for (; at < p->end; at++)
			if (counter[at] != p->refs)
				return false;
	}
	for (; at < ADDRESSES; at++)
		if (counter[at])
			return false;
	return true;
}

static bool overlap_matches(uint64_t start, uint64_t end)
{
	struct xp_interval x;
	uint64_t first = start;

	while (first < end && !counter[first])
		first++;
	if (!xp_intervals_overlap(&t, start, end, &x))
		return first == end;
	return first < end && x.start == first && x.end > x.start && x.end <= end &&
	       x.refs == counter[first];
}

/* Ranges that are currently referenced */
static struct {
	uint64_t start, end;
} ranges[16];

static void test_references(void)
{
	unsigned int n = 0, step;
	bool table = true, overlap = true;

	srand(1);
	for (step = 0; step < STEPS; step++) {
		uint64_t start = rand() % ADDRESSES, end = start + 1 + rand() % (ADDRESSES - start);
		unsigned int i = n ? rand() % n : 0, at;

		if (n < 16 && (!n || rand() % 2)) {
			xp_intervals_ref(&t, start, end);
			ranges[n].start = start;
			ranges[n++].end = end;
			for (at = start; at < end; at++)
				counter[at]++;
		} else {
			xp_intervals_unref(&t, ranges[i].start, ranges[i].end);
			for (at = ranges[i].start; at < ranges[i].end; at++)
				counter[at]--;
			ranges[i] = ranges[--n];
		}
		table &= table_matches();
		overlap &= overlap_matches(start, end);
	}
	TAP_OK(table, "references match a counter per address after each of %u changes", STEPS);
	TAP_OK(overlap, "the first overlap with a range is found");
	while (n--)
		xp_intervals_unref(&t, ranges[n].start, ranges[n].end);
	TAP_OK(!t.count, "the table is empty after the last reference is dropped");
}

static void test_split(void)
{
	const struct xp_interval whole = { .start = 100, .end = 200, .refs = 3, .offset = 5000 };
	struct xp_interval *tail;

	TAP_OK(!xp_intervals_reserve(&t, 2), "room for two intervals is reserved");
	xp_intervals_insert(&t, 0, &whole);
	TAP_OK(!xp_intervals_split(&t, 100) && !xp_intervals_split(&t, 200) && t.count == 1,
	       "nothing is split at the ends of an interval");
	tail = xp_intervals_split(&t, 130);
	TAP_OK(tail && tail->start == 130 && tail->end == 200 && tail->refs == 3 &&
		       tail->offset == 5030,
	       "the tail of a split starts at the address and has the offset in the file");
	TAP_OK(t.at[0].start == 100 && t.at[0].end == 130 && t.at[0].offset == 5000,
	       "the head ends at the address");
	TAP_OK(xp_intervals_find(&t, 0) == 0 && xp_intervals_find(&t, 129) == 0 &&
		       xp_intervals_find(&t, 130) == 1 && xp_intervals_find(&t, 200) == 2,
	       "find returns the first interval that ends after an address");
	xp_intervals_remove(&t, 0);
	TAP_OK(t.count == 1 && t.at[0].start == 130, "an interval is removed");
}

int main(void)
{
	test_references();
	test_split();
	free(t.at);
	return tap_end();
}
