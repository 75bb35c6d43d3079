// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/base/memory_file.h"
#include "daemon/helper/helper.h"

#define PAGE 4096u

static int check_file(struct xd_file *f)
{
	struct xd_memory_file m;
	int err = xd_memory_file_check(f->fd, &m);

	if (err)
		return err;
	f->size = m.size;
	f->unit = m.unit;
	f->sparse = true;
	f->dmabuf = false;
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
	f->dmabuf = true;
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

int xd_file_open_mapped(struct xd_file *f, int ticket, const struct xd_vma *vma, bool write)
{
	struct xd_mapped m = {
		.start = vma->start,
		.end = vma->end,
		.dev = vma->dev,
		.inode = vma->inode,
	};
	int err;

	f->fd = xd_helper_open_mapped(ticket, &m, write);
	if (f->fd < 0)
		return f->fd;
	err = check_file(f);
	if (err)
		close(f->fd);
	return err;
}
