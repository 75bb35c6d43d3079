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

#define FOR_OBSERVERS 1 /* owns nothing, so an observer may ask */
#define TAKES_FDS 2
#define FOR_OPERATORS 4

static const xd_handler handlers[XR_MSG_COUNT] = {
#define X(NAME, name) [XR_MSG_##NAME] = xd_do_##name,
	XR_MESSAGES(X)
#undef X
};

struct rule {
	uint32_t length; /* of the body, at least */
	uint32_t flags;
};
static const struct rule rules[XR_MSG_COUNT] = {
	[XR_MSG_HELLO] = { offsetof(struct xr_hello_req, token), FOR_OBSERVERS },
	[XR_MSG_QUERY_DEVICE] = { 0, FOR_OBSERVERS },
	[XR_MSG_QUERY_PORT] = { 0, FOR_OBSERVERS },
	[XR_MSG_QUERY_GIDS] = { 0, FOR_OBSERVERS },
	[XR_MSG_DEALLOC_PD] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_REG_MR] = { sizeof(struct xr_reg_mr_req), TAKES_FDS },
	[XR_MSG_REREG_MR] = { sizeof(struct xr_rereg_mr_req), TAKES_FDS },
	[XR_MSG_DEREG_MR] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_DESTROY_CHANNEL] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_CQ] = { .length = sizeof(struct xr_create_cq_req) },
	[XR_MSG_RESIZE_CQ] = { .length = sizeof(struct xr_resize_cq_req) },
	[XR_MSG_DESTROY_CQ] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_QP] = { .length = sizeof(struct xr_create_qp_req) },
	[XR_MSG_MODIFY_QP] = { .length = offsetof(struct xr_modify_qp_req, max_burst) },
	[XR_MSG_QUERY_QP] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_DESTROY_QP] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_AH] = { .length = sizeof(struct xr_create_ah_req) },
	[XR_MSG_DESTROY_AH] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_SRQ] = { .length = sizeof(struct xr_create_srq_req) },
	[XR_MSG_MODIFY_SRQ] = { .length = sizeof(struct xr_modify_srq_req) },
	[XR_MSG_QUERY_SRQ] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_DESTROY_SRQ] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_ALLOC_MW] = { .length = sizeof(struct xr_alloc_mw_req) },
	[XR_MSG_ALLOC_FAST_MR] = { .length = sizeof(struct xr_alloc_fast_mr_req) },
	[XR_MSG_DEALLOC_MW] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_OPEN_XRCD] = { sizeof(struct xr_open_xrcd_req), TAKES_FDS },
	[XR_MSG_CLOSE_XRCD] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_OPEN_QP] = { .length = sizeof(struct xr_open_qp_req) },
	[XR_MSG_RESERVED_LKEY] = { 0 },
	[XR_MSG_SHOW] = { sizeof(struct xr_show_req), FOR_OBSERVERS },
	[XR_MSG_ADVISE_MR] = { .length = sizeof(struct xr_advise_mr_req) },
	[XR_MSG_ALLOC_DM] = { .length = sizeof(struct xr_alloc_dm_req) },
	[XR_MSG_FREE_DM] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_IMPORT_PD] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_IMPORT_DM] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_IMPORT_MR] = { .length = sizeof(struct xr_import_mr_req) },
	[XR_MSG_SET_FAULT] = { sizeof(struct xr_fault_config), FOR_OBSERVERS | FOR_OPERATORS },
	[XR_MSG_RESOLVE_AH] = { .length = sizeof(struct xr_resolve_ah_req) },
	[XR_MSG_ATTACH_MCAST] = { .length = sizeof(struct xr_mcast_req) },
	[XR_MSG_DETACH_MCAST] = { .length = sizeof(struct xr_mcast_req) },
};

static int refuse(const struct xd_client *c, uint32_t type, uint32_t length, uint32_t nfds)
{
	const struct rule *rule;

	if (!type || type >= XR_MSG_COUNT)
		return -EOPNOTSUPP;
	rule = &rules[type];
	if (c->hello == (type == XR_MSG_HELLO))
		return -EPROTO;
	if (length < rule->length || (nfds && !(rule->flags & TAKES_FDS)))
		return -EINVAL;
	if ((c->observer && !(rule->flags & FOR_OBSERVERS)) ||
	    (!c->operator&& rule->flags & FOR_OPERATORS))
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

	return err ? err : handlers[req->type](c, req, rep);
}

/* Bytes of the fixed part of the longest request */
#define REQUEST_MAX 512
_Static_assert(sizeof(struct xr_modify_qp_req) <= REQUEST_MAX &&
		       sizeof(struct xr_rereg_mr_req) <= REQUEST_MAX &&
		       sizeof(struct xr_create_qp_req) <= REQUEST_MAX,
	       "requests");

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
	static uint8_t body[XR_MSG_MAX + REQUEST_MAX] __attribute__((aligned(8)));
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
		/* fields that an older client does not know */
		memset(body + req.length, 0, REQUEST_MAX);
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
