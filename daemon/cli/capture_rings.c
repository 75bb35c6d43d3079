// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The rings of a capture, which the daemon writes. Packets of several rings are put in order. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"

/*
 * A packet is in its ring shortly after its time, unless a thread is interrupted; a refused one
 * some milliseconds after it. All wait this long for older ones.
 */
#define ORDER_NS 20000000ull

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- start and end ------------------------------------------------------------------- */

static bool sane(const struct xr_capture_rep *rep, uint64_t file)
{
	uint64_t controls = rep->rings * sizeof(struct xr_capture_ring);

	return rep->rings && rep->rings <= XR_MAX_WORKERS + 1 && rep->ring_size &&
	       !(rep->ring_size & (rep->ring_size - 1)) && rep->data >= controls &&
	       !(rep->memory.offset % 4096) && rep->memory.length <= file &&
	       rep->memory.offset <= file - rep->memory.length && rep->data <= rep->memory.length &&
	       (uint64_t)rep->rings * rep->ring_size <= rep->memory.length - rep->data;
}

static int map(struct capture_rings *r, const struct xr_capture_rep *rep, int fd)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_size < 0)
		return -EPROTO;
	if (!sane(rep, (uint64_t)st.st_size))
		return -EPROTO;
	r->length = rep->memory.length;
	/* populated by this process, whose cgroup is charged then */
	r->memory = mmap(NULL, r->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
			 (off_t)rep->memory.offset);
	if (r->memory == MAP_FAILED) {
		r->memory = NULL;
		return -errno;
	}
	r->data = (uint8_t *)r->memory + rep->data;
	r->rings = rep->rings;
	r->size = rep->ring_size;
	for (uint32_t i = 0; i < r->rings; i++)
		r->reader[i].shared = (struct xr_capture_ring *)r->memory + i;
	return 0;
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

	*r = (struct capture_rings){ .clock = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC) };
	err = cli_client_call(c, &call);
	if (err)
		return err;
	if (!call.rep_nfds)
		return -EPROTO;
	err = map(r, &rep, fd);
	close(fd);
	return err;
}

void capture_rings_close(struct capture_rings *r)
{
	if (r->memory)
		munmap(r->memory, r->length);
	r->memory = NULL;
}

/* ---- packets ------------------------------------------------------------------------- */

/*
 * The daemon writes both indices' neighbours for each packet, so they are read and written as
 * rarely as possible.
 */
static void publish(struct capture_reader *d)
{
	if (d->published != d->consumer)
		__atomic_store_n(&d->shared->consumer, d->consumer, __ATOMIC_RELEASE);
	d->published = d->consumer;
}

static void release(const struct capture_rings *r, struct capture_reader *d, uint32_t size)
{
	d->consumer += size;
	d->next = NULL;
	if (d->consumer - d->published > r->size / 8)
		publish(d);
}

/* Returns the record at an offset of the ring, or NULL if it is not valid. */
static const struct xr_capture_record *record_at(const uint8_t *data, uint32_t at, uint64_t end)
{
	const struct xr_capture_record *p = (const void *)(data + at);

	if (p->size < 8 || p->size % 8 || p->size > end - at)
		return NULL;
	if (p->type == XR_CAPTURE_PAD)
		return p;
	return p->size >= sizeof(*p) && p->captured <= p->size - sizeof(*p) &&
			       p->captured <= CAPTURE_PACKET_MAX
		       ? p
		       : NULL;
}

/* Reads the next record of a ring into d->next. Returns -EPROTO if it is not valid. */
static int peek(const struct capture_rings *r, struct capture_reader *d)
{
	const uint8_t *data = r->data + (d - r->reader) * (size_t)r->size;
	const struct xr_capture_record *p;
	uint32_t at;

	if (!d->next && d->consumer == d->producer)
		d->producer = __atomic_load_n(&d->shared->producer, __ATOMIC_ACQUIRE);
	while (!d->next && d->consumer != d->producer) {
		at = d->consumer & (r->size - 1);
		p = d->producer - d->consumer <= r->size ? record_at(data, at, r->size) : NULL;
		if (!p || p->size > d->producer - d->consumer)
			return -EPROTO;
		if (p->type == XR_CAPTURE_PAD)
			release(r, d, p->size);
		else
			d->next = p;
	}
	return 0;
}

int capture_rings_next(struct capture_rings *r, uint64_t until,
		       const struct xr_capture_record **record)
{
	struct capture_reader *d, *first = NULL;
	int err;

	if (r->last) {
		release(r, r->last, r->last->next->size);
		r->last = NULL;
	}
	for (d = r->reader; d < r->reader + r->rings; d++) {
		err = peek(r, d);
		if (err)
			return err;
		if (d->next && (!first || d->next->time < first->next->time))
			first = d;
	}
	if (first && first->next->time >= until)
		first = NULL;
	r->last = first;
	*record = first ? first->next : NULL;
	for (d = r->reader; !first && d < r->reader + r->rings; d++)
		publish(d);
	return 0;
}

uint64_t capture_rings_until(const struct capture_rings *r)
{
	const struct capture_reader *d;

	for (d = r->reader; d < r->reader + r->rings; d++)
		if (__atomic_load_n(&d->shared->producer, __ATOMIC_RELAXED) - d->consumer >
		    r->size / 2)
			return UINT64_MAX;
	return now(CLOCK_MONOTONIC) - ORDER_NS;
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

uint64_t capture_rings_matched(const struct capture_rings *r)
{
	return sum(r, offsetof(struct xr_capture_ring, matched));
}

uint64_t capture_rings_lost(const struct capture_rings *r)
{
	return sum(r, offsetof(struct xr_capture_ring, lost));
}

uint64_t capture_rings_event(const struct capture_rings *r, enum xr_capture_event event)
{
	return sum(r, offsetof(struct xr_capture_ring, events) + event * sizeof(uint64_t));
}
