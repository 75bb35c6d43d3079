/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Turning private memory into shared memory and back, under the feet of threads that use it.
 * adopt.c decides what and keeps count; this only moves pages. All under adopt.c's lock.
 */
#ifndef XP_CONVERT_H
#define XP_CONVERT_H

#include "provider.h"

/*
 * A sparse memfd that many adopted ranges share: it costs one file descriptor, and an offset of it
 * is never given out twice. Sealed against shrinking, so that no mapping of it can fault.
 */
struct xp_file {
	unsigned int refs;	/* pieces, holds, and the one where new ranges go */
	int fd;
	uint64_t size, used;
	uint64_t dev, inode;
};

void xp_file_get(struct xp_file *f);
void xp_file_put(struct xp_file *f);

uint64_t xp_page_size(void);
/* A userfaultfd of this process, made from the daemon's device; false: adoption is not possible. */
bool xp_convert_ready(int uffd_device);
/*
 * Whole pages [start, end) of one private, writable mapping. Returns how many bytes, from start on,
 * are shared now; they lie in *file, of which the caller gets a reference, from *offset on.
 */
uint64_t xp_move_in(uint64_t start, uint64_t end, struct xp_file **file, uint64_t *offset);
/* Back to private memory, as far as the program still has it mapped there. */
void xp_move_out(uint64_t start, uint64_t end, struct xp_file *file, uint64_t offset);
/* In a child: pages of its own from its first write on. */
void xp_move_out_in_child(uint64_t start, uint64_t end, struct xp_file *file, uint64_t offset);
void xp_convert_in_child(void);

/* ---- byway.c: pages that the daemon writes through /proc/self/mem, and which stay where they are ---- */

int xp_byway_hold(uint64_t start, uint64_t end);	/* -ENOMEM */
void xp_byway_let_go(uint64_t start, uint64_t end);	/* of the same range */
/* The first of them in [addr, end), if there is one */
bool xp_byway_next(uint64_t addr, uint64_t end, uint64_t *from, uint64_t *to);
void xp_byway_forget(void);	/* all, in a child */

#endif /* XP_CONVERT_H */
