/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Adoption: pages of private anonymous memory become shared with the daemon as long as a region
 * references them.
 */
#ifndef XP_ADOPT_H
#define XP_ADOPT_H

#include "provider/memory/layout.h"
#include "provider/memory/proc_maps.h"

/* Locks adoption, from reading /proc/self/maps until the layout is complete. Not recursive. */
void xp_adopt_lock(void);
void xp_adopt_unlock(void);

/*
 * Lays out [start, end), part of mapping m: adopts the pages that can be adopted, and appends
 * segments and page references to the layout. Needs the lock. Returns -E2BIG if there are too many
 * segments, or another error; segments and references that were appended remain.
 * @uffd_device: /dev/userfaultfd from the daemon, or -1.
 */
int xp_adopt(const struct xp_mapping *m, uint64_t start, uint64_t end, int uffd_device,
	     struct xp_layout *l);

/*
 * Excludes the pages of [start, end) from adoption as long as the region exists, because the daemon
 * writes them through /proc/self/mem. Needs the lock. To be called after the layout is complete.
 *
 * Such a write fails while userfaultfd protects the page, since it cannot wait. A write that found
 * the page before it was protected could happen between the copy and the replacement and be lost.
 */
int xp_adopt_exclude(uint64_t start, uint64_t end, struct xp_layout *l);

/* Drops the references. Pages without further references become private memory again. */
void xp_page_refs_release(struct xp_page_refs *refs);
void xp_page_refs_release_locked(struct xp_page_refs *refs); /* needs the lock */

/* Fork handlers. The lock is held across fork(). */
void xp_adopt_before_fork(void);
void xp_adopt_in_parent(void);
void xp_adopt_in_child(void);

#endif /* XP_ADOPT_H */
