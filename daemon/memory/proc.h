/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Access to the memory of a client's process through its own /proc/self/mem and /proc/self/maps,
 * which the client passes as descriptors. They stay bound to the address space that they were
 * opened in, also after the process has executed another program.
 */
#ifndef XD_PROC_H
#define XD_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xd_proc {
	uint32_t refs; /* atomic */
	pid_t pid;
	int mem_fd, maps_fd;
	/*
	 * For the workers, which must not wait for a client that reads its list through maps_fd:
	 * the same descriptor if the kernel has PROCMAP_QUERY, else the same file, opened by the
	 * daemon; -1: neither.
	 */
	int worker_maps_fd;
};

/*
 * Takes over both descriptors, also on error. Returns -EINVAL if they are not /proc/PID/mem,
 * opened for reading and writing, and /proc/PID/maps of process `pid`.
 */
int xd_proc_new(int mem_fd, int maps_fd, pid_t pid, struct xd_proc **proc);
struct xd_proc *xd_proc_get(struct xd_proc *proc); /* NULL allowed */
void xd_proc_put(struct xd_proc *proc);		   /* NULL allowed */

/* These ignore the protection of pages. -EFAULT. */
int xd_proc_read(struct xd_proc *proc, uint64_t addr, void *dst, size_t len);
int xd_proc_write(struct xd_proc *proc, uint64_t addr, const void *src, size_t len);

/* Returns true if the process behind a pidfd has ended; -1: no pidfd, unknown. */
bool xd_process_ended(int pidfd);

#endif /* XD_PROC_H */
