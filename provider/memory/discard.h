/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * madvise() on memory that is or was adopted, which the kernel sees as a mapping of a file. These
 * functions may be called in signal handlers, and by allocators that hold locks.
 */
#ifndef XP_DISCARD_H
#define XP_DISCARD_H

#include <stdbool.h>
#include <stdint.h>

/* Returns false if madvise() of the range needs nothing of this file: after one load for most. */
bool xp_discard_concerns(uint64_t start, uint64_t length);

/*
 * After MADV_DONTNEED: replaces adopted pages by new ones of zeros. Regions keep the old ones, as
 * they keep pages that are pinned. Returns 0 or -errno.
 */
int xp_discard(uint64_t start, uint64_t length);

/*
 * MADV_FREE of a range that has adopted pages, which the kernel refuses. Pages of a region keep
 * their content, as pages that are pinned. Returns 0 or -errno.
 */
int xp_free_lazily(uint64_t start, uint64_t length);

/* Returns true if the range has adopted pages. */
bool xp_has_adopted(uint64_t start, uint64_t length);

/* After MADV_WIPEONFORK: the pages must not be adopted, or a child would see their content. */
void xp_keep_wiped(uint64_t start, uint64_t length);
/* Returns true if that was called for some of the pages, or for very many others. */
bool xp_is_wiped(uint64_t start, uint64_t end);

#endif /* XP_DISCARD_H */
