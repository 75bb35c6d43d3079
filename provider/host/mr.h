/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Regions, for the files that create and change them. */
#ifndef XP_HOST_MR_H
#define XP_HOST_MR_H

#include "requests.h"

/*
 * Allocates a key, which allows nothing yet; then copies its entry to the table of the verdict. On
 * an error there is no key. Entered.
 */
int xp_mr_new_key(struct xp_host *h, struct xp_mr_object *mr);
int xp_mr_mirror_key(struct xp_host *h, struct xp_mr_object *mr);
/* Frees the key. -EBUSY: windows are bound to the region */
int xp_mr_end_key(struct xp_host *h, struct xp_mr_object *mr);
/* Frees what a region without key and handle has. */
void xp_mr_free(struct xp_host *h, struct xp_mr_object *mr);

/*
 * Brings pages into memory as the kernel does when it pins them. Returns -EFAULT, as it would, if a
 * page is not mapped or not accessible in this way.
 */
int xp_populate_pages(uint64_t addr, uint64_t length, bool write);

#endif /* XP_HOST_MR_H */
