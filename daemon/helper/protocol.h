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
	/*
	 * A loan by RING has ended: the socket that received leaves its group and its interface, so
	 * that the last one of the group takes its place. Descriptor: a socket for the reply.
	 */
	XD_HELPER_REPLACE,
	XD_HELPER_ENLARGE, /* set the receive buffer of the UDP socket that comes along */

	/* By a ticket. The reply has a descriptor if its status is 0. */
	XD_HELPER_OPEN_MAPPED, /* the file of a shared mapping */
	/*
	 * Give the program the use of sockets by an io_uring that it has. No descriptor in the
	 * reply. Descriptors: the one that receives, which the helper keeps until REPLACE or the
	 * end, and those that send.
	 */
	XD_HELPER_RING,
};

#define XD_HELPER_SLOTS 64 /* sockets of RING that the helper keeps at a time */
#define XD_RING_FILES 9	   /* most descriptors of RING */
/* Most bytes of a receive buffer */
#define XD_HELPER_MOST_BYTES (8u << 20)

enum xd_helper_take_fds { XD_TAKE_LISTEN, XD_TAKE_LOCK, XD_TAKE_PINS, XD_TAKE_FDS };

struct xd_helper_request {
	uint32_t op;
	uint32_t write;			 /* OPEN_MAPPED */
	uint64_t start, end, dev, inode; /* OPEN_MAPPED: the mapping */
	uint32_t ifindex, family;	 /* SOLICIT */
	uint8_t local, mac[6]; /* SOLICIT: whether another interface of this host has it, its MAC */
	uint8_t addr[16];
	uint32_t served, queues; /* STEER */
	uint32_t slot;		 /* RING, REPLACE: less than XD_HELPER_SLOTS */
	uint32_t ring;		 /* RING: number of the descriptor in the program */
	uint32_t bytes;		 /* ENLARGE */
};

/* Steps of RING, the one that failed */
enum xd_ring_step {
	XD_RING_PREPARE,  /* by the helper itself */
	XD_RING_NETWORK,  /* the program has the network namespace of the helper */
	XD_RING_TAKE,	  /* pidfd_getfd() */
	XD_RING_RESTRICT, /* EOPNOTSUPP: it is no io_uring; EBADFD: enabled; EBUSY: restricted */
	XD_RING_REGISTER, /* EBUSY: it has files */
	XD_RING_ENABLE,
};

struct xd_helper_reply {
	int32_t status; /* 0 or -errno */
	uint32_t step;	/* RING, after an error: enum xd_ring_step */
};

/* From the helper: a program has connected. */
struct xd_helper_arrival {
	int32_t status; /* 0, or -EMFILE: only the connection, to be refused */
};
enum { XD_ARRIVAL_CONNECTION, XD_ARRIVAL_TICKET, XD_ARRIVAL_FDS };

#endif /* XD_HELPER_PROTOCOL_H */
