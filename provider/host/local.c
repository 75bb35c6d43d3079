// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory of the program as memory of the engine. Segments that are mapped are accessed by the
 * engine itself; the others (lists of pages and pieces of fast registration) by these functions. An
 * access to memory that the program has unmapped ends with -EFAULT (daemon/transport/guard.h).
 */
#include <string.h>

#include "daemon/transport/memory/guard.h"
#include "internal.h"

static void *local_at(const struct xt_mem_seg *seg, uint64_t off)
{
	return (void *)(uintptr_t)(seg->addr + off);
}

static int local_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		      size_t len)
{
	return xt_guard_copy(dst, local_at(seg, off), len);
}

static int local_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		       const void *src, size_t len)
{
	return xt_guard_place(local_at(seg, off), src, len);
}

const struct xt_mem_ops xp_local_ops = { .read = local_read, .write = local_write };

static int local_null_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
			   void *dst, size_t len)
{
	memset(dst, 0, len);
	return 0;
}

static int local_null_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
			    const void *src, size_t len)
{
	return 0;
}

const struct xt_mem_ops xp_null_ops = { .read = local_null_read, .write = local_null_write };
