/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * PROCMAP_QUERY of include/uapi/linux/fs.h, which headers before Linux 6.11 lack: looks up one
 * mapping of the process behind an open /proc/PID/maps. Fails with ENOTTY on older kernels.
 */
#ifndef XROCE_PROCMAP_H
#define XROCE_PROCMAP_H

#include <stdint.h>
#include <sys/ioctl.h>

struct xr_procmap_query {
	uint64_t size;
	uint64_t flags; /* XR_PROCMAP_*: the mapping must have these, or XR_PROCMAP_NEXT */
	uint64_t addr;
	uint64_t vma_start, vma_end;
	uint64_t vma_flags; /* XR_PROCMAP_* */
	uint64_t vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_size; /* in: room at `name`; out: length with its NUL; 0: no name */
	uint32_t build_id_size;
	uint64_t name, build_id; /* addresses */
};

#define XR_PROCMAP_QUERY _IOWR('f', 17, struct xr_procmap_query)

#define XR_PROCMAP_READABLE 1
#define XR_PROCMAP_WRITABLE 2
#define XR_PROCMAP_EXECUTABLE 4
#define XR_PROCMAP_SHARED 8
#define XR_PROCMAP_NEXT 0x10 /* the mapping that contains addr, or the next one; else ENOENT */

#endif /* XROCE_PROCMAP_H */
