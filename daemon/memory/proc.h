/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Access to the memory of a client's process through its own /proc/self/mem and /proc/self/maps,
 * which the client passes as descriptors. They stay bound to the address space that they were
 * opened in, also after the process has executed another program.
 */
#ifndef XD_PROC_H
#define XD_PROC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/fd_quota.h"

struct xd_killed;
struct xd_mover;
struct xd_movers;
struct xd_vma;

/* What an address space counts for. The quotas must outlive it. */
struct xd_proc_quota {
	struct xd_fd_quota *fds;   /* XD_PROC_FDS descriptors */
	struct xd_fd_quota *procs; /* address spaces, each of which may have a mover */
	struct xd_killed *process; /* of the mover, which takes it when it starts; NULL: none */
};
#define XD_PROC_FDS 2 /* mem and maps */

struct xd_proc {
	uint32_t refs; /* atomic */
	struct xd_proc_quota quota;
	pid_t pid;
	int mem_fd, maps_fd;
	struct xd_movers *movers; /* NULL: none, for fuzzers */
	pthread_mutex_t lock;	  /* of starting the mover */
	struct xd_mover *mover;	  /* atomic; NULL: not started */
};

/*
 * fd: mem and maps. Takes over both, and what the caller took of the quotas, also on error. Returns
 * -EINVAL if they are not /proc/PID/mem, opened for reading and writing, and /proc/PID/maps of
 * process `pid`.
 */
int xd_proc_new(struct xd_movers *movers, const int fd[2], pid_t pid, struct xd_proc_quota quota,
		struct xd_proc **proc);
struct xd_proc *xd_proc_get(struct xd_proc *proc); /* NULL allowed */
void xd_proc_put(struct xd_proc *proc);		   /* NULL allowed */
/* Starts the mover, which must have been done before the first access. Any thread. */
int xd_proc_start_mover(struct xd_proc *proc);
/* xd_proc_maps() by the mover, which is started. Waits for it. */
int xd_proc_list(struct xd_proc *proc, uint64_t start, uint64_t end, struct xd_vma **list,
		 size_t *count);
/* Returns the mover, NULL if none was started. NULL allowed. */
struct xd_mover *xd_proc_mover(const struct xd_proc *proc);

/* Regardless of the pages' protection. -EFAULT. They may wait without limit: for movers only. */
int xd_proc_read(int mem_fd, uint64_t addr, void *dst, size_t len);
int xd_proc_write(int mem_fd, uint64_t addr, const void *src, size_t len);
/*
 * The same, for bytes that end a message, which a program may poll: the last 8 are stored after all
 * others if they end at a multiple of 8, else the last 4 at a multiple of 4, else the last one.
 * This takes two writes in one system call, if there are more. Each write of /proc/PID/mem takes a
 * reference to the address space by an atomic that is a full barrier (mmget_not_zero()), so the
 * stores of the second become visible after those of the first, on arm64 as well. Within one write,
 * the kernel copies by string instructions, whose stores have no order (Intel SDM volume 3, 8.2.4).
 */
int xd_proc_write_last(int mem_fd, uint64_t addr, const void *src, size_t len);

#endif /* XD_PROC_H */
