/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table of address ranges with reference counts: sorted, not overlapping. A range that is
 * referenced in part is split. No locks and no other dependencies.
 */
#ifndef XP_INTERVAL_H
#define XP_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xp_interval {
	uint64_t start, end;
	unsigned int refs;
	/* For users of the table: the file that is mapped here, and the offset of start in it. */
	struct xp_file *file;
	uint64_t offset;
};

struct xp_intervals {
	struct xp_interval *at;
	size_t count, room;
};

/* Returns the index of the first interval that ends after addr, t->count if there is none. */
size_t xp_intervals_find(const struct xp_intervals *t, uint64_t addr);

/* Makes room for n more intervals. Returns 0 or -ENOMEM. */
int xp_intervals_reserve(struct xp_intervals *t, size_t n);

/* Inserts a copy of *interval at index i. Needs room. */
void xp_intervals_insert(struct xp_intervals *t, size_t i, const struct xp_interval *interval);
void xp_intervals_remove(struct xp_intervals *t, size_t i);

/*
 * Splits the interval that contains addr, if any, so that one starts there. Needs room for one.
 * Returns the new interval, which starts at addr, or NULL if nothing was split.
 */
struct xp_interval *xp_intervals_split(struct xp_intervals *t, uint64_t addr);

/*
 * Adds a reference to every address in [start, end). Splits intervals and inserts new ones where
 * necessary. Returns 0 or -ENOMEM.
 */
int xp_intervals_ref(struct xp_intervals *t, uint64_t start, uint64_t end);

/* Reverts xp_intervals_ref() of the same range. Removes intervals without references. */
void xp_intervals_unref(struct xp_intervals *t, uint64_t start, uint64_t end);

/* Finds the first part of [start, end) that is in the table. */
bool xp_intervals_overlap(const struct xp_intervals *t, uint64_t start, uint64_t end,
			  struct xp_interval *overlap);

#endif /* XP_INTERVAL_H */
