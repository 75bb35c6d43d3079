// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reply.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct xd_reply *xd_reply_start(void)
{
	static struct xd_reply rep;

	rep.length = 0;
	rep.nfds = 0;
	return &rep;
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

void xd_reply_drop(struct xd_reply *rep)
{
	for (uint32_t i = 0; rep && i < rep->nfds; i++) {
		if (!rep->keep[i])
			close(rep->fd[i]);
	}
	if (rep)
		rep->nfds = 0;
}

static void attach_fds(struct msghdr *msg, char *control, const struct xd_reply *rep)
{
	struct cmsghdr *cmsg;

	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(rep->nfds * sizeof(int));
	cmsg = CMSG_FIRSTHDR(msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(rep->nfds * sizeof(int));
	memcpy(CMSG_DATA(cmsg), rep->fd, rep->nfds * sizeof(int));
}

int xd_reply_write(int fd, struct xr_msg head, struct xd_reply *rep, const char *why)
{
	char control[CMSG_SPACE(XR_HELLO_MAX_FDS * sizeof(int))] = { 0 };
	struct iovec iov[2] = { { &head, sizeof(head) }, { NULL, 0 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	int err;

	if (head.status) {
		head.length = (uint32_t)strlen(why);
		iov[1] = (struct iovec){ (void *)why, head.length };
	} else if (rep) {
		head.length = rep->length;
		iov[1] = (struct iovec){ rep->body, rep->length };
		if (rep->nfds)
			attach_fds(&msg, control, rep);
	}
	err = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
	xd_reply_drop(rep);
	return err;
}
