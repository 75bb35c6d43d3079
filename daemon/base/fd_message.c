// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fd_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	char buf[CMSG_SPACE(XD_MESSAGE_FDS * sizeof(int))];
	struct cmsghdr align;
};

int xd_message_send(int sock, const void *data, size_t len, const int *fds, uint32_t n, int flags)
{
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control = { 0 };
	struct cmsghdr *cmsg;

	if (n > XD_MESSAGE_FDS)
		return -EINVAL;
	if (n) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
	}
	return sendmsg(sock, &msg, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Stores at most max descriptors, closes the others; returns their number. */
static uint32_t take_fds(struct msghdr *msg, int *fds, uint32_t max)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	uint32_t n = 0, i;
	int fd;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (uint32_t)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	for (i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
		if (i < max)
			fds[i] = fd;
		else
			close(fd);
	}
	return n;
}

int xd_message_receive_any(int sock, struct xd_message_room *room, int flags)
{
	struct iovec iov = { room->data, room->len };
	union control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	uint32_t max = room->n;
	ssize_t got;
	int err = 0;

	room->n = 0;
	do
		got = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got ? -errno : -EPIPE;
	room->len = (size_t)got;
	room->n = take_fds(&msg, room->fds, max);
	if (msg.msg_flags & MSG_CTRUNC)
		err = -EMFILE;
	else if (room->n > max)
		err = -EPROTO;
	if (err) {
		xd_fds_close(room->fds, room->n < max ? room->n : max);
		room->n = 0;
	}
	return err;
}

int xd_message_receive(int sock, void *data, size_t len, int *fds, uint32_t *n, int flags)
{
	struct xd_message_room room = { .data = data, .len = len, .fds = fds, .n = *n };
	int err = xd_message_receive_any(sock, &room, flags);

	*n = room.n;
	if (err || room.len == len)
		return err;
	xd_fds_close(fds, *n);
	*n = 0;
	return -EPROTO;
}

void xd_fds_close(const int *fds, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		close(fds[i]);
}
