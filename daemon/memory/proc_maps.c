// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proc_maps.h"

#define BUFFER 16384		/* longer than any line: a path has 4096 bytes at most, escaped */

bool xd_vma_parse(const char *line, struct xd_vma *vma)
{
	unsigned int major, minor;
	char perms[5];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &vma->start,
		   &vma->end, perms, &vma->offset, &major, &minor, &vma->inode) != 7 ||
	    strlen(perms) != 4 || vma->start >= vma->end)
		return false;
	vma->readable = perms[0] == 'r';
	vma->writable = perms[1] == 'w';
	vma->shared = perms[3] == 's';
	vma->dev = makedev(major, minor);
	return true;
}

struct result {
	struct xd_vma *list;
	size_t count, room;
};

static int add(struct result *r, const struct xd_vma *vma)
{
	size_t room = r->room ? r->room * 2 : 16;
	struct xd_vma *list;

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

/* Takes whole lines off the front. 1: beyond the end of the range. */
static int take_lines(char *text, size_t *have, uint64_t start, uint64_t end, struct result *r)
{
	char *line = text, *nl;
	struct xd_vma vma;
	int err = 0;

	while (!err && (nl = memchr(line, '\n', (size_t)(text + *have - line)))) {
		*nl = '\0';
		if (!xd_vma_parse(line, &vma))
			return -EPROTO;
		if (vma.start >= end)
			return 1;
		if (vma.end > start)
			err = add(r, &vma);
		line = nl + 1;
	}
	*have -= (size_t)(line - text);
	memmove(text, line, *have);
	return err;
}

static int read_all(int fd, char *text, uint64_t start, uint64_t end, struct result *r)
{
	size_t have = 0;
	off_t pos = 0;
	ssize_t n;
	int err = 0;

	while (!err) {
		if (have == BUFFER)
			return -EPROTO;
		n = pread(fd, text + have, BUFFER - have, pos);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		pos += n;
		have += (size_t)n;
		err = take_lines(text, &have, start, end, r);
	}
	return err < 0 ? err : 0;
}

int xd_proc_maps(int maps_fd, uint64_t start, uint64_t end, struct xd_vma **list, size_t *count)
{
	char *text = malloc(BUFFER);
	struct result r = { 0 };
	int err;

	err = text ? read_all(maps_fd, text, start, end, &r) : -ENOMEM;
	free(text);
	*list = r.list;
	*count = r.count;
	return err;
}

/* ---- may a range be read or written? ---------------------------------------------- */

int xd_vma_check(const struct xd_vma *vma, size_t count, uint64_t addr, uint64_t length,
		 bool write)
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

static int check_by_list(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	struct xd_vma *list;
	size_t count;
	int err = xd_proc_maps(maps_fd, addr, addr + length, &list, &count);

	if (!err)
		err = xd_vma_check(list, count, addr, length, write);
	free(list);
	return err ? -EFAULT : 0;
}

int xd_proc_check(int maps_fd, uint64_t addr, uint64_t length, bool write)
{
	struct procmap_query q = {
		.size = sizeof(q), .flags = QUERY_READABLE | (write ? QUERY_WRITABLE : 0),
	};
	uint64_t at = addr, end = addr + length;

	for (; at < end; at = q.vma_end) {
		q.addr = at;
		if (!ioctl(maps_fd, QUERY_MAPPING, &q))
			continue;
		return errno == ENOTTY ? check_by_list(maps_fd, at, end - at, write) : -EFAULT;
	}
	return 0;
}
