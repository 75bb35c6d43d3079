/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A client's control socket, and its request in flight. A client has one request at a time.
 *
 * Descriptors that arrive with a request pass the gate (gate.h). Using them may still take long, so
 * the control thread does not: a job does.
 */
#ifndef XD_CONNECTION_H
#define XD_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/control.h>

#include "gate.h"

struct xd_client;
struct xd_clients;
struct xd_reply;
struct xd_timer;
struct xd_watch;

struct xd_connection {
	int fd;
	void (*end)(struct xd_client *c); /* ends the client */
	struct xd_watch *watch;
	struct xd_watch *process; /* for the end of the process; NULL: no pidfd */
	bool hello;		  /* HELLO succeeded */
	bool observer;
	bool channel;	 /* of rdma_cm, or file of umad */
	uint64_t bucket; /* see load.h */
	uint64_t delays; /* times that the bucket was full */
	/* in the list of delayed clients, from which nothing is read; pprev NULL: not delayed */
	struct xd_client *next_delayed, **pprev_delayed;
	struct xd_gate gate;
	uint32_t closing; /* jobs that close descriptors; no request is read meanwhile */

	/* the request in flight */
	bool busy;
	bool no_reply;
	uint32_t type, seq;
	char why[XR_WHY_MAX];		     /* explains its error; empty: nothing to add */
	void (*cancel)(struct xd_client *c); /* if it waits for something other than a job */
	void *waiting;			     /* state of what it waits for */
};

/* Sends the reason why a connection is refused, and closes the socket. */
void xd_connection_refuse(int fd, int err, const char *why);
/*
 * Takes over the socket, also on error. -ENOMEM. Needs c->identity. end: called when the client is
 * gone or breaks the protocol
 */
int xd_connection_open(struct xd_client *c, int fd, void (*end)(struct xd_client *c));
/* Stops reading requests and cancels the one in flight. The peer sees the connection closed. */
void xd_connection_shutdown(struct xd_client *c);
/* Returns true if the peer has closed the connection, even if that event was not handled yet. */
bool xd_connection_hung_up(const struct xd_client *c);
/* Closes the socket, and with it descriptors sent but never received. In a job: may block. */
void xd_connection_close(struct xd_client *c);

/* Permits other requests after HELLO. */
void xd_connection_greet(struct xd_client *c, bool observer);
/*
 * The same for a channel of rdma_cm or a file of umad, which do not end with the process that
 * opened them, and send no descriptors. The first function returns -EINVAL if the client has sent
 * some, else as xd_user_may_open_channel(); the second cannot fail then. The caller closes the
 * descriptors of the process.
 */
int xd_connection_may_greet_channel(struct xd_client *c);
void xd_connection_greet_channel(struct xd_client *c);

/*
 * Handles one datagram as received, and takes over the descriptors. May end the client. Tests and
 * fuzzers call it directly.
 */
void xd_client_feed(struct xd_client *c, const void *data, size_t len, const int *fds,
		    uint32_t nfds);
/*
 * Sends the reply to the request in flight; if err is not 0, only the status. rep: NULL if there is
 * no body. Ends the client if it does not read its replies.
 */
void xd_reply_send(struct xd_client *c, int err, struct xd_reply *rep);

/* Marks the request in flight as waiting. cancel() is called if the client ends meanwhile. */
void xd_request_wait(struct xd_client *c, void (*cancel)(struct xd_client *c), void *waiting);
/* Marks the request in flight as no longer waiting. */
void xd_request_wake(struct xd_client *c);

/*
 * Clients whose requests take more processor time than --client-max-load. Their sockets are not
 * read for a while; no request fails.
 */
struct xd_delayed {
	struct xd_client *first;
	struct xd_timer *timer; /* armed while there are any */
};
int xd_delayed_start(struct xd_clients *cs);
void xd_delayed_stop(struct xd_clients *cs);

/*
 * Closes descriptors of a client in a job, except those that are -1. No request is read meanwhile.
 */
void xd_client_close_fds(struct xd_client *c, const int *fds, uint32_t n);

#endif /* XD_CONNECTION_H */
