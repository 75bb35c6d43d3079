// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel does not tell the number of mappings but by the list of all. So the list is read, and
 * again when adoptions may have changed the number by a sixteenth: the time for that is
 * proportional to the adoptions, whatever the program has mapped.
 */
#include <stdio.h>

#include "provider/memory/map_budget.h"
#include "provider/memory/proc_maps.h"

#define SPLIT 2 /* pages in the middle of a mapping make three of it */

static long limit;   /* half of vm.max_map_count */
static long counted; /* mappings when the list was read */
static long added;   /* since then, at most */
static long refused; /* since then */

static long read_limit(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	long n = 65530;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = 65530;
	if (f)
		fclose(f);
	return n / 2;
}

bool xp_map_budget_take(void)
{
	if (!limit)
		limit = read_limit();
	if (added + refused >= counted / 16) {
		counted = xp_mappings_count();
		added = refused = 0;
	}
	if (counted < 0 || counted + added + SPLIT > limit) {
		refused++;
		return false;
	}
	added += SPLIT;
	return true;
}
