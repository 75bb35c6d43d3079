// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/transport/memory.h"
#include "proc_maps.h"

#define BUFFER 16384 /* longer than any line: a path has 4096 bytes at most, escaped */

/* A number of /proc/PID/maps and the character behind it */
static bool take(const char **at, int base, char end, uint64_t *value)
{
	char *rest;

	*value = strtoull(*at, &rest, base);
	if (rest == *at || *rest != end)
		return false;
	*at = rest + 1;
	return true;
}

bool xd_vma_parse(const char *line, struct xd_vma *vma)
{
	uint64_t major, minor;
	const char *perms;

	if (!take(&line, 16, '-', &vma->start) || !take(&line, 16, ' ', &vma->end))
		return false;
	perms = line;
	if (strnlen(perms, 5) < 5 || perms[4] != ' ')
		return false;
	line += 5;
	if (!take(&line, 16, ' ', &vma->offset) || !take(&line, 16, ':', &major) ||
	    !take(&line, 16, ' ', &minor) || vma->start >= vma->end)
		return false;
	vma->inode = strtoull(line, NULL, 10);
	vma->readable = perms[0] == 'r';
	vma->writable = perms[1] == 'w';
	vma->shared = perms[3] == 's';
	vma->dev = makedev((unsigned int)major, (unsigned int)minor);
	return true;
}

/* ---- reading the list ------------------------------------------------------------ */

/* What to do with a mapping. 0, 1: no more of them, -errno. */
typedef int (*take_fn)(void *arg, const struct xd_vma *vma);

/* Takes whole lines off the front. */
static int take_lines(char *text, size_t *have, take_fn take_vma, void *arg)
{
	char *line = text, *nl;
	struct xd_vma vma;
	int err = 0;

	while (!err && (nl = memchr(line, '\n', (size_t)(text + *have - line)))) {
		*nl = '\0';
		if (!xd_vma_parse(line, &vma))
			return -EPROTO;
		err = take_vma(arg, &vma);
		line = nl + 1;
	}
	*have -= (size_t)(line - text);
	memmove(text, line, *have);
	return err;
}

/* 0: to its end. */
static int read_list(int fd, take_fn take_vma, void *arg)
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
		err = take_lines(text, &have, take_vma, arg);
	}
	return err;
}

struct result {
	uint64_t start, end;
	struct xd_vma *list;
	size_t count, room;
};

static int add(void *arg, const struct xd_vma *vma)
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

int xd_proc_maps(int maps_fd, uint64_t start, uint64_t end, struct xd_vma **list, size_t *count)
{
	struct result r = { .start = start, .end = end };
	int err = read_list(maps_fd, add, &r);

	*list = r.list;
	*count = r.count;
	return err < 0 ? err : 0;
}

/* ---- may a range be read or written? ---------------------------------------------- */

int xd_vma_check(const struct xd_vma *vma, size_t count, uint64_t addr, uint64_t length, bool write)
{
	uint64_t at = addr, end = addr + length;
	size_t i;

	for (i = 0; i < count && at < end; i++) {
		if (vma[i].end <= at)
			continue;
		if (vma[i].start > at || !vma[i].readable || (write && !vma[i].writable))
			return -EFAULT;
		at = vma[i].end;
	}
	return at < end ? -EFAULT : 0;
}

/* PROCMAP_QUERY of include/uapi/linux/fs.h, which headers before Linux 6.11 lack */
struct procmap_query {
	uint64_t size;
	uint64_t flags;
	uint64_t addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define QUERY_MAPPING _IOWR('f', 17, struct procmap_query)
#define QUERY_READABLE 1
#define QUERY_WRITABLE 2

static bool no_query; /* atomic: Linux before 6.11 */

void xd_proc_use_lists(void)
{
	__atomic_store_n(&no_query, true, __ATOMIC_RELAXED);
}

static int check_by_query(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	struct procmap_query q = {
		.size = sizeof(q),
		.flags = QUERY_READABLE | (write ? QUERY_WRITABLE : 0),
	};
	uint64_t at = addr, end = addr + length;

	for (; at < end; at = q.vma_end) {
		q.addr = at;
		if (ioctl(maps_fd, QUERY_MAPPING, &q))
			return errno == ENOTTY ? -ENOTTY : -EFAULT;
	}
	return 0;
}

bool xd_proc_can_query(int maps_fd)
{
	if (!__atomic_load_n(&no_query, __ATOMIC_RELAXED) &&
	    check_by_query(maps_fd, 0, 1, false) == -ENOTTY)
		xd_proc_use_lists();
	return !__atomic_load_n(&no_query, __ATOMIC_RELAXED);
}

/* ---- the same without PROCMAP_QUERY ---------------------------------------------- */

/* Neighbours that may be used alike are one: a few dozen for most programs. */
#define RANGES 512

struct range {
	uint64_t start, end;
	bool writable;
};

/* What may be read, up to the end of what was asked for */
struct looked {
	int fd;
	uint64_t news; /* xt_mem_epoch's then */
	uint64_t end;
	uint32_t count;
	struct range range[RANGES];
};

/* Of too many the last ones are kept, which are more than one access touches. */
static void make_room(struct looked *l)
{
	if (l->count < RANGES)
		return;
	l->count = RANGES / 2;
	memmove(l->range, l->range + RANGES / 2, l->count * sizeof(l->range[0]));
}

static int note(void *arg, const struct xd_vma *vma)
{
	struct looked *l = arg;
	struct range *last;

	if (vma->start >= l->end)
		return 1;
	if (!vma->readable)
		return 0;
	last = l->count ? &l->range[l->count - 1] : NULL;
	if (last && last->end == vma->start && last->writable == vma->writable) {
		last->end = vma->end;
		return 0;
	}
	make_room(l);
	l->range[l->count++] = (struct range){ vma->start, vma->end, vma->writable };
	return 0;
}

static void look(struct looked *l, int maps_fd, uint64_t end)
{
	l->fd = maps_fd;
	l->news = xt_mem_epoch.count;
	l->end = end;
	l->count = 0;
	if (read_list(maps_fd, note, l) < 0)
		l->count = 0;
}

/* The first range that ends behind an address */
static uint32_t find(const struct looked *l, uint64_t addr)
{
	uint32_t lo = 0, hi = l->count, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (l->range[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static bool allows(const struct looked *l, uint64_t addr, uint64_t end, bool write)
{
	uint32_t i = find(l, addr);

	for (; addr < end; addr = l->range[i++].end) {
		if (i == l->count || l->range[i].start > addr || (write && !l->range[i].writable))
			return false;
	}
	return true;
}

static int check_once(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	struct xd_vma *list;
	size_t count;
	int err = xd_proc_maps(maps_fd, addr, addr + length, &list, &count);

	if (!err)
		err = xd_vma_check(list, count, addr, length, write);
	free(list);
	return err ? -EFAULT : 0;
}

/*
 * One look for all accesses that came together (struct xt_mem_epoch). Only what it allows is taken from
 * there; what the client mapped or unlocked since is found by looking again.
 */
static int check_in_turn(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	static __thread struct looked l;
	uint64_t end = addr + length;

	if (l.fd == maps_fd && l.news == xt_mem_epoch.count && allows(&l, addr, end, write))
		return 0;
	look(&l, maps_fd, end);
	return allows(&l, addr, end, write) ? 0 : -EFAULT;
}

int xd_proc_check(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	int err = __atomic_load_n(&no_query, __ATOMIC_RELAXED)
			  ? -ENOTTY
			  : check_by_query(maps_fd, addr, length, write);

	if (err != -ENOTTY)
		return err;
	return xt_mem_epoch.in_round ? check_in_turn(maps_fd, addr, length, write)
				     : check_once(maps_fd, addr, length, write);
}
