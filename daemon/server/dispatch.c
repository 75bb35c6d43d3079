// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Datagrams become requests, handlers answer: what may be asked by whom, and how the answer goes out. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/clients/client.h"

/* ---- what each message needs ----------------------------------------------------- */

static const struct verb {
	uint32_t least; /* length of the body */
	uint32_t size;	/* of its fixed part */
	uint32_t flags;
	xd_handler handler;
} verbs[XR_MSG_COUNT] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = { body, flags, xd_do_##name },
	XR_MESSAGES(X)
#undef X
};

/* The buffer of a request has room for the fixed part of every type. */
#define FITS_IN_BUFFER(least, size) _Static_assert((size) <= XR_MSG_MAX, "request body");
#define FITS(...) FITS_IN_BUFFER(__VA_ARGS__)
#define X(NAME, name, body, flags) FITS(body)
XR_MESSAGES(X)
#undef X

static int refuse(const struct xd_client *c, uint32_t type, uint32_t length, uint32_t nfds)
{
	const struct verb *verb;

	if (!type || type >= XR_MSG_COUNT)
		return -EOPNOTSUPP;
	verb = &verbs[type];
	if (c->hello == (type == XR_MSG_HELLO))
		return -EPROTO;
	if (length < verb->least || (nfds && !(verb->flags & XR_TAKES_FDS)))
		return -EINVAL;
	if ((c->observer && !(verb->flags & XR_FOR_OBSERVERS)) ||
	    (!c->operator&& verb->flags & XR_FOR_OPERATORS))
		return -EPERM;
	return 0;
}

/* ---- replies --------------------------------------------------------------------- */

/* The control thread makes one reply at a time. */
static struct xd_reply the_reply;

struct xd_reply *xd_reply_get(struct xd_client *c)
{
	the_reply.length = 0;
	the_reply.nfds = 0;
	return &the_reply;
}

void *xd_reply_body(struct xd_reply *rep, uint32_t length)
{
	memset(rep->body, 0, length);
	rep->length = length;
	return rep->body;
}

void xd_reply_fd(struct xd_reply *rep, int fd, bool keep)
{
	rep->fd[rep->nfds] = fd;
	rep->keep[rep->nfds++] = keep;
}

static int send_reply(struct xd_client *c, int err, struct xd_reply *rep)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct xr_msg head = { .type = c->type, .status = err, .seq = c->seq };
	struct iovec iov[2] = { { &head, sizeof(head) }, { NULL, 0 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct cmsghdr *cmsg;

	if (!err && rep) {
		head.length = rep->length;
		iov[1] = (struct iovec){ rep->body, rep->length };
	}
	if (!err && rep && rep->nfds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(rep->nfds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(rep->nfds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), rep->fd, rep->nfds * sizeof(int));
	}
	return sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void xd_reply_send(struct xd_client *c, int err, struct xd_reply *rep)
{
	uint32_t i;
	int failed;

	if (c->ending || !c->busy)
		return;
	failed = send_reply(c, err, rep);
	for (i = 0; rep && i < rep->nfds; i++) {
		if (!rep->keep[i])
			close(rep->fd[i]);
	}
	if (rep)
		rep->nfds = 0;
	c->busy = false;
	/* One that reads no answers, or is gone */
	if (failed || xd_client_watch(c))
		xd_client_end(c);
}

/* ---- requests -------------------------------------------------------------------- */

static int handle(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	int err = refuse(c, req->type, req->length, req->nfds);
	const struct verb *verb;

	if (err)
		return err;
	verb = &verbs[req->type];
	/* fields that an older client does not know */
	if (req->length < verb->size)
		memset((uint8_t *)req->body + req->length, 0, verb->size - req->length);
	return verb->handler(c, req, rep);
}

/* 0: a request, also one that is refused; -EINVAL: too malformed to tell. */
static int parse(const void *data, size_t len, struct xd_request *req)
{
	struct xr_msg head = { 0 };

	memcpy(&head, data, len < sizeof(head) ? len : sizeof(head));
	req->type = head.type;
	req->seq = head.seq;
	if (len < sizeof(head) || len > XR_MSG_MAX || head.length != len - sizeof(head))
		return -EINVAL;
	req->length = head.length;
	return 0;
}

void xd_client_feed(struct xd_client *c, const void *data, size_t len, const int *fds,
		    uint32_t nfds)
{
	static uint8_t body[XR_MSG_MAX] __attribute__((aligned(8)));
	struct xd_request req = { .body = body, .nfds = nfds };
	int own[XR_MSG_MAX_FDS], err;
	struct xd_reply *rep;

	if (nfds)
		memcpy(own, fds, nfds * sizeof(*fds));
	req.fds = own;
	if (c->ending || c->busy) {
		xd_client_close_fds(c, own, nfds);
		return;
	}
	c->busy = true;
	rep = xd_reply_get(c);
	err = parse(data, len, &req);
	c->type = req.type;
	c->seq = req.seq;
	if (!err) {
		memcpy(body, (const uint8_t *)data + sizeof(struct xr_msg), req.length);
		err = handle(c, &req, rep);
	}
	/* before the answer: it may be the client's end */
	xd_client_close_fds(c, own, nfds);
	if (err != XD_LATER)
		xd_reply_send(c, err, rep);
	else if (c->busy)
		xd_client_watch(c);
}

static uint32_t received_fds(struct msghdr *msg, int fds[XR_MSG_MAX_FDS])
{
	struct cmsghdr *cmsg;
	uint32_t n = 0, i, count;
	int fd;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count && n < XR_MSG_MAX_FDS; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			fds[n++] = fd;
		}
	}
	return n;
}

void xd_client_receive(struct xd_client *c)
{
	static uint8_t data[XR_MSG_MAX];
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fds[XR_MSG_MAX_FDS];
	uint32_t nfds;
	ssize_t n;

	n = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	nfds = n < 0 ? 0 : received_fds(&msg, fds);
	if (n <= 0) {
		xd_client_close_fds(c, fds, nfds);
		xd_client_end(c);
		return;
	}
	/* Some descriptors were lost: what is left would be taken for others. */
	if (msg.msg_flags & MSG_CTRUNC) {
		xd_client_close_fds(c, fds, nfds);
		nfds = 0;
		n = n < (ssize_t)sizeof(struct xr_msg) ? n : (ssize_t)sizeof(struct xr_msg) - 1;
	}
	/* A length beyond XR_MSG_MAX is refused before the data is looked at. */
	xd_client_feed(c, data, (size_t)n, fds, nfds);
}
