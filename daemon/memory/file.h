/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files behind the memory of a region: passed by the client (adopted memory, dma-buf), or found by a mapping of
 * the client's process (shared memory). Each is checked before the daemon maps the file.
 */
#ifndef XD_MEMORY_FILE_H
#define XD_MEMORY_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "daemon/base/groups.h"
#include "proc_maps.h"

struct xd_file {
	int fd;
	uint64_t size;
	uint64_t unit; /* of mappings: a page, or a huge page */
	struct stat st;
};

/* The process and user that a file is opened for */
struct xd_mem_owner {
	pid_t pid;
	int pidfd; /* -1: none */
	uid_t uid;
	gid_t gid;
	const struct xd_groups *groups;
};

/*
 * Checks a descriptor that the client passed: a sealed memfd or a udmabuf that may be accessed so. -EINVAL,
 * -EOPNOTSUPP (a dma-buf of another driver).
 */
int xd_file_check(struct xd_file *f, int fd, bool write);
/*
 * Opens the file of a MAP_SHARED mapping. -EINVAL: not on tmpfs or hugetlbfs; -EACCES: the owner could not open the
 * file itself; other errors of open(). The caller closes f->fd.
 */
int xd_file_open_mapped(struct xd_file *f, const struct xd_mem_owner *owner,
			const struct xd_vma *vma, bool write);

#endif /* XD_MEMORY_FILE_H */
