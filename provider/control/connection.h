/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Client side of the control protocol, <xroce/control.h>: a connection, its HELLO, one request and
 * its reply at a time. The provider and the `xroce` command use it. No locks: callers serialize.
 */
#ifndef XP_CONNECTION_H
#define XP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/control.h>

struct xp_conn {
	int fd; /* -1: closed */
	uint32_t seq;
	bool broken;	      /* a request or reply was lost; every later call fails */
	bool shared;	      /* with other processes, by fork(): calls exclude each other */
	bool refused;	      /* the daemon refused the connection; the error says why */
	bool no_reply;	      /* the daemon knows requests without replies */
	char why[XR_WHY_MAX]; /* the daemon's explanation of the last error; empty: none */
	uint64_t started_ns;  /* when the timeout was set */
	uint64_t deadline_ns; /* for replies; 0: none */
};

/* One request and its reply. */
struct xp_call {
	uint32_t type; /* enum xr_msg_type */
	const void *req;
	size_t req_len;
	const int *fds; /* descriptors to send */
	unsigned int nfds;
	void *rep; /* fields missing in the reply are set to 0 */
	size_t rep_len;
	size_t rep_got;	       /* out: bytes of the reply's body that were stored */
	int *rep_fds;	       /* received descriptors; those beyond rep_room are closed */
	unsigned int rep_room; /* size of rep_fds */
	unsigned int rep_nfds; /* out: descriptors received; 0 on error */
	bool no_reply;	       /* for xp_conn_tell() */
};

struct xp_timeouts {
	unsigned int connect_ms; /* connect() blocks while the daemon's backlog is full */
	unsigned int reply_ms;	 /* all replies until xp_conn_set_timeout() */
};

/*
 * Connects to the socket at path. The timeout for replies is shortened if the daemon's process is
 * stopped. Returns 0 or -errno.
 */
int xp_conn_open(struct xp_conn *conn, const char *path, struct xp_timeouts timeouts);
void xp_conn_close(struct xp_conn *conn);

/* Sets the time until the deadline for replies; 0: no deadline. */
void xp_conn_set_timeout(struct xp_conn *conn, unsigned int timeout_ms);

/*
 * Sends HELLO. call gives room for the reply (struct xr_hello_rep) and its descriptors.
 * @flags: XR_HELLO_*
 * @token: of the connection to import from, or NULL.
 * Returns -EPROTO if the daemon has another version of the protocol.
 */
int xp_conn_hello(struct xp_conn *conn, uint32_t flags, const uint8_t *token, struct xp_call *call);

/*
 * Connects and sends HELLO as an observer. Checks that the names in the reply are terminated. On
 * error the connection is closed.
 */
int xp_conn_observe(struct xp_conn *conn, const char *path, struct xp_timeouts timeouts,
		    struct xr_hello_rep *rep);

/*
 * Returns 0, the error in the daemon's reply, or a local error. If conn->broken is set afterwards,
 * the connection cannot be used any more and the error says why: of a connection that the daemon
 * refused, the daemon's error.
 */
int xp_conn_call(struct xp_conn *conn, struct xp_call *call);

/*
 * The same for a request whose reply nobody needs: does not wait, and returns 0 if the daemon fails
 * to execute it. Requests are executed in their order.
 */
int xp_conn_tell(struct xp_conn *conn, struct xp_call *call);

/* Returns true once the daemon has closed the connection. Thread safe; does not block. */
bool xp_conn_hung_up(const struct xp_conn *conn);

/*
 * Writes an error of the connection to the socket at path as text: the error, then the daemon's
 * explanation, or the group that may connect.
 */
void xp_conn_describe(const struct xp_conn *conn, const char *path, int err, char *text,
		      size_t size);

void xp_close_fds(const int *fds, unsigned int n);

#endif /* XP_CONNECTION_H */
