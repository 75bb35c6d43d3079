// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Regions on demand, which may be as large as the whole address space of a process. Registration
 * checks nothing. Each access checks the process's mappings first, as /proc/PID/mem ignores the
 * protection of pages.
 */
#include <errno.h>
#include <stdlib.h>

#include "proc_maps.h"
#include "region.h"

static struct xd_proc *proc_of(struct xt_mem *mem)
{
	return ((struct xd_mem *)mem)->proc;
}

static int demand_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		       size_t len)
{
	struct xd_proc *proc = proc_of(mem);
	int err = xd_proc_check(proc->worker_maps_fd, seg->addr + off, len, false);

	return err ? err : xd_proc_read(proc, seg->addr + off, dst, len);
}

static int demand_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
			const void *src, size_t len)
{
	struct xd_proc *proc = proc_of(mem);
	int err = xd_proc_check(proc->worker_maps_fd, seg->addr + off, len, true);

	return err ? err : xd_proc_write(proc, seg->addr + off, src, len);
}

static const struct xt_mem_ops demand_ops = { .read = demand_read, .write = demand_write };

int xd_mem_on_demand(struct xd_proc *proc, uint64_t addr, uint64_t length, bool writable,
		     struct xd_mem **out)
{
	struct xd_mem *mem;

	if (!proc || addr + length < addr)
		return -EINVAL;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	mem->writable = writable;
	mem->on_demand = true;
	mem->tiers = 1u << XR_SEG_PRIVATE;
	mem->xt.ops = &demand_ops;
	mem->xt.length = length;
	mem->xt.seg = calloc(1, sizeof(*mem->xt.seg));
	if (!mem->xt.seg) {
		free(mem);
		return -ENOMEM;
	}
	mem->proc = xd_proc_get(proc);
	mem->xt.nseg = 1;
	mem->xt.seg[0] = (struct xt_mem_seg){ .len = length, .addr = addr, .writable = writable };
	*out = mem;
	return 0;
}
