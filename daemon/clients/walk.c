// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "walk.h"

#include <errno.h>

#include "daemon/base/loop.h"
#include "client.h"

static void walk_restart(struct xd_place *at)
{
	at->kind = at->handle = 0;
	at->again = false;
}

static void run_piece(struct xd_walk *w, struct xd_place *at)
{
	bool done = w->piece(at->client, at), again = !done || at->again;

	xt_list_del(&at->link);
	if (done)
		walk_restart(at);
	if (again && !at->client->ending)
		xt_list_add_tail(&w->places, &at->link);
}

static void clients_run(void *arg)
{
	struct xd_walk *w = arg;
	struct xd_loop *loop = w->clients->dev->loop;

	while (!xt_list_empty(&w->places)) {
		if (xd_loop_must_yield(loop)) {
			xd_timer_arm(w->timer, 0);
			return;
		}
		run_piece(w, (struct xd_place *)w->places.next);
	}
	if (w->done)
		w->done(w->arg);
}

void xd_walk_add(struct xd_client *c, enum xd_walks which)
{
	struct xd_place *at = &c->place[which];

	if (c->ending)
		return;
	if (xt_list_empty(&at->link))
		xt_list_add_tail(&c->clients->walk[which].places, &at->link);
	else
		at->again = true;
}

void xd_walk_begin(struct xd_clients *cs, enum xd_walks which)
{
	xd_loop_begin_piece(cs->dev->loop);
	clients_run(&cs->walk[which]);
}

void xd_walk_all(struct xd_clients *cs, enum xd_walks which)
{
	for (struct xd_client *c = cs->first; c; c = c->next)
		xd_walk_add(c, which);
	xd_walk_begin(cs, which);
}

void xd_walk_init_client(struct xd_client *c)
{
	for (int i = 0; i < XD_WALKS; i++) {
		c->place[i].client = c;
		xt_list_init(&c->place[i].link);
	}
}

void xd_walk_end_client(struct xd_client *c)
{
	for (int i = 0; i < XD_WALKS; i++)
		xt_list_del(&c->place[i].link);
}

int xd_walks_start(struct xd_clients *cs)
{
	for (int i = 0; i < XD_WALKS; i++) {
		struct xd_walk *w = &cs->walk[i];

		w->clients = cs;
		xt_list_init(&w->places);
		w->timer = xd_timer_new(cs->dev->loop, clients_run, w);
		if (!w->timer)
			return -ENOMEM;
	}
	return 0;
}

void xd_walks_stop(struct xd_clients *cs)
{
	for (int i = 0; i < XD_WALKS; i++)
		xd_timer_free(cs->walk[i].timer);
}
