// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Pages of a region that is registered. The kernel returns the same errors as when it pins pages:
 * for memory that is not mapped, lies behind the end of its file, or may not be read or written.
 *
 * Linux before 5.14 lacks the call. There, a byte of each page is read, or an atomic operation adds
 * 0 to a word of it, which changes nothing, under the guard that ends accesses with an error.
 * Memory that may be written but not read passes there, as processors can read it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/transport/memory/guard.h"
#include "mr.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static int populate_touch(uint64_t start, uint64_t end, uint64_t page, bool write)
{
	uint64_t old;
	int err = 0;

	if (!write)
		return XT_UNORDERED(xt_guard_probe((const uint8_t *)(uintptr_t)start, end - start));
	for (; start < end && !err; start += page)
		err = XT_UNORDERED(xt_guard_fetch_add((uint64_t *)(uintptr_t)start, 0, &old));
	return err;
}

/* Memory of devices is refused with EINVAL, too. */
static bool kernel_has_call(uint64_t page)
{
	static const char here;

	return !madvise((void *)((uintptr_t)&here & ~(uintptr_t)(page - 1)), page,
			MADV_POPULATE_READ);
}

int xp_populate_pages(uint64_t addr, uint64_t length, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr & -page;
	uint64_t end = (addr + length + page - 1) & -page;
	int err;

	if (!length)
		return 0;
	do
		err = madvise((void *)(uintptr_t)start, end - start,
			      write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)
			      ? errno
			      : 0;
	while (err == EINTR || err == EAGAIN);
	if (err == EINVAL && !kernel_has_call(page))
		return populate_touch(start, end, page, write);
	return err ? -EFAULT : 0;
}
