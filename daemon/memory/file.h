/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files behind the memory of a region: passed by the client (adopted memory, dma-buf), or found
 * by a mapping of the client's process (shared memory). Each is checked before the daemon maps
 * the file.
 */
#ifndef XD_FILE_H
#define XD_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "proc_maps.h"

struct xd_file {
	int fd;
	uint64_t size;
	uint64_t unit; /* of mappings: a page, or a huge page */
	bool dmabuf;   /* of udmabuf */
	bool sparse;   /* pages may be absent, and an access would allocate them */
};

/*
 * Checks a descriptor that the client passed. Returns -EINVAL unless it is a memfd sealed against
 * shrinking, or a udmabuf, and open for the access; -EOPNOTSUPP for dma-bufs of other drivers.
 */
int xd_file_check(struct xd_file *f, int fd, bool write);
/*
 * Makes the helper open the file of a MAP_SHARED mapping; the caller closes f->fd. Returns -EINVAL
 * if the file is not on tmpfs or hugetlbfs, -EACCES if the program could not open it, or an error
 * of open(). May block as long as the program blocks the helper.
 */
int xd_file_open_mapped(struct xd_file *f, int ticket, const struct xd_vma *vma, bool write);

#endif /* XD_FILE_H */
