// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* CAPTURE: packet capture. The rings are memory of the client, and end with it. */
#include "capture.h"

#include <errno.h>
#include <stdlib.h>

#include <xroce/bits.h>

#include "daemon/base/loop.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/worker.h"
#include "daemon/io/tables.h"
#include "server.h"

/* The control thread copies this many refused packets at most, this often. */
#define REFUSED_NS 5000000ull
#define REFUSED_MOST 4096

static struct xd_capture_client **capture_find(struct xd_server *s, const struct xd_client *c)
{
	struct xd_capture_client **at = &s->captures;

	while (*at && (*at)->client != c)
		at = &(*at)->next;
	return at;
}

static int capture_check_number(struct xd_client *c)
{
	const struct xd_capture_client *at;
	uint32_t n = 0;

	if (*capture_find(xd_server_of(c), c))
		return xd_refuse(c, -EBUSY, "this connection captures already");
	for (at = xd_server_of(c)->captures; at; at = at->next)
		n++;
	return n < XR_CAPTURE_MAX ? 0 : xd_refuse(c, -EBUSY, "there are %u captures already", n);
}

static int capture_check_request(struct xd_client *c, const struct xr_capture_req *q,
				 uint32_t rings)
{
	const struct xr_capture_filter *f = &q->filter;

	if (q->reasons != XR_REASON_COUNT)
		return xd_refuse(c, -EPROTO, "the daemon has %u verdicts, the command %u",
				 XR_REASON_COUNT, q->reasons);
	if (q->ring_size < XR_CAPTURE_RING_MIN || !xr_is_pow2(q->ring_size) ||
	    xd_capture_bytes(rings, q->ring_size) > XR_CAPTURE_MEMORY_MAX)
		return xd_refuse(c, -EINVAL,
				 "ring_size %u of %u rings; a power of two from %u on, %llu "
				 "together",
				 q->ring_size, rings, XR_CAPTURE_RING_MIN, XR_CAPTURE_MEMORY_MAX);
	if (q->direct_ring_size &&
	    (q->direct_ring_size < XR_CAPTURE_RING_MIN || !xr_is_pow2(q->direct_ring_size) ||
	     q->direct_ring_size > XR_VIEW_RING))
		return xd_refuse(c, -EINVAL,
				 "direct_ring_size %u; a power of two from %u to %u, or 0",
				 q->direct_ring_size, XR_CAPTURE_RING_MIN, XR_VIEW_RING);
	if (q->flags & ~XR_CAPTURE_OVERWRITE)
		return xd_refuse(c, -EINVAL, "flags %#x; only %#x is known", q->flags,
				 XR_CAPTURE_OVERWRITE);
	if (f->types & ~XR_CAPTURE_ALL || f->qpns > XR_CAPTURE_QPNS || f->peers > XR_CAPTURE_PEERS)
		return xd_refuse(c, -EINVAL, "types %#x, %u QPs, %u peers; at most %#x, %u, %u",
				 f->types, f->qpns, f->peers, XR_CAPTURE_ALL, XR_CAPTURE_QPNS,
				 XR_CAPTURE_PEERS);
	return 0;
}

/* ---- refused packets ----------------------------------------------------------------------- */

static void capture_on_refused(void *arg, const struct xr_refused *r)
{
	const struct xd_server *s = arg;

	for (struct xd_capture_client *c = s->captures; c; c = c->next)
		if (c->capture)
			xd_capture_refused(c->capture, r);
}

static void collect_refused(void *arg)
{
	struct xd_server *s = arg;
	uint64_t lost = xd_tables_refused(s->dev->tables, REFUSED_MOST, capture_on_refused, s);

	for (struct xd_capture_client *c = s->captures; lost && c; c = c->next)
		if (c->capture)
			xd_capture_lost(c->capture, lost);
	if (s->captures)
		xd_timer_arm(s->capture_timer, REFUSED_NS);
}

static int start_timer(struct xd_server *s)
{
	if (!s->capture_timer)
		s->capture_timer = xd_timer_new(s->dev->loop, collect_refused, s);
	return s->capture_timer ? 0 : -ENOMEM;
}

/* Those of earlier captures are dropped. */
static void capture_report_refused(struct xd_server *s)
{
	xd_tables_report_refused(s->dev->tables, true);
	if (!s->captures)
		collect_refused(s);
	xd_timer_arm(s->capture_timer, REFUSED_NS);
}

/* ---- the request --------------------------------------------------------------------------- */

static int server_start(struct xd_client *c, const struct xr_capture_req *q,
			struct xd_piece *memory, uint64_t *clock)
{
	uint32_t rings = xd_workers_count(c->dev->workers) + 1;
	struct xd_server *s = xd_server_of(c);
	struct xd_capture_client *new;
	int err;

	new = start_timer(s) ? NULL : calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	err = xd_shm_alloc(c, xd_capture_bytes(rings, q->ring_size), memory);
	if (!err)
		new->capture = xd_capture_new(q, rings, memory->ptr);
	if (err || !new->capture) {
		xd_shm_free(c, memory);
		free(new);
		return err ? err : -ENOMEM;
	}
	capture_report_refused(s);
	*clock = new->capture->clock;
	new->client = c;
	xd_capture_direct_start(s, new, q);
	new->next = s->captures;
	s->captures = new;
	xd_workers_capture(c->dev->workers, new->capture);
	return 0;
}

int xd_do_capture(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	uint32_t rings = xd_workers_count(c->dev->workers) + 1;
	const struct xr_capture_req *q = req->body;
	struct xr_capture_rep *r;
	struct xd_piece memory;
	uint64_t clock;
	int err;

	err = capture_check_number(c);
	if (!err)
		err = capture_check_request(c, q, rings);
	if (!err)
		err = server_start(c, q, &memory, &clock);
	if (err)
		return err;
	r = XD_REPLY(rep, xr_capture_rep);
	r->rings = rings;
	r->ring_size = q->ring_size;
	r->data = xd_capture_data(rings);
	r->clock = clock;
	xd_shm_ref(&memory, &r->memory, rep);
	return 0;
}

int xd_do_capture_context(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_capture_client *cc = *capture_find(xd_server_of(c), c);

	(void)req;
	if (!cc || !cc->direct.on)
		return xd_refuse(c, -EINVAL, "no capture of direct contexts");
	xd_capture_direct_report(cc, rep);
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void server_end(struct xd_client *c, struct xd_capture_client *cc)
{
	if (!cc->capture)
		return;
	xd_capture_direct_end(xd_server_of(c), cc);
	xd_workers_end_capture(c->dev->workers, cc->capture);
	xd_capture_close(cc->capture);
	cc->capture = NULL;
}

int xd_do_end_capture(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_capture_client *cc = *capture_find(xd_server_of(c), c);

	(void)req;
	(void)rep;
	if (!cc)
		return xd_refuse(c, -EINVAL, "no capture");
	server_end(c, cc);
	return 0;
}

void xd_capture_end(struct xd_client *c)
{
	struct xd_capture_client **at = capture_find(xd_server_of(c), c), *old = *at;

	if (!old)
		return;
	*at = old->next;
	server_end(c, old);
	xd_capture_direct_free(xd_server_of(c), old);
	if (!xd_server_of(c)->captures) {
		xd_timer_cancel(xd_server_of(c)->capture_timer);
		xd_tables_report_refused(c->dev->tables, false);
	}
	free(old);
}
