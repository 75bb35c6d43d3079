// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The rings of a capture. Packets of several rings are put in order. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture.h"

/*
 * A packet is in its ring shortly after its time, unless a thread is interrupted; a refused one
 * some milliseconds after it. All wait this long for older ones.
 */
#define ORDER_NS 20000000ull
/* Time between two marks, of which there are enough for twice that time */
#define MARK_NS (2 * ORDER_NS / CAPTURE_MARKS)

/* ---- start and end ------------------------------------------------------------------- */

static bool capture_rings_sane(const struct xr_capture_rep *rep)
{
	uint64_t controls = rep->rings * sizeof(struct xr_capture_ring);

	return rep->rings && rep->rings <= XR_MAX_WORKERS + 1 && rep->ring_size &&
	       !(rep->ring_size & (rep->ring_size - 1)) && rep->data >= controls &&
	       rep->data <= rep->memory.length &&
	       (uint64_t)rep->rings * rep->ring_size <= rep->memory.length - rep->data;
}

int capture_rings_attach(struct capture_rings *r, const struct xr_capture_rep *rep, void *memory)
{
	if (!capture_rings_sane(rep))
		return -EPROTO;
	*r = (struct capture_rings){ .rings = rep->rings, .clock = rep->clock };
	for (uint32_t i = 0; i < r->rings; i++) {
		r->reader[i].shared = (struct xr_capture_ring *)memory + i;
		r->reader[i].data = (uint8_t *)memory + rep->data + (size_t)i * rep->ring_size;
		r->reader[i].size = rep->ring_size;
	}
	return 0;
}

static bool is_in_file(const struct xr_shm_ref *memory, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_size >= 0 && !(memory->offset % 4096) &&
	       memory->length <= (uint64_t)st.st_size &&
	       memory->offset <= (uint64_t)st.st_size - memory->length;
}

static int capture_rings_map(struct capture_rings *r, const struct xr_capture_rep *rep, int fd)
{
	void *memory;
	int err;

	if (!is_in_file(&rep->memory, fd))
		return -EPROTO;
	/* populated by this process, whose cgroup is charged then */
	memory = mmap(NULL, rep->memory.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		      fd, (off_t)rep->memory.offset);
	if (memory == MAP_FAILED)
		return -errno;
	err = capture_rings_attach(r, rep, memory);
	r->memory = memory;
	r->length = rep->memory.length;
	return err;
}

int capture_rings_open(struct capture_rings *r, struct cli_client *c,
		       const struct xr_capture_req *req)
{
	struct xr_capture_rep rep;
	int fd, err;
	struct xp_call call = {
		.type = XR_MSG_CAPTURE,
		.req = req,
		.req_len = sizeof(*req),
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_room = 1,
	};

	*r = (struct capture_rings){ 0 };
	err = cli_client_call(c, &call);
	if (err)
		return err;
	if (!call.rep_nfds)
		return -EPROTO;
	err = capture_rings_map(r, &rep, fd);
	close(fd);
	r->overwrite = req->flags & XR_CAPTURE_OVERWRITE;
	return err;
}

void capture_rings_close(struct capture_rings *r)
{
	capture_direct_close(r);
	if (r->memory)
		munmap(r->memory, r->length);
	r->memory = NULL;
}

static struct capture_reader *end_of_readers(struct capture_rings *r)
{
	return r->reader + r->rings + r->directs;
}

void capture_rings_rewind(struct capture_rings *r)
{
	for (struct capture_reader *d = r->reader; d < end_of_readers(r); d++) {
		if (d->direct) {
			capture_direct_rewind(r, d);
			continue;
		}
		d->producer = __atomic_load_n(&d->shared->producer, __ATOMIC_ACQUIRE);
		d->consumer = __atomic_load_n(&d->shared->oldest, __ATOMIC_RELAXED);
	}
}

/* ---- order --------------------------------------------------------------------------- */

/*
 * To know the time of a packet, the reader would have to look at it, which takes longer than all
 * else that it does. So it notes which packets are in the rings at some times.
 */
static void mark(struct capture_rings *r, uint64_t now)
{
	uint32_t m = r->marks++ % CAPTURE_MARKS;

	r->marked[m] = now;
	for (struct capture_reader *d = r->reader; d < end_of_readers(r); d++)
		d->mark[m] = __atomic_load_n(&d->shared->producer, __ATOMIC_RELAXED);
}

/* Returns the last mark that is as old, -1: none */
static int mark_before(const struct capture_rings *r, uint64_t time)
{
	int last = -1;

	for (uint32_t m = 0; m < CAPTURE_MARKS && m < r->marks; m++)
		if (r->marked[m] <= time && (last < 0 || r->marked[m] > r->marked[last]))
			last = (int)m;
	return last;
}

static bool half_full(struct capture_rings *r)
{
	for (struct capture_reader *d = r->reader; d < end_of_readers(r); d++)
		if ((!d->direct || d->direct->began) &&
		    __atomic_load_n(&d->shared->producer, __ATOMIC_RELAXED) - d->consumer >
			    d->size / 2)
			return true;
	return false;
}

uint64_t capture_rings_mark(struct capture_rings *r, uint64_t monotonic)
{
	uint64_t now = monotonic + r->clock;
	int last;

	if (!r->marks || now - r->marked[(r->marks - 1) % CAPTURE_MARKS] >= MARK_NS)
		mark(r, now);
	if (half_full(r))
		return UINT64_MAX;
	last = mark_before(r, now - ORDER_NS);
	return last < 0 ? 0 : r->marked[last];
}

/* Returns the index up to which packets of a ring are older than that. */
static uint64_t capture_rings_limit(const struct capture_rings *r, const struct capture_reader *d,
				    uint64_t until)
{
	int last = until == UINT64_MAX ? -1 : mark_before(r, until);

	return last < 0 ? d->producer : d->mark[last];
}

/* ---- packets ------------------------------------------------------------------------- */

/* The daemon writes what is beside both indices for each packet, so they are used rarely. */
static void capture_rings_publish(struct capture_reader *d)
{
	if (d->published != d->consumer)
		__atomic_store_n(&d->shared->consumer, d->consumer, __ATOMIC_RELEASE);
	d->published = d->consumer;
}

static void capture_rings_release(struct capture_rings *r)
{
	struct capture_reader *d = r->last;

	if (!d)
		return;
	r->last = NULL;
	if (d->direct)
		d->direct->used += r->last_len;
	else
		d->consumer += r->last_len;
	if (d->direct)
		return;
	if (d->consumer - d->published > d->size / 8)
		capture_rings_publish(d);
}

/* Sets *run to the blocks of a ring. Returns -EPROTO if its indices are not valid. */
static int capture_rings_look(const struct capture_rings *r, struct capture_reader *d,
			      struct capture_run *run)
{
	uint64_t end;

	*run = (struct capture_run){ 0 };
	if (d->direct) {
		capture_direct_look(r, d, run);
		return 0;
	}
	if (d->consumer == d->producer)
		d->producer = __atomic_load_n(&d->shared->producer, __ATOMIC_ACQUIRE);
	if (d->consumer == d->producer)
		return 0;
	if (d->producer - d->consumer > d->size || d->consumer % 4)
		return -EPROTO;
	end = capture_ring_end(d);
	if (d->consumer >= end)
		return -EPROTO;
	run->blocks = d->data + (d->consumer & (d->size - 1));
	run->len = end - d->consumer;
	return 0;
}

/* Returns the time of the first block, or UINT64_MAX without one; -EPROTO if it is not valid. */
static int first_time(const struct capture_run *run, uint64_t *time)
{
	*time = UINT64_MAX;
	if (!run->blocks)
		return 0;
	if (!pcapng_block(run->blocks, run->len))
		return -EPROTO;
	*time = xr_pcapng_time((const struct xr_pcapng_packet *)run->blocks);
	return 0;
}

/* Shortens a run to blocks that are not younger than `until`, and to one block. *last: its time */
static int capture_rings_cut(struct capture_run *run, uint64_t until, bool one, uint64_t *last)
{
	size_t len = 0;
	uint64_t time;
	uint32_t n;

	for (; len < run->len; len += n) {
		n = pcapng_block(run->blocks + len, run->len - len);
		if (!n)
			return -EPROTO;
		time = xr_pcapng_time((const struct xr_pcapng_packet *)(run->blocks + len));
		if (time > until || (one && len))
			break;
		if (time > *last)
			*last = time;
	}
	*run = (struct capture_run){ len ? run->blocks : NULL, len };
	return 0;
}

/* All packets that are in one ring, and none in the others: without a look at them */
static void take_all(struct capture_rings *r, const struct capture_reader *d, uint64_t until,
		     struct capture_run *run)
{
	uint64_t end = capture_rings_limit(r, d, until);

	if (until != UINT64_MAX && until > r->written)
		r->written = until;
	if (end <= d->consumer)
		*run = (struct capture_run){ 0 };
	else if (end - d->consumer < run->len)
		run->len = end - d->consumer;
}

struct capture_rings_choice {
	struct capture_reader *reader; /* whose first packet is the oldest; NULL: no packets */
	struct capture_run run;
	uint64_t time, next_time; /* of its first packet; of the oldest one in another ring */
	uint32_t rings;		  /* that have packets */
};

static int capture_rings_choose(struct capture_rings *r, struct capture_rings_choice *c)
{
	struct capture_run run;
	uint64_t time;
	int err;

	*c = (struct capture_rings_choice){ .time = UINT64_MAX, .next_time = UINT64_MAX };
	for (struct capture_reader *d = r->reader; d < end_of_readers(r); d++) {
		err = capture_rings_look(r, d, &run);
		if (!err)
			err = first_time(&run, &time);
		if (err)
			return err;
		c->rings += run.blocks != NULL;
		if (run.blocks && (!c->reader || time < c->time)) {
			c->next_time = c->time;
			c->time = time;
			c->reader = d;
			c->run = run;
		} else if (time < c->next_time) {
			c->next_time = time;
		}
	}
	return 0;
}

int capture_rings_next(struct capture_rings *r, uint64_t until, bool one, struct capture_run *run)
{
	struct capture_rings_choice c;
	int err;

	capture_rings_release(r);
	*run = (struct capture_run){ 0 };
	err = capture_rings_choose(r, &c);
	if (err)
		return err;
	*run = c.run;
	if (c.reader && c.rings == 1 && !one && !c.reader->direct)
		take_all(r, c.reader, until, run);
	else if (c.reader)
		err = capture_rings_cut(run, until < c.next_time ? until : c.next_time, one,
					&r->written);
	if (!err && run->blocks) {
		r->last = c.reader;
		r->last_len = run->len;
		return 0;
	}
	for (struct capture_reader *d = r->reader; d < r->reader + r->rings; d++)
		capture_rings_publish(d);
	return err;
}

/* ---- counters ------------------------------------------------------------------------ */

static uint64_t sum(const struct capture_rings *r, size_t field)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->rings; i++)
		n += __atomic_load_n((uint64_t *)((char *)r->reader[i].shared + field),
				     __ATOMIC_RELAXED);
	return n;
}

/* Of the rings of direct programs, packets count when they are copied. */
uint64_t capture_rings_matched(const struct capture_rings *r)
{
	uint64_t n = sum(r, offsetof(struct xr_capture_ring, matched)) + r->ended.packets +
		     r->ended.lost;

	for (uint32_t i = 0; i < r->directs; i++)
		n += r->reader[r->rings + i].direct->packets + r->reader[r->rings + i].direct->lost;
	return n;
}

uint64_t capture_rings_lost(const struct capture_rings *r)
{
	uint64_t n = sum(r, offsetof(struct xr_capture_ring, lost)) + r->ended.lost;

	for (uint32_t i = 0; i < r->directs; i++)
		n += r->reader[r->rings + i].direct->lost;
	return n;
}

uint64_t capture_rings_event(const struct capture_rings *r, enum xr_capture_event event)
{
	uint64_t n = sum(r, offsetof(struct xr_capture_ring, events) + event * sizeof(uint64_t)) +
		     r->ended.events[event];

	for (uint32_t i = 0; i < r->directs; i++)
		n += r->reader[r->rings + i].direct->events[event];
	return n;
}
