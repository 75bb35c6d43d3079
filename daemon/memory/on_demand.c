// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Regions on demand, which may be as large as the whole address space of a process. Registration
 * checks nothing. For each access the mover checks the process's mappings first, as /proc/PID/mem
 * ignores the protection of pages.
 */
#include <errno.h>
#include <stdlib.h>

#include "region.h"

int xd_mem_on_demand(struct xd_proc *proc, uint64_t addr, uint64_t length, bool writable,
		     struct xd_mem **out)
{
	struct xd_mem *mem;
	int err;

	if (!proc || addr + length < addr)
		return -EINVAL;
	err = xd_proc_start_mover(proc);
	if (err)
		return err;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	mem->writable = writable;
	mem->on_demand = mem->checked = true;
	mem->tiers = 1u << XR_SEG_PRIVATE;
	mem->xt.ops = &xd_private_ops;
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
