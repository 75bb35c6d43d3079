// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Captures of direct contexts. The programs learn by their pages that there is a capture, and write
 * packets to rings in their views; its client gets the views by CAPTURE_CONTEXT. A context that
 * ends soon leaves its packets: the report keeps a descriptor of the view.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "capture.h"
#include "direct_rules.h"
#include "server.h"
#include "view.h"

/* Reports that wait for the client of a capture; further ones are left out. */
#define REPORTS_MAX 256

struct xd_context_report {
	struct xd_context_report *next;
	uint32_t context;
	pid_t pid;
	bool ended;
	int view; /* -1: none */
};

/* ---- reports ------------------------------------------------------------------------------- */

/* The number of reports tells the client that there is one. */
static void tell(const struct xd_capture_client *cc)
{
	struct xr_capture_ring *last = cc->capture->tap[cc->capture->rings - 1].shared;

	__atomic_store_n(&last->contexts, last->contexts + 1, __ATOMIC_RELEASE);
}

static int copy_view(const struct xd_capture_client *cc, const struct xd_client *c)
{
	int fd;

	if (!c->view || !c->view->rings || xd_user_take_fds(cc->client, 1))
		return -1;
	fd = fcntl(c->view->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		xd_user_put_fds(cc->client, 1);
	return fd;
}

static void capture_direct_report(struct xd_capture_client *cc, const struct xd_client *c,
				  bool ended)
{
	struct xd_context_report *r = NULL;

	if (!cc->direct.on || !cc->capture)
		return;
	if (cc->direct.reports < REPORTS_MAX)
		r = calloc(1, sizeof(*r));
	if (r) {
		r->context = c->id;
		r->pid = c->identity.pid;
		r->ended = ended;
		r->view = ended ? -1 : copy_view(cc, c);
		*cc->direct.end = r;
		cc->direct.end = &r->next;
		cc->direct.reports++;
	} else {
		cc->direct.missed++;
	}
	tell(cc);
}

static struct xd_context_report *server_take(struct xd_capture_client *cc)
{
	struct xd_context_report *r = cc->direct.first;

	if (!r)
		return NULL;
	cc->direct.first = r->next;
	if (!cc->direct.first)
		cc->direct.end = &cc->direct.first;
	cc->direct.reports--;
	return r;
}

void xd_capture_direct_report(struct xd_capture_client *cc, struct xd_reply *rep)
{
	struct xr_capture_context_rep *body = XD_REPLY(rep, xr_capture_context_rep);
	struct xd_context_report *r = server_take(cc);

	body->missed = cc->direct.missed;
	cc->direct.missed = 0;
	if (!r)
		return;
	body->context = r->context;
	body->ended = r->ended;
	body->pid = r->pid;
	body->capture = cc->direct.entry.number;
	body->ring_size = cc->direct.entry.ring_size;
	body->offset = XR_VIEW_RINGS_OFF + cc->direct.place * XR_VIEW_RING_ROOM;
	if (r->view >= 0) {
		xd_reply_fd(rep, r->view, false);
		xd_user_put_fds(cc->client, 1);
	}
	free(r);
}

/* ---- captures ------------------------------------------------------------------------------ */

static bool is_direct(const struct xd_client *c)
{
	return c->slot && !c->slot_ended;
}

/* There are as many places as captures. */
static uint32_t free_place(const struct xd_server *s)
{
	uint32_t used = 0;

	for (const struct xd_capture_client *cc = s->captures; cc; cc = cc->next)
		if (cc->direct.on)
			used |= 1u << cc->direct.place;
	return (uint32_t)__builtin_ctz(~used);
}

static void capture_direct_set_entry(struct xd_server *s, const struct xd_capture_client *cc)
{
	for (struct xd_client *c = s->objects.clients.first; c; c = c->next)
		if (is_direct(c))
			xd_direct_rules_capture(c, cc->direct.place, &cc->direct.entry);
}

void xd_capture_direct_start(struct xd_server *s, struct xd_capture_client *cc,
			     const struct xr_capture_req *q)
{
	cc->direct.end = &cc->direct.first;
	if (!q->direct_ring_size)
		return;
	cc->direct.place = free_place(s);
	cc->direct.on = true;
	if (!++s->capture_number)
		s->capture_number++;
	cc->direct.entry = (struct xr_direct_capture){
		.number = s->capture_number,
		.ring_size = q->direct_ring_size,
		.snap_len = q->snap_len,
		.flags = q->flags,
		.clock = cc->capture->clock,
		.filter = q->filter,
	};
	capture_direct_set_entry(s, cc);
	for (const struct xd_client *c = s->objects.clients.first; c; c = c->next)
		if (is_direct(c))
			capture_direct_report(cc, c, false);
}

void xd_capture_direct_end(struct xd_server *s, struct xd_capture_client *cc)
{
	if (!cc->direct.on)
		return;
	cc->direct.entry.ended = 1;
	capture_direct_set_entry(s, cc);
}

void xd_capture_direct_free(struct xd_server *s, struct xd_capture_client *cc)
{
	struct xd_context_report *r;

	if (!cc->direct.on)
		return;
	cc->direct.on = false;
	cc->direct.entry = (struct xr_direct_capture){ 0 };
	capture_direct_set_entry(s, cc);
	while ((r = server_take(cc))) {
		if (r->view >= 0) {
			xd_client_close_fds(cc->client, &r->view, 1);
			xd_user_put_fds(cc->client, 1);
		}
		free(r);
	}
}

/* ---- contexts ------------------------------------------------------------------------------ */

void xd_captures_lend(struct xd_client *c)
{
	for (struct xd_capture_client *cc = xd_server_of(c)->captures; cc; cc = cc->next) {
		if (!cc->direct.on)
			continue;
		xd_direct_rules_capture(c, cc->direct.place, &cc->direct.entry);
		capture_direct_report(cc, c, false);
	}
}

void xd_captures_lend_end(const struct xd_client *c)
{
	for (struct xd_capture_client *cc = xd_server_of(c)->captures; cc; cc = cc->next)
		capture_direct_report(cc, c, true);
}
