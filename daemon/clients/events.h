/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events to clients: records written into one-way SOCK_SEQPACKET pairs whose read end the client
 * has. Workers write them in the middle of a round, so nothing here waits for a client. What finds
 * the buffer full stays as a bit in its source and is written when there is room: nothing is
 * lost, and nothing grows.
 *
 * Not pipes: a reader holds a pipe's lock while it copies to its own memory, and where that memory
 * is a userfaultfd's it can hold it for ever. A write would then hang, O_NONBLOCK or not.
 */
#ifndef XD_EVENTS_H
#define XD_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct xd_client;
struct xd_clients;
struct xd_event_source;
struct xd_watch;

enum xd_record { XD_RECORD_COMPLETION, XD_RECORD_ASYNC };

struct xd_event_socket {
	struct xd_clients *clients; /* NULL: not open */
	enum xd_record record;
	int fd; /* our end, non-blocking */
	pthread_mutex_t lock;
	struct xd_event_source *backlog; /* sources with something unwritten */
	struct xd_event_source **backlog_tail;
	struct xd_watch *watch; /* for room, while there is a backlog */
	bool listed;		/* among the blocked ones */
	struct xd_event_socket *next_blocked;
};

/* One object's events into one pipe */
struct xd_event_source {
	struct xd_event_socket *socket; /* NULL: the client wants none */
	uint64_t cookie;
	uint32_t pending;		       /* bit by type */
	uint32_t written;		       /* records so far */
	struct xd_event_source *next, **pprev; /* in the backlog, while pending */
};

/* Makes the pair. *client_end, which blocks, is for the client. */
int xd_event_socket_open(struct xd_clients *cs, struct xd_event_socket *es, enum xd_record record,
			 int *client_end);
void xd_event_socket_close(struct xd_event_socket *es); /* not open: nothing */

/* type: enum ibv_event_type, 0 for completions. Any thread. */
void xd_event_raise(struct xd_event_source *src, uint32_t type);
/* No event will follow. Returns how many were written. */
uint32_t xd_event_end(struct xd_event_source *src);

/* The loop's side: pipes that became full are watched for room. */
struct xd_blocked {
	pthread_mutex_t lock;
	struct xd_event_socket *head;
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

/* *client_end is for the client. */
int xd_client_events_open(struct xd_client *c, int *client_end);
void xd_client_events_close(struct xd_client *c); /* not open: nothing */
/* Raises an event of the port (enum ibv_event_type) for each client. Control thread. */
void xd_clients_port_event(struct xd_clients *cs, uint32_t type);

#endif /* XD_EVENTS_H */
