// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Dispatches requests: checks the client's permission and calls the handler. */
#include <errno.h>
#include <string.h>

#include "daemon/clients/request.h"
#include "server.h"

static const struct verb {
	uint32_t least; /* length of the body that a client must send */
	uint32_t size;	/* length of the fixed part of the body */
	uint32_t flags;
	xd_handler handler;
} verbs[XR_MSG_COUNT] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = { body, flags, xd_do_##name },
	XR_MESSAGES(X)
#undef X
};

/* The buffer of requests has room for the fixed part of each type. */
#define FITS_IN_BUFFER(least, size) _Static_assert((size) <= XR_MSG_MAX, "request body");
#define FITS(...) FITS_IN_BUFFER(__VA_ARGS__)
#define X(NAME, name, body, flags) FITS(body)
XR_MESSAGES(X)
#undef X

/* Returns the flag of the requests that this kind of client may send, if it may send no other. */
static uint32_t own_flag(const struct xd_client *c)
{
	return c->umad ? XR_FOR_UMAD : c->connection.channel ? XR_FOR_CHANNELS : 0;
}

#define NO_FAULTS (XR_FOR_OBSERVERS | XR_FOR_OPERATORS | XR_FOR_CHANNELS | XR_FOR_UMAD)

static int dispatch_check(struct xd_client *c, uint32_t type, uint32_t length, uint32_t nfds)
{
	const struct verb *verb;

	if (!type || type >= XR_MSG_COUNT)
		return xd_refuse(c, -EOPNOTSUPP, "this daemon has no request of type %u", type);
	verb = &verbs[type];
	if (c->connection.hello == (type == XR_MSG_HELLO))
		return xd_refuse(c, -EPROTO, "HELLO must be the first request, once");
	if (length < verb->least || (nfds && !(verb->flags & XR_TAKES_FDS)))
		return xd_refuse(c, -EINVAL, "%u bytes with %u descriptors; the least length is %u",
				 length, nfds, verb->least);
	if ((c->connection.observer && !(verb->flags & XR_FOR_OBSERVERS)) ||
	    (!c->identity.is_operator && verb->flags & XR_FOR_OPERATORS) ||
	    (c->connection.hello && own_flag(c) != (verb->flags & (XR_FOR_CHANNELS | XR_FOR_UMAD))))
		return xd_refuse(c, -EPERM, "this kind of client may not send the request");
	return 0;
}

int xd_dispatch(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	int err = dispatch_check(c, req->type, req->length, req->nfds);
	const struct verb *verb;

	if (err)
		return err;
	verb = &verbs[req->type];
	/* Fields that an older client does not send are 0. */
	if (req->length < verb->size)
		memset((uint8_t *)req->body + req->length, 0, verb->size - req->length);
	if (c->fault_rules && !(verb->flags & NO_FAULTS)) {
		err = xd_fault_request(c, req, verb->size, verb->handler);
		if (err)
			return err;
	}
	return verb->handler(c, req, rep);
}
