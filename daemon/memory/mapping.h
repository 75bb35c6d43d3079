/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mappings of clients' files in the daemon. They are accessed by the functions of
 * transport/guard.h, and pinned by registering the mapped memory as umem of an AF_XDP socket that
 * has no other use.
 *
 * Pages are charged to the memory cgroup of the process that allocates them, which must be the
 * client's. The daemon's access to an absent page is therefore an error: the mappings are
 * registered with a userfaultfd that raises SIGBUS for absent pages.
 */
#ifndef XD_MAPPING_H
#define XD_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/fd_quota.h"
#include "file.h"

struct xd_mapping {
	uint8_t *base; /* start of a page */
	uint8_t *ptr;  /* the first byte of the range */
	uint64_t size;
	bool sparse; /* pages can be absent, see struct xd_file */
	bool absent; /* a page was when the mapping was to be pinned */
	int *pin;    /* AF_XDP sockets */
	uint32_t pins;
};

/*
 * Opens the daemon's userfaultfd. Without it, memory files cannot be mapped. Returns an error of
 * userfaultfd(2), also -EINVAL if the kernel lacks a feature.
 */
int xd_mapping_start(void);
void xd_mapping_stop(void);
/*
 * Maps [offset, offset + length) of a file. Returns
 * -EFAULT if the range exceeds the file, -ENOSPC if regions used up their share of the daemon's
 * mappings, -ENOSYS without a userfaultfd, -EPERM if absent pages cannot be refused (the
 * descriptor is read-only), or an error of mmap().
 */
int xd_mapping_new(struct xd_mapping *m, const struct xd_file *f, uint64_t offset, uint64_t length,
		   bool writable);
void xd_mapping_free(struct xd_mapping *m, struct xd_fd_quota *quota);
/*
 * Pins the whole mapping or nothing, by sockets that the helper opens for that ticket; returns
 * false on failure, e.g. if a page is absent. The sockets count against quota.
 */
bool xd_mapping_pin(struct xd_mapping *m, int ticket, struct xd_fd_quota *quota);

/* Bytes of all mappings */
struct xd_mem_totals {
	uint64_t mapped, pinned;
};
void xd_mem_totals(struct xd_mem_totals *totals);

#endif /* XD_MAPPING_H */
