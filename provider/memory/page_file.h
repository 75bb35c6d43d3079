/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Page files: sparse memfds that hold adopted pages. One serves all regions of the process, so
 * adoption costs one descriptor. An offset is never allocated twice. The file is sealed against
 * shrinking, so that access to a mapping of it cannot raise SIGBUS. All functions need the lock of
 * adopt.h.
 */
#ifndef XP_PAGE_FILE_H
#define XP_PAGE_FILE_H

#include <stdint.h>

#define XP_PAGE_FILE_NAME "xroce-adopted"

/* Pages are moved in steps that do not cross a multiple of this, so that huge pages stay whole. */
#define XP_PAGE_FILE_STEP (2ull << 20)

struct xp_file {
	struct xp_file *next;
	/* Intervals, page references, deferred ranges, and the file that allocation uses */
	unsigned int refs;
	int fd;
	uint64_t size, used;
	uint64_t dev, inode;
	int fork_fd;   /* from before fork() until after it: holds the lock for children; or -1 */
	uint64_t kept; /* pages below this offset are never freed */
};

void xp_file_get(struct xp_file *f);
void xp_file_put(struct xp_file *f);

/* Returns the page file with that inode, or NULL. No reference is taken. */
struct xp_file *xp_file_find(uint64_t dev, uint64_t inode);

/*
 * Allocates a range at an offset that is congruent to start modulo XP_PAGE_FILE_STEP, behind the
 * last range if that ends at start and both are small. Returns the file with a reference, or NULL.
 */
struct xp_file *xp_file_alloc(uint64_t start, uint64_t length, uint64_t *offset);

/* Frees pages, later if a child process may still have them mapped. */
void xp_file_free_pages(struct xp_file *f, uint64_t offset, uint64_t length);

/*
 * Frees deferred ranges of children that have exited or called exec(). Looks at a few of them, the
 * others are left for later calls.
 */
void xp_file_free_deferred(void);

/* Fork handlers */
void xp_files_before_fork(void);
void xp_files_in_parent(void);
void xp_files_in_child(void);

#endif /* XP_PAGE_FILE_H */
