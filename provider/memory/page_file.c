// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Page files. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/memory/page_file.h"

#define FILE_SIZE (1ull << 56)
#define SEALS (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static struct xp_file *files;
static struct xp_file *current; /* for allocation */
static uint64_t used_end;	/* address behind the last range that was allocated */
static uint64_t used_length;	/* of that range */

/*
 * realloc() of libc makes a large block longer by mremap(), of which this library learns nothing,
 * and the kernel then maps what follows the block's pages in the file: it must be nobody's. Blocks
 * below this size come from a heap.
 */
#define MAY_GROW (128ul << 10)
#define GAPS (1ull << 20) /* in a file: 64 GiB each, none if RLIMIT_FSIZE is below 2 TiB */

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

/* ---- allocation ---------------------------------------------------------------- */

/* Writes and ftruncate() beyond RLIMIT_FSIZE raise SIGXFSZ, which kills by default. */
static uint64_t size_limit(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < FILE_SIZE)
		return limit.rlim_cur & ~(XP_PAGE_FILE_STEP - 1);
	return FILE_SIZE;
}

static struct xp_file *new_file(void)
{
	struct xp_file *f = calloc(1, sizeof(*f));
	struct stat st;

	if (!f)
		return NULL;
	f->refs = 1;
	f->size = size_limit();
	f->fd = memfd_create(XP_PAGE_FILE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (f->fd < 0)
		goto free_file;
	if (ftruncate(f->fd, f->size) || fcntl(f->fd, F_ADD_SEALS, SEALS) || fstat(f->fd, &st))
		goto close_fd;
	f->dev = st.st_dev;
	f->inode = st.st_ino;
	f->fork_fd = -1;
	f->next = files;
	files = f;
	return f;

close_fd:
	close(f->fd);
free_file:
	free(f);
	return NULL;
}

/* Returns the first offset that a range can have in the current file. */
static uint64_t next_offset(uint64_t start, uint64_t length)
{
	uint64_t in_step = start & (XP_PAGE_FILE_STEP - 1), at = current->used;

	/* Behind the pages before start, so that the kernel makes one mapping of both */
	if (start == used_end && length < MAY_GROW && used_length < MAY_GROW)
		return at;
	at += current->size / GAPS;
	return ((at + XP_PAGE_FILE_STEP - 1) & ~(XP_PAGE_FILE_STEP - 1)) + in_step;
}

struct xp_file *xp_file_alloc(uint64_t start, uint64_t length, uint64_t *offset)
{
	uint64_t at;

	if (current) {
		at = next_offset(start, length);
		if (current->size < length || at > current->size - length) {
			xp_file_put(current);
			current = NULL;
		}
	}
	if (!current) {
		current = new_file();
		at = start & (XP_PAGE_FILE_STEP - 1);
		if (!current || current->size < length || at > current->size - length)
			return NULL;
	}
	/* The program may have lowered the limit since the file was made. */
	if (at + length > size_limit())
		return NULL;
	current->used = at + length;
	used_end = start + length;
	used_length = length;
	*offset = at;
	xp_file_get(current);
	return current;
}

/* ---- freeing pages ------------------------------------------------------------- */

/* Pages to be freed once no child can have them mapped any more */
struct page_file_range {
	struct xp_file *file;
	uint64_t offset, length;
};

static struct page_file_range *deferred;
static size_t ndeferred, deferred_room;
static size_t next_deferred; /* the next one to look at */

static void punch(const struct xp_file *f, uint64_t offset, uint64_t length)
{
	fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}

/* Returns true if a child or its descendant may have the range mapped: xp_files_before_fork() */
static bool page_file_inherited(const struct xp_file *f, uint64_t offset, uint64_t length)
{
	struct flock l = { .l_type = F_WRLCK, .l_start = (off_t)offset, .l_len = (off_t)length };

	return fcntl(f->fd, F_OFD_GETLK, &l) || l.l_type != F_UNLCK;
}

static void defer(struct xp_file *f, uint64_t offset, uint64_t length)
{
	struct page_file_range *last = ndeferred ? &deferred[ndeferred - 1] : NULL, *more;

	if (last && last->file == f && last->offset + last->length == offset) {
		last->length += length;
		return;
	}
	if (ndeferred == deferred_room) {
		more = realloc(deferred, (deferred_room * 2 + 8) * sizeof(*more));
		if (!more)
			return;
		deferred = more;
		deferred_room = deferred_room * 2 + 8;
	}
	deferred[ndeferred++] = (struct page_file_range){ f, offset, length };
	xp_file_get(f);
}

void xp_file_free_pages(struct xp_file *f, uint64_t offset, uint64_t length)
{
	if (offset < f->kept)
		return;
	if (page_file_inherited(f, offset, length))
		defer(f, offset, length);
	else
		punch(f, offset, length);
}

/* Looking at a range takes a system call, and each call here may follow one that defers a range. */
#define LOOKS 4

void xp_file_free_deferred(void)
{
	struct page_file_range *r;
	int looks;

	for (looks = 0; looks < LOOKS && ndeferred; looks++) {
		r = &deferred[next_deferred++ % ndeferred];
		if (page_file_inherited(r->file, r->offset, r->length))
			continue;
		punch(r->file, r->offset, r->length);
		xp_file_put(r->file);
		*r = deferred[--ndeferred];
	}
}

/* ---- fork ---------------------------------------------------------------------- */

/*
 * Takes a lock that belongs to an open file description (fcntl(2)). Children inherit its
 * descriptor, so the lock exists until the last of them exits or calls exec().
 */
static bool lock_for_children(struct xp_file *f)
{
	struct flock l = { .l_type = F_RDLCK, .l_len = (off_t)f->used };
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	f->fork_fd = open(path, O_RDONLY | O_CLOEXEC);
	return f->fork_fd >= 0 && !fcntl(f->fork_fd, F_OFD_SETLK, &l);
}

/*
 * A child reads the file's pages until it has written to them. So pages that the parent frees
 * after the fork must stay in the file while a child may have them mapped.
 */
void xp_files_before_fork(void)
{
	struct xp_file *f;

	for (f = files; f; f = f->next)
		if (!lock_for_children(f))
			f->kept = f->used;
}

void xp_files_in_parent(void)
{
	struct xp_file *f;

	for (f = files; f; f = f->next) {
		if (f->fork_fd >= 0)
			close(f->fork_fd);
		f->fork_fd = -1;
	}
}

void xp_files_in_child(void)
{
	struct xp_file *f;

	/* The descriptor stays open until the child ends. */
	for (f = files; f; f = f->next)
		f->fork_fd = -1;
	while (ndeferred)
		xp_file_put(deferred[--ndeferred].file);
	if (current)
		xp_file_put(current);
	current = NULL;
}
