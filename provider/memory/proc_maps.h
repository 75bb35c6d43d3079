/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The mappings of this process, from /proc/self/maps. */
#ifndef XP_PROC_MAPS_H
#define XP_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xp_mapping {
	uint64_t start, end;
	uint64_t offset; /* of start in the file */
	uint64_t dev, inode;
	bool readable, writable, executable, shared;
	bool anonymous; /* no file, not a stack, not one of the kernel's own ([vdso], [vvar]) */
	bool shmem;   /* shared, of tmpfs, memfd, System V or hugetlbfs: others can map the file */
	bool adopted; /* of a page file, page_file.h */
};

/* Returns PROT_*. */
int xp_protection(const struct xp_mapping *m);

struct xp_mappings {
	struct xp_mapping *at;
	size_t count;
};

/* Called for each mapping. A value other than 0 ends the walk. */
typedef int (*xp_mapping_fn)(void *arg, const struct xp_mapping *m);

/*
 * Calls fn for the mappings that overlap [start, end), in order of address; m->shmem lacks files of
 * mounts. fn may change mappings up to the end of m. Takes one system call for each of them; before
 * Linux 6.11, and for the whole address space, reads the list of all mappings. Allocates nothing
 * from the heap, for signal handlers. Returns 0, the value of fn that ended the walk, or -errno.
 */
int xp_mappings_walk(uint64_t start, uint64_t end, xp_mapping_fn fn, void *arg);

/*
 * Lists the mappings that overlap [start, end), in order of address. The caller frees list->at.
 * Returns 0 or -errno; on error the list is empty.
 */
int xp_mappings_read(uint64_t start, uint64_t end, struct xp_mappings *list);

/* Returns the number of mappings, or -errno. Takes time for each of them. */
long xp_mappings_count(void);

#endif /* XP_PROC_MAPS_H */
