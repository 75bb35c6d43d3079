// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "captures.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <xroce/bits.h>

#include "daemon/capture/capture.h"
#include "daemon/io/tables.h"
#include "internal.h"

/* Refused packets that are taken in one round */
#define REFUSED_MOST 256

#define RINGS_SIZE (XR_CAPTURE_MAX * XR_VIEW_RING_ROOM)

_Static_assert(sizeof(struct xr_capture_ring) <= 4096, "the ring follows in the next page");

static struct xr_capture_ring *ring_at(const struct xp_host *h, uint32_t i)
{
	return (struct xr_capture_ring *)(h->captures.rings + i * XR_VIEW_RING_ROOM);
}

/* ---- begin and end ------------------------------------------------------------------------ */

static bool captures_is_mapped(const struct xr_capture_ring *ring, uint32_t number)
{
	return __atomic_load_n(&ring->reader, __ATOMIC_ACQUIRE) == number;
}

/* Stores an empty ring. Its client looks at it when it has the number of the capture. */
static void captures_prepare(struct xr_capture_ring *ring)
{
	__atomic_store_n(&ring->capture, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ring->producer = ring->matched = ring->lost = 0;
	for (int i = 0; i < XR_CAPTURE_EVENTS; i++)
		ring->events[i] = 0;
	ring->skip = ring->oldest = 0;
	ring->ended = 0;
	ring->consumer = 0;
}

/*
 * Until the client has mapped the ring, it seems to be full but for XR_DIRECT_FIRST bytes; then the
 * client stores 0 as what it has consumed.
 */
static void limit_room(struct xd_tap *t)
{
	if (t->size <= XR_DIRECT_FIRST)
		return;
	t->consumer = 0ull - (t->size - XR_DIRECT_FIRST);
	__atomic_store_n(&t->shared->consumer, t->consumer, __ATOMIC_RELAXED);
}

static void captures_begin(struct xp_host *h, uint32_t i, const struct xr_direct_capture *e)
{
	const struct xr_capture_req req = {
		.ring_size = e->ring_size,
		.snap_len = e->snap_len,
		.flags = e->flags,
		.filter = e->filter,
	};
	struct xp_capture *c = &h->captures.at[i];
	struct xr_capture_ring *ring;

	c->number = e->number;
	if (!h->captures.rings || e->ring_size > XR_VIEW_RING || !xr_is_pow2(e->ring_size) ||
	    mprotect(ring_at(h, i), 4096 + e->ring_size, PROT_READ | PROT_WRITE))
		return;
	ring = ring_at(h, i);
	captures_prepare(ring);
	c->capture = xd_capture_new(&req, 1, ring);
	if (!c->capture)
		return;
	c->capture->clock = c->capture->tap[0].clock = e->clock;
	xd_capture_events(xt_engine_counters(h->engine), c->base);
	c->waits = req.flags & XR_CAPTURE_OVERWRITE && !captures_is_mapped(ring, e->number);
	if (!c->waits) {
		if (!captures_is_mapped(ring, e->number))
			limit_room(&c->capture->tap[0]);
		xd_taps_add(&h->captures.taps, &c->capture->tap[0]);
	}
	__atomic_store_n(&ring->capture, e->number, __ATOMIC_RELEASE);
}

static void captures_end(struct xp_host *h, struct xp_capture *c)
{
	if (c->capture)
		xd_taps_remove(&h->captures.taps, &c->capture->tap[0]);
	xd_capture_close(c->capture);
	c->capture = NULL;
}

/* Nobody reads the ring any more: its memory is given back, unless its client has done that. */
static void captures_leave(struct xp_host *h, uint32_t i)
{
	h->captures.at[i].number = 0;
	if (h->captures.rings)
		madvise(ring_at(h, i), XR_VIEW_RING_ROOM, MADV_REMOVE);
}

void xp_captures_load(struct xp_host *h, const struct xr_direct_page *page)
{
	struct xp_captures *cs = &h->captures;

	cs->any = false;
	for (uint32_t i = 0; i < XR_CAPTURE_MAX; i++) {
		const struct xr_direct_capture *e = &page->capture[i];
		struct xp_capture *c = &cs->at[i];

		if (c->number != e->number || e->ended)
			captures_end(h, c);
		if (c->number && c->number != e->number)
			captures_leave(h, i);
		if (e->number && !e->ended && c->number != e->number)
			captures_begin(h, i, e);
		cs->any |= c->capture != NULL;
	}
	xt_engine_show(h->engine, xd_taps_local_len(cs->taps));
	xd_tables_report_refused(h->tables, cs->any);
}

/* ---- packets ------------------------------------------------------------------------------ */

void xp_captures_rx(struct xp_host *h, unsigned int n)
{
	xd_taps_put_received(h->captures.taps, XR_CAPTURE_DIRECT, h->frames, n);
}

void xp_captures_tx(struct xp_host *h, const struct xt_frame *f)
{
	xd_taps_put(h->captures.taps, XR_CAPTURE_TX, XR_CAPTURE_DIRECT, f);
}

void xp_captures_show(void *ctx, const struct xt_frame *f)
{
	struct xp_host *h = ctx;

	xd_taps_put(h->captures.taps, XR_CAPTURE_LOCAL, XR_CAPTURE_DIRECT, f);
}

/* The time is that of the look, so that the times in the ring do not decrease. */
static void captures_on_refused(void *arg, const struct xr_refused *refused)
{
	struct xr_refused r = *refused;
	struct xp_host *h = arg;

	r.queue = XR_CAPTURE_DIRECT;
	r.time = xp_host_clock();
	for (uint32_t i = 0; i < XR_CAPTURE_MAX; i++)
		if (h->captures.at[i].capture)
			xd_capture_refused(h->captures.at[i].capture, &r);
}

static void begin_writing(struct xp_host *h, uint32_t i)
{
	struct xp_capture *c = &h->captures.at[i];

	if (!captures_is_mapped(ring_at(h, i), c->number))
		return;
	c->waits = false;
	xd_taps_add(&h->captures.taps, &c->capture->tap[0]);
	xt_engine_show(h->engine, xd_taps_local_len(h->captures.taps));
}

void xp_captures_round(struct xp_host *h)
{
	uint64_t lost = xd_tables_refused(h->tables, REFUSED_MOST, captures_on_refused, h);
	uint64_t present[XR_CAPTURE_EVENTS], events[XR_CAPTURE_EVENTS];

	xd_capture_events(xt_engine_counters(h->engine), present);
	for (uint32_t i = 0; i < XR_CAPTURE_MAX; i++) {
		struct xp_capture *c = &h->captures.at[i];

		if (!c->capture)
			continue;
		if (lost)
			xd_capture_lost(c->capture, lost);
		if (c->waits)
			begin_writing(h, i);
		for (int e = 0; e < XR_CAPTURE_EVENTS; e++)
			events[e] = present[e] - c->base[e];
		events[XR_CAPTURE_DROP] += c->capture->refused;
		xd_tap_set_events(&c->capture->tap[0], events);
		xd_tap_prefetch(&c->capture->tap[0]);
	}
}

/* ---- open and close ------------------------------------------------------------------------ */

/*
 * The rings cannot be accessed, and mlockall() does not bring them into memory, before they are
 * used. They are no part of core dumps, which would fill them.
 */
void xp_captures_open(struct xp_host *h, int view)
{
	struct stat st;
	void *p;

	if (view < 0 || fstat(view, &st) || st.st_size != (off_t)XR_VIEW_SIZE_RINGS)
		return;
	p = mmap(NULL, RINGS_SIZE, PROT_NONE, MAP_SHARED, view, (off_t)XR_VIEW_RINGS_OFF);
	if (p == MAP_FAILED)
		return;
	madvise(p, RINGS_SIZE, MADV_DONTDUMP);
	h->captures.rings = p;
}

void xp_captures_close(struct xp_host *h)
{
	struct xp_captures *cs = &h->captures;

	for (uint32_t i = 0; i < XR_CAPTURE_MAX; i++)
		captures_end(h, &cs->at[i]);
	if (cs->rings)
		munmap(cs->rings, RINGS_SIZE);
	cs->rings = NULL;
}
