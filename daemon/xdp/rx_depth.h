/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The number of buffers that the kernel may receive into. It uses them in turn, so each of them
 * leaves the cache before its next use if there are many: on an Intel Xeon, a WRITE of 64 KiB took
 * a fifth longer with 2048 buffers of 4 KiB than with 512. With too few, packets are dropped while
 * the worker waits for a processor.
 *
 * So the kernel has as many as the peers of reliable QPs fill, because their windows bound what is
 * in flight. It has all of them if a QP is unreliable, and for a second after many packets waited:
 * a peer may have larger windows than xroce.
 */
#ifndef XD_RX_DEPTH_H
#define XD_RX_DEPTH_H

#include <stdint.h>

#include "daemon/transport/transport.h"

#define XD_RX_DEPTH_DEEP_NS 1000000000u

struct xd_rx_depth {
	uint32_t most;	     /* buffers of the socket */
	uint32_t of_qp;	     /* buffers that the packets fill that are in flight to one QP */
	uint64_t deep_until; /* all buffers are used until then, in ns */
};

void xd_rx_depth_init(struct xd_rx_depth *d, uint32_t most, uint32_t of_qp);
/* Returns how many buffers the kernel should have. waiting: those that it has filled */
uint32_t xd_rx_depth(struct xd_rx_depth *d, const struct xt_receivers *r, uint32_t waiting,
		     uint64_t now);

#endif /* XD_RX_DEPTH_H */
