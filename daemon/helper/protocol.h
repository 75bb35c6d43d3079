/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages between the daemon and its helper, the process that keeps the capabilities.
 *
 * The helper accepts the connections of programs, and reads the peer's credentials from the kernel.
 * For each connection it sends the daemon two descriptors: the connection and a ticket. A ticket is
 * a socket to the helper that stands for the program. Requests that concern a process are made by
 * its ticket, so the daemon cannot name a process that has not connected. A ticket is valid until
 * the daemon closes it.
 */
#ifndef XD_HELPER_PROTOCOL_H
#define XD_HELPER_PROTOCOL_H

#include <stdint.h>

enum xd_helper_op {
	/*
	 * By the socket between daemon and helper, without replies.
	 * TAKE: the daemon has started; once. Descriptors: the listening socket, the lock of the
	 * device name, the locked directory of pinned maps if there are any.
	 */
	XD_HELPER_TAKE = 1,
	XD_HELPER_STEER,   /* steer RoCE to the first RX queues; once, before TAKE */
	XD_HELPER_SOLICIT, /* resolve a neighbour */

	/* By a ticket. The reply has a descriptor if its status is 0. */
	XD_HELPER_OPEN_MAPPED, /* the file of a shared mapping */
	XD_HELPER_XDP_SOCKET,  /* an AF_XDP socket, to pin memory */
};

enum xd_helper_take_fds { XD_TAKE_LISTEN, XD_TAKE_LOCK, XD_TAKE_PINS, XD_TAKE_FDS };

struct xd_helper_request {
	uint32_t op;
	uint32_t write;			 /* OPEN_MAPPED */
	uint64_t start, end, dev, inode; /* OPEN_MAPPED: the mapping */
	uint32_t ifindex, family;	 /* SOLICIT */
	uint8_t local, mac[6]; /* SOLICIT: whether another interface of this host has it, its MAC */
	uint8_t addr[16];
	uint32_t served, queues; /* STEER */
};

struct xd_helper_reply {
	int32_t status; /* 0 or -errno */
};

/* From the helper: a program has connected. */
struct xd_helper_arrival {
	int32_t status; /* 0, or -EMFILE: only the connection, to be refused */
};
enum { XD_ARRIVAL_CONNECTION, XD_ARRIVAL_TICKET, XD_ARRIVAL_FDS };

#endif /* XD_HELPER_PROTOCOL_H */
