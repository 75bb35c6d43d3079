/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that consist of memory. */
#ifndef XD_MEMORY_FILE_H
#define XD_MEMORY_FILE_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct xd_memory_file {
	uint64_t size;
	uint64_t unit; /* of mappings: a page, or a huge page */
	struct stat st;
};

/*
 * Accepts files of tmpfs and hugetlbfs only, else returns -EINVAL: pages stay, and no call waits
 * for another process. The descriptor may be an O_PATH one. It must be of a file system whose
 * fstat() and fstatfs() do not hang.
 */
int xd_memory_file_check(int fd, struct xd_memory_file *f);
/*
 * The same for an O_PATH descriptor of a file that a process has mapped, which may be on a file
 * system that hangs: finds the type of the file system without a request to it. A file on a mount
 * that is not in the mount namespace of the process is not accepted, unless it is a memfd.
 */
int xd_memory_file_check_mapped(int fd, pid_t pid, struct xd_memory_file *f);

#endif /* XD_MEMORY_FILE_H */
