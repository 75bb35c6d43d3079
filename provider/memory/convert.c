// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Moving in, a step of 2 MiB at a time:
 *
 *   populate the pages; write-protect them through userfaultfd; copy them to the memfd;
 *   map the memfd over them; wake the writers that ran into the protection
 *
 * A thread that writes meanwhile waits and finds its write go to the memfd; one that reads sees
 * the same bytes throughout; a system call that writes there waits too, which takes a userfaultfd
 * for kernel faults and hence the daemon's device.
 *
 * Moving out: map the memfd privately, make the kernel copy each page for us (as a write would),
 * then give the memfd's pages up. What remains behaves as anonymous memory: allocators rely on
 * MADV_DONTNEED giving zeros.
 *
 * The thread that does this must not write to the pages itself: its stack is never moved, and
 * signals wait.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

#define STEP (2ull << 20)
#define FILE_SIZE (1ull << 40)
#define SEALS (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static int uffd = -1;
static struct xp_file *files;
static struct xp_file *current; /* where new ranges go */

uint64_t xp_page_size(void)
{
	static uint64_t size;

	if (!size)
		size = sysconf(_SC_PAGESIZE);
	return size;
}

/* ---- files --------------------------------------------------------------------- */

void xp_file_get(struct xp_file *f)
{
	f->refs++;
}

void xp_file_put(struct xp_file *f)
{
	struct xp_file **p;

	if (--f->refs)
		return;
	for (p = &files; *p != f; p = &(*p)->next)
		;
	*p = f->next;
	close(f->fd);
	free(f);
}

struct xp_file *xp_file_find(uint64_t dev, uint64_t inode)
{
	struct xp_file *f;

	for (f = files; f && (f->dev != dev || f->inode != inode); f = f->next)
		;
	return f;
}

static struct xp_file *new_file(void)
{
	struct xp_file *f = calloc(1, sizeof(*f));
	struct rlimit limit;
	struct stat st;

	if (!f)
		return NULL;
	f->refs = 1;
	f->size = FILE_SIZE;
	/* Beyond the limit ftruncate() would be a deadly signal. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < f->size)
		f->size = limit.rlim_cur & ~(STEP - 1);
	f->fd = memfd_create(XP_ADOPTED_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (f->fd < 0)
		goto free_file;
	if (ftruncate(f->fd, f->size) || fcntl(f->fd, F_ADD_SEALS, SEALS) || fstat(f->fd, &st))
		goto close_fd;
	f->dev = st.st_dev;
	f->inode = st.st_ino;
	f->lease = -1;
	f->next = files;
	files = f;
	return f;

close_fd:
	close(f->fd);
free_file:
	free(f);
	return NULL;
}

/* Room in a file, at the same place within a huge page as the address */
static struct xp_file *take_room(uint64_t start, uint64_t length, uint64_t *offset)
{
	uint64_t at;

	if (current) {
		at = ((current->used + STEP - 1) & ~(STEP - 1)) + (start & (STEP - 1));
		if (current->size < length || at > current->size - length) {
			xp_file_put(current);
			current = NULL;
		}
	}
	if (!current) {
		current = new_file();
		at = start & (STEP - 1);
		if (!current || current->size < length || at > current->size - length)
			return NULL;
	}
	current->used = at + length;
	*offset = at;
	xp_file_get(current);
	return current;
}

/* ---- pages that nobody needs any more ------------------------------------------- */

/* What children of ours still have */
struct range {
	struct xp_file *file;
	uint64_t offset, length;
};

static struct range *later;
static size_t nlater, later_room;

static void punch(const struct xp_file *f, uint64_t offset, uint64_t length)
{
	fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}

/* A child has it, or a child of a child: xp_convert_before_fork() */
static bool inherited(const struct xp_file *f, uint64_t offset, uint64_t length)
{
	struct flock l = { .l_type = F_WRLCK, .l_start = (off_t)offset, .l_len = (off_t)length };

	return fcntl(f->fd, F_OFD_GETLK, &l) || l.l_type != F_UNLCK;
}

static void put_off(struct xp_file *f, uint64_t offset, uint64_t length)
{
	struct range *last = nlater ? &later[nlater - 1] : NULL, *more;

	if (last && last->file == f && last->offset + last->length == offset) {
		last->length += length;
		return;
	}
	if (nlater == later_room) {
		more = realloc(later, (later_room * 2 + 8) * sizeof(*more));
		if (!more)
			return;
		later = more;
		later_room = later_room * 2 + 8;
	}
	later[nlater++] = (struct range){ f, offset, length };
	xp_file_get(f);
}

static void give_up_pages(struct xp_file *f, uint64_t offset, uint64_t length)
{
	if (offset < f->kept)
		return;
	if (inherited(f, offset, length))
		put_off(f, offset, length);
	else
		punch(f, offset, length);
}

/* Those whose children have gone meanwhile */
static void give_up_again(void)
{
	struct range r;
	size_t i = 0;

	while (i < nlater) {
		r = later[i];
		if (inherited(r.file, r.offset, r.length)) {
			i++;
			continue;
		}
		punch(r.file, r.offset, r.length);
		xp_file_put(r.file);
		later[i] = later[--nlater];
	}
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
	/* The first answer says what there is; features are chosen once for each descriptor. */
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

/* The new pages, seen through a window of our own while the old ones are still in place */
static void *open_window(const struct xp_file *f, uint64_t offset, uint64_t length)
{
	void *window;

	/* Memory that is not there must be an error here, not a fault later. */
	if (fallocate(f->fd, 0, offset, length))
		return NULL;
	window = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, f->fd,
		      offset);
	return window == MAP_FAILED ? NULL : window;
}

static bool move_step(uint64_t start, uint64_t length, struct xp_file *f, uint64_t offset)
{
	struct uffdio_range range = { start, length };
	void *at = (void *)(uintptr_t)start, *window;
	bool moved = false;

	if (madvise(at, length, MADV_POPULATE_WRITE))
		return false;
	window = open_window(f, offset, length);
	if (!window)
		goto give_up;
	if (!write_protect(start, length, true))
		goto close_window;
	memcpy(window, at, length);
	moved = mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
		     f->fd, offset) != MAP_FAILED;
	if (moved)
		ioctl(uffd, UFFDIO_WAKE, &range);
	else
		write_protect(start, length, false); /* wakes as well */
close_window:
	munmap(window, length);
give_up:
	if (!moved)
		give_up_pages(f, offset, length);
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

	*file = take_room(start, end - start, offset);
	if (!*file)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (!ioctl(uffd, UFFDIO_REGISTER, &reg)) {
		moved = move_steps(start, end, *file, *offset);
		/* What was moved is another mapping now, never registered. */
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

static bool is_piece_of(const struct xp_mapping *m, const struct xp_file *f)
{
	return m->inode == f->inode && m->dev == f->dev;
}

/* Each page of a private mapping becomes our own copy; the file's is given up behind it. */
static bool take_copies(uint64_t start, uint64_t end, struct xp_file *f, uint64_t offset)
{
	uint64_t at, n;
	bool all = true;

	for (at = start; at < end; at += n) {
		n = end - at < STEP ? end - at : STEP;
		if (!madvise((void *)(uintptr_t)at, n, MADV_POPULATE_WRITE))
			give_up_pages(f, offset + (at - start), n);
		else
			all = false;
	}
	return all;
}

/* The program may have changed the protection since it was moved in. */
static bool map_privately(const struct xp_mapping *m, uint64_t start, uint64_t end, int fd,
			  uint64_t offset)
{
	int prot = (m->readable ? PROT_READ : 0) | (m->writable ? PROT_WRITE : 0) |
		   (m->executable ? PROT_EXEC : 0);

	return mmap((void *)(uintptr_t)start, end - start, prot, MAP_PRIVATE | MAP_FIXED, fd,
		    offset) != MAP_FAILED;
}

/* What the mapping has of [offset, offset + length); false: the file's pages are still in use. */
static bool move_out_mapping(const struct xp_mapping *m, struct xp_file *f, uint64_t offset,
			     uint64_t length)
{
	uint64_t lo = m->offset > offset ? m->offset : offset, hi = m->offset + (m->end - m->start);
	uint64_t start = m->start + (lo - m->offset), end;

	if (hi > offset + length)
		hi = offset + length;
	end = start + (hi - lo);
	if (!is_piece_of(m, f) || lo >= hi)
		return true;
	/* where it stays shared that does no harm */
	return m->shared && map_privately(m, start, end, f->fd, lo) &&
	       take_copies(start, end, f, lo);
}

/* All of [start, end) is where it was moved in. */
static bool in_place(const struct xp_mapping *m, size_t n, uint64_t start, uint64_t end,
		     const struct xp_file *f, uint64_t offset)
{
	uint64_t at = start;
	size_t i;

	for (i = 0; i < n && m[i].start <= at && m[i].shared && is_piece_of(&m[i], f) &&
		    m[i].offset + (at - m[i].start) == offset + (at - start);
	     i++)
		at = m[i].end;
	return at >= end;
}

/*
 * The program may have unmapped the memory, and something else may live there, or have moved it:
 * only what the kernel says is still our mapping is touched, wherever it is.
 */
void xp_move_out(uint64_t start, uint64_t end, struct xp_file *f, uint64_t offset)
{
	struct xp_mapping *m;
	bool all = true, strayed;
	size_t n, i;

	give_up_again();
	if (xp_maps_read(start, end, &m, &n))
		return;
	strayed = !in_place(m, n, start, end, f, offset);
	if (strayed) {
		free(m);
		if (xp_maps_read(0, UINT64_MAX, &m, &n))
			return;
	}
	for (i = 0; i < n; i++)
		all &= move_out_mapping(&m[i], f, offset, end - start);
	free(m);
	if (strayed && all)
		give_up_pages(f, offset, end - start);
}

/* ---- fork ---------------------------------------------------------------------- */

/*
 * A lock of an open file description belongs to all processes that have a copy of its descriptor:
 * it goes with the last child that neither ended nor called exec().
 */
static bool take_lease(struct xp_file *f)
{
	struct flock l = { .l_type = F_RDLCK, .l_len = (off_t)f->used };
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	f->lease = open(path, O_RDONLY | O_CLOEXEC);
	return f->lease >= 0 && !fcntl(f->lease, F_OFD_SETLK, &l);
}

void xp_convert_before_fork(void)
{
	struct xp_file *f;

	for (f = files; f; f = f->next)
		if (!take_lease(f))
			f->kept = f->used;
}

void xp_convert_in_parent(void)
{
	struct xp_file *f;

	for (f = files; f; f = f->next) {
		if (f->lease >= 0)
			close(f->lease);
		f->lease = -1;
	}
}

void xp_move_out_in_child(const struct xp_mapping *m)
{
	struct xp_file *f = xp_file_find(m->dev, m->inode);

	if (f)
		map_privately(m, m->start, m->end, f->fd, m->offset);
}

void xp_convert_in_child(void)
{
	struct xp_file *f;

	/* open as long as the child lives */
	for (f = files; f; f = f->next)
		f->lease = -1;
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
	while (nlater)
		xp_file_put(later[--nlater].file);
	if (current)
		xp_file_put(current);
	current = NULL;
}
