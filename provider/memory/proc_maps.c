// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The mappings of this process. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "provider/memory/page_file.h"
#include "provider/memory/proc_maps.h"

static bool starts_with(const char *path, const char *prefix)
{
	return !strncmp(path, prefix, strlen(prefix));
}

/* A line of mountinfo: "id parent major:minor ... - type source options" */
static bool is_memory_mount(const char *line, uint64_t dev)
{
	const char *end = strstr(line, " - ");
	unsigned int major, minor;

	if (!end || sscanf(line, "%*d %*d %u:%u", &major, &minor) != 2 ||
	    makedev(major, minor) != dev)
		return false;
	return starts_with(end, " - tmpfs ") || starts_with(end, " - hugetlbfs ");
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
		found = is_memory_mount(line, dev);
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* The kernel gives files of its internal file systems names that are no paths. */
static void classify(struct xp_mapping *m, const char *path)
{
	if (path[0] != '/') {
		/* [vvar], [vdso] and similar belong to the kernel; [stack] grows. */
		m->anonymous = !path[0] || starts_with(path, "[heap]") ||
			       starts_with(path, "[anon:");
		return;
	}
	m->adopted = starts_with(path, "/memfd:" XP_PAGE_FILE_NAME);
	if (!m->shared)
		return;
	m->shmem = starts_with(path, "/anon_hugepage") || starts_with(path, "/memfd:") ||
		   starts_with(path, "/SYSV") || starts_with(path, "/dev/zero (deleted)") ||
		   in_memory_mount(m->dev);
}

/* "start-end perms offset major:minor inode   path" */
static bool parse_line(const char *line, struct xp_mapping *m)
{
	unsigned int major, minor;
	int path_at = 0;
	char perms[5];

	memset(m, 0, sizeof(*m));
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m->start,
		   &m->end, perms, &m->offset, &major, &minor, &m->inode, &path_at) < 7)
		return false;
	m->readable = perms[0] == 'r';
	m->writable = perms[1] == 'w';
	m->executable = perms[2] == 'x';
	m->shared = perms[3] == 's';
	m->dev = makedev(major, minor);
	classify(m, path_at ? line + path_at : "");
	return true;
}

static int append(struct xp_mappings *list, const struct xp_mapping *m, size_t *room)
{
	struct xp_mapping *more;

	if (list->count == *room) {
		more = realloc(list->at, (*room * 2 + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		list->at = more;
		*room = *room * 2 + 1;
	}
	list->at[list->count++] = *m;
	return 0;
}

int xp_mappings_read(uint64_t start, uint64_t end, struct xp_mappings *list)
{
	size_t size = 0, room = 0;
	struct xp_mapping m;
	char *line = NULL;
	FILE *f;
	int err = 0;

	*list = (struct xp_mappings){ 0 };
	f = fopen("/proc/self/maps", "re");
	if (!f)
		return -errno;
	while (!err && getline(&line, &size, f) > 0) {
		/* Most lines are outside the range: parse only their addresses. */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &m.start, &m.end) != 2 || m.end <= start)
			continue;
		if (m.start >= end)
			break;
		line[strcspn(line, "\n")] = 0;
		if (parse_line(line, &m))
			err = append(list, &m, &room);
	}
	free(line);
	fclose(f);
	if (err) {
		free(list->at);
		*list = (struct xp_mappings){ 0 };
	}
	return err;
}
