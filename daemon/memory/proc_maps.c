// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proc_maps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <xroce/procmap.h>

#define BUFFER 16384 /* longer than any line: a path has at most 4096 bytes before escaping */

/* Parses a number that is followed by the character `end`. */
static bool proc_maps_parse_number(const char **at, int base, char end, uint64_t *value)
{
	char *rest;

	*value = strtoull(*at, &rest, base);
	if (rest == *at || *rest != end)
		return false;
	*at = rest + 1;
	return true;
}

/* Parses one line; returns false if it is malformed. */
static bool proc_maps_parse_line(const char *line, struct xd_vma *vma)
{
	uint64_t major, minor;
	const char *perms;

	if (!proc_maps_parse_number(&line, 16, '-', &vma->start) ||
	    !proc_maps_parse_number(&line, 16, ' ', &vma->end))
		return false;
	perms = line;
	if (strnlen(perms, 5) < 5 || perms[4] != ' ')
		return false;
	line += 5;
	if (!proc_maps_parse_number(&line, 16, ' ', &vma->offset) ||
	    !proc_maps_parse_number(&line, 16, ':', &major) ||
	    !proc_maps_parse_number(&line, 16, ' ', &minor) || vma->start >= vma->end)
		return false;
	vma->inode = strtoull(line, NULL, 10);
	vma->readable = perms[0] == 'r';
	vma->writable = perms[1] == 'w';
	vma->shared = perms[3] == 's';
	vma->dev = makedev((unsigned int)major, (unsigned int)minor);
	return true;
}

/* ---- reading the list ------------------------------------------------------------ */

/* Called for each mapping. Returns 0, 1 to stop, or -errno. */
typedef int (*vma_fn)(void *arg, const struct xd_vma *vma);

/* Parses the complete lines and moves the rest to the front. */
static int parse_lines(char *text, size_t *have, vma_fn fn, void *arg)
{
	char *line = text, *nl;
	struct xd_vma vma;
	int err = 0;

	while (!err && (nl = memchr(line, '\n', (size_t)(text + *have - line)))) {
		*nl = '\0';
		if (!proc_maps_parse_line(line, &vma))
			return -EPROTO;
		err = fn(arg, &vma);
		line = nl + 1;
	}
	*have -= (size_t)(line - text);
	memmove(text, line, *have);
	return err;
}

/* Returns 0 at the end of the list, 1 if fn() stopped it, or -errno. */
static int read_list(int fd, vma_fn fn, void *arg)
{
	char text[BUFFER];
	size_t have = 0;
	off_t pos = 0;
	ssize_t n;
	int err = 0;

	while (!err) {
		if (have == sizeof(text))
			return -EPROTO;
		n = pread(fd, text + have, sizeof(text) - have, pos);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		pos += n;
		have += (size_t)n;
		err = parse_lines(text, &have, fn, arg);
	}
	return err;
}

struct result {
	uint64_t start, end;
	struct xd_vma *list;
	size_t count, room;
};

static int proc_maps_add(void *arg, const struct xd_vma *vma)
{
	struct result *r = arg;
	size_t room = r->room ? r->room * 2 : 16;
	struct xd_vma *list;

	if (vma->start >= r->end)
		return 1;
	if (vma->end <= r->start)
		return 0;
	if (r->count == r->room) {
		list = realloc(r->list, room * sizeof(*list));
		if (!list)
			return -ENOMEM;
		r->list = list;
		r->room = room;
	}
	r->list[r->count++] = *vma;
	return 0;
}

/* ---- querying single mappings ------------------------------------------------------ */

static bool no_query; /* Linux before 6.11 */

void xd_proc_use_lists(void)
{
	no_query = true;
}

static struct xd_vma vma_of(const struct xr_procmap_query *q)
{
	return (struct xd_vma){
		.start = q->vma_start,
		.end = q->vma_end,
		.offset = q->vma_offset,
		.dev = makedev(q->dev_major, q->dev_minor),
		.inode = q->inode,
		.readable = q->vma_flags & XR_PROCMAP_READABLE,
		.writable = q->vma_flags & XR_PROCMAP_WRITABLE,
		.shared = q->vma_flags & XR_PROCMAP_SHARED,
	};
}

/* Like read_list(), from address `at` on; -ENOTTY if the kernel cannot do it. */
static int query_list(int fd, uint64_t at, vma_fn fn, void *arg)
{
	struct xd_vma vma;
	int err = 0;

	for (; !err; at = vma.end) {
		struct xr_procmap_query q = {
			.size = sizeof(q),
			.flags = XR_PROCMAP_NEXT,
			.addr = at,
		};

		if (ioctl(fd, XR_PROCMAP_QUERY, &q))
			return errno == ENOENT ? 0 : -errno;
		vma = vma_of(&q);
		err = fn(arg, &vma);
	}
	return err;
}

int xd_proc_maps(int maps_fd, uint64_t start, uint64_t end, struct xd_vma **list, size_t *count)
{
	struct result r = { .start = start, .end = end };
	int err = no_query ? -ENOTTY : query_list(maps_fd, start, proc_maps_add, &r);

	if (err == -ENOTTY)
		err = read_list(maps_fd, proc_maps_add, &r);
	*list = r.list;
	*count = r.count;
	return err < 0 ? err : 0;
}

/* ---- checking a range ------------------------------------------------------------- */

int xd_vma_check(const struct xd_vma *vma, size_t count, uint64_t addr, uint64_t length, bool write)
{
	uint64_t at = addr, end = addr + length;
	size_t i;

	for (i = 0; i < count && at < end; i++) {
		if (vma[i].end <= at)
			continue;
		if (vma[i].start > at || !(write ? vma[i].writable : vma[i].readable))
			return -EFAULT;
		at = vma[i].end;
	}
	return at < end ? -EFAULT : 0;
}

static int check_by_query(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	struct xr_procmap_query q = {
		.size = sizeof(q),
		.flags = XR_PROCMAP_READABLE | (write ? XR_PROCMAP_WRITABLE : 0),
	};
	uint64_t at = addr, end = addr + length;

	for (; at < end; at = q.vma_end) {
		q.addr = at;
		if (ioctl(maps_fd, XR_PROCMAP_QUERY, &q))
			return errno == ENOTTY ? -ENOTTY : -EFAULT;
	}
	return 0;
}

/* ---- checking a range without PROCMAP_QUERY --------------------------------------- */

/* Adjacent mappings with the same rights are one range: a few dozen for most programs. */
#define RANGES 512

struct proc_maps_range {
	uint64_t start, end;
	bool writable;
};

static uint64_t epoch;

void xd_proc_new_epoch(void)
{
	epoch++;
}

/* The readable ranges up to the end of the last range that was checked */
struct proc_maps_snapshot {
	int fd;
	uint64_t epoch;
	uint64_t end;
	uint32_t count;
	struct proc_maps_range range[RANGES];
};

/* Drops the first half if the table is full: one access needs fewer ranges than are left. */
static void proc_maps_make_room(struct proc_maps_snapshot *s)
{
	if (s->count < RANGES)
		return;
	s->count = RANGES / 2;
	memmove(s->range, s->range + RANGES / 2, s->count * sizeof(s->range[0]));
}

static int proc_maps_add_range(void *arg, const struct xd_vma *vma)
{
	struct proc_maps_snapshot *s = arg;
	struct proc_maps_range *last;

	if (vma->start >= s->end)
		return 1;
	if (!vma->readable)
		return 0;
	last = s->count ? &s->range[s->count - 1] : NULL;
	if (last && last->end == vma->start && last->writable == vma->writable) {
		last->end = vma->end;
		return 0;
	}
	proc_maps_make_room(s);
	s->range[s->count++] = (struct proc_maps_range){ vma->start, vma->end, vma->writable };
	return 0;
}

static void take_snapshot(struct proc_maps_snapshot *s, int maps_fd, uint64_t end)
{
	s->fd = maps_fd;
	s->epoch = epoch;
	s->end = end;
	s->count = 0;
	if (read_list(maps_fd, proc_maps_add_range, s) < 0)
		s->count = 0;
}

/* Returns the index of the first range that ends behind an address. */
static uint32_t proc_maps_find(const struct proc_maps_snapshot *s, uint64_t addr)
{
	uint32_t lo = 0, hi = s->count, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (s->range[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static bool allows(const struct proc_maps_snapshot *s, uint64_t addr, uint64_t end, bool write)
{
	uint32_t i = proc_maps_find(s, addr);

	for (; addr < end; addr = s->range[i++].end) {
		if (i == s->count || s->range[i].start > addr || (write && !s->range[i].writable))
			return false;
	}
	return true;
}

/*
 * Uses one snapshot for all accesses of an epoch. A snapshot taken earlier may permit an access but
 * not refuse it: the client may have mapped memory or changed its protection since, so the list is
 * read again before a refusal.
 */
static int check_in_epoch(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	static struct proc_maps_snapshot s;
	uint64_t end = addr + length;

	if (s.fd == maps_fd && s.epoch == epoch && allows(&s, addr, end, write))
		return 0;
	take_snapshot(&s, maps_fd, end);
	return allows(&s, addr, end, write) ? 0 : -EFAULT;
}

int xd_proc_check(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	int err = no_query ? -ENOTTY : check_by_query(maps_fd, addr, length, write);

	if (err != -ENOTTY)
		return err;
	no_query = true;
	return check_in_epoch(maps_fd, addr, length, write);
}
