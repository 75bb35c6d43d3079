// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The rings that direct programs write, in their views (include/xroce/view.h). A program can store
 * anything there at any time, so blocks are copied, and the copy is checked, before they are used.
 * The same goes for indices. A ring that is damaged is not read any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/magic.h>
#include <xroce/view.h>

#include "capture.h"

/* Bytes that are copied at once: more than the longest block */
#define COPY (256u << 10)
/* What a program says that it has lost is believed up to this number. */
#define LOST_MAX (1ull << 40)
#define END_POLL_NS 1000000
#define END_POLLS 10
/* Rings of contexts that have ended, which wait for an event with all their packets */
#define KEPT 8

static struct capture_reader *reader_at(struct capture_rings *r, uint32_t i)
{
	return &r->reader[r->rings + i];
}

static void miss(int pid, const char *why)
{
	fprintf(stderr, "xroce: not captured are the packets of a direct context of pid %d: %s\n",
		pid, why);
}

/* ---- packets ------------------------------------------------------------------------------- */

/* The ring is that of this capture once the program has stored its number. */
static bool begins(struct capture_reader *d)
{
	struct capture_direct *c = d->direct;

	if (c->began)
		return true;
	if (__atomic_load_n(&d->shared->capture, __ATOMIC_ACQUIRE) != c->capture)
		return false;
	c->began = true;
	/* the ring is mapped: the program may fill all of it */
	__atomic_store_n(&d->shared->consumer, 0, __ATOMIC_RELEASE);
	return true;
}

static uint64_t present(uint64_t clock)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + clock;
}

/*
 * Checks what was copied. Returns the length of the blocks that are valid and complete. None is
 * older than what was written before, whatever the program says.
 */
static size_t capture_direct_take(const struct capture_rings *r, struct capture_direct *c,
				  size_t len)
{
	uint64_t packets;

	c->used = 0;
	if (c->time < r->written)
		c->time = r->written;
	c->copied = capture_check(c->copy, len, &c->time, present(r->clock), &packets);
	c->packets += packets;
	return c->copied;
}

/* Returns false if the ring is damaged. */
static bool copy_more(const struct capture_rings *r, struct capture_reader *d)
{
	uint64_t end;
	size_t n;

	d->producer = __atomic_load_n(&d->shared->producer, __ATOMIC_ACQUIRE);
	if (d->consumer == d->producer)
		return true;
	if (d->producer - d->consumer > d->size || d->producer % 4)
		return false;
	end = capture_ring_end(d);
	if (d->consumer >= end || d->consumer % 4)
		return false;
	n = end - d->consumer < COPY ? end - d->consumer : COPY;
	memcpy(d->direct->copy, d->data + (d->consumer & (d->size - 1)), n);
	n = capture_direct_take(r, d->direct, n);
	d->consumer += n;
	__atomic_store_n(&d->shared->consumer, d->consumer, __ATOMIC_RELEASE);
	return n;
}

void capture_direct_look(const struct capture_rings *r, struct capture_reader *d,
			 struct capture_run *run)
{
	struct capture_direct *c = d->direct;

	*run = (struct capture_run){ 0 };
	if (c->used == c->copied) {
		c->used = c->copied = 0;
		if (!begins(d) || c->damaged)
			return;
		c->damaged = !copy_more(r, d);
	}
	if (c->used < c->copied)
		*run = (struct capture_run){ c->copy + c->used, c->copied - c->used };
}

/* Copies the blocks from d->consumer to d->producer, one behind the other. Returns their length. */
static size_t copy_all(struct capture_reader *d)
{
	size_t len = 0, n;
	uint64_t end;

	while (d->consumer != d->producer) {
		if (d->producer - d->consumer > d->size || d->consumer % 4)
			return len;
		end = capture_ring_end(d);
		if (d->consumer >= end || end - d->consumer > d->size - len)
			return len;
		n = end - d->consumer;
		memcpy(d->direct->copy + len, d->data + (d->consumer & (d->size - 1)), n);
		len += n;
		d->consumer = end;
	}
	return len;
}

/* What a program overwrites meanwhile is not valid. */
void capture_direct_rewind(const struct capture_rings *r, struct capture_reader *d)
{
	struct capture_direct *c = d->direct;

	if (!begins(d))
		return;
	d->producer = __atomic_load_n(&d->shared->producer, __ATOMIC_ACQUIRE);
	d->consumer = __atomic_load_n(&d->shared->oldest, __ATOMIC_RELAXED);
	capture_direct_take(r, c, copy_all(d));
	c->damaged = true; /* no more is read */
}

/* ---- rings --------------------------------------------------------------------------------- */

struct capture_direct *capture_direct_attach(struct capture_rings *r, void *memory, uint32_t size,
					     uint32_t capture)
{
	struct capture_direct *c;

	if (r->directs == CAPTURE_DIRECT_MAX)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->copy = malloc(r->overwrite ? size : COPY);
	if (!c->copy) {
		free(c);
		return NULL;
	}
	c->capture = capture;
	*reader_at(r, r->directs++) = (struct capture_reader){
		.shared = memory,
		.data = (uint8_t *)memory + 4096,
		.size = size,
		.direct = c,
	};
	__atomic_store_n(&((struct xr_capture_ring *)memory)->reader, capture, __ATOMIC_RELEASE);
	return c;
}

/* The memory of the ring is given back: the program does not use it any more. */
static void free_direct(struct capture_direct *c)
{
	if (c->memory) {
		madvise(c->memory, c->length, MADV_REMOVE);
		munmap(c->memory, c->length);
	}
	free(c->copy);
	free(c);
}

static void cli_count(struct capture_reader *d)
{
	struct capture_direct *c = d->direct;
	uint64_t lost;

	if (!begins(d))
		return;
	lost = __atomic_load_n(&d->shared->lost, __ATOMIC_RELAXED);
	c->lost = lost < LOST_MAX ? lost : LOST_MAX;
	for (int i = 0; i < XR_CAPTURE_EVENTS; i++)
		c->events[i] = __atomic_load_n(&d->shared->events[i], __ATOMIC_RELAXED);
}

void capture_direct_count(struct capture_rings *r)
{
	for (uint32_t i = 0; i < r->directs; i++)
		cli_count(reader_at(r, i));
}

/* Its numbers stay in the sums. */
static void capture_direct_detach(struct capture_rings *r, struct capture_reader *d)
{
	struct capture_direct *c = d->direct;

	cli_count(d);
	r->ended.packets += c->packets;
	r->ended.lost += c->lost;
	for (int i = 0; i < XR_CAPTURE_EVENTS; i++)
		r->ended.events[i] += c->events[i];
	free_direct(c);
	*d = *reader_at(r, --r->directs);
}

void capture_direct_close(struct capture_rings *r)
{
	while (r->directs)
		free_direct(reader_at(r, --r->directs)->direct);
}

static bool is_drained(const struct capture_reader *d)
{
	const struct capture_direct *c = d->direct;
	uint64_t producer = __atomic_load_n(&d->shared->producer, __ATOMIC_ACQUIRE);

	return c->used == c->copied && (!c->began || d->consumer == producer);
}

/* Rings that are damaged, and those of contexts that have ended once all is written. */
static void detach_ended(struct capture_rings *r)
{
	uint32_t kept = 0, i;

	if (r->last)
		return;
	for (i = r->directs; i--;) {
		struct capture_reader *d = reader_at(r, i);
		struct capture_direct *c = d->direct;

		if (c->damaged && c->used == c->copied) {
			miss(c->pid, "its ring is damaged");
			capture_direct_detach(r, d);
		} else if (c->gone && (r->overwrite ? ++kept > KEPT : is_drained(d))) {
			capture_direct_detach(r, d);
		}
	}
}

/* ---- contexts ------------------------------------------------------------------------------ */

/*
 * Returns true if nobody can shorten the file, and an access does not wait for another process: it
 * is a memfd, and of usual pages.
 */
static bool capture_direct_is_view(int fd, uint64_t end)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW, present = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	return present >= 0 && (present & seals) == seals && !fstat(fd, &st) && !fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC && st.st_size >= 0 && (uint64_t)st.st_size >= end;
}

/* Returns false if the program says that it has no memory for rings. */
static bool can_capture(int fd)
{
	struct xr_view v;
	const size_t len = offsetof(struct xr_view, sums);

	return pread(fd, &v, len, 0) == (ssize_t)len && (v.magic != XR_VIEW_MAGIC || v.captures);
}

static bool capture_direct_sane(const struct xr_capture_context_rep *rep)
{
	return rep->capture && rep->ring_size >= XR_CAPTURE_RING_MIN &&
	       rep->ring_size <= XR_VIEW_RING && !(rep->ring_size & (rep->ring_size - 1)) &&
	       rep->offset <= XR_VIEW_SIZE_RINGS - XR_VIEW_RING_ROOM && !(rep->offset % 4096);
}

static void cli_attach(struct capture_rings *r, const struct xr_capture_context_rep *rep, int fd)
{
	const size_t length = 4096 + (size_t)rep->ring_size;
	struct capture_direct *c = NULL;
	void *memory = MAP_FAILED;

	if (!capture_direct_sane(rep) || !capture_direct_is_view(fd, rep->offset + length) ||
	    !can_capture(fd)) {
		miss(rep->pid, "it has no ring for a capture");
		return;
	}
	/* populated by this process, whose cgroup is charged then */
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		      (off_t)rep->offset);
	if (memory != MAP_FAILED)
		c = capture_direct_attach(r, memory, rep->ring_size, rep->capture);
	if (!c) {
		miss(rep->pid, "no memory, or too many contexts");
		if (memory != MAP_FAILED)
			munmap(memory, length);
		return;
	}
	c->memory = memory;
	c->length = length;
	c->context = rep->context;
	c->pid = rep->pid;
}

static void capture_direct_note_end(struct capture_rings *r, uint32_t context)
{
	for (uint32_t i = 0; i < r->directs; i++)
		if (reader_at(r, i)->direct->context == context)
			reader_at(r, i)->direct->gone = true;
}

/* Returns 1 if there may be more reports. */
static int read_report(struct capture_rings *r, struct cli_client *client)
{
	struct xr_capture_context_rep rep;
	int fd = -1, err;
	struct xp_call call = {
		.type = XR_MSG_CAPTURE_CONTEXT,
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_room = 1,
	};

	err = cli_client_call(client, &call);
	if (err)
		return err;
	if (rep.missed)
		fprintf(stderr, "xroce: %u direct contexts may not be captured: too many at once\n",
			rep.missed);
	if (rep.context && rep.ended)
		capture_direct_note_end(r, rep.context);
	else if (rep.context)
		cli_attach(r, &rep, call.rep_nfds ? fd : -1);
	if (call.rep_nfds)
		close(fd);
	return rep.context != 0;
}

int capture_direct_update(struct capture_rings *r, struct cli_client *client)
{
	const struct capture_reader *last = &r->reader[r->rings - 1];
	uint32_t reports = __atomic_load_n(&last->shared->contexts, __ATOMIC_ACQUIRE);
	int err = 1;

	if (reports != r->reports) {
		while (err > 0)
			err = read_report(r, client);
		r->reports = reports;
		if (err)
			return err;
	}
	capture_direct_count(r);
	detach_ended(r);
	return 0;
}

/* A program that is in a round notices the end soon; one that is idle writes nothing. */
static bool is_ended(const struct capture_rings *r)
{
	for (uint32_t i = 0; i < r->directs; i++) {
		const struct capture_reader *d = &r->reader[r->rings + i];

		if (d->direct->began && !d->direct->gone &&
		    !__atomic_load_n(&d->shared->ended, __ATOMIC_ACQUIRE))
			return false;
	}
	return true;
}

void capture_direct_await_end(const struct capture_rings *r)
{
	const struct timespec poll = { .tv_nsec = END_POLL_NS };

	for (int n = 0; n < END_POLLS && !is_ended(r); n++)
		nanosleep(&poll, NULL);
}
