/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A device for tests of the server, without netdev, XDP and worker threads: fixed addresses, an
 * engine that does not run, and maps that only count their entries.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "daemon/base/options.h"
#include "daemon/server/server.h"

#define FAKE_GIDS 3

struct xd_helper_peer;

struct fake_device {
	struct xd_device dev;
	struct xd_server *server;
	struct xd_options opt;
	int paused;		    /* depth of xd_worker_pause() */
	bool in_round;		    /* a round of the worker runs; atomic */
	unsigned busy;		    /* so many calls of xd_grace_over() return false */
	unsigned map_keys, map_qps; /* entries */
	unsigned map_groups;	    /* multicast groups among the addresses */
	unsigned map_updates;	    /* since the start */
	unsigned doorbells;
	unsigned captures;	    /* that have started and not ended */
	bool refused;		    /* packets are reported */
	struct xd_capture *capture; /* the last one that has started; NULL: it has ended */
	bool sends;		    /* there is room for frames to be sent */
	unsigned frames;	    /* that were sent */
	bool maps_full;		    /* map updates fail */
	bool slow;		    /* next hops are resolved later, by fake_resolve_all() */
	bool no_route;
	uint32_t lost_gid; /* index of an address that the device has lost, 0: none */
	uint32_t gid_holds[FAKE_GIDS];
	bool no_groups;	   /* joining a group fails */
	bool no_doorbells; /* adding a doorbell fails */
	/* the program that the helper sees, NULL: the one that has connected */
	const struct xd_helper_peer *peer;
};

/* The device, ready for xd_server_open() after fake_device_start() */
extern struct fake_device fake;
void fake_device_start(void);
static inline struct xd_clients *fake_clients(void)
{
	return &fake.server->objects.clients;
}
/* Returns a ticket for xd_client_new(), with which this process is the helper. */
int fake_ticket(int connection);
/* Stops fake.server and sets it to NULL. */
void fake_server_stop(void);
/* Completes all pending resolves. */
void fake_resolve_all(void);

#endif /* FAKE_DEVICE_H */
