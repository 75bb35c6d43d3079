/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Walks over the objects of clients, which may be a million: in pieces of a millisecond, between
 * which the control thread serves others. Clients that take part in a walk have a piece in turn.
 */
#ifndef XD_WALK_H
#define XD_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/base/list.h"

struct xd_client;
struct xd_clients;
struct xd_timer;

enum xd_walks {
	XD_WALK_REFRESH, /* the network changed: paths and addresses */
	XD_WALK_UNMAP,	 /* regions that are not to be mapped */
	XD_WALK_PUBLISH, /* changes, for the readers of `xroce monitor` */
	XD_WALKS
};

/* Where a walk is among the objects of a client */
struct xd_place {
	struct xt_list link; /* first */
	struct xd_client *client;
	uint32_t kind, handle; /* of the last object that was visited */
	bool again;	       /* the client is to be walked once more, from the start */
};

struct xd_walk {
	struct xd_clients *clients;
	struct xt_list places; /* of the clients that take part */
	struct xd_timer *timer;
	/* Visits some objects after the place. Returns true if none is left. */
	bool (*piece)(struct xd_client *c, struct xd_place *at);
	void (*done)(void *arg); /* all clients were walked; NULL: nothing to do */
	void *arg;
};

int xd_walks_start(struct xd_clients *cs); /* -ENOMEM */
void xd_walks_stop(struct xd_clients *cs);
void xd_walk_init_client(struct xd_client *c);
void xd_walk_end_client(struct xd_client *c); /* takes part in no walk any more */

/* Lets a client take part in a walk, which the caller begins. */
void xd_walk_add(struct xd_client *c, enum xd_walks which);
/* Begins a walk over the clients that were added, with a piece at once. */
void xd_walk_begin(struct xd_clients *cs, enum xd_walks which);
/* Begins a walk over all clients. */
void xd_walk_all(struct xd_clients *cs, enum xd_walks which);

#endif /* XD_WALK_H */
