// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The mappings of this process. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <xroce/procmap.h>

#include "provider/memory/page_file.h"
#include "provider/memory/proc_maps.h"

static bool proc_maps_starts_with(const char *path, const char *prefix)
{
	return !strncmp(path, prefix, strlen(prefix));
}

int xp_protection(const struct xp_mapping *m)
{
	return (m->readable ? PROT_READ : 0) | (m->writable ? PROT_WRITE : 0) |
	       (m->executable ? PROT_EXEC : 0);
}

/* The kernel gives files of its internal file systems names that are no paths. */
static void classify(struct xp_mapping *m, const char *path)
{
	if (path[0] != '/') {
		/* [vvar], [vdso] and similar belong to the kernel; [stack] grows. */
		m->anonymous = !path[0] || proc_maps_starts_with(path, "[heap]") ||
			       proc_maps_starts_with(path, "[anon:");
		return;
	}
	m->adopted = proc_maps_starts_with(path, "/memfd:" XP_PAGE_FILE_NAME);
	m->shmem = m->shared && (proc_maps_starts_with(path, "/anon_hugepage") ||
				 proc_maps_starts_with(path, "/memfd:") ||
				 proc_maps_starts_with(path, "/SYSV") ||
				 proc_maps_starts_with(path, "/dev/zero (deleted)"));
}

/* ---- single mappings ------------------------------------------------------------- */

/* A longer name is a path. Names of memfds are shorter: memfd_create(2). */
#define NAME_SIZE 320

static int proc_maps_query(int fd, struct xr_procmap_query *q, char *name)
{
	struct xr_procmap_query in = *q;

	q->name = (uintptr_t)name;
	q->name_size = NAME_SIZE;
	if (!ioctl(fd, XR_PROCMAP_QUERY, q)) {
		if (!q->name_size)
			name[0] = '\0';
		return 0;
	}
	if (errno != ENAMETOOLONG)
		return -errno;
	strcpy(name, "/");
	*q = in;
	return ioctl(fd, XR_PROCMAP_QUERY, q) ? -errno : 0;
}

/* Finds the mapping that contains addr, or the next one. Returns -ENOENT if there is none. */
static int memory_find(int fd, uint64_t addr, struct xp_mapping *m)
{
	struct xr_procmap_query q = {
		.size = sizeof(q),
		.flags = XR_PROCMAP_NEXT,
		.addr = addr,
	};
	char name[NAME_SIZE];
	int err = proc_maps_query(fd, &q, name);

	if (err)
		return err;
	*m = (struct xp_mapping){
		.start = q.vma_start,
		.end = q.vma_end,
		.offset = q.vma_offset,
		.dev = makedev(q.dev_major, q.dev_minor),
		.inode = q.inode,
		.readable = q.vma_flags & XR_PROCMAP_READABLE,
		.writable = q.vma_flags & XR_PROCMAP_WRITABLE,
		.executable = q.vma_flags & XR_PROCMAP_EXECUTABLE,
		.shared = q.vma_flags & XR_PROCMAP_SHARED,
	};
	classify(m, name);
	return 0;
}

static int walk_by_query(int fd, uint64_t start, uint64_t end, xp_mapping_fn fn, void *arg)
{
	struct xp_mapping m;
	uint64_t at = start;
	int err = 0;

	while (!err && at < end) {
		err = memory_find(fd, at, &m);
		if (err == -ENOENT || (!err && m.start >= end))
			return 0;
		at = m.end;
		if (!err)
			err = fn(arg, &m);
	}
	return err;
}

/* ---- the whole list -------------------------------------------------------------- */

/* Longer than any line: a path has at most PATH_MAX bytes. The kernel returns a page at a time. */
#define TEXT_SIZE (4 * PATH_MAX)

/* Called for each line. A value other than 0 ends the walk. */
typedef int (*line_fn)(void *arg, char *line);

/* Passes on the complete lines and moves the rest to the front. */
static int take_lines(char *text, size_t *have, line_fn fn, void *arg)
{
	char *line = text, *nl;
	int err = 0;

	while (!err && (nl = memchr(line, '\n', (size_t)(text + *have - line)))) {
		*nl = '\0';
		err = fn(arg, line);
		line = nl + 1;
	}
	*have -= (size_t)(line - text);
	memmove(text, line, *have);
	return err;
}

static int read_lines(int fd, line_fn fn, void *arg)
{
	char *text = mmap(NULL, TEXT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	size_t have = 0;
	ssize_t n = 1;
	int err = 0;

	if (text == MAP_FAILED)
		return -errno;
	while (!err && n) {
		n = read(fd, text + have, TEXT_SIZE - have);
		if (n < 0)
			err = -errno;
		have += n > 0 ? (size_t)n : 0;
		if (n > 0)
			err = take_lines(text, &have, fn, arg);
	}
	munmap(text, TEXT_SIZE);
	return err;
}

/* Parses a number and skips the character behind it. */
static uint64_t proc_maps_number(char **at, int base)
{
	uint64_t value = strtoull(*at, at, base);

	*at += **at != '\0';
	return value;
}

/* "start-end perms offset major:minor inode   path" */
static void memory_parse_line(char *line, struct xp_mapping *m)
{
	const char *perms = line + strcspn(line, " ") + 1;
	unsigned int major;

	m->readable = perms[0] == 'r';
	m->writable = perms[1] == 'w';
	m->executable = perms[2] == 'x';
	m->shared = perms[3] == 's';
	line = (char *)perms + 5;
	m->offset = proc_maps_number(&line, 16);
	major = (unsigned int)proc_maps_number(&line, 16);
	m->dev = makedev(major, (unsigned int)proc_maps_number(&line, 16));
	m->inode = proc_maps_number(&line, 10);
	classify(m, line + strspn(line, " "));
}

struct proc_maps_walk {
	uint64_t start, end;
	xp_mapping_fn fn;
	void *arg;
	int result;
};

static int walk_line(void *arg, char *line)
{
	struct proc_maps_walk *w = arg;
	char *rest = line;
	struct xp_mapping m = { 0 };

	/* Most lines are outside the range: parse only their addresses. */
	m.start = proc_maps_number(&rest, 16);
	m.end = proc_maps_number(&rest, 16);
	if (m.end <= w->start)
		return 0;
	if (m.start >= w->end)
		return 1;
	memory_parse_line(line, &m);
	w->result = w->fn(w->arg, &m);
	return w->result;
}

static int walk_list(int fd, uint64_t start, uint64_t end, xp_mapping_fn fn, void *arg)
{
	struct proc_maps_walk w = { start, end, fn, arg, 0 };
	int err = read_lines(fd, walk_line, &w);

	return err < 0 ? err : w.result;
}

int xp_mappings_walk(uint64_t start, uint64_t end, xp_mapping_fn fn, void *arg)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), err = -ENOTTY;

	if (fd < 0)
		return -errno;
	if (start || end != UINT64_MAX)
		err = walk_by_query(fd, start, end, fn, arg);
	if (err == -ENOTTY)
		err = walk_list(fd, start, end, fn, arg);
	close(fd);
	return err;
}

static int count_line(void *arg, char *line)
{
	++*(long *)arg;
	return 0;
}

long xp_mappings_count(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), err;
	long count = 0;

	if (fd < 0)
		return -errno;
	err = read_lines(fd, count_line, &count);
	close(fd);
	return err < 0 ? err : count;
}

/* ---- files in memory ------------------------------------------------------------- */

/* A line of mountinfo: "id parent major:minor ... - type source options" */
static bool proc_maps_is_memory_mount(const char *line, uint64_t dev)
{
	const char *end = strstr(line, " - ");
	unsigned int major, minor;

	if (!end || sscanf(line, "%*d %*d %u:%u", &major, &minor) != 2 ||
	    makedev(major, minor) != dev)
		return false;
	return proc_maps_starts_with(end, " - tmpfs ") ||
	       proc_maps_starts_with(end, " - hugetlbfs ");
}

/*
 * Returns true if a tmpfs or hugetlbfs with that device number is mounted. The path of the mapped
 * file would not do: programs unlink their shared memory as soon as all processes have opened it.
 */
static bool in_memory_mount(uint64_t dev)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	bool found = false;
	char *line = NULL;
	size_t size = 0;

	while (f && !found && getline(&line, &size, f) > 0)
		found = proc_maps_is_memory_mount(line, dev);
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* ---- lists ----------------------------------------------------------------------- */

struct proc_maps_list {
	struct xp_mappings *list;
	size_t room;
};

static int proc_maps_append(void *arg, const struct xp_mapping *m)
{
	struct proc_maps_list *l = arg;
	struct xp_mapping *more;

	if (l->list->count == l->room) {
		more = realloc(l->list->at, (l->room * 2 + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		l->list->at = more;
		l->room = l->room * 2 + 1;
	}
	l->list->at[l->list->count++] = *m;
	return 0;
}

int xp_mappings_read(uint64_t start, uint64_t end, struct xp_mappings *list)
{
	struct proc_maps_list l = { .list = list };
	struct xp_mapping *m;
	int err;

	*list = (struct xp_mappings){ 0 };
	err = xp_mappings_walk(start, end, proc_maps_append, &l);
	if (err) {
		free(list->at);
		*list = (struct xp_mappings){ 0 };
	}
	for (m = list->at; m < list->at + list->count; m++)
		if (m->shared && m->inode && !m->shmem)
			m->shmem = in_memory_mount(m->dev);
	return err;
}
