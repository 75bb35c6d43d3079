/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mappings of clients' files in the daemon. They are accessed by the functions of
 * transport/guard.h. Their pages are locked in memory (mlock2(2)), so that they are not swapped
 * out.
 *
 * Pages are charged to the memory cgroup of the process that allocates them, which must be the
 * client's. The daemon's access to an absent page is therefore an error: the mappings are
 * registered with a userfaultfd that raises SIGBUS for absent pages.
 */
#ifndef XD_MAPPING_H
#define XD_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "file.h"

struct xd_mapping {
	uint8_t *base; /* start of a page */
	uint8_t *ptr;  /* the first byte of the range */
	uint64_t size;
	bool sparse; /* pages can be absent, see struct xd_file */
	bool absent; /* a page was when the mapping was to be pinned */
	bool pinned;
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
void xd_mapping_free(struct xd_mapping *m);
/*
 * Maps all pages, and pins the whole mapping or nothing. Returns false if it is not pinned, e.g. if
 * a page is absent.
 */
bool xd_mapping_pin(struct xd_mapping *m);

/* Bytes of all mappings */
struct xd_mem_totals {
	uint64_t mapped, pinned;
};
void xd_mem_totals(struct xd_mem_totals *totals);

#endif /* XD_MAPPING_H */
