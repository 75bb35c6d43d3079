/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mappings of clients' files in the daemon. Each is guarded against SIGBUS (sigbus.h) and pinned
 * by registering the mapped memory as umem of an AF_XDP socket that has no other use.
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
	uint32_t sigbus_slot;
	int *pin; /* AF_XDP sockets */
	uint32_t pins;
};

/*
 * Maps [offset, offset + length) of a file; *broken is set when the mapping lost its pages. Returns
 * -EFAULT if the range exceeds the file, -ENOSPC if regions used up their share of the daemon's
 * mappings, or an error of mmap().
 */
int xd_mapping_new(struct xd_mapping *m, const struct xd_file *f, uint64_t offset, uint64_t length,
		   bool writable, bool *broken);
void xd_mapping_free(struct xd_mapping *m, struct xd_fd_quota *quota);
/* Pins the whole mapping or nothing; returns false on failure. The sockets count against quota. */
bool xd_mapping_pin(struct xd_mapping *m, struct xd_fd_quota *quota);

/* Bytes of all mappings */
struct xd_mem_totals {
	uint64_t mapped, pinned;
};
void xd_mem_totals(struct xd_mem_totals *totals);

#endif /* XD_MAPPING_H */
