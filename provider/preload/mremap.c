// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed mremap(): the kernel would make a mapping of adopted pages longer by what follows them
 * in their file, and treats it as shared memory.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/base/cancel.h"
#include "provider/base/export.h"
#include "provider/memory/convert.h"
#include "provider/memory/discard.h"
#include "provider/preload/next.h"

#define FUNCTIONS(X) X(mremap, void *, (void *, size_t, size_t, int, ...))
XP_NEXT_TABLE(mremap, FUNCTIONS)

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* Linux 5.7 */
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17; a hint before */
#endif

struct remapping {
	uint64_t from, size; /* whole pages */
	uint64_t to, new_size;
	int flags;

	uint64_t mapped, moved; /* bytes from `from` on */
	int protection;		/* of the last page */
};

static void *mremap_fail(int err)
{
	errno = err;
	return MAP_FAILED;
}

static uint64_t whole_pages(uint64_t size)
{
	return (size + xp_page_size() - 1) & ~(xp_page_size() - 1);
}

/* System calls without libc: other libraries (UCX) may have replaced its functions. */
static uint64_t mremap_map_new(uint64_t at, uint64_t length, int protection, int flags)
{
	flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	return (uint64_t)syscall(SYS_mmap, at, length, protection, flags, -1, 0);
}

static void mremap_unmap(uint64_t start, uint64_t length)
{
	syscall(SYS_munmap, start, length);
}

static int mremap_look(void *arg, const struct xp_mapping *m)
{
	struct remapping *r = arg;

	if (m->start > r->from + r->mapped)
		return -EFAULT;
	r->mapped = (m->end < r->from + r->size ? m->end : r->from + r->size) - r->from;
	r->protection = xp_protection(m);
	return 0;
}

static bool extend_in_place(const struct remapping *r)
{
	uint64_t end = r->from + r->size, more = r->new_size - r->size;
	uint64_t p = mremap_map_new(end, more, r->protection, MAP_FIXED_NOREPLACE);

	if (p != end && p != (uint64_t)-1)
		mremap_unmap(p, more);
	return p == end;
}

/* By libc's function, so that others that follow the program's memory see it */
static int move_part(void *arg, const struct xp_mapping *m)
{
	struct remapping *r = arg;
	uint64_t end = m->end < r->from + r->size ? m->end : r->from + r->size;
	uint64_t start = r->from + r->moved;
	void *to = (void *)(uintptr_t)(r->to + r->moved);

	if (XP_NEXT(mremap)((void *)(uintptr_t)start, end - start, end - start,
			    MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
		return -errno;
	r->moved += end - start;
	return 0;
}

/* The parts that could be moved, when there are too many mappings for the others */
static void move_back(const struct remapping *r)
{
	struct remapping back = { .from = r->to, .size = r->moved, .to = r->from };

	if (r->moved)
		xp_mappings_walk(back.from, back.from + back.size, move_part, &back);
	mremap_unmap(r->to + r->moved, r->new_size - r->moved);
}

static bool overlaps(const struct remapping *r)
{
	return r->to < r->from + r->size && r->from < r->to + r->new_size;
}

/* New memory first: if it cannot be had, nothing has changed. */
static void *grow_elsewhere(struct remapping *r)
{
	bool fixed = r->flags & MREMAP_FIXED;
	int err;

	if (fixed && (r->to & (xp_page_size() - 1) || overlaps(r)))
		return mremap_fail(EINVAL);
	r->to = mremap_map_new(r->to, r->new_size, r->protection, fixed ? MAP_FIXED : 0);
	if (r->to == (uint64_t)-1)
		return MAP_FAILED;
	xp_granules_add(&xp_adopted_ever, r->to, r->to + r->size);
	err = xp_mappings_walk(r->from, r->from + r->size, move_part, r);
	if (!err)
		return (void *)(uintptr_t)r->to;
	move_back(r);
	return mremap_fail(-err);
}

static void *mremap_grow(struct remapping *r)
{
	int err = xp_mappings_walk(r->from, r->from + r->size, mremap_look, r);

	if (err || r->mapped != r->size)
		return mremap_fail(EFAULT);
	if (!(r->flags & MREMAP_FIXED)) {
		if (extend_in_place(r))
			return (void *)(uintptr_t)r->from;
		r->to = 0;
	}
	return r->flags & MREMAP_MAYMOVE ? grow_elsewhere(r) : mremap_fail(ENOMEM);
}

static void *mremap_move(const struct remapping *r)
{
	void *p = XP_NEXT(mremap)((void *)(uintptr_t)r->from, r->size, r->new_size, r->flags,
				  (void *)(uintptr_t)r->to);
	uint64_t at = (uintptr_t)p;

	if (p == MAP_FAILED)
		return p;
	xp_granules_add(&xp_adopted_ever, at, at + r->new_size);
	if (r->flags & MREMAP_DONTUNMAP && xp_discard(r->from, r->size)) {
		mremap_unmap(at, r->new_size);
		return mremap_fail(ENOMEM);
	}
	return p;
}

__attribute__((noinline)) static void *remap_adopted(void *old, size_t old_size, size_t new_size,
						     int flags, void *to)
{
	struct remapping r = {
		.from = (uintptr_t)old,
		.size = whole_pages(old_size),
		.to = (uintptr_t)to,
		.new_size = whole_pages(new_size),
		.flags = flags,
	};
	bool ordinary = !(flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) && flags != MREMAP_FIXED;
	int cancel = xp_cancel_off(), saved = errno;
	void *p;

	if (!xp_has_adopted(r.from, old_size ? old_size : 1))
		p = XP_NEXT(mremap)(old, old_size, new_size, flags, to);
	else if (!old_size)
		p = mremap_fail(EINVAL); /* as for all private memory */
	else if (ordinary && r.new_size > r.size)
		p = mremap_grow(&r);
	else
		p = mremap_move(&r);
	xp_cancel_restore(cancel);
	if (p != MAP_FAILED)
		errno = saved;
	return p;
}

XP_PUBLIC void *mremap(void *old, size_t old_size, size_t new_size, int flags, ...)
{
	void *to = NULL;
	va_list ap;

	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
		va_start(ap, flags);
		to = va_arg(ap, void *);
		va_end(ap);
	}
	if (!xp_discard_concerns((uintptr_t)old, old_size ? old_size : 1))
		return XP_NEXT(mremap)(old, old_size, new_size, flags, to);
	return remap_adopted(old, old_size, new_size, flags, to);
}
