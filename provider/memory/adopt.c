// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Adoption: which pages of the program became shared with the daemon, and how many regions hold
 * each.
 *
 * One table for the process: pieces, sorted, not overlapping, each with one count. A region that
 * covers part of a piece splits it. Regions of several contexts count alike. When the last one
 * lets go, the pages become private memory again.
 *
 * The program may unmap pages that are adopted, and map others there. A piece is known by its
 * place in its file, which is never used twice, so a region that lets go of pages that are no
 * longer there finds nothing, not somebody else's.
 */
#include <stdlib.h>
#include <string.h>

#include "convert.h"

/* Each piece is a mapping or two; programs have 65530 of these. */
#define MAX_PIECES 16384

struct piece {
	uint64_t start, end;
	struct xp_file *file;
	uint64_t offset;
	unsigned int refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces;
static size_t npieces, room;
/* Those behind whose back the program mapped something else: regions still hold their pages. */
static struct piece *lost;
static size_t nlost, lost_room;

static int cancel; /* of who holds the lock */

void xp_adopt_lock(void)
{
	int before = xp_cancel_off();

	pthread_mutex_lock(&lock);
	cancel = before;
}

void xp_adopt_unlock(void)
{
	int before = cancel;

	pthread_mutex_unlock(&lock);
	xp_cancel_restore(before);
}

/* ---- policy -------------------------------------------------------------------- */

static struct {
	bool never;
	uint64_t min;
} policy;

static void read_policy(void)
{
	const char *adopt = secure_getenv("XROCE_ADOPT"), *min = secure_getenv("XROCE_ADOPT_MIN");

	policy.never = adopt && !strcmp(adopt, "never");
	if (min && !(adopt && !strcmp(adopt, "always")))
		policy.min = strtoull(min, NULL, 0);
}

static bool adoptable(const struct xp_context *ctx, const struct xp_mapping *m, uint64_t start,
		      uint64_t end)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t stack = (uintptr_t)__builtin_frame_address(0), tls = (uintptr_t)&errno;

	pthread_once(&once, read_policy);
	if (policy.never || start >= end || end - start < policy.min || npieces >= MAX_PIECES)
		return false;
	if (m->shared || !m->readable || !m->writable || m->executable)
		return false;
	/* Memory that was adopted before is a private mapping of one of our files. */
	if (!m->anonymous && !m->adopted)
		return false;
	/* What this thread itself writes to while it moves pages */
	if ((m->start <= stack && stack < m->end) || (m->start <= tls && tls < m->end))
		return false;
	return xp_convert_ready(ctx->uffd_device);
}

/* ---- the table ----------------------------------------------------------------- */

/* The first piece that ends after the address */
static size_t find(uint64_t addr)
{
	size_t lo = 0, hi = npieces, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (pieces[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static int make_room(size_t more)
{
	struct piece *p;

	if (npieces + more <= room)
		return 0;
	p = realloc(pieces, (room * 2 + 16) * sizeof(*p));
	if (!p)
		return -ENOMEM;
	pieces = p;
	room = room * 2 + 16;
	return 0;
}

/* With room made. The table takes over the reference to the file. */
static void insert(size_t i, const struct piece *p)
{
	memmove(&pieces[i + 1], &pieces[i], (npieces - i) * sizeof(*p));
	pieces[i] = *p;
	npieces++;
}

static void remove_piece(size_t i)
{
	xp_file_put(pieces[i].file);
	npieces--;
	memmove(&pieces[i], &pieces[i + 1], (npieces - i) * sizeof(*pieces));
}

static int lose_piece(size_t i)
{
	struct piece *p;

	if (nlost == lost_room) {
		p = realloc(lost, (lost_room * 2 + 4) * sizeof(*p));
		if (!p)
			return -ENOMEM;
		lost = p;
		lost_room = lost_room * 2 + 4;
	}
	lost[nlost++] = pieces[i];
	xp_file_get(pieces[i].file);
	remove_piece(i);
	return 0;
}

/* No piece reaches across the address afterwards. With room for one more. */
static void split(uint64_t addr)
{
	size_t i = find(addr);
	struct piece tail;

	if (i == npieces || pieces[i].start >= addr)
		return;
	tail = pieces[i];
	tail.offset += addr - tail.start;
	tail.start = addr;
	pieces[i].end = addr;
	xp_file_get(tail.file);
	insert(i + 1, &tail);
}

/* The pages at the address are still those of the piece. */
static bool in_place(const struct piece *p, uint64_t at, const struct xp_mapping *m)
{
	return m->shared && m->inode == p->file->inode && m->dev == p->file->dev &&
	       m->offset + (at - m->start) == p->offset + (at - p->start);
}

/* ---- holding ------------------------------------------------------------------- */

static uint64_t round_down(uint64_t x)
{
	return x & ~(xp_page_size() - 1);
}

static uint64_t round_up(uint64_t x)
{
	return round_down(x + xp_page_size() - 1);
}

static int make_hold_room(struct xp_holds *h)
{
	struct xp_hold *more;

	if (h->count < h->room)
		return 0;
	more = realloc(h->hold, (h->room * 2 + 4) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	h->hold = more;
	h->room = h->room * 2 + 4;
	return 0;
}

/* Pages [start, end) of piece i, which contains them. */
static int hold(struct xp_holds *h, size_t i, uint64_t start, uint64_t end)
{
	if (make_room(2) || make_hold_room(h))
		return -ENOMEM;
	split(start);
	split(end);
	i = find(start);
	pieces[i].refs++;
	xp_file_get(pieces[i].file);
	h->hold[h->count++] = (struct xp_hold){ start, end, pieces[i].file, pieces[i].offset };
	return 0;
}

int xp_adopt_never(uint64_t start, uint64_t end, struct xp_holds *h)
{
	int err = 0;

	start = round_down(start);
	end = end > UINT64_MAX - xp_page_size() ? round_down(end) : round_up(end);
	if (start < end)
		err = make_hold_room(h) ? -ENOMEM : xp_byway_hold(start, end);
	if (!err && start < end)
		h->hold[h->count++] = (struct xp_hold){ .start = start, .end = end };
	return err;
}

/* True where nobody else holds it. */
static bool let_go(struct piece *p)
{
	if (--p->refs)
		return false;
	xp_move_out(p->start, p->end, p->file, p->offset);
	return true;
}

static bool holds(const struct xp_hold *h, const struct piece *p)
{
	return p->file == h->file && p->offset - p->start == h->offset - h->start;
}

static void unhold_lost(const struct xp_hold *h)
{
	size_t i = 0;

	while (i < nlost) {
		if (lost[i].start >= h->start && lost[i].end <= h->end && holds(h, &lost[i]) &&
		    let_go(&lost[i])) {
			xp_file_put(lost[i].file);
			lost[i] = lost[--nlost];
		} else {
			i++;
		}
	}
}

/* Later regions may have split what was one piece when this one took hold. */
static void unhold(const struct xp_hold *h)
{
	size_t i = find(h->start);

	if (!h->file) {
		xp_byway_let_go(h->start, h->end);
		return;
	}
	while (i < npieces && pieces[i].start < h->end) {
		if (holds(h, &pieces[i]) && let_go(&pieces[i]))
			remove_piece(i);
		else
			i++;
	}
	unhold_lost(h);
	xp_file_put(h->file);
}

void xp_unadopt_locked(struct xp_holds *holds)
{
	while (holds->count)
		unhold(&holds->hold[--holds->count]);
	free(holds->hold);
	*holds = (struct xp_holds){ 0 };
}

void xp_unadopt(struct xp_holds *holds)
{
	xp_adopt_lock();
	xp_unadopt_locked(holds);
	xp_adopt_unlock();
}

/* ---- laying out ---------------------------------------------------------------- */

static int add_fd(struct xp_layout *l, int fd)
{
	unsigned int i;

	for (i = 0; i < l->nfds; i++) {
		if (l->fds[i] == fd)
			return i;
	}
	if (i == sizeof(l->fds) / sizeof(l->fds[0]))
		return -E2BIG;
	l->fds[l->nfds++] = fd;
	return i;
}

/* Part of piece i */
static int lay_out_piece(struct xp_layout *l, struct xp_holds *holds, size_t i, uint64_t start,
			 uint64_t end)
{
	const struct piece *p = &pieces[i];
	struct xr_mr_segment seg = {
		.kind = XR_SEG_FD,
		.addr = start,
		.length = end - start,
		.offset = p->offset + (start - p->start),
	};
	int fd = add_fd(l, p->file->fd), err;

	if (fd < 0)
		return fd;
	seg.fd_index = fd;
	err = xp_add_segment(l, &seg);
	return err ? err : hold(holds, i, round_down(start), round_up(end));
}

static int lay_out_rest(struct xp_layout *l, const struct xp_mapping *m, uint64_t start,
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
	return xp_add_segment(l, &seg);
}

/* No piece lies in [start, end): whole pages of it may become one. */
static int lay_out_gap(const struct xp_context *ctx, struct xp_layout *l, struct xp_holds *holds,
		       const struct xp_mapping *m, uint64_t start, uint64_t end)
{
	uint64_t lo = round_up(start), hi = round_down(end), moved;
	struct piece p = { .start = lo };
	int err;

	if (!adoptable(ctx, m, lo, hi))
		return lay_out_rest(l, m, start, end);
	err = make_room(1);
	if (err)
		return err;
	moved = xp_move_in(lo, hi, &p.file, &p.offset);
	if (!moved)
		return lay_out_rest(l, m, start, end);
	p.end = lo + moved;
	insert(find(lo), &p);
	err = lay_out_rest(l, m, start, lo);
	if (!err)
		err = lay_out_piece(l, holds, find(lo), lo, p.end);
	if (!err)
		err = lay_out_rest(l, m, p.end, end);
	return err;
}

/* The same, up to where the daemon writes by address, or what it writes so. */
static int lay_out_free(const struct xp_context *ctx, struct xp_layout *l, struct xp_holds *holds,
			const struct xp_mapping *m, uint64_t start, uint64_t *end)
{
	uint64_t from, to;

	if (xp_byway_next(start, *end, &from, &to)) {
		*end = from > start ? from : to;
		if (from == start)
			return lay_out_rest(l, m, start, to);
	}
	return lay_out_gap(ctx, l, holds, m, start, *end);
}

/*
 * What an error leaves without a hold stays in the table with a count of 0: harmless, and held by
 * the next region that comes along.
 */
int xp_adopt(const struct xp_context *ctx, const struct xp_mapping *m, uint64_t start, uint64_t end,
	     struct xp_layout *l, struct xp_holds *holds)
{
	uint64_t at = start, stop;
	int err = 0;
	size_t i;

	while (at < end && !err) {
		i = find(at);
		if (i < npieces && pieces[i].start <= at && !in_place(&pieces[i], at, m)) {
			if (make_room(2))
				return -ENOMEM;
			/* The program mapped something else there. */
			split(m->start);
			split(m->end);
			err = lose_piece(find(at));
			continue;
		}
		if (i < npieces && pieces[i].start <= at) {
			stop = pieces[i].end < end ? pieces[i].end : end;
			err = lay_out_piece(l, holds, i, at, stop);
		} else {
			stop = i < npieces && pieces[i].start < end ? pieces[i].start : end;
			err = lay_out_free(ctx, l, holds, m, at, &stop);
		}
		at = stop;
	}
	return err;
}

/* ---- fork ---------------------------------------------------------------------- */

/*
 * What is shared at a fork, as the kernel has it: the program may have split, moved or unmapped what
 * the table knows. The child can hardly look at /proc.
 */
static struct xp_mapping *shared;
static size_t nshared;

static void list_shared(void)
{
	size_t n, i;

	nshared = 0;
	if (xp_maps_read(0, UINT64_MAX, &shared, &n)) {
		shared = calloc(npieces, sizeof(*shared));
		/* no descriptor is left: nothing better is known than the table */
		for (i = 0; shared && i < npieces; i++)
			shared[nshared++] = (struct xp_mapping){
				.start = pieces[i].start,
				.end = pieces[i].end,
				.offset = pieces[i].offset,
				.readable = true,
				.writable = true,
				.dev = pieces[i].file->dev,
				.inode = pieces[i].file->inode,
			};
		return;
	}
	for (i = 0; i < n; i++)
		if (shared[i].adopted && shared[i].shared)
			shared[nshared++] = shared[i];
}

void xp_adopt_before_fork(void)
{
	xp_adopt_lock();
	if (!npieces && !nlost)
		return;
	list_shared();
	xp_convert_before_fork();
}

static void forget_shared(void)
{
	free(shared);
	shared = NULL;
	nshared = 0;
}

void xp_adopt_in_parent(void)
{
	forget_shared();
	xp_convert_in_parent();
	xp_adopt_unlock();
}

void xp_adopt_in_child(void)
{
	size_t i;

	for (i = 0; i < nshared; i++)
		xp_move_out_in_child(&shared[i]);
	forget_shared();
	/* Holds of the parent's regions keep their references; the table is empty for them. */
	while (npieces)
		remove_piece(npieces - 1);
	while (nlost)
		xp_file_put(lost[--nlost].file);
	xp_byway_forget();
	xp_convert_in_child();
	pthread_mutex_init(&lock, NULL);
	xp_cancel_restore(cancel);
}
