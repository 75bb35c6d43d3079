/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that consist of memory. */
#ifndef XD_MEMORY_FILE_H
#define XD_MEMORY_FILE_H

#include <stdint.h>
#include <sys/stat.h>

struct xd_memory_file {
	uint64_t size;
	uint64_t unit; /* of mappings: a page, or a huge page */
	struct stat st;
};

/*
 * Accepts files of tmpfs and hugetlbfs only, else returns -EINVAL: pages stay, and no call waits
 * for another process. The descriptor may be an O_PATH one.
 */
int xd_memory_file_check(int fd, struct xd_memory_file *f);

#endif /* XD_MEMORY_FILE_H */
