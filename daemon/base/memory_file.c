// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory_file.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/vfs.h>

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
