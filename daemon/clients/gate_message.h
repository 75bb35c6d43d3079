/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages from the gate to the daemon, which sends one byte for each request to receive. */
#ifndef XD_GATE_MESSAGE_H
#define XD_GATE_MESSAGE_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <xroce/control.h>

struct xd_gate_message {
	int32_t length; /* of data; 0: the connection is closed; negative: errno */
	uint8_t data[XR_MSG_MAX];
};

union xd_gate_control {
	char buf[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))];
	struct cmsghdr align;
};

/* Copies the descriptors of a received message; returns their number. */
static inline uint32_t xd_received_fds(struct msghdr *msg, int fds[XR_MSG_MAX_FDS])
{
	struct cmsghdr *cmsg;
	uint32_t n = 0, i, count;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count && n < XR_MSG_MAX_FDS; i++)
			memcpy(&fds[n++], CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
	}
	return n;
}

#endif /* XD_GATE_MESSAGE_H */
