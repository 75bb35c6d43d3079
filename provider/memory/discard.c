// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * madvise() on memory that is or was adopted. The mappings decide, not the table of adopt.c, whose
 * lock is held while memory is allocated. System calls are made without libc: other libraries
 * (UCX) may have replaced its functions.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/base/cancel.h"
#include "provider/memory/convert.h"
#include "provider/memory/discard.h"

struct discard_range {
	uint64_t start, end;
};

/* Programs do that for a page or two. */
#define MAX_WIPED 64
static struct discard_range wiped[MAX_WIPED]; /* by MADV_WIPEONFORK; atomic, `end` is stored last */
static unsigned int nwiped; /* atomic; more than MAX_WIPED: too many to be known */

static struct discard_range discard_pages_of(uint64_t start, uint64_t length)
{
	uint64_t page = xp_page_size();

	return (struct discard_range){ start, start + ((length + page - 1) & ~(page - 1)) };
}

/* The part of it in mapping m */
static struct discard_range discard_part_of(const struct discard_range *r,
					    const struct xp_mapping *m)
{
	return (struct discard_range){
		r->start > m->start ? r->start : m->start,
		r->end < m->end ? r->end : m->end,
	};
}

bool xp_discard_concerns(uint64_t start, uint64_t length)
{
	struct discard_range r = discard_pages_of(start, length);

	return !(start & (xp_page_size() - 1)) && r.end > start &&
	       xp_granules_have(&xp_adopted_ever, start, r.end);
}

static int walk(uint64_t start, uint64_t length, xp_mapping_fn fn)
{
	struct discard_range r = discard_pages_of(start, length);
	int err, cancel = xp_cancel_off();

	xp_steps_lock();
	err = xp_mappings_walk(r.start, r.end, fn, &r);
	xp_steps_unlock();
	xp_cancel_restore(cancel);
	return err;
}

/* Maps new anonymous memory over part of m. */
static int renew(const struct discard_range *r, const struct xp_mapping *m)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	struct discard_range part = discard_part_of(r, m);
	long p = syscall(SYS_mmap, part.start, part.end - part.start, xp_protection(m), flags, -1,
			 0);

	return p == -1 ? -errno : 0;
}

static int discard_part(void *arg, const struct xp_mapping *m)
{
	return m->adopted ? renew(arg, m) : 0;
}

int xp_discard(uint64_t start, uint64_t length)
{
	return walk(start, length, discard_part);
}

static int free_part(void *arg, const struct xp_mapping *m)
{
	struct discard_range part = discard_part_of(arg, m);

	if (m->adopted)
		return m->shared ? 0 : renew(arg, m);
	return syscall(SYS_madvise, part.start, part.end - part.start, MADV_FREE) ? -errno : 0;
}

int xp_free_lazily(uint64_t start, uint64_t length)
{
	return walk(start, length, free_part);
}

static int find_adopted(void *arg, const struct xp_mapping *m)
{
	return m->adopted;
}

bool xp_has_adopted(uint64_t start, uint64_t length)
{
	return walk(start, length, find_adopted) == 1;
}

static bool is_known(const struct discard_range *r)
{
	const struct discard_range *w;

	for (w = wiped; w < wiped + MAX_WIPED; w++)
		if (__atomic_load_n(&w->end, __ATOMIC_ACQUIRE) >= r->end &&
		    __atomic_load_n(&w->start, __ATOMIC_RELAXED) <= r->start)
			return true;
	return false;
}

void xp_keep_wiped(uint64_t start, uint64_t length)
{
	struct discard_range r = discard_pages_of(start, length);
	unsigned int i;

	if (r.end == r.start || is_known(&r))
		return;
	i = __atomic_fetch_add(&nwiped, 1, __ATOMIC_RELAXED);
	if (i >= MAX_WIPED)
		return;
	__atomic_store_n(&wiped[i].start, r.start, __ATOMIC_RELAXED);
	__atomic_store_n(&wiped[i].end, r.end, __ATOMIC_RELEASE);
}

bool xp_is_wiped(uint64_t start, uint64_t end)
{
	const struct discard_range *w;

	if (__atomic_load_n(&nwiped, __ATOMIC_RELAXED) > MAX_WIPED)
		return true;
	for (w = wiped; w < wiped + MAX_WIPED; w++)
		if (start < __atomic_load_n(&w->end, __ATOMIC_ACQUIRE) &&
		    end > __atomic_load_n(&w->start, __ATOMIC_RELAXED))
			return true;
	return false;
}
