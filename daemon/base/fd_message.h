/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages with descriptors, on SOCK_SEQPACKET sockets. */
#ifndef XD_FD_MESSAGE_H
#define XD_FD_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define XD_MESSAGE_FDS 250 /* the kernel limits a message to 253 */

/* flags: of sendmsg(2). Returns 0 or -errno. */
int xd_message_send(int sock, const void *data, size_t len, const int *fds, uint32_t n, int flags);
/* Buffers for a message; after a call, the sizes of the received message */
struct xd_message_room {
	void *data;
	size_t len; /* of the room; then of the message, which may be longer than the room */
	int *fds;
	uint32_t n; /* of descriptors */
};
/*
 * Receives a message of any length; flags: of recvmsg(2). Returns 0, -EPIPE if the other end is
 * closed, -EMFILE if descriptors were lost, -EPROTO if there are too many, or another -errno. There
 * are no descriptors after an error.
 */
int xd_message_receive_any(int sock, struct xd_message_room *room, int flags);
/*
 * Receives a message of exactly len bytes with at most *n descriptors, and sets *n to their number.
 * Returns as xd_message_receive_any(), and -EPROTO if the length is wrong.
 */
int xd_message_receive(int sock, void *data, size_t len, int *fds, uint32_t *n, int flags);
void xd_fds_close(const int *fds, uint32_t n);

#endif /* XD_FD_MESSAGE_H */
