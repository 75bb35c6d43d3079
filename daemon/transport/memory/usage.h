/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the messages that accessed each region, and their bytes.
 *
 * A message counts when all of it was executed, or its work request has completed, so packets cost
 * nothing. Several engines may use the same region at the same time. Each counts in a table of its
 * own, without atomic instructions. It adds an entry to the totals in the key (keys.h) when it
 * needs the place of the entry for another region.
 */
#ifndef XT_USAGE_H
#define XT_USAGE_H

#include <stdint.h>

struct xt_engine;
struct xt_key;

enum xt_use {
	XT_USE_NONE,
	XT_USE_REMOTE_WRITE, /* WRITEs and ATOMIC WRITEs of the peer */
	XT_USE_REMOTE_READ,
	XT_USE_REMOTE_ATOMIC,
	XT_USE_LOCAL_READ,  /* SGEs of SENDs, WRITEs and ATOMIC WRITEs */
	XT_USE_LOCAL_WRITE, /* SGEs of receives, READs and atomics */
	XT_USES,
};

struct xt_usage {
	struct xt_use_count {
		uint64_t count, bytes;
	} of[XT_USES];
};

/* Regions that an engine can use in turn without adding to their totals in between */
#define XT_USAGE_PLACES 1024

/* Counts of an engine that are not yet in the totals of a region */
struct xt_usage_entry {
	struct xt_key *region;
	uint32_t generation; /* of the region; if its key was released since, nothing is added */
	uint32_t key;	     /* of the region itself, as used last; 0: it was not */
	struct xt_usage usage;
};

/* Adds everything that an engine has counted to the totals. The engine must not run meanwhile. */
void xt_usage_settle(struct xt_engine *e);

#endif /* XT_USAGE_H */
