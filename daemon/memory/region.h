/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of a region, behind the interface of transport/memory.h. A region is a list of
 * segments, each in one tier:
 *
 *   adopted   a memfd that the client passed, mapped into the daemon
 *   shared    a MAP_SHARED mapping of the client: its file, opened through /proc/PID/map_files and
 *             mapped into the daemon
 *   private   all other memory, read and written through the client's /proc/self/mem; also
 *             regions on demand, which are checked at each access (on_demand.c)
 *   device    device memory (objects/dm.c)
 *   null      no memory: reads return zeros, writes are discarded
 *
 * All functions may block and run in jobs, except where noted.
 */
#ifndef XD_MEMORY_REGION_H
#define XD_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "daemon/transport/memory/memory.h"
#include "file.h"
#include "mapping.h"
#include "proc.h"

/* Absent pages in mapped regions of one client */
struct xd_absent {
	bool seen;   /* an access found one; atomic */
	int wake_fd; /* eventfd: `seen` of some client was set */
};

struct xd_mem_request {
	uint64_t addr, length;
	uint32_t access; /* XR_ACCESS_* */
	const struct xr_mr_segment *segment;
	uint32_t segments;
	const int *fds;		  /* of XR_SEG_FD; not taken over */
	uint8_t *dm;		  /* the device memory of XR_SEG_DM */
	struct xd_proc *proc;	  /* NULL if no segment needs it */
	int ticket;		  /* of the program, for the helper; -1: none */
	struct xd_absent *absent; /* of the client; must outlive the region */
	struct xd_proc **current; /* the same; see struct xd_mem */
};

struct xd_mem {
	struct xt_mem xt; /* first: the engine passes it to the callbacks */
	struct xd_proc *proc;
	struct xd_absent *absent;
	/*
	 * The client's address space, NULL: none was sent yet; atomic. It is that of a mapped
	 * region if proc is NULL. One that is replaced lives until no worker uses it.
	 */
	struct xd_proc **current;
	struct xd_mapping *mapping;
	uint32_t mappings;
	struct xt_mem_seg *before; /* the segments before xd_mem_unmap(), for workers; or NULL */
	uint32_t tiers;		   /* bit by enum xr_mr_segment_kind */
	bool writable;
	bool on_demand;
	bool checked; /* each access to a private segment checks the mappings of the process */
	bool pinned;  /* everything is mapped and pinned */
};

/* Of all regions with private segments and of those on demand */
extern const struct xt_mem_ops xd_private_ops;
/* Of integrity regions, whose pieces belong to regions of xd_mem.proc */
extern const struct xt_mem_ops xd_integrity_ops;

/* Returns true for regions without memory of the client: device memory and null regions. */
static inline bool xd_seg_alone(const struct xr_mr_segment *segment, uint32_t segments)
{
	return segments == 1 && segment->kind >= XR_SEG_DM;
}

/*
 * Checks that the segments cover [addr, addr + length) in order and refer to fewer than nfds
 * descriptors. Returns -EINVAL if not. Does not block.
 */
int xd_mem_check(const struct xr_mr_segment *segment, uint32_t segments, uint64_t addr,
		 uint64_t length, uint32_t nfds);
/* Bytes that the daemon allocates for a region of that many segments */
uint64_t xd_mem_overhead(uint32_t segments);
/* The segments have passed xd_mem_check(). */
int xd_mem_new(const struct xd_mem_request *req, struct xd_mem **mem);
/*
 * Creates a region on demand, whose memory need not be mapped yet: each access checks the mappings
 * and their protection, and fails with -EFAULT. addr 0 and length UINT64_MAX cover the whole
 * address space, now and later; offsets are addresses then. Returns -EINVAL without a process or if
 * the range wraps, or an error of starting the mover.
 */
int xd_mem_on_demand(struct xd_proc *proc, uint64_t addr, uint64_t length, bool writable,
		     struct xd_mem **mem);
/*
 * Starts the mover for xd_mem_unmap(). Returns -EOPNOTSUPP if the mover cannot access the memory:
 * the process has not mapped the file, or sent no descriptors.
 */
int xd_mem_prepare_unmap(const struct xd_mem *mem);
/*
 * Moves segments to the private tier whose pages can be absent: from now on the mover accesses them
 * and checks the mappings of the process each time. Accesses fail until the mover is started.
 * Workers may use the region meanwhile, as it was. Does not block. Returns 0 or -ENOMEM.
 */
int xd_mem_unmap(struct xd_mem *mem);
/*
 * Returns the address space by which accesses reach a region, NULL: none yet. By the control
 * thread, and by workers in their rounds
 */
struct xd_proc *xd_mem_proc(const struct xd_mem *mem);
/* A page of a mapped segment was absent. Any thread, does not block. */
void xd_mem_absent(const struct xd_mem *mem);
void xd_mem_free(struct xd_mem *mem); /* NULL allowed */

/* Returns true if the rights include any kind of writing. */
static inline bool xd_access_writes(uint32_t access)
{
	return access & (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_ATOMIC |
			 XR_ACCESS_MW_BIND);
}

#endif /* XD_MEMORY_REGION_H */
