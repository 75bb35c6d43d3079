/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker's AF_XDP socket.
 *
 * The umem is divided into frames of 4096 bytes. Received frames return to the kernel through the
 * fill ring, as many as it should have (rx_depth.h). Frames to be sent are taken from a stack, the
 * last used first, as that one is likely in the cache. A packet that does not fit into one frame is
 * a chain of descriptors (XDP_USE_SG, Linux 6.6).
 *
 * Packets of one flow that are sent together become GSO frames if config.gso is set, and received
 * GSO frames become packets (docs/gso.md).
 */
#ifndef XD_XSK_H
#define XD_XSK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/io/io.h"

struct xd_xsk_config {
	const char *ifname;
	uint32_t queue;
	uint32_t rx_size, tx_size; /* descriptors of the rings, powers of two */
	bool zerocopy;
	bool multi_buffer;
	bool gso; /* send GSO frames; without zerocopy */
	const struct xt_receivers *receivers;
	uint32_t of_qp; /* frames in flight to one QP, see rx_depth.h */
};

/* Returns true if the kernel has multi-buffer AF_XDP. */
bool xd_xsk_multi_buffer_possible(void);

/*
 * Binds a socket to an RX queue. Retries for a second after -EBUSY: the queue of a process that
 * was killed is released late.
 */
int xd_xsk_open(struct xd_socket **socket, const struct xd_xsk_config *config);

#endif /* XD_XSK_H */
