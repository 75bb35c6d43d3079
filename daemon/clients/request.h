/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests of the control protocol and their handlers, xd_do_<name>() for each row of XR_MESSAGES.
 */
#ifndef XD_REQUEST_H
#define XD_REQUEST_H

#include <stdint.h>

#include <xroce/control.h>

#include "client.h"
#include "reply.h"

struct xd_request {
	uint32_t type;
	uint32_t seq;
	bool no_reply;	 /* the client does not wait: XR_MSG_NO_REPLY */
	void *body;	 /* 8-byte aligned; fields of its type that the client did not send are 0 */
	uint32_t length; /* as received */
	int *fds;	 /* a handler that takes one over leaves -1 */
	uint32_t nfds;
};

/* A handler returns 0, -errno, or XD_LATER if xd_reply_send() follows. */
#define XD_LATER 1
typedef int (*xd_handler)(struct xd_client *c, struct xd_request *req, struct xd_reply *rep);

/*
 * Executes the request in flight, which was postponed, and replies. Closes the descriptors that the
 * handler leaves. May end the client.
 */
void xd_request_execute(struct xd_client *c, struct xd_request *req, xd_handler handler);

#define X(NAME, name, body, flags)                                                                 \
	int xd_do_##name(struct xd_client *c, struct xd_request *req, struct xd_reply *rep);
XR_MESSAGES(X)
#undef X

#endif /* XD_REQUEST_H */
