/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What /proc/PID/maps says of a range of a client's address space. */
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
 * Those that overlap [start, end), in order; free() the list, also on error. -ESRCH: the address
 * space is gone. -EPROTO: not the text that it should be. The client can read through the same
 * file description meanwhile, and so garble what we read: nothing but the client's own memory may
 * be entrusted to the answer.
 */
int xd_proc_maps(int maps_fd, uint64_t start, uint64_t end, struct xd_vma **list, size_t *count);

/*
 * As ibv_reg_mr() has it: all of [addr, addr + length) is there, readable, and writable where
 * `write`. -EFAULT. The first for a list from xd_proc_maps(), the second asks. On Linux before 6.11
 * that reads the whole list up to the end of the range; within an engine's turn (transport/memory.h) once for
 * all that was taken in together.
 */
int xd_vma_check(const struct xd_vma *vma, size_t count, uint64_t addr, uint64_t length,
		 bool write);
int xd_proc_check(int maps_fd, uint64_t addr, uint64_t length, bool write);
/* The kernel answers for one address (PROCMAP_QUERY): no list is read. */
bool xd_proc_can_query(int maps_fd);
/* Do as on a kernel that cannot, from now on: for tests. */
void xd_proc_use_lists(void);

/* One line; false: malformed. */
bool xd_vma_parse(const char *line, struct xd_vma *vma);

#endif /* XD_PROC_MAPS_H */
