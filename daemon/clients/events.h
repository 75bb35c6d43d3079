/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events to clients: records in one-way SOCK_SEQPACKET socket pairs, of which the client has the
 * read end. Workers write them in the middle of a round, so no call waits for a client. If the
 * socket's buffer is full, the event is kept as a bit in its source and written when there is room:
 * no event is lost, and no queue grows.
 *
 * Pipes do not work: a reader holds the pipe's lock while it copies to its own memory, and if that
 * is memory of a userfaultfd, the reader can hold the lock forever. A write would then block in
 * spite of O_NONBLOCK.
 */
#ifndef XD_EVENTS_H
#define XD_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/base/list.h"

struct xd_client;
struct xd_clients;
struct xd_event_source;
struct xd_watch;

enum xd_record { XD_RECORD_COMPLETION, XD_RECORD_ASYNC };

struct xd_event_socket {
	struct xd_clients *clients; /* NULL: not open */
	enum xd_record record;
	int fd; /* the daemon's end, non-blocking */
	pthread_mutex_t lock;
	struct xd_event_source *backlog; /* sources with pending events */
	struct xd_event_source **backlog_tail;
	struct xd_watch *watch; /* for room, while there is a backlog */
	struct xt_list blocked; /* in the list of struct xd_blocked */
};

/* The events of one object in one event socket */
struct xd_event_source {
	struct xd_event_socket *socket; /* NULL: the events are discarded */
	uint64_t cookie;
	uint32_t pending;		       /* a bit for each type */
	uint32_t written;		       /* events that were written */
	struct xd_event_source *next, **pprev; /* in the backlog, while pending */
};

/* Makes the socket pair. *client_end, which blocks, is passed to the client. */
int xd_event_socket_open(struct xd_clients *cs, struct xd_event_socket *es, enum xd_record record,
			 int *client_end);
void xd_event_socket_close(struct xd_event_socket *es); /* no effect if not open */

/* Raises an event. type: enum ibv_event_type, 0 for completions. Any thread. */
void xd_event_raise(struct xd_event_source *src, uint32_t type);
/* Discards pending and later events. Returns how many were written. */
uint32_t xd_event_end(struct xd_event_source *src);

/* Event sockets that became full, which the control thread watches for room */
struct xd_blocked {
	pthread_mutex_t lock;
	struct xt_list sockets;
	int eventfd;
	struct xd_watch *watch;
};
int xd_events_start(struct xd_clients *cs);
void xd_events_stop(struct xd_clients *cs);

/* ---- asynchronous events of one client --------------------------------------------- */

struct xd_client_events {
	struct xd_event_socket async;
	struct xd_event_source port;
};

/* *client_end is passed to the client. */
int xd_client_events_open(struct xd_client *c, int *client_end);
void xd_client_events_close(struct xd_client *c); /* no effect if not open */
/* Raises an event of the port (enum ibv_event_type) for each client. Control thread. */
void xd_clients_port_event(struct xd_clients *cs, uint32_t type);

#endif /* XD_EVENTS_H */
