/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The control socket and the requests that are served on it:
 *
 *   server.c    the socket, and the check of clients that connect
 *   dispatch.c  permissions and handlers of requests
 *   query.c     HELLO, device, port, addresses
 *   faults.c    rules of fault injection
 *   fault_verbs.c  faults of requests
 *   fault_times.c  faults of time: port, GIDs, events of the device
 *   show.c      status, counters and objects as JSON, for the xroce command
 *   show_cm.c   the same for connection management
 *   show_list.c lists of objects and clients, in pieces
 *   select.c    which rows of a list a request selects
 *   counters.c  sums of counters
 *   lend.c      UDP sockets that programs borrow; claim.c: their objects in the limits
 *   metrics.c   metrics as text
 *   capture.c   packet capture; capture_direct.c: of direct programs
 *   monitor.c   events for `xroce monitor`
 *   direct_rules.c  rules of faults for direct programs
 *   view.c      what direct programs show of themselves; view_monitor.c: events of that
 */
#ifndef XD_SERVER_H
#define XD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/clients/request.h"
#include "daemon/helper/protocol.h"
#include "daemon/rdma_cm/rdma_cm.h"
#include "counters.h"

#define XD_SPARES XD_ARRIVAL_FDS

struct json;

struct xd_server {
	struct xd_objects objects;
	struct xd_device *dev;
	struct xd_helper *helper;
	struct xd_watch *watch; /* of the helper's socket */
	bool helper_ended;
	int spare[XD_SPARES];
	gid_t group;		      /* may connect; XD_NO_GROUP: none */
	int uffd_dev;		      /* /dev/userfaultfd, -1: none */
	struct xd_timer *fault_timer; /* of faults of time */
	struct xd_capture_client *captures;
	uint32_t capture_number;	    /* of the last one that includes direct contexts */
	struct xd_timer *capture_timer;	    /* of refused packets; NULL: there was no capture yet */
	struct xd_event_watch *event_watch; /* NULL: there was no reader of events yet */
	struct xd_malloced heap;
	struct xd_sums direct_ended; /* counters of direct contexts that have ended */
};

static inline struct xd_server *xd_server_of(const struct xd_client *c)
{
	return container_of(c->clients, struct xd_server, objects.clients);
}

/* Descriptors of the server that only root can open: the daemon opens them first */
struct xd_listener {
	int fd;
	const char *bound; /* path of the socket, NULL: none yet */
	gid_t group;	   /* may connect; XD_NO_GROUP: none */
	int uffd_dev;	   /* /dev/userfaultfd, -1: none */
};
#define XD_NO_LISTENER ((struct xd_listener){ .fd = -1, .group = XD_NO_GROUP, .uffd_dev = -1 })

/* Creates the control socket. Call xd_listener_close() after an error, too. Logs errors. */
int xd_listener_open(const struct xd_options *opt, struct xd_listener *l);
/* Closes the descriptors that xd_server_start() has not taken over. */
void xd_listener_close(struct xd_listener *l);

/*
 * Serves the connections that the helper accepts. Takes over l->uffd_dev. *server is NULL after
 * an error.
 */
int xd_server_start(struct xd_device *dev, struct xd_helper *helper, struct xd_listener *l,
		    struct xd_server **server);
/*
 * As xd_server_start(), but without connections, for tests and fuzzers. Call xd_server_stop() after
 * an error, too.
 */
int xd_server_open(struct xd_device *dev, struct xd_server **server);
/* Refuses new clients from now on. */
void xd_server_refuse(struct xd_server *server);
/*
 * Ends all clients and releases everything. Returns false if a job hangs: everything that it may
 * use stays as it is then. NULL allowed.
 */
bool xd_server_stop(struct xd_server *server);

/* Ends the client's capture, if it has one. */
void xd_capture_end(struct xd_client *c);
/* The client is a direct context from now on; it is none any more. */
void xd_captures_lend(struct xd_client *c);
void xd_captures_lend_end(const struct xd_client *c);

/* ---- lend.c ---- */

/* The client ends: no packets arrive at its slot any more. May be called again. */
void xd_lend_end(struct xd_client *c);
/* Makes the slot free. In a job: may take long. */
void xd_lend_close(struct xd_client *c);
/* Writes the member `slots` of the status. Only operators see the programs. */
void xd_lend_show(struct json *j, const struct xd_client *c);

/* ---- publish.c ---- */

/* The loan ends: what the client has published is deleted. May be called again. */
void xd_publish_end(struct xd_client *c);

/* ---- monitor.c ---- */

/* Publishes the hits of fault rules now, before these are replaced. */
void xd_monitor_faults(struct xd_server *s);
void xd_monitor_stop(struct xd_server *s);

/* ---- faults.c ---- */

/* Reads the rules of --fault. Logs errors. */
int xd_faults_load(struct xd_server *s);
/* Selects the rules for a client that has said HELLO. */
void xd_faults_hello(struct xd_client *c);
/* The client ends, with its rules. May be called again. */
void xd_faults_end(struct xd_client *c);
/* Writes the member `faults` of the status. Only operators see the rules. */
void xd_faults_show(struct json *j, const struct xd_client *c);

/* Starts and stops the timer of faults of time. -ENOMEM. */
int xd_fault_times_start(struct xd_server *s);
void xd_fault_times_stop(struct xd_server *s);
/* Begins and ends faults that are due, also those of rules that were set or removed. */
void xd_fault_times_run(struct xd_server *s);
/* Updates what a client sees, without events. */
void xd_fault_times_hello(struct xd_client *c);

/*
 * Applies rules to a request of a program before its handler, so that nothing was made when it
 * fails. Returns 0, the error that is injected, or XD_LATER: the handler is called later. size:
 * bytes of the body that the handler may read.
 */
int xd_fault_request(struct xd_client *c, struct xd_request *req, uint32_t size,
		     xd_handler handler);

/* request() of struct xd_client_ops */
int xd_dispatch(struct xd_client *c, struct xd_request *req, struct xd_reply *rep);

#endif /* XD_SERVER_H */
