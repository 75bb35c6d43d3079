// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Adoption: which pages of the program are in a page file, and how many regions reference each.
 *
 * One table serves the process. Regions of all contexts count alike. When the last region drops its
 * reference, the pages become private memory again.
 *
 * The program may unmap adopted pages and map others there. An interval is therefore identified by
 * its place in the page file, which is never used twice: when a region drops a reference to pages
 * that are no longer mapped there, nothing is found, rather than pages of another mapping.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "provider/base/cancel.h"
#include "provider/memory/adopt.h"
#include "provider/memory/convert.h"
#include "provider/memory/discard.h"
#include "provider/memory/interval.h"
#include "provider/memory/map_budget.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state; /* of the thread that holds the lock */

static struct xp_intervals adopted;  /* each has a reference to its file */
static struct xp_intervals excluded; /* written through /proc/self/mem: xp_adopt_exclude() */
/*
 * Referenced pages whose addresses the program reused for another mapping. An unsorted list;
 * each has a reference to its file.
 */
static struct xp_intervals displaced;

void xp_adopt_lock(void)
{
	int before = xp_cancel_off();

	pthread_mutex_lock(&lock);
	cancel_state = before;
}

void xp_adopt_unlock(void)
{
	int before = cancel_state;

	pthread_mutex_unlock(&lock);
	xp_cancel_restore(before);
}

/* ---- policy -------------------------------------------------------------------- */

static struct {
	bool never;
	uint64_t min; /* bytes of whole pages */
} policy;

static void read_policy(void)
{
	const char *adopt = secure_getenv("XROCE_ADOPT"), *min = secure_getenv("XROCE_ADOPT_MIN");

	policy.never = adopt && !strcmp(adopt, "never");
	if (min && !(adopt && !strcmp(adopt, "always")))
		policy.min = strtoull(min, NULL, 0);
}

/* Returns true if the whole pages [start, end) of mapping m may be adopted. */
static bool adoptable(const struct xp_mapping *m, uint64_t start, uint64_t end, int uffd_device)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t stack = (uintptr_t)__builtin_frame_address(0), tls = (uintptr_t)&errno;

	pthread_once(&once, read_policy);
	if (policy.never || start >= end || end - start < policy.min)
		return false;
	if (m->shared || !m->readable || !m->writable || m->executable || xp_is_wiped(start, end))
		return false;
	/* Memory that was adopted before is a private mapping of a page file. */
	if (!m->anonymous && !m->adopted)
		return false;
	/* This thread writes to its stack and TLS while it moves pages. */
	if ((m->start <= stack && stack < m->end) || (m->start <= tls && tls < m->end))
		return false;
	return xp_convert_ready(uffd_device) && xp_map_budget_take();
}

/* ---- intervals with files ------------------------------------------------------ */

/* Splits the interval at addr. Needs room for one more. */
static void adopt_split(uint64_t addr)
{
	struct xp_interval *tail = xp_intervals_split(&adopted, addr);

	if (tail)
		xp_file_get(tail->file);
}

static void remove_adopted(size_t i)
{
	struct xp_file *f = adopted.at[i].file;

	xp_intervals_remove(&adopted, i);
	xp_file_put(f);
}

/* Moves an interval to the displaced ones. */
static int displace(size_t i)
{
	if (xp_intervals_reserve(&displaced, 1))
		return -ENOMEM;
	xp_intervals_insert(&displaced, displaced.count, &adopted.at[i]);
	xp_intervals_remove(&adopted, i);
	return 0;
}

/* Returns true if address at, in mapping m, still maps the page of interval p. */
static bool in_place(const struct xp_interval *p, uint64_t at, const struct xp_mapping *m)
{
	return m->shared && m->inode == p->file->inode && m->dev == p->file->dev &&
	       m->offset + (at - m->start) == p->offset + (at - p->start);
}

static uint64_t round_down(uint64_t x)
{
	return x & ~(xp_page_size() - 1);
}

static uint64_t round_up(uint64_t x)
{
	return round_down(x + xp_page_size() - 1);
}

/* ---- references of regions ----------------------------------------------------- */

/* Adds a reference to pages [start, end), which are part of interval i. */
static int add_ref(struct xp_page_refs *refs, size_t i, uint64_t start, uint64_t end)
{
	struct xp_interval *p;

	if (xp_intervals_reserve(&adopted, 2) || xp_page_refs_reserve(refs))
		return -ENOMEM;
	adopt_split(start);
	adopt_split(end);
	p = &adopted.at[xp_intervals_find(&adopted, start)];
	p->refs++;
	xp_file_get(p->file);
	refs->at[refs->count++] = (struct xp_page_ref){ start, end, p->file, p->offset };
	return 0;
}

int xp_adopt_exclude(uint64_t start, uint64_t end, struct xp_layout *l)
{
	struct xp_page_refs *refs = &l->refs;
	int err = 0;

	start = round_down(start);
	end = end > UINT64_MAX - xp_page_size() ? round_down(end) : round_up(end);
	if (start >= end)
		return 0;
	err = xp_page_refs_reserve(refs);
	if (!err)
		err = xp_intervals_ref(&excluded, start, end);
	if (!err)
		refs->at[refs->count++] = (struct xp_page_ref){ .start = start, .end = end };
	return err;
}

/* Returns true if that was the last reference; the pages are private then. */
static bool put_interval(struct xp_interval *p)
{
	if (--p->refs)
		return false;
	xp_move_out(p->start, p->end - p->start, p->file, p->offset);
	return true;
}

/* Returns true if interval p is of the same pages as the reference. */
static bool same_pages(const struct xp_page_ref *ref, const struct xp_interval *p)
{
	return p->file == ref->file && p->offset - p->start == ref->offset - ref->start;
}

static void drop_displaced(const struct xp_page_ref *ref)
{
	size_t i = 0;

	while (i < displaced.count) {
		struct xp_interval *p = &displaced.at[i];
		struct xp_file *f = p->file;

		if (p->start >= ref->start && p->end <= ref->end && same_pages(ref, p) &&
		    put_interval(p)) {
			xp_intervals_remove(&displaced, i);
			xp_file_put(f);
		} else {
			i++;
		}
	}
}

/* Later regions may have split the interval since the reference was taken. */
static void drop_ref(const struct xp_page_ref *ref)
{
	size_t i;

	if (!ref->file) {
		xp_intervals_unref(&excluded, ref->start, ref->end);
		return;
	}
	i = xp_intervals_find(&adopted, ref->start);
	while (i < adopted.count && adopted.at[i].start < ref->end) {
		if (same_pages(ref, &adopted.at[i]) && put_interval(&adopted.at[i]))
			remove_adopted(i);
		else
			i++;
	}
	drop_displaced(ref);
	xp_file_put(ref->file);
}

void xp_page_refs_release_locked(struct xp_page_refs *refs)
{
	while (refs->count)
		drop_ref(&refs->at[--refs->count]);
	free(refs->at);
	*refs = (struct xp_page_refs){ 0 };
}

void xp_page_refs_release(struct xp_page_refs *refs)
{
	xp_adopt_lock();
	xp_page_refs_release_locked(refs);
	xp_adopt_unlock();
}

/* ---- laying out ---------------------------------------------------------------- */

/* Lays out [start, end), which is part of interval i. */
static int lay_out_adopted(struct xp_layout *l, size_t i, uint64_t start, uint64_t end)
{
	const struct xp_interval *p = &adopted.at[i];
	struct xr_mr_segment seg = {
		.kind = XR_SEG_FD,
		.addr = start,
		.length = end - start,
		.offset = p->offset + (start - p->start),
	};
	int fd = xp_layout_add_fd(l, p->file->fd), err;

	if (fd < 0)
		return fd;
	seg.fd_index = fd;
	err = xp_layout_add(l, &seg);
	return err ? err : add_ref(&l->refs, i, round_down(start), round_up(end));
}

/* Lays out [start, end) without adoption: shared tier if possible, else private tier. */
static int lay_out_unadopted(struct xp_layout *l, const struct xp_mapping *m, uint64_t start,
			     uint64_t end)
{
	struct xr_mr_segment seg = {
		.kind = XR_SEG_PRIVATE,
		.addr = start,
		.length = end - start,
		.flags = m->writable ? 0 : XR_SEGF_READONLY,
	};

	if (start == end)
		return 0;
	if (m->shared && m->writable && m->shmem) {
		seg.kind = XR_SEG_MAPPING;
		seg.offset = m->offset + (start - m->start);
		seg.map_start = m->start;
		seg.map_end = m->end;
	}
	return xp_layout_add(l, &seg);
}

/* Lays out [start, end), in which nothing is adopted or excluded: adopts its whole pages. */
static int adopt_pages(const struct xp_mapping *m, uint64_t start, uint64_t end, int uffd_device,
		       struct xp_layout *l)
{
	uint64_t lo = round_up(start), hi = round_down(end), moved;
	struct xp_interval p = { .start = lo };
	int err;

	if (!adoptable(m, lo, hi, uffd_device))
		return lay_out_unadopted(l, m, start, end);
	err = xp_intervals_reserve(&adopted, 1);
	if (err)
		return err;
	moved = xp_move_in(lo, hi, &p.file, &p.offset);
	if (!moved)
		return lay_out_unadopted(l, m, start, end);
	p.end = lo + moved;
	xp_intervals_insert(&adopted, xp_intervals_find(&adopted, lo), &p);
	err = lay_out_unadopted(l, m, start, lo);
	if (!err)
		err = lay_out_adopted(l, xp_intervals_find(&adopted, lo), lo, p.end);
	if (!err)
		err = lay_out_unadopted(l, m, p.end, end);
	return err;
}

/*
 * Lays out the first part of [start, *end), in which nothing is adopted: either all excluded or
 * without excluded pages. Stores its end in *end.
 */
static int lay_out_gap(const struct xp_mapping *m, uint64_t start, uint64_t *end, int uffd_device,
		       struct xp_layout *l)
{
	struct xp_interval x;

	if (!xp_intervals_overlap(&excluded, start, *end, &x))
		return adopt_pages(m, start, *end, uffd_device, l);
	if (x.start == start) {
		*end = x.end;
		return lay_out_unadopted(l, m, start, x.end);
	}
	*end = x.start;
	return adopt_pages(m, start, x.start, uffd_device, l);
}

/*
 * The program mapped something else over an adopted interval at address at, in mapping m: takes the
 * part of it within m out of the table.
 */
static int displace_at(uint64_t at, const struct xp_mapping *m)
{
	if (xp_intervals_reserve(&adopted, 2))
		return -ENOMEM;
	adopt_split(m->start);
	adopt_split(m->end);
	return displace(xp_intervals_find(&adopted, at));
}

/*
 * After an error, an interval may stay in the table with no references. That does no harm: the next
 * region in that range references it.
 */
int xp_adopt(const struct xp_mapping *m, uint64_t start, uint64_t end, int uffd_device,
	     struct xp_layout *l)
{
	const struct xp_interval *next;
	uint64_t at = start, stop;
	int err = 0;
	size_t i;

	while (at < end && !err) {
		i = xp_intervals_find(&adopted, at);
		next = i < adopted.count ? &adopted.at[i] : NULL;
		if (next && next->start <= at && !in_place(next, at, m)) {
			err = displace_at(at, m);
			continue;
		}
		if (next && next->start <= at) {
			stop = next->end < end ? next->end : end;
			err = lay_out_adopted(l, i, at, stop);
		} else {
			stop = next && next->start < end ? next->start : end;
			err = lay_out_gap(m, at, &stop, uffd_device, l);
		}
		at = stop;
	}
	return err;
}

/* ---- fork ---------------------------------------------------------------------- */

/*
 * Shared mappings of page files, read before fork(). The program may have split, moved or unmapped
 * pages of the table, and the child cannot rely on reading /proc.
 */
static struct xp_mappings shared;

static void list_from_table(void)
{
	size_t i;

	shared.at = calloc(adopted.count, sizeof(*shared.at));
	for (i = 0; shared.at && i < adopted.count; i++)
		shared.at[shared.count++] = (struct xp_mapping){
			.start = adopted.at[i].start,
			.end = adopted.at[i].end,
			.offset = adopted.at[i].offset,
			.readable = true,
			.writable = true,
			.dev = adopted.at[i].file->dev,
			.inode = adopted.at[i].file->inode,
		};
}

static int append_shared(void *arg, const struct xp_mapping *m)
{
	size_t *room = arg;
	struct xp_mapping *more;

	if (!m->adopted || !m->shared)
		return 0;
	if (shared.count == *room) {
		more = realloc(shared.at, (*room * 2 + 8) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		shared.at = more;
		*room = *room * 2 + 8;
	}
	shared.at[shared.count++] = *m;
	return 0;
}

static void list_shared(void)
{
	size_t room = 0;

	if (!xp_mappings_walk(0, UINT64_MAX, append_shared, &room))
		return;
	/* /proc/self/maps cannot be read. The table lacks changes made by the program. */
	free(shared.at);
	shared = (struct xp_mappings){ 0 };
	list_from_table();
}

void xp_adopt_before_fork(void)
{
	xp_adopt_lock();
	xp_move_out_lost();
	if (!adopted.count && !displaced.count)
		return;
	list_shared();
	xp_files_before_fork();
}

static void free_shared(void)
{
	free(shared.at);
	shared = (struct xp_mappings){ 0 };
}

void xp_adopt_in_parent(void)
{
	free_shared();
	xp_files_in_parent();
	xp_adopt_unlock();
}

void xp_adopt_in_child(void)
{
	size_t i;

	for (i = 0; i < shared.count; i++)
		xp_move_out_in_child(&shared.at[i]);
	free_shared();
	/* Page references of the parent's regions still have file references of their own. */
	while (adopted.count)
		remove_adopted(adopted.count - 1);
	while (displaced.count)
		xp_file_put(displaced.at[--displaced.count].file);
	excluded.count = 0;
	xp_convert_in_child();
	xp_files_in_child();
	pthread_mutex_unlock(&lock);
	xp_cancel_restore(cancel_state);
}
