/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One AF_XDP socket. Not thread-safe: it belongs to its worker.
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

#include "daemon/transport/transport.h"

#define XD_XSK_BATCH 64

struct xd_xsk;

struct xd_xsk_config {
	const char *ifname;
	uint32_t queue;
	uint32_t rx_size, tx_size; /* descriptors of the rings, powers of two */
	bool zerocopy;
	bool multi_buffer;
	bool gso; /* send GSO frames; without zerocopy */
};

struct xd_xsk_stats {
	uint64_t tx_kicks;			/* system calls to send */
	uint64_t tx_full;			/* no frame or descriptor free to send */
	uint64_t tx_gso_frames, tx_gso_packets; /* sent, and the packets in them */
	uint64_t rx_gso_frames, rx_gso_packets; /* received, and the packets in them */
	uint64_t rx_gso_refused; /* packets in received GSO frames that were left out */
	uint64_t rx_too_long;	 /* frames of too many descriptors or packets */
	uint64_t rx_no_metadata; /* frames that did not come from the XDP program of xroce */
	uint64_t rx_ring_full, rx_fill_empty; /* dropped by the kernel */
	uint32_t rx_depth;		      /* buffers that the kernel has to receive into */
};

/* Returns true if the kernel has multi-buffer AF_XDP. */
bool xd_xsk_multi_buffer_possible(void);

/*
 * Binds a socket to an RX queue. Retries for a second after -EBUSY: the queue of a process that
 * was killed is released late.
 */
int xd_xsk_open(struct xd_xsk **xsk, const struct xd_xsk_config *config);
void xd_xsk_close(struct xd_xsk *xsk); /* NULL allowed */
int xd_xsk_fd(const struct xd_xsk *xsk);
/* Returns true if GSO frames are sent; once they failed, they are not. Any thread. */
bool xd_xsk_sends_gso(const struct xd_xsk *xsk);

/*
 * Receives up to max packets with their metadata. The frames are valid until xd_xsk_recv_done(),
 * which returns them to the kernel and must follow each call that returned more than 0.
 */
unsigned int xd_xsk_recv(struct xd_xsk *xsk, struct xt_frame *frames, unsigned int max);
void xd_xsk_recv_done(struct xd_xsk *xsk);
/* Returns true if there is something to receive. */
bool xd_xsk_pending(struct xd_xsk *xsk);
/* Returns the number of buffers that the kernel has filled and xd_xsk_recv() has not taken. */
uint32_t xd_xsk_waiting(const struct xd_xsk *xsk);
/* Sets the number of buffers that the kernel has to receive into: 1..rx_size, at first rx_size. */
void xd_xsk_set_rx_depth(struct xd_xsk *xsk, uint32_t depth);

/*
 * Takes buffers for a packet of len bytes, whose payload starts at frame->meta.payload_off. Returns
 * false if none are free. Then put or cancel it.
 */
bool xd_xsk_tx_get(struct xd_xsk *xsk, uint32_t len, struct xt_frame *frame);
void xd_xsk_tx_put(struct xd_xsk *xsk, const struct xt_frame *frame);
void xd_xsk_tx_cancel(struct xd_xsk *xsk, const struct xt_frame *frame);
/*
 * Submits the packets put since the last call, and reclaims the frames of packets sent. more: it is
 * called again at once, so packets that do not fill a GSO frame may wait for those of that time.
 */
void xd_xsk_tx_flush(struct xd_xsk *xsk, bool more);
/* Returns true if the kernel has not taken all packets yet: flush again soon. */
bool xd_xsk_tx_pending(const struct xd_xsk *xsk);
/*
 * Returns true if the last flush moved nothing, although there were packets. In copy mode the
 * packets that a receiver has not taken yet fill the send buffer of the socket (EAGAIN).
 */
bool xd_xsk_tx_stalled(const struct xd_xsk *xsk);

/* Any thread. */
void xd_xsk_stats(const struct xd_xsk *xsk, struct xd_xsk_stats *stats);

#endif /* XD_XSK_H */
