// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proc.h"

#define PAGE 4096u

/*
 * Accepts memory file systems only: they have no backing store, and no call waits for another
 * process.
 */
static int check_file(struct xd_file *f)
{
	struct statfs fs;

	if (fstat(f->fd, &f->st) || !S_ISREG(f->st.st_mode) || fstatfs(f->fd, &fs) ||
	    (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC))
		return -EINVAL;
	f->size = (uint64_t)f->st.st_size;
	f->unit = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)f->st.st_blksize : PAGE;
	f->sparse = true;
	return 0;
}

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

/* Only dma-bufs of /dev/udmabuf consist of ordinary memory. */
static bool is_udmabuf(int fd)
{
	char path[40], line[128];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strcmp(line, "exp_name:\tudmabuf\n");
	if (f)
		fclose(f);
	return found;
}

/* A udmabuf consists of pages of a memfd that cannot shrink: the driver requires the seal. */
static int check_dmabuf(struct xd_file *f)
{
	off_t end = lseek(f->fd, 0, SEEK_END);

	if (!is_udmabuf(f->fd))
		return -EOPNOTSUPP;
	if (end <= 0)
		return -EINVAL;
	f->size = (uint64_t)end;
	f->unit = PAGE;
	return 0;
}

int xd_file_check(struct xd_file *f, int fd, bool write)
{
	int flags = fcntl(fd, F_GETFL), seals;
	struct statfs fs;

	*f = (struct xd_file){ .fd = fd };
	if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY ||
	    (write && (flags & O_ACCMODE) != O_RDWR))
		return -EINVAL;
	if (!fstatfs(f->fd, &fs) && fs.f_type == DMA_BUF_MAGIC)
		return check_dmabuf(f);
	seals = fcntl(f->fd, F_GET_SEALS);
	return seals < 0 || !(seals & F_SEAL_SHRINK) ? -EINVAL : check_file(f);
}

static bool may_access(const struct stat *st, const struct xd_mem_owner *o, bool write)
{
	mode_t need = write ? 06 : 04;

	if (!o->uid)
		return true;
	if (st->st_uid == o->uid)
		need <<= 6;
	else if (xd_in_groups(st->st_gid, o->gid, o->groups))
		need <<= 3;
	return (st->st_mode & need) == need;
}

/* Opens the file with O_PATH and checks it: opening a device could have side effects. */
static int find_mapped(struct xd_file *f, const struct xd_mem_owner *o, const struct xd_vma *vma,
		       bool write)
{
	char path[80];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", o->pid,
		 (unsigned long long)vma->start, (unsigned long long)vma->end);
	f->fd = open(path, O_PATH | O_CLOEXEC);
	if (f->fd < 0)
		return -errno;
	err = check_file(f);
	/*
	 * If the process executed another program meanwhile, or the client garbled the list, this
	 * may be another file. may_access() protects that file: the client must be allowed to
	 * open it.
	 */
	if (!err && (f->st.st_dev != vma->dev || f->st.st_ino != vma->inode ||
		     !may_access(&f->st, o, write) || xd_process_ended(o->pidfd)))
		err = -EACCES;
	if (err)
		close(f->fd);
	return err;
}

int xd_file_open_mapped(struct xd_file *f, const struct xd_mem_owner *owner,
			const struct xd_vma *vma, bool write)
{
	int err = find_mapped(f, owner, vma, write), path_fd = f->fd;
	char path[40];

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	/* mapping.c cannot guard mappings of files opened read-only */
	write = write || may_access(&f->st, owner, true);
	f->fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	err = f->fd < 0 ? -errno : 0;
	close(path_fd);
	return err;
}
