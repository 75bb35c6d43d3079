/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Converts private memory to shared memory and back while threads of the program use it. adopt.c
 * decides what is converted and counts references. All functions need the lock of adopt.h.
 */
#ifndef XP_CONVERT_H
#define XP_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "provider/memory/granules.h"
#include "provider/memory/page_file.h"
#include "provider/memory/proc_maps.h"

uint64_t xp_page_size(void);

/*
 * Excludes steps of moving pages, and discarding. The innermost lock; blocks signals. Nothing may
 * be allocated from the heap while it is held.
 */
void xp_steps_lock(void);
void xp_steps_unlock(void);

/* Where pages are or were adopted */
extern struct xp_granules xp_adopted_ever;

/*
 * Opens a userfaultfd of this process with the daemon's /dev/userfaultfd.
 * Returns false if it is not available; then nothing can be adopted.
 */
bool xp_convert_ready(int uffd_device);

/*
 * Moves the pages of [start, end), part of one private and writable mapping, to a page file.
 * Returns the number of bytes from start on that are shared now. If it is not 0, stores the file,
 * with a reference for the caller, and the offset of start in it.
 */
uint64_t xp_move_in(uint64_t start, uint64_t end, struct xp_file **file, uint64_t *offset);

/*
 * Makes pages of the file private memory of the program again, as far as it still has them mapped,
 * and frees them in the file. Only mappings that /proc/self/maps shows to be of the file are
 * touched. [offset, offset + length): range in the file, which was mapped at @start.
 */
void xp_move_out(uint64_t start, uint64_t length, struct xp_file *file, uint64_t offset);

/*
 * The same for pages that were not found where they were moved in, and which xp_move_out() left for
 * later. To be called before fork().
 */
void xp_move_out_lost(void);

/* In a child process: makes the mapping private, so that the child's first write copies a page. */
void xp_move_out_in_child(const struct xp_mapping *m);

/* In a child process: closes the parent's userfaultfd; nothing is locked. */
void xp_convert_in_child(void);

#endif /* XP_CONVERT_H */
