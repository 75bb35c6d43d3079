/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the server needs below and beside it, without a netdev, without XDP and without a thread:
 * addresses that are there, an engine that nobody runs, and maps that count their
 * entries. For the control fuzzer.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "daemon/base/options.h"
#include "daemon/server/server.h"

#define FAKE_GIDS 3

struct fake_device {
	struct xd_device dev;
	struct xd_server *server;
	struct xd_options opt;
	int world_stopped;	    /* depth */
	unsigned map_keys, map_qps; /* entries */
	unsigned map_groups;	    /* multicast groups among the addresses */
	unsigned bells;
	bool maps_full; /* map updates fail */
	bool slow;	/* next hops are found later, by fake_resolve_all() */
	bool no_route;
	bool no_groups; /* the kernel refuses to join any */
	bool no_bells;	/* nor does it watch doorbells */
};

/* The one device; ready for xd_server_open(). */
extern struct fake_device fake;
void fake_device_start(void);
static inline struct xd_clients *fake_clients(void)
{
	return &fake.server->objects.clients;
}
/* Stops fake.server, which is NULL then. */
void fake_server_stop(void);
/* Answers all questions for next hops. */
void fake_resolve_all(void);

#endif /* FAKE_DEVICE_H */
