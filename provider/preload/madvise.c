// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed madvise(): adopted memory is a shared mapping of a file for the kernel, but private
 * memory for the program.
 */
#include <errno.h>
#include <sys/mman.h>

#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/memory/discard.h"
#include "provider/preload/next.h"

#define FUNCTIONS(X) X(madvise, int, (void *, size_t, int))
XP_NEXT_TABLE(madvise, FUNCTIONS)

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

static int madvise_discard(void *addr, size_t length)
{
	int saved = errno, err = xp_discard((uintptr_t)addr, length);

	errno = saved;
	return err ? xp_fail(err) : 0;
}

static int free_lazily(void *addr, size_t length)
{
	int err = xp_free_lazily((uintptr_t)addr, length);

	return err ? xp_fail(err) : 0;
}

static bool madvise_concerns(void *addr, size_t length)
{
	return xp_discard_concerns((uintptr_t)addr, length);
}

/*
 * The real function comes first, so that others that follow the program's memory (UCX) see the
 * call, and pages that another thread begins to adopt meanwhile are found. It returns ENOMEM after
 * all mapped pages were discarded, if others are not mapped.
 */
XP_PUBLIC int madvise(void *addr, size_t length, int advice)
{
	int ret;

	if (advice == MADV_REMOVE && madvise_concerns(addr, length) &&
	    xp_has_adopted((uintptr_t)addr, length))
		return xp_fail(EINVAL);
	ret = XP_NEXT(madvise)(addr, length, advice);
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
		if ((!ret || errno == ENOMEM) && madvise_concerns(addr, length) &&
		    madvise_discard(addr, length))
			return -1;
		return ret;
	case MADV_GUARD_INSTALL:
		/* Pages are discarded, and new mappings have no guards. */
		if (ret || !madvise_concerns(addr, length) ||
		    !xp_has_adopted((uintptr_t)addr, length))
			return ret;
		return madvise_discard(addr, length) ? -1 : XP_NEXT(madvise)(addr, length, advice);
	case MADV_FREE:
		return ret && errno == EINVAL && madvise_concerns(addr, length)
			       ? free_lazily(addr, length)
			       : ret;
	case MADV_WIPEONFORK:
		if (!ret)
			xp_keep_wiped((uintptr_t)addr, length);
		return ret;
	default:
		return ret;
	}
}
