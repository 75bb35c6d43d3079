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

struct xp_mappings {
	struct xp_mapping *at;
	size_t count;
};

/*
 * Reads the mappings that overlap [start, end), in order of address. The caller frees list->at.
 * Returns 0 or -errno; on error the list is empty.
 */
int xp_mappings_read(uint64_t start, uint64_t end, struct xp_mappings *list);

#endif /* XP_PROC_MAPS_H */
