// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE 4096u

int xd_memory_file_check(int fd, struct xd_memory_file *f)
{
	struct statfs fs;

	if (fstat(fd, &f->st) || !S_ISREG(f->st.st_mode) || fstatfs(fd, &fs) ||
	    (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC))
		return -EINVAL;
	f->size = (uint64_t)f->st.st_size;
	f->unit = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)f->st.st_blksize : PAGE;
	return 0;
}

/* ---- file systems that may hang ---------------------------------------------------- */

#define HUGE_SHIFT_MIN 16 /* sizes of huge pages on all processors: 64 KiB to 16 GiB */
#define HUGE_SHIFT_MAX 34

/* File systems of memfds, which are in no list of mounts: tmpfs, and one for each huge page size */
static struct {
	pthread_once_t once;
	dev_t dev[HUGE_SHIFT_MAX - HUGE_SHIFT_MIN + 2];
	uint32_t n;
} internal = { .once = PTHREAD_ONCE_INIT };

static void add_internal(unsigned int flags)
{
	int fd = memfd_create("xroce-probe", MFD_CLOEXEC | flags);
	struct stat st;

	if (fd < 0)
		return;
	if (!fstat(fd, &st))
		internal.dev[internal.n++] = st.st_dev;
	close(fd);
}

static void find_internal(void)
{
	add_internal(0);
	for (unsigned int shift = HUGE_SHIFT_MIN; shift <= HUGE_SHIFT_MAX; shift++)
		add_internal(MFD_HUGETLB | shift << MAP_HUGE_SHIFT);
}

static bool is_internal(dev_t dev)
{
	pthread_once(&internal.once, find_internal);
	for (uint32_t i = 0; i < internal.n; i++)
		if (internal.dev[i] == dev)
			return true;
	return false;
}

/*
 * Parses a line of mountinfo (proc_pid_mountinfo(5)):
 * 36 35 98:0 /root /mount-point rw,noatime optional... - type source options
 */
static bool base_is_memory_mount(const char *line, dev_t dev)
{
	const char *type = strstr(line, " - ");
	unsigned int major, minor;

	return type && sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 &&
	       makedev(major, minor) == dev &&
	       (!strncmp(type, " - tmpfs ", 9) || !strncmp(type, " - hugetlbfs ", 13));
}

/* The kernel writes the list of mounts without asking the file systems. */
static bool is_mounted_memory(dev_t dev, pid_t pid)
{
	char path[40], *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
	f = fopen(path, "re");
	while (f && !found && getline(&line, &size, f) > 0)
		found = base_is_memory_mount(line, dev);
	free(line);
	if (f)
		fclose(f);
	return found;
}

int xd_memory_file_check_mapped(int fd, pid_t pid, struct xd_memory_file *f)
{
	struct statx st;
	dev_t dev;

	/* FUSE and network file systems answer this from their caches. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st))
		return -EINVAL;
	dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	if (!is_internal(dev) && !is_mounted_memory(dev, pid))
		return -EINVAL;
	return xd_memory_file_check(fd, f);
}
