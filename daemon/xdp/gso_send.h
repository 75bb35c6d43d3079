/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends several packets in one GSO frame, through a packet socket (packet(7), PACKET_VNET_HDR;
 * Linux 6.2): AF_XDP has no GSO. docs/gso.md describes GSO frames. Not thread-safe.
 */
#ifndef XD_GSO_SEND_H
#define XD_GSO_SEND_H

#include <stdint.h>
#include <sys/uio.h>

#include "gso_queue.h"

/* A run as one message of a packet socket */
struct xd_gso_message {
	/* struct virtio_net_hdr, without padding, and the headers up to UDP */
	uint8_t headers[10 + XT_MAX_HEADERS];
	struct iovec iov[1 + 2 * XD_GSO_RUN];
	uint32_t iovs;
};

/* Describes a run; a single frame is sent as it is. */
void xd_gso_run_message(const struct xd_gso_run *run, struct xd_gso_message *message);

/* Opens a packet socket that receives nothing. Returns a descriptor or a negative error. */
int xd_gso_open(const char *ifname);
/*
 * Sends up to XD_GSO_RUNS runs without waiting. Returns the number of those that were sent, or a
 * negative error if none was.
 */
int xd_gso_send(int fd, const struct xd_gso_run *runs, uint32_t n);

#endif /* XD_GSO_SEND_H */
