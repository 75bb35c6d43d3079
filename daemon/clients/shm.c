// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/memory/sigbus.h"
#include "client.h"
#include "reply.h"

#define PAGE 4096u
#define CHUNK_SIZE (2u << 20)
#define MAX_CHUNKS 4096

struct xd_chunk {
	uint32_t id;
	int fd; /* until it is sent to the client, then -1; kept for device memory */
	bool sent, dm;
	uint8_t *base;
	uint64_t size;
	uint32_t pages, used;
	uint32_t sigbus_slot;
	bool broken;	 /* the client truncated the file's pages, which harms only itself */
	uint64_t busy[]; /* bit by page: in use, or being freed */
};

static bool shm_is_busy(const struct xd_chunk *k, uint32_t page)
{
	return k->busy[page / 64] >> (page % 64) & 1;
}

static void set_busy(struct xd_chunk *k, uint32_t page, uint32_t pages, bool busy)
{
	for (; pages; pages--, page++) {
		if (busy)
			k->busy[page / 64] |= 1ull << (page % 64);
		else
			k->busy[page / 64] &= ~(1ull << (page % 64));
	}
}

/* Finds the first run of free pages. Returns false if none is long enough. */
static bool find_run(const struct xd_chunk *k, uint32_t pages, uint32_t *first)
{
	uint32_t i, run = 0;

	if (k->pages - k->used < pages)
		return false;
	for (i = 0; i < k->pages; i++) {
		run = shm_is_busy(k, i) ? 0 : run + 1;
		if (run == pages) {
			*first = i + 1 - pages;
			return true;
		}
	}
	return false;
}

static int shm_make_file(uint64_t size)
{
	int fd = memfd_create("xroce-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static int shm_map_chunk(struct xd_chunk *k)
{
	int err;

	k->fd = shm_make_file(k->size);
	if (k->fd < 0)
		return k->fd;
	k->base = mmap(NULL, k->size, PROT_READ | PROT_WRITE, MAP_SHARED, k->fd, 0);
	err = k->base == MAP_FAILED ? -errno
				    : xd_sigbus_add(k->base, k->size, &k->broken, &k->sigbus_slot);
	if (err) {
		if (k->base != MAP_FAILED)
			munmap(k->base, k->size);
		close(k->fd);
	}
	return err;
}

static int shm_add_chunk(struct xd_client *c, uint64_t length, bool dm, struct xd_chunk **out)
{
	struct xd_shm *shm = &c->shm;
	uint64_t size = (length + CHUNK_SIZE - 1) & ~(uint64_t)(CHUNK_SIZE - 1);
	uint32_t pages = size / PAGE;
	struct xd_chunk **list, *k;
	int err;

	if (shm->chunks == MAX_CHUNKS)
		return -ENOMEM;
	list = realloc(shm->chunk, (shm->chunks + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	shm->chunk = list;
	k = calloc(1, sizeof(*k) + pages / 8);
	if (!k)
		return -ENOMEM;
	k->id = shm->chunks;
	k->size = size;
	k->pages = pages;
	k->dm = dm;
	err = dm ? xd_user_take_fds(c, 1) : 0;
	if (err) {
		free(k);
		return err;
	}
	err = shm_map_chunk(k);
	if (err) {
		if (dm)
			xd_user_put_fds(c, 1);
		free(k);
		return err;
	}
	shm->chunk[shm->chunks++] = k;
	*out = k;
	return 0;
}

static int find_room(struct xd_client *c, uint64_t length, bool dm, struct xd_piece *piece)
{
	struct xd_shm *shm = &c->shm;
	uint32_t i;

	for (i = 0; i < shm->chunks; i++) {
		piece->chunk = shm->chunk[i];
		if (piece->chunk->dm == dm && find_run(piece->chunk, piece->pages, &piece->page))
			return 0;
	}
	piece->page = 0;
	return shm_add_chunk(c, length, dm, &piece->chunk);
}

static struct xd_bytes shm_bytes_of(const struct xd_piece *piece)
{
	return (struct xd_bytes){ .memory = (uint64_t)piece->pages * PAGE };
}

static int alloc_piece(struct xd_client *c, uint64_t length, bool dm, struct xd_piece *piece)
{
	int err;

	*piece = (struct xd_piece){ .length = length, .pages = (length + PAGE - 1) / PAGE };
	err = xd_user_charge(c, shm_bytes_of(piece));
	if (err)
		return err;
	err = find_room(c, length, dm, piece);
	if (err) {
		xd_user_uncharge(c, shm_bytes_of(piece));
		*piece = (struct xd_piece){ 0 };
		return err;
	}
	c->shm.charged += shm_bytes_of(piece).memory;
	set_busy(piece->chunk, piece->page, piece->pages, true);
	piece->chunk->used += piece->pages;
	piece->ptr = piece->chunk->base + (uint64_t)piece->page * PAGE;
	return 0;
}

int xd_shm_alloc(struct xd_client *c, uint64_t length, struct xd_piece *piece)
{
	return alloc_piece(c, length, false, piece);
}

int xd_shm_alloc_dm(struct xd_client *c, uint64_t length, struct xd_piece *piece)
{
	return alloc_piece(c, length, true, piece);
}

/* ---- freed pieces ------------------------------------------------------------------ */

/*
 * Returns the pages of freed pieces to the kernel, so that the next pieces there start with zeros.
 * The client can hold the lock of the file, so this is a job, and the pages stay busy until it is
 * done. The job takes all pieces that were freed before it runs: starting a job for each would cost
 * more than the job itself.
 */
struct xd_freed {
	struct xd_piece piece;
	bool failed;
	struct xd_freed *next;
};

static void punch_run(struct xd_client_job *job)
{
	struct xd_shm *shm = container_of(job, struct xd_shm, punch);
	struct xd_freed *f;

	if (shm->punched) /* only to give the control thread another turn */
		return;
	shm->punched = __atomic_exchange_n(&shm->freed, NULL, __ATOMIC_ACQ_REL);
	for (f = shm->punched; f; f = f->next)
		f->failed = madvise(f->piece.ptr, (size_t)f->piece.pages * PAGE, MADV_REMOVE);
}

static void shm_release(struct xd_client *c, const struct xd_piece *p)
{
	set_busy(p->chunk, p->page, p->pages, false);
	p->chunk->used -= p->pages;
	c->shm.charged -= shm_bytes_of(p).memory;
	xd_user_uncharge(c, shm_bytes_of(p));
}

static void punch_done(struct xd_client_job *job);

static void start_punching(struct xd_client *c)
{
	c->shm.punching = true;
	c->shm.punch = (struct xd_client_job){ .run = punch_run, .done = punch_done };
	xd_client_add_job(c, &c->shm.punch);
}

static void punch_done(struct xd_client_job *job)
{
	struct xd_client *c = job->client;
	struct xd_freed *f;

	while ((f = c->shm.punched) && !xd_loop_must_yield(c->dev->loop)) {
		c->shm.punched = f->next;
		/* Pages that still have old data are never used again. */
		if (!f->failed)
			shm_release(c, &f->piece);
		free(f);
	}
	c->shm.punching = false;
	/* The last job of a client that ends is queued: xd_shm_close() frees the rest. */
	if (!c->ending && (f || __atomic_load_n(&c->shm.freed, __ATOMIC_RELAXED)))
		start_punching(c);
}

void xd_shm_free(struct xd_client *c, struct xd_piece *piece)
{
	struct xd_freed *f;

	/* xd_shm_close() releases everything of a client that ends. */
	f = piece->ptr && !c->ending ? calloc(1, sizeof(*f)) : NULL;
	if (f) {
		f->piece = *piece;
		f->next = __atomic_load_n(&c->shm.freed, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&c->shm.freed, &f->next, f, false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		if (!c->shm.punching)
			start_punching(c);
	}
	*piece = (struct xd_piece){ 0 };
}

/* ---- replies ----------------------------------------------------------------------- */

void xd_shm_ref(const struct xd_piece *piece, struct xr_shm_ref *ref, struct xd_reply *rep)
{
	struct xd_chunk *k = piece->chunk;

	*ref = (struct xr_shm_ref){ 0 };
	if (!k)
		return;
	ref->chunk = k->id;
	ref->chunk_size = k->size;
	ref->offset = (uint64_t)piece->page * PAGE;
	ref->length = piece->length;
	if (k->sent)
		return;
	ref->new_chunk = 1;
	k->sent = true;
	xd_reply_fd(rep, k->fd, k->dm);
	if (!k->dm)
		k->fd = -1;
}

void xd_shm_export(const struct xd_piece *piece, struct xr_shm_ref *ref, struct xd_reply *rep)
{
	*ref = (struct xr_shm_ref){
		.new_chunk = 1,
		.chunk_size = piece->chunk->size,
		.offset = (uint64_t)piece->page * PAGE,
		.length = piece->length,
	};
	xd_reply_fd(rep, piece->chunk->fd, true);
}

static void free_list(struct xd_freed **list)
{
	struct xd_freed *f;

	while ((f = *list)) {
		*list = f->next;
		free(f);
	}
}

void xd_shm_close(struct xd_client *c)
{
	struct xd_shm *shm = &c->shm;
	struct xd_chunk *k;
	uint32_t i;

	for (i = 0; i < shm->chunks; i++) {
		k = shm->chunk[i];
		xd_sigbus_del(k->sigbus_slot);
		munmap(k->base, k->size);
		if (k->fd >= 0)
			close(k->fd);
		if (k->dm)
			xd_user_put_fds(c, 1);
		free(k);
	}
	free_list(&shm->freed);
	free_list(&shm->punched);
	free(shm->chunk);
	shm->chunk = NULL;
	shm->chunks = 0;
}
