// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Begins and ends a capture, and takes packets that no engine has seen. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"

#define PAGE 4096u
/* Of a ring that is overwritten; longer than a block */
#define CHUNK_SHIFT_MIN 14u

uint64_t xd_capture_data(uint32_t rings)
{
	return (rings * sizeof(struct xr_capture_ring) + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

uint64_t xd_capture_bytes(uint32_t rings, uint32_t ring_size)
{
	return xd_capture_data(rings) + (uint64_t)rings * ring_size;
}

static uint64_t capture_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t snap_len(const struct xr_capture_req *req)
{
	return req->snap_len && req->snap_len < XR_CAPTURE_PACKET_MAX ? req->snap_len
								      : XR_CAPTURE_PACKET_MAX;
}

static uint32_t chunk_shift(uint32_t ring_size)
{
	uint32_t shift = CHUNK_SHIFT_MIN;

	while (ring_size >> shift > XD_CAPTURE_CHUNKS)
		shift++;
	return shift;
}

static bool selects_all(const struct xr_capture_filter *f)
{
	const struct xr_capture_filter all = { 0 };

	return !memcmp(f, &all, sizeof(all));
}

static void init_tap(struct xd_capture *c, uint32_t i, const struct xr_capture_req *req,
		     void *memory)
{
	c->tap[i] = (struct xd_tap){
		.filter = &c->filter,
		.all = selects_all(&c->filter),
		.clock = c->clock,
		.snap_len = snap_len(req),
		.size = req->ring_size,
		.shared = (struct xr_capture_ring *)memory + i,
		.data = (uint8_t *)memory + xd_capture_data(c->rings) +
			(uint64_t)i * req->ring_size,
		.known = c->known + (size_t)i * XD_CAPTURE_KNOWN,
		.overwrite = req->flags & XR_CAPTURE_OVERWRITE,
		.chunk_shift = chunk_shift(req->ring_size),
	};
}

struct xd_capture *xd_capture_new(const struct xr_capture_req *req, uint32_t rings, void *memory)
{
	struct xd_capture *c = calloc(1, sizeof(*c) + rings * sizeof(c->tap[0]));

	if (!c)
		return NULL;
	c->filter = req->filter;
	c->rings = rings;
	c->clock = capture_now(CLOCK_REALTIME) - capture_now(CLOCK_MONOTONIC);
	c->known = calloc((size_t)rings * XD_CAPTURE_KNOWN, sizeof(*c->known));
	if (!c->known) {
		free(c);
		return NULL;
	}
	for (uint32_t i = 0; i < rings; i++)
		init_tap(c, i, req, memory);
	return c;
}

void xd_capture_close(struct xd_capture *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->rings; i++)
		__atomic_store_n(&c->tap[i].shared->ended, 1, __ATOMIC_RELEASE);
	free(c->known);
	free(c);
}

/* ---- refused packets ----------------------------------------------------------------------- */

static void capture_count(__u64 *shared, uint64_t value)
{
	__atomic_store_n(shared, value, __ATOMIC_RELAXED);
}

void xd_capture_refused(struct xd_capture *c, const struct xr_refused *r)
{
	struct xd_tap *t = &c->tap[c->rings - 1];
	const struct xt_frame frame = {
		.seg[0] = { (uint8_t *)r->bytes, r->captured },
		.nseg = 1,
		.len = r->length,
		.meta = {
			.reason = r->reason,
			.ip_version = r->ip_version,
			.ip_off = r->ip_off,
			.bth_off = r->bth_off,
			.qpn = r->qpn,
		},
	};
	const struct xd_packet p = {
		.frame = &frame,
		.type = XR_CAPTURE_REFUSED,
		.queue = r->queue,
		.time = r->time,
	};

	capture_count(&t->shared->events[XR_CAPTURE_DROP], ++c->refused);
	if (xd_capture_selects(&c->filter, p.type, &frame))
		xd_tap_put(t, &p);
}

void xd_capture_lost(struct xd_capture *c, uint64_t n)
{
	struct xd_tap *t = &c->tap[c->rings - 1];

	t->matched += n;
	t->lost += n;
	c->refused += n;
	capture_count(&t->shared->matched, t->matched);
	capture_count(&t->shared->lost, t->lost);
	capture_count(&t->shared->events[XR_CAPTURE_DROP], c->refused);
}
