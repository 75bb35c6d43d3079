/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The mappings of a client's process, from /proc/PID/maps. */
#ifndef XD_PROC_MAPS_H
#define XD_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xd_vma {
	uint64_t start, end, offset;
	dev_t dev;
	uint64_t inode;
	bool readable, writable, shared;
};

/*
 * Lists the mappings that overlap [start, end), in order: by queries of single mappings, before
 * Linux 6.11 by reading the list of all up to `end`. The caller frees the list, also after an
 * error. Returns -ESRCH if the address space is gone, -EPROTO if the text is malformed. The client
 * can read from the same file description meanwhile, which garbles the text, so the result is
 * reliable only for the client's own memory.
 */
int xd_proc_maps(int maps_fd, uint64_t start, uint64_t end, struct xd_vma **list, size_t *count);

/*
 * Checks in a list of xd_proc_maps(), like ibv_reg_mr(), that all of [addr, addr + length) is
 * mapped, and writable if `write`, else readable. Returns -EFAULT if not.
 */
int xd_vma_check(const struct xd_vma *vma, size_t count, uint64_t addr, uint64_t length,
		 bool write);
/*
 * Checks without a list, by queries, that the range is mapped and readable, and writable if
 * `write`, as the kernel does for regions on demand. Before Linux 6.11, this reads the whole list
 * up to the end of the range; the checks of one epoch share it. For one thread of a mover.
 */
int xd_proc_check(int maps_fd, uint64_t addr, uint64_t length, bool write);
/*
 * Begins an epoch: later checks must not use what was read before. To be called after accesses were
 * submitted and before these are checked.
 */
void xd_proc_new_epoch(void);
/* For tests, before the spawner is started: behaves as if the kernel lacked PROCMAP_QUERY. */
void xd_proc_use_lists(void);

#endif /* XD_PROC_MAPS_H */
