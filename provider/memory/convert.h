/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Turning private memory into shared memory and back, under the feet of threads that use it.
 * adopt.c decides what and keeps count; this only moves pages. All under adopt.c's lock.
 */
#ifndef XP_CONVERT_H
#define XP_CONVERT_H

#include "provider/provider.h"

/*
 * A sparse memfd that many adopted ranges share: it costs one file descriptor, and an offset of it
 * is never given out twice. Sealed against shrinking, so that no mapping of it can fault.
 */
struct xp_file {
	struct xp_file *next;
	unsigned int
		refs; /* pieces, holds, ranges to be given up, and the one where new ranges go */
	int fd;
	uint64_t size, used;
	uint64_t dev, inode;
	int lease;     /* from before a fork until after it, or -1 */
	uint64_t kept; /* pages below are never given up */
};

void xp_file_get(struct xp_file *f);
void xp_file_put(struct xp_file *f);
struct xp_file *xp_file_find(uint64_t dev, uint64_t inode); /* or NULL */

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

/*
 * Around a fork. Until a child has copies of its own it reads the file: pages that the parent has no more
 * use for are given up when no child is left that may have them mapped.
 */
void xp_convert_before_fork(void);
void xp_convert_in_parent(void);
void xp_convert_in_child(void);
/* In a child: pages of its own from its first write on. */
void xp_move_out_in_child(const struct xp_mapping *m);

/* ---- byway.c: pages that the daemon writes through /proc/self/mem, and which stay where they are ---- */

int xp_byway_hold(uint64_t start, uint64_t end);    /* -ENOMEM */
void xp_byway_let_go(uint64_t start, uint64_t end); /* of the same range */
/* The first of them in [addr, end), if there is one */
bool xp_byway_next(uint64_t addr, uint64_t end, uint64_t *from, uint64_t *to);
void xp_byway_forget(void); /* all, in a child */

#endif /* XP_CONVERT_H */
