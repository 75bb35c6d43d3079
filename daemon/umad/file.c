// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/loop.h"
#include "daemon/gsi/gsi.h"
#include "internal.h"

void xd_umad_start(struct xd_objects *o)
{
	/* Hosts that do not see requests cannot forge responses; without it, they can guess. */
	(void)!getrandom(&o->umad_tid, sizeof(o->umad_tid), GRND_NONBLOCK);
	if (o->clients.dev->gsi)
		xd_gsi_set_others(o->clients.dev->gsi, umad_received, o);
}

void xd_umad_stop(struct xd_objects *o)
{
	if (o->clients.dev->gsi)
		xd_gsi_set_others(o->clients.dev->gsi, NULL, NULL);
}

/* ---- files ---------------------------------------------------------------------- */

static void umad_link_file(struct xd_umad *u, struct xd_objects *o)
{
	u->next = o->umads;
	u->pprev = &o->umads;
	if (u->next)
		u->next->pprev = &u->next;
	o->umads = u;
}

static void umad_unlink_file(struct xd_umad *u)
{
	*u->pprev = u->next;
	if (u->next)
		u->next->pprev = u->pprev;
}

int xd_umad_hello(struct xd_client *c, struct xd_reply *rep)
{
	struct xd_umad *u;
	int err, fd;

	if (!c->identity.is_operator)
		return xd_refuse(c, -EACCES, "umad is for root and the user of xroced");
	if (!c->dev->gsi)
		return xd_refuse(c, -EOPNOTSUPP, "the device has no QP 1");
	err = xd_client_charge(c, sizeof(*u));
	if (err)
		return err;
	u = calloc(1, sizeof(*u));
	if (u)
		u->timer = xd_timer_new(c->dev->loop, umad_on_timer, u);
	err = u && u->timer ? xd_event_socket_open(c->clients, &u->received, XD_RECORD_ASYNC, &fd)
			    : -ENOMEM;
	if (err) {
		if (u)
			xd_timer_free(u->timer);
		free(u);
		xd_client_uncharge(c, sizeof(*u));
		return err;
	}
	u->client = c;
	c->umad = u;
	umad_link_file(u, xd_objects_of(c));
	xd_reply_fd(rep, fd, false);
	return 0;
}

void xd_umad_end(struct xd_client *c)
{
	struct xd_umad *u = c->umad;

	if (!u)
		return;
	for (uint32_t id = 0; id < XR_UMAD_AGENTS; id++) {
		if (u->agent[id].used)
			umad_agent_free(u, id);
	}
	umad_unlink_file(u);
	xd_timer_free(u->timer);
	xd_event_socket_close(&u->received);
	free(u);
	c->umad = NULL;
}

/* ---- requests ------------------------------------------------------------------- */

int xd_do_umad_register(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	return umad_agent_new(c->umad, req->body, &XD_REPLY(rep, xr_umad_register_rep)->id);
}

int xd_do_umad_unregister(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_umad_agent *q = req->body;

	if (q->id >= XR_UMAD_AGENTS || !c->umad->agent[q->id].used)
		return xd_refuse(c, -EINVAL, "the file has no agent %u", q->id);
	umad_agent_free(c->umad, q->id);
	return 0;
}

int xd_do_umad_send(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_umad_send_req *q = req->body;
	struct umad_packet p;

	memcpy(&p, q->packet, sizeof(p));
	return umad_send(c->umad, &p);
}
