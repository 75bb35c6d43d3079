/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of one memory region, in their tiers, behind transport/memory.h:
 *
 *   adopted   a memfd that the client passed: mapped here
 *   shared    a MAP_SHARED mapping of the client: its file, opened by map_files, mapped here
 *   private   the rest: read and written through the client's /proc/self/mem; so are regions on
 *             demand, which are not looked at before they are used (on_demand.c)
 *   device    memory that the daemon gave (dm.c)
 *   null      none: zeros are read, what is written is forgotten
 *
 * Mapped parts are pinned by registering them as the memory of an AF_XDP socket that does nothing
 * else. A client can take the pages of a mapping away (truncate its file): the SIGBUS
 * that follows puts empty memory in their place and marks the region broken.
 *
 * Everything here may take long and runs in jobs, but for xd_sigbus_start().
 */
#ifndef XD_MEMORY_REGION_H
#define XD_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <xroce/control.h>

#include "daemon/transport/memory.h"

struct xd_server;

/*
 * A process's memory by descriptors that are bound to its address space, also when it executes
 * another program.
 */
struct xd_proc {
	uint32_t refs; /* atomic */
	pid_t pid;
	int mem_fd, maps_fd;
	/*
	 * For workers, who must not wait for a client that reads its list through maps_fd: the same where the
	 * kernel can be asked without that, else the same file, opened here.
	 */
	int look_fd;
};
/*
 * Takes both descriptors, also on error. pid: whose they must be. -EINVAL: they are not what they
 * should be.
 */
int xd_proc_new(int mem_fd, int maps_fd, pid_t pid, struct xd_proc **proc);
struct xd_proc *xd_proc_get(struct xd_proc *proc);
void xd_proc_put(struct xd_proc *proc); /* NULL allowed */
/* Whatever the protection of the pages. -EFAULT. */
int xd_proc_read(struct xd_proc *proc, uint64_t addr, void *dst, size_t len);
int xd_proc_write(struct xd_proc *proc, uint64_t addr, const void *src, size_t len);

struct xd_mem_request {
	struct xd_server *server;
	uint64_t addr, length;
	uint32_t access; /* XR_ACCESS_* */
	const struct xr_mr_segment *segment;
	uint32_t segments;
	const int *fds; /* of XR_SEG_FD; stay the caller's */
	uint32_t nfds;
	uint8_t *dm;	      /* of XR_SEG_DM, which lies within */
	struct xd_proc *proc; /* may be NULL where no segment needs it */
	pid_t pid;
	int pidfd; /* -1: none */
	uid_t uid;
	gid_t gid;
	const struct xd_groups *groups;
};

/* Mappings of one region */
struct xd_map;

struct xd_mem {
	struct xt_mem xt;
	struct xd_server *server;
	struct xd_proc *proc;
	struct xd_map *map;
	uint32_t maps;
	uint32_t tiers; /* bit by enum xr_mr_segment_kind */
	bool writable;
	bool on_demand;
	bool pinned; /* every byte is mapped and pinned */
};

/* No memory of the client: XR_SEG_DM, XR_SEG_NULL */
static inline bool xd_seg_alone(const struct xr_mr_segment *segment, uint32_t segments)
{
	return segments == 1 && segment->kind >= XR_SEG_DM;
}

/* That the segments are exactly [addr, addr + length), in order; needs no descriptor. -EINVAL. */
int xd_mem_check(const struct xr_mr_segment *segment, uint32_t segments, uint64_t addr,
		 uint64_t length, uint32_t nfds);
/* Bytes that the daemon needs itself to keep so many */
uint64_t xd_mem_overhead(uint32_t segments);
int xd_mem_new(const struct xd_mem_request *req, struct xd_mem **mem);
/*
 * Memory of a process that need not be there yet: mappings and their protection are looked at with each
 * access, -EFAULT. 0 and UINT64_MAX: all that the process has, now and later; offsets are addresses.
 * Takes no time. -EINVAL: no process, or beyond the end.
 */
int xd_mem_on_demand(struct xd_server *s, struct xd_proc *proc, uint64_t addr, uint64_t length,
		     bool writable, struct xd_mem **mem);
void xd_mem_free(struct xd_mem *mem); /* NULL allowed */

/* The process behind a pidfd has ended. */
bool xd_process_ended(int pidfd);

/* Does an access ask for writing? */
static inline bool xd_access_writes(uint32_t access)
{
	return access & (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_ATOMIC |
			 XR_ACCESS_MW_BIND);
}

/* The process's SIGBUS handler, and the list of mappings that it knows. */
int xd_sigbus_start(void);
/* -ENOSPC: the list is full. *broken is set when the mapping lost its pages. */
int xd_sigbus_add(void *start, uint64_t length, bool *broken, uint32_t *place);
void xd_sigbus_del(uint32_t place);

/* Bytes of all regions */
struct xd_mem_totals {
	uint64_t mapped, pinned;
};
void xd_mem_totals(struct xd_mem_totals *totals);

#endif /* XD_MEMORY_REGION_H */
