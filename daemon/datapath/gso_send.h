/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends several packets in one GSO frame, through a packet socket (packet(7), PACKET_VNET_HDR;
 * Linux 6.2): AF_XDP has no GSO. docs/gso.md describes GSO frames.
 *
 * A run is a sequence of frames that can be sent as one: they have the same headers up to the
 * destination QP, apart from what the kernel's UDP segmentation sets in each packet, and the same
 * length, except that the last one may be shorter. Not thread-safe.
 */
#ifndef XD_GSO_SEND_H
#define XD_GSO_SEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "daemon/transport/transport.h"

/* Frames of a run at most, each with at most two segments */
#define XD_GSO_RUN 64

struct xd_gso_run {
	struct xt_frame frame[XD_GSO_RUN];
	uint32_t count;
	uint32_t size;	/* bytes behind the UDP header of each frame but the last */
	uint32_t total; /* of all frames */
	bool ended;	/* the last frame is shorter */
};

/* Adds a frame, whose buffers stay as they are. Returns false if it does not continue the run. */
bool xd_gso_run_add(struct xd_gso_run *run, const struct xt_frame *frame);
/* Returns true if the run is worth a system call of its own. */
bool xd_gso_run_is_long(const struct xd_gso_run *run);

/* Messages that are sent at once, at most */
#define XD_GSO_MESSAGES 4

/* A run as one message of a packet socket */
struct xd_gso_message {
	/* struct virtio_net_hdr, without padding, and the headers up to UDP */
	uint8_t headers[10 + XT_MAX_HEADERS];
	struct iovec iov[1 + 2 * XD_GSO_RUN];
	uint32_t iovs;
};

/* Describes a run of at least two frames. */
void xd_gso_run_message(const struct xd_gso_run *run, struct xd_gso_message *message);

/* Opens a packet socket that receives nothing. Returns a descriptor or a negative error. */
int xd_gso_open(const char *ifname);
/*
 * Sends up to XD_GSO_MESSAGES messages without waiting. Returns the number of those that were sent,
 * or a negative error if none was.
 */
int xd_gso_send(int fd, struct xd_gso_message *messages, uint32_t n);

#endif /* XD_GSO_SEND_H */
