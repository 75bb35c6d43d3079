/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * File descriptors in messages of UNIX sockets (unix(7), cmsg(3))
 */
#ifndef XR_TEST_FDS_H
#define XR_TEST_FDS_H

#include <string.h>
#include <sys/socket.h>

/*
 * Attaches @n descriptors to @msg. @control must have CMSG_SPACE() bytes for them, be zero and stay
 * valid until the message is sent.
 */
static inline void attach_fds(struct msghdr *msg, void *control, const int *fds, size_t n)
{
	struct cmsghdr *cmsg;

	if (!n)
		return;
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(n * sizeof(int));
	cmsg = CMSG_FIRSTHDR(msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
}

/*
 * Copies the descriptors received with @msg to @fds, which must have room for as many as fit into
 * its control buffer. Returns their number.
 */
static inline size_t received_fds(struct msghdr *msg, int *fds)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	size_t n;

	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(cmsg), n * sizeof(int));
	return n;
}

#endif /* XR_TEST_FDS_H */
