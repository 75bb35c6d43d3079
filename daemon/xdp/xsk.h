/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker's AF_XDP sockets, one for each RX queue that it serves, as one struct xd_socket.
 *
 * Each has a umem of its own, divided into frames of 4096 bytes. Received frames return to the
 * kernel through the fill ring, as many as it should have (rx_depth.h). Packets leave by the socket
 * of the first queue. Frames to be sent are taken from a stack, the last used first, as that one is
 * likely in the cache. A packet that does not fit into one frame is a chain of descriptors
 * (XDP_USE_SG, Linux 6.6).
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
	struct xd_queues queues;
	uint32_t rx_size, tx_size; /* descriptors of the rings, powers of two; of one queue alone */
	bool zerocopy;
	bool multi_buffer;
	bool gso;     /* send GSO frames; without zerocopy */
	bool gso_all; /* single packets by the same way */
	const struct xt_receivers *receivers;
	uint32_t of_qp; /* frames in flight to one QP, see rx_depth.h */
};

/* Returns the number of the worker's i-th queue. */
static inline uint32_t xd_xsk_queue_number(const struct xd_xsk_config *c, uint32_t i)
{
	return c->queues.first + i * c->queues.step;
}

/* Returns true if the kernel has multi-buffer AF_XDP. */
bool xd_xsk_multi_buffer_possible(void);

/*
 * Returns how many frames each of so many queues of a worker receives into: rx_size if they are
 * few, so that their memory does not grow with their number.
 */
uint32_t xd_xsk_queue_frames(uint32_t rx_size, uint32_t queues);

/*
 * Binds a socket to each queue. Retries for a second after -EBUSY: the queue of a process that
 * was killed is released late. *queue: the one that was bound last, or could not be
 */
int xd_xsk_open(struct xd_socket **socket, const struct xd_xsk_config *config, uint32_t *queue);
/* Returns the socket of the worker's i-th queue. */
int xd_xsk_fd(const struct xd_socket *s, uint32_t i);

#endif /* XD_XSK_H */
