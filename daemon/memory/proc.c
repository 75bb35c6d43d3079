// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/base/reaper.h"
#include "mover.h"

/*
 * Stores the directory of an open procfs file, whose last component must be `name`. An O_PATH
 * descriptor may be of a file system that never answers fstatfs().
 */
static int proc_folder(int fd, const char *name, char *path, size_t size)
{
	int flags = fcntl(fd, F_GETFL);
	struct statfs fs;
	char link[40];
	ssize_t n;
	char *slash;

	if (flags < 0 || flags & O_PATH || fstatfs(fd, &fs) || fs.f_type != PROC_SUPER_MAGIC)
		return -EINVAL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, size - 1);
	if (n <= 0 || (size_t)n >= size - 1)
		return -EINVAL;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash || strcmp(slash + 1, name))
		return -EINVAL;
	*slash = '\0';
	return 0;
}

/*
 * Returns true if the directory of a procfs file is not that of process `pid`. Its name can be
 * compared only if the procfs is the daemon's own: in another PID namespace numbers differ.
 */
static bool other_process(int fd, const char *folder, pid_t pid)
{
	struct stat file, ours;
	const char *last = strrchr(folder, '/');

	if (fstat(fd, &file) || stat("/proc", &ours))
		return true;
	return file.st_dev == ours.st_dev && (!last || atol(last + 1) != pid);
}

static int check_proc(int mem_fd, int maps_fd, pid_t pid)
{
	char mem[256], maps[256];

	if (proc_folder(mem_fd, "mem", mem, sizeof(mem)) ||
	    proc_folder(maps_fd, "maps", maps, sizeof(maps)) || strcmp(mem, maps) ||
	    other_process(mem_fd, mem, pid))
		return -EINVAL;
	return (fcntl(mem_fd, F_GETFL) & O_ACCMODE) == O_RDWR ? 0 : -EINVAL;
}

static void proc_give_back(struct xd_proc_quota quota)
{
	xd_fds_put(quota.fds, XD_PROC_FDS);
	xd_fds_put(quota.procs, 1);
	if (quota.process)
		xd_reaper_add(quota.process, -1);
}

int xd_proc_new(struct xd_movers *movers, const int fd[2], pid_t pid, struct xd_proc_quota quota,
		struct xd_proc **proc)
{
	struct xd_proc *p = NULL;
	int err = check_proc(fd[0], fd[1], pid);

	if (!err)
		p = calloc(1, sizeof(*p));
	if (!p) {
		close(fd[0]);
		close(fd[1]);
		proc_give_back(quota);
		return err ? err : -ENOMEM;
	}
	p->refs = 1;
	p->quota = quota;
	p->pid = pid;
	p->mem_fd = fd[0];
	p->maps_fd = fd[1];
	p->movers = movers;
	pthread_mutex_init(&p->lock, NULL);
	*proc = p;
	return 0;
}

struct xd_proc *xd_proc_get(struct xd_proc *proc)
{
	if (proc)
		__atomic_add_fetch(&proc->refs, 1, __ATOMIC_RELAXED);
	return proc;
}

void xd_proc_put(struct xd_proc *proc)
{
	if (!proc || __atomic_sub_fetch(&proc->refs, 1, __ATOMIC_ACQ_REL))
		return;
	xd_mover_put(proc->mover);
	pthread_mutex_destroy(&proc->lock);
	close(proc->mem_fd);
	close(proc->maps_fd);
	proc_give_back(proc->quota);
	free(proc);
}

struct xd_mover *xd_proc_mover(const struct xd_proc *proc)
{
	return proc ? __atomic_load_n(&proc->mover, __ATOMIC_ACQUIRE) : NULL;
}

int xd_proc_start_mover(struct xd_proc *proc)
{
	struct xd_mover *m;
	int err = 0;

	if (!proc->movers)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&proc->lock);
	if (!proc->mover) {
		err = xd_mover_new(proc->movers, proc->mem_fd, proc->maps_fd, proc->quota.process,
				   &m);
		if (!err) {
			proc->quota.process = NULL;
			__atomic_store_n(&proc->mover, m, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&proc->lock);
	return err;
}

int xd_proc_list(struct xd_proc *proc, uint64_t start, uint64_t end, struct xd_vma **list,
		 size_t *count)
{
	int err = xd_proc_start_mover(proc);

	*list = NULL;
	*count = 0;
	return err ? err : xd_mover_maps(xd_proc_mover(proc), start, end, list, count);
}

int xd_proc_read(int mem_fd, uint64_t addr, void *dst, size_t len)
{
	ssize_t n;

	for (; len; addr += (uint64_t)n, dst = (uint8_t *)dst + n, len -= (size_t)n) {
		n = pread(mem_fd, dst, len, (off_t)addr);
		if (n <= 0)
			return -EFAULT;
	}
	return 0;
}

/*
 * Bytes that one instruction of the kernel stores. It stores other numbers of them in parts whose
 * order depends on the processor.
 */
static size_t tail_before(uint64_t end)
{
	return end & 3 ? 1 : end & 7 ? 4 : 8;
}

int xd_proc_write_last(int mem_fd, uint64_t addr, const void *src, size_t len)
{
	size_t tail = tail_before(addr + len), head = len - tail;
	struct iovec part[2] = {
		{ (void *)src, head },
		{ (uint8_t *)src + head, tail },
	};

	if (len <= tail)
		return xd_proc_write(mem_fd, addr, src, len);
	return pwritev(mem_fd, part, 2, (off_t)addr) == (ssize_t)len ? 0 : -EFAULT;
}

int xd_proc_write(int mem_fd, uint64_t addr, const void *src, size_t len)
{
	ssize_t n;

	for (; len; addr += (uint64_t)n, src = (const uint8_t *)src + n, len -= (size_t)n) {
		n = pwrite(mem_fd, src, len, (off_t)addr);
		if (n <= 0)
			return -EFAULT;
	}
	return 0;
}
