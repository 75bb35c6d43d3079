// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What /proc/self/maps says of a range of addresses. */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "provider/provider.h"

/*
 * As the kernel names mappings of its own file systems: shared memory and huge pages without a
 * path
 */
static bool starts(const char *path, const char *with)
{
	return !strncmp(path, with, strlen(with));
}

/* A file by path: only where the path still leads to that file */
static long file_system_of(const char *path, unsigned int major, unsigned int minor, uint64_t inode)
{
	struct statfs fs;
	struct stat st;

	if (path[0] != '/' || stat(path, &st) || st.st_ino != inode ||
	    st.st_dev != makedev(major, minor) || statfs(path, &fs))
		return 0;
	return fs.f_type;
}

static void classify(struct xp_mapping *m, const char *path, unsigned int major, unsigned int minor,
		     uint64_t inode)
{
	long fs;

	m->inode = inode;
	m->dev = makedev(major, minor);
	if (path[0] != '/') {
		/* [vvar], [vdso] and the like are the kernel's own, [stack] grows. */
		m->anonymous = !path[0] || starts(path, "[heap]") || starts(path, "[anon:");
		return;
	}
	m->adopted = starts(path, "/memfd:" XP_ADOPTED_NAME);
	fs = file_system_of(path, major, minor, inode);
	m->hugetlb = fs == HUGETLBFS_MAGIC || starts(path, "/anon_hugepage");
	m->shmem = m->hugetlb || fs == TMPFS_MAGIC || starts(path, "/memfd:") ||
		   starts(path, "/SYSV") || starts(path, "/dev/zero (deleted)");
}

/* "start-end perms offset major:minor inode   path" */
static bool parse_line(const char *line, struct xp_mapping *m)
{
	unsigned int major, minor;
	int path_at = 0;
	uint64_t inode;
	char perms[5];

	memset(m, 0, sizeof(*m));
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m->start,
		   &m->end, perms, &m->offset, &major, &minor, &inode, &path_at) < 7)
		return false;
	m->readable = perms[0] == 'r';
	m->writable = perms[1] == 'w';
	m->executable = perms[2] == 'x';
	m->shared = perms[3] == 's';
	classify(m, path_at ? line + path_at : "", major, minor, inode);
	return true;
}

static int add(struct xp_mapping **list, size_t *count, const struct xp_mapping *m)
{
	struct xp_mapping *more;

	/* powers of two */
	if (!(*count & (*count - 1))) {
		more = realloc(*list, (*count ? *count * 2 : 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		*list = more;
	}
	(*list)[(*count)++] = *m;
	return 0;
}

int xp_maps_read(uint64_t start, uint64_t end, struct xp_mapping **list, size_t *count)
{
	struct xp_mapping m;
	size_t size = 0;
	char *line = NULL;
	FILE *f;
	int err = 0;

	*list = NULL;
	*count = 0;
	f = fopen("/proc/self/maps", "re");
	if (!f)
		return -errno;
	while (!err && getline(&line, &size, f) > 0) {
		/* Most lines lie elsewhere: look at the addresses only. */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &m.start, &m.end) != 2 || m.end <= start)
			continue;
		if (m.start >= end)
			break;
		line[strcspn(line, "\n")] = 0;
		if (parse_line(line, &m))
			err = add(list, count, &m);
	}
	free(line);
	fclose(f);
	if (err) {
		free(*list);
		*list = NULL;
		*count = 0;
	}
	return err;
}
