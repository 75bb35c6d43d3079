// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Moving in works in steps of 2 MiB:
 *
 *   populate the pages; write-protect them through userfaultfd; copy them to the memfd;
 *   map the memfd over them; wake the threads that faulted on the write protection
 *
 * A thread that writes meanwhile waits, and its write then goes to the memfd. A thread that reads
 * sees the same bytes throughout. A system call that writes there waits as well, which needs a
 * userfaultfd that handles faults of the kernel: the daemon's device provides one.
 *
 * Moving out: map the memfd privately, let the kernel copy each page (as a write would), then free
 * the memfd's pages. The result behaves like anonymous memory. Allocators rely on MADV_DONTNEED
 * giving zeros.
 *
 * The thread that does this must not write to the pages itself, so its stack is never moved and
 * signals are blocked.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/memory/convert.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13) /* Linux 6.4 */
#endif

#define STEP XP_PAGE_FILE_STEP

static int uffd = -1;

uint64_t xp_page_size(void)
{
	static uint64_t size;

	if (!size)
		size = sysconf(_SC_PAGESIZE);
	return size;
}

/* ---- userfaultfd --------------------------------------------------------------- */

static int open_uffd(int device, uint64_t features, uint64_t *have)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -1;
	if (ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	*have = api.features;
	return fd;
}

bool xp_convert_ready(int device)
{
	uint64_t have, wanted = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
	int probe;

	if (uffd >= 0)
		return true;
	if (device < 0)
		return false;
	/*
	 * UFFDIO_API reports the available features and can be called once per descriptor, so a
	 * second descriptor is opened with the features wanted.
	 */
	probe = open_uffd(device, 0, &have);
	if (probe < 0)
		return false;
	close(probe);
	if ((have & wanted) != wanted)
		return false;
	wanted |= have & UFFD_FEATURE_WP_UNPOPULATED;
	uffd = open_uffd(device, wanted, &have);
	return uffd >= 0;
}

static bool write_protect(uint64_t start, uint64_t length, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { start, length },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return !ioctl(uffd, UFFDIO_WRITEPROTECT, &wp);
}

/* ---- moving in ----------------------------------------------------------------- */

#ifdef __SANITIZE_THREAD__
/*
 * ThreadSanitizer takes pwrite() for a read of pages that threads wrote to until these were
 * protected, and mmap() for a write to pages that threads read meanwhile. These see the same bytes.
 */
static ssize_t write_at(int fd, const void *from, size_t length, off_t offset)
{
	return syscall(SYS_pwrite64, fd, from, length, offset);
}

static void *map_over(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, at, length, prot, flags, fd, offset);
}
#else
#define write_at pwrite
#define map_over mmap
#endif

/*
 * Copies protected pages to the file. A write allocates each page of the file and fills it at once;
 * a second mapping of the file would be filled with zeros first. Lack of memory is an error here,
 * not SIGBUS later.
 */
static bool copy_to_file(const char *from, uint64_t length, const struct xp_file *f,
			 uint64_t offset)
{
	ssize_t n;

	while (length) {
		n = write_at(f->fd, from, length, (off_t)offset);
		if (n <= 0)
			return false;
		from += n;
		offset += n;
		length -= n;
	}
	return true;
}

static bool move_step(uint64_t start, uint64_t length, struct xp_file *f, uint64_t offset)
{
	struct uffdio_range range = { start, length };
	void *at = (void *)(uintptr_t)start;
	bool moved;

	if (madvise(at, length, MADV_POPULATE_WRITE) || !write_protect(start, length, true))
		return false;
	moved = copy_to_file(at, length, f, offset) &&
		map_over(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
			 f->fd, (off_t)offset) != MAP_FAILED;
	if (moved) {
		ioctl(uffd, UFFDIO_WAKE, &range);
	} else {
		write_protect(start, length, false); /* wakes as well */
		xp_file_free_pages(f, offset, length);
	}
	return moved;
}

static uint64_t move_steps(uint64_t start, uint64_t end, struct xp_file *f, uint64_t offset)
{
	uint64_t at = start, stop;

	while (at < end) {
		stop = (at & ~(STEP - 1)) + STEP;
		if (stop > end)
			stop = end;
		if (!move_step(at, stop - at, f, offset + (at - start)))
			break;
		at = stop;
	}
	return at - start;
}

uint64_t xp_move_in(uint64_t start, uint64_t end, struct xp_file **file, uint64_t *offset)
{
	struct uffdio_register reg = {
		.range = { start, end - start },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	sigset_t all, before;
	uint64_t moved = 0;

	*file = xp_file_alloc(start, end - start, offset);
	if (!*file)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (!ioctl(uffd, UFFDIO_REGISTER, &reg)) {
		moved = move_steps(start, end, *file, *offset);
		/* The pages that were moved are a new mapping, which is not registered. */
		reg.range.start += moved;
		reg.range.len -= moved;
		if (reg.range.len)
			ioctl(uffd, UFFDIO_UNREGISTER, &reg.range);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!moved) {
		xp_file_put(*file);
		*file = NULL;
	}
	return moved;
}

/* ---- moving out ---------------------------------------------------------------- */

static bool maps_file(const struct xp_mapping *m, const struct xp_file *f)
{
	return m->inode == f->inode && m->dev == f->dev;
}

/*
 * Replaces each page of a private mapping by a private copy, and frees the file's page. Returns
 * false if some pages could not be copied; those stay in the file.
 */
static bool copy_pages(uint64_t start, uint64_t end, struct xp_file *f, uint64_t offset)
{
	uint64_t at, n;
	bool all = true;

	for (at = start; at < end; at += n) {
		n = end - at < STEP ? end - at : STEP;
		if (!madvise((void *)(uintptr_t)at, n, MADV_POPULATE_WRITE))
			xp_file_free_pages(f, offset + (at - start), n);
		else
			all = false;
	}
	return all;
}

/* Keeps the current protection, which the program may have changed since the pages moved in. */
static bool map_privately(const struct xp_mapping *m, uint64_t start, uint64_t end, int fd,
			  uint64_t offset)
{
	int prot = (m->readable ? PROT_READ : 0) | (m->writable ? PROT_WRITE : 0) |
		   (m->executable ? PROT_EXEC : 0);

	return map_over((void *)(uintptr_t)start, end - start, prot, MAP_PRIVATE | MAP_FIXED, fd,
			offset) != MAP_FAILED;
}

/*
 * Moves out the part of [offset, offset + length) that the mapping has. Returns false if the
 * file's pages are still in use. A part that cannot be mapped privately stays shared, which does
 * no harm.
 */
static bool move_out_mapping(const struct xp_mapping *m, struct xp_file *f, uint64_t offset,
			     uint64_t length)
{
	uint64_t lo = m->offset > offset ? m->offset : offset, hi = m->offset + (m->end - m->start);
	uint64_t start = m->start + (lo - m->offset), end;

	if (hi > offset + length)
		hi = offset + length;
	end = start + (hi - lo);
	if (!maps_file(m, f) || lo >= hi)
		return true;
	return m->shared && map_privately(m, start, end, f->fd, lo) &&
	       copy_pages(start, end, f, lo);
}

/* Returns true if [start, start + length) still maps the file from offset on, all of it. */
static bool in_place(const struct xp_mappings *maps, uint64_t start, uint64_t length,
		     const struct xp_file *f, uint64_t offset)
{
	const struct xp_mapping *m = maps->at;
	uint64_t at = start;
	size_t i;

	for (i = 0; i < maps->count && m[i].start <= at && m[i].shared && maps_file(&m[i], f) &&
		    m[i].offset + (at - m[i].start) == offset + (at - start);
	     i++)
		at = m[i].end;
	return at >= start + length;
}

/*
 * The program may have unmapped the memory and mapped something else there, or moved it with
 * mremap(). So only mappings that /proc/self/maps shows to be of this file are touched, at whatever
 * address.
 */
void xp_move_out(uint64_t start, uint64_t length, struct xp_file *f, uint64_t offset)
{
	struct xp_mappings maps;
	bool all = true, displaced;
	size_t i;

	xp_file_free_deferred();
	if (xp_mappings_read(start, start + length, &maps))
		return;
	displaced = !in_place(&maps, start, length, f, offset);
	if (displaced) {
		free(maps.at);
		if (xp_mappings_read(0, UINT64_MAX, &maps))
			return;
	}
	for (i = 0; i < maps.count; i++)
		all &= move_out_mapping(&maps.at[i], f, offset, length);
	free(maps.at);
	if (displaced && all)
		xp_file_free_pages(f, offset, length);
}

void xp_move_out_in_child(const struct xp_mapping *m)
{
	struct xp_file *f = xp_file_find(m->dev, m->inode);

	if (f)
		map_privately(m, m->start, m->end, f->fd, m->offset);
}

void xp_convert_in_child(void)
{
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
}
