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
 * Lists the mappings that overlap [start, end), in order. The caller frees the list, also after
 * an error. Returns -ESRCH if the address space is gone, -EPROTO if the text is malformed. The
 * client can read from the same file description meanwhile, which garbles the text, so the result
 * is reliable only for the client's own memory.
 */
int xd_proc_maps(int maps_fd, uint64_t start, uint64_t end, struct xd_vma **list, size_t *count);

/*
 * Checks in a list of xd_proc_maps(), like ibv_reg_mr(), that all of [addr, addr + length) is
 * mapped and readable, and writable if `write`. Returns -EFAULT if not.
 */
int xd_vma_check(const struct xd_vma *vma, size_t count, uint64_t addr, uint64_t length,
		 bool write);
/*
 * Checks a range like xd_vma_check(), by a query instead of a list. Before Linux 6.11, this reads
 * the whole list up to the end of the range; in a round of an engine, the accesses of one epoch
 * (transport/memory.h) share it.
 */
int xd_proc_check(int maps_fd, uint64_t addr, uint64_t length, bool write);
/* Returns true if the kernel has PROCMAP_QUERY, which looks up one address without a list. */
bool xd_proc_can_query(int maps_fd);
/* For tests: behaves from now on as if the kernel lacked PROCMAP_QUERY. */
void xd_proc_use_lists(void);

#endif /* XD_PROC_MAPS_H */
