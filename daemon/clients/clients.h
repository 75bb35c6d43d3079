/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All clients of the device, and the state that they share. The levels above register the kinds of
 * objects and the functions that clients call.
 */
#ifndef XD_CLIENTS_H
#define XD_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/io/io.h"
#include "connection.h"
#include "events.h"
#include "handles.h"
#include "limits.h"
#include "monitor.h"
#include "programs.h"
#include "walk.h"

struct xd_client;
struct xd_device;
struct xd_jobs;
struct xd_reaper;
struct xd_reply;
struct xd_request;

/* Functions of the levels above. Called by the control thread unless noted otherwise. */
struct xd_client_ops {
	/* Executes a request. Returns 0, -errno, or XD_LATER if xd_reply_send() follows. */
	int (*request)(struct xd_client *c, struct xd_request *req, struct xd_reply *rep);
	/* Creates c->objects. -ENOMEM. */
	int (*open)(struct xd_client *c);
	/* The client ends: no job may wait for it any longer. May be called again. */
	void (*end)(struct xd_client *c);
	/* Releases c->objects after all objects were freed. In a job: may block. */
	void (*close)(struct xd_client *c);
};

struct xd_clients {
	struct xd_device *dev;
	const struct xd_client_ops *ops;
	struct xd_client *first;
	uint32_t count, last_id;
	uint32_t channels; /* of rdma_cm, among the clients */
	struct xd_jobs *jobs;
	struct xd_reaper *reaper; /* of gates and movers */
	struct xd_kinds kinds;
	struct xd_limits limits;
	struct xd_blocked blocked;
	struct xd_delayed delayed;
	struct xd_monitors monitors;
	struct xd_programs programs;
	struct xd_walk walk[XD_WALKS];
	struct xd_client *borrower[XD_MAX_SLOTS]; /* of each slot; NULL: none */
	struct xd_timer *trim;
	uint64_t trimmed; /* time, before which freed memory is not returned again */
};

/* Call xd_clients_stop() after an error, too. */
int xd_clients_start(struct xd_clients *cs, struct xd_device *dev, const struct xd_client_ops *ops,
		     const struct xd_kind_ops *const *kinds, uint32_t n);
/*
 * Ends all clients and waits for their jobs. Returns false if a job hangs; all memory then stays as
 * it is, because the job may use it.
 */
bool xd_clients_stop(struct xd_clients *cs);

/* Returns freed memory to the kernel soon: trim.c */
void xd_clients_trim(struct xd_clients *cs);
int xd_trim_start(struct xd_clients *cs); /* -ENOMEM */
void xd_trim_stop(struct xd_clients *cs);

#endif /* XD_CLIENTS_H */
