// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Moving in works in steps of 2 MiB:
 *
 *   write-protect the pages through userfaultfd; copy them to the memfd;
 *   map the memfd over them; wake the threads that faulted on the write protection
 *
 * Before Linux 6.4 absent pages cannot be protected, so all are populated first.
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
 *
 * Both would undo a MADV_DONTNEED that another thread executes meanwhile, so steps and discarding
 * (discard.c) exclude each other by a lock of their own. Nothing is allocated from the heap while
 * it is held: an allocator may call madvise() with its own locks held.
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
static bool protects_absent; /* pages, too */

/* ---- steps --------------------------------------------------------------------- */

static pthread_mutex_t steps = PTHREAD_MUTEX_INITIALIZER;
static sigset_t signals; /* of the thread that holds the lock */

/* Signals are blocked, so a signal handler cannot find the lock held by its own thread. */
void xp_steps_lock(void)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_mutex_lock(&steps);
	signals = before;
}

void xp_steps_unlock(void)
{
	sigset_t before = signals;

	pthread_mutex_unlock(&steps);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct xp_granules xp_adopted_ever;

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
	protects_absent = wanted & UFFD_FEATURE_WP_UNPOPULATED;
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

/* Returns false without memory for the pages. */
static bool protect(uint64_t start, uint64_t length)
{
	if (!protects_absent && madvise((void *)(uintptr_t)start, length, MADV_POPULATE_WRITE))
		return false;
	return write_protect(start, length, true);
}

static bool replace_pages(uint64_t start, uint64_t length, struct xp_file *f, uint64_t offset)
{
	struct uffdio_range range = { start, length };
	void *at = (void *)(uintptr_t)start;
	bool moved;

	if (!protect(start, length))
		return false;
	moved = copy_to_file(at, length, f, offset) &&
		map_over(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
			 f->fd, (off_t)offset) != MAP_FAILED;
	if (moved)
		ioctl(uffd, UFFDIO_WAKE, &range);
	else
		write_protect(start, length, false); /* wakes as well */
	return moved;
}

static bool move_step(uint64_t start, uint64_t length, struct xp_file *f, uint64_t offset)
{
	bool moved;

	xp_steps_lock();
	xp_granules_add(&xp_adopted_ever, start, start + length);
	moved = replace_pages(start, length, f, offset);
	xp_steps_unlock();
	if (!moved)
		xp_file_free_pages(f, offset, length);
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
	uint64_t moved = 0;

	*file = xp_file_alloc(start, end - start, offset);
	if (!*file)
		return 0;
	if (!ioctl(uffd, UFFDIO_REGISTER, &reg)) {
		moved = move_steps(start, end, *file, *offset);
		/* The pages that were moved are a new mapping, which is not registered. */
		reg.range.start += moved;
		reg.range.len -= moved;
		if (reg.range.len)
			ioctl(uffd, UFFDIO_UNREGISTER, &reg.range);
	}
	if (!moved) {
		xp_file_put(*file);
		*file = NULL;
	}
	return moved;
}

/* ---- moving out ---------------------------------------------------------------- */

/* Part of a page file that is moved out */
struct leaving {
	struct xp_file *file;
	uint64_t offset, length;
	bool found;	   /* a mapping of it */
	uint64_t start;	   /* address that it was moved in at */
	uint64_t in_place; /* bytes that are mapped there */
	bool failed;	   /* pages of the file are still in use */
};

/* A part of it in one mapping */
struct convert_piece {
	uint64_t start, end, offset;
};

static bool piece_in(const struct leaving *l, const struct xp_mapping *m, struct convert_piece *p)
{
	uint64_t end = m->offset + (m->end - m->start);

	if (m->inode != l->file->inode || m->dev != l->file->dev)
		return false;
	if (end > l->offset + l->length)
		end = l->offset + l->length;
	p->offset = m->offset > l->offset ? m->offset : l->offset;
	p->start = m->start + (p->offset - m->offset);
	p->end = p->start + (end - p->offset);
	return p->offset < end;
}

/* Keeps the current protection, which the program may have changed since the pages moved in. */
static bool map_privately(const struct xp_mapping *m, const struct convert_piece *p, int fd)
{
	return map_over((void *)(uintptr_t)p->start, p->end - p->start, xp_protection(m),
			MAP_PRIVATE | MAP_FIXED, fd, (off_t)p->offset) != MAP_FAILED;
}

/* A part that cannot be mapped privately stays shared, which does no harm. */
static int convert_map_piece(void *arg, const struct xp_mapping *m)
{
	struct leaving *l = arg;
	struct convert_piece p;

	if (!piece_in(l, m, &p))
		return 0;
	l->found = true;
	if (p.start - l->start == p.offset - l->offset)
		l->in_place += p.end - p.start;
	if (m->shared && !map_privately(m, &p, l->file->fd))
		l->failed = true;
	return 0;
}

/* Replaces each page by a private copy, and frees the file's page. */
static void copy_pages(struct leaving *l, const struct convert_piece *p)
{
	uint64_t at, n;

	for (at = p->start; at < p->end; at += n) {
		n = p->end - at < STEP ? p->end - at : STEP;
		if (madvise((void *)(uintptr_t)at, n, MADV_POPULATE_WRITE))
			l->failed = true;
		else
			xp_file_free_pages(l->file, p->offset + (at - p->start), n);
	}
}

static int copy_piece(void *arg, const struct xp_mapping *m)
{
	struct leaving *l = arg;
	struct convert_piece p;

	if (!m->shared && piece_in(l, m, &p))
		copy_pages(l, &p);
	return 0;
}

/* ---- pages that are not where they were moved in -------------------------------- */

/*
 * The program has unmapped or discarded them, or moved them with mremap(). Only the list of all
 * mappings shows that, so it is read once for many pages.
 */
static struct {
	struct leaving *at; /* each has a reference to its file */
	size_t count, room;
	uint64_t pages;
	uint64_t mappings; /* of the process, when they were searched last */
} lost;

static int for_each_lost(xp_mapping_fn fn, const struct xp_mapping *m)
{
	size_t i;

	for (i = 0; m->adopted && i < lost.count; i++)
		fn(&lost.at[i], m);
	return 0;
}

static int map_lost(void *arg, const struct xp_mapping *m)
{
	lost.mappings++;
	return for_each_lost(convert_map_piece, m);
}

static int copy_lost(void *arg, const struct xp_mapping *m)
{
	return for_each_lost(copy_piece, m);
}

void xp_move_out_lost(void)
{
	bool found = false;
	size_t i;
	int err;

	if (!lost.count)
		return;
	lost.mappings = 0;
	xp_steps_lock();
	err = xp_mappings_walk(0, UINT64_MAX, map_lost, NULL);
	xp_steps_unlock();
	for (i = 0; i < lost.count; i++)
		found |= lost.at[i].found;
	if (!err && found)
		err = xp_mappings_walk(0, UINT64_MAX, copy_lost, NULL);
	for (i = 0; i < lost.count; i++) {
		struct leaving *l = &lost.at[i];

		if (!err && !l->failed)
			xp_file_free_pages(l->file, l->offset, l->length);
		xp_file_put(l->file);
	}
	lost.count = lost.pages = 0;
}

/* Reading the list takes some 0.3 us for each mapping, deregistration of a page 50 us. */
#define MAPPINGS_PER_PAGE 8

static void convert_lose(const struct leaving *l)
{
	struct leaving *more;

	if (lost.count == lost.room) {
		more = realloc(lost.at, (lost.room * 2 + 8) * sizeof(*more));
		if (!more)
			return; /* the pages are never freed */
		lost.at = more;
		lost.room = lost.room * 2 + 8;
	}
	lost.at[lost.count++] = *l;
	xp_file_get(l->file);
	lost.pages += l->length / xp_page_size();
	if (lost.pages * MAPPINGS_PER_PAGE >= lost.mappings)
		xp_move_out_lost();
}

void xp_move_out(uint64_t start, uint64_t length, struct xp_file *f, uint64_t offset)
{
	struct leaving l = { .file = f, .offset = offset, .length = length, .start = start };
	const struct convert_piece all = { start, start + length, offset };
	int err;

	xp_file_free_deferred();
	xp_steps_lock();
	err = xp_mappings_walk(start, start + length, convert_map_piece, &l);
	xp_steps_unlock();
	if (err || l.failed)
		return;
	/* Pages that were discarded since are anonymous, and are not changed by this. */
	if (l.in_place == length)
		copy_pages(&l, &all);
	else
		convert_lose(&l);
}

void xp_move_out_in_child(const struct xp_mapping *m)
{
	struct convert_piece p = { m->start, m->end, m->offset };
	struct xp_file *f = xp_file_find(m->dev, m->inode);

	/* After MADV_DONTFORK, nothing is mapped here (ENOMEM). */
	if (f && !msync((void *)(uintptr_t)m->start, m->end - m->start, MS_ASYNC))
		map_privately(m, &p, f->fd);
}

void xp_convert_in_child(void)
{
	/*
	 * Another thread of the parent may have held it to discard pages. It is not locked for a
	 * fork, as an allocator that holds its locks for the fork could wait for that thread.
	 */
	pthread_mutex_init(&steps, NULL);
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
}
