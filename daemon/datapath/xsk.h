/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One AF_XDP socket: frames in, frames out, in batches. Not thread-safe: its
 * worker owns it.
 *
 * The umem is cut into frames of 4096 bytes. Received frames go round through
 * the fill ring; frames to be sent come from a stack, the one used last first,
 * so that they stay in the cache. A packet that does not fit one frame is a chain of
 * descriptors (XDP_USE_SG, kernel 6.6).
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
	uint32_t ring_size; /* descriptors of each ring, a power of two */
	bool zerocopy;
	bool multi_buffer;
};

struct xd_xsk_stats {
	uint64_t tx_kicks;		      /* system calls to send */
	uint64_t tx_full;		      /* no room for a frame */
	uint64_t rx_too_long;		      /* more pieces than a packet of ours can have */
	uint64_t rx_ring_full, rx_fill_empty; /* lost in the kernel */
};

/* True where the kernel has multi-buffer AF_XDP. */
bool xd_xsk_multi_buffer_possible(void);

/* -EBUSY right after another owner died: retried for a second. */
int xd_xsk_open(struct xd_xsk **xsk, const struct xd_xsk_config *config);
void xd_xsk_close(struct xd_xsk *xsk);
int xd_xsk_fd(const struct xd_xsk *xsk);

/*
 * Up to max received packets. Their bytes stay valid until xd_xsk_recv_done(), which
 * gives them back to the kernel; it must follow each call that returned not 0.
 */
unsigned int xd_xsk_recv(struct xd_xsk *xsk, struct xt_frame *frames, unsigned int max);
void xd_xsk_recv_done(struct xd_xsk *xsk);
/* Something is there to be received. */
bool xd_xsk_pending(struct xd_xsk *xsk);

/* struct xt_ops: room for a frame; send it, or give it back unsent. */
bool xd_xsk_tx_get(struct xd_xsk *xsk, uint32_t len, struct xt_frame *frame);
void xd_xsk_tx_put(struct xd_xsk *xsk, const struct xt_frame *frame);
void xd_xsk_tx_cancel(struct xd_xsk *xsk, const struct xt_frame *frame);
/* Hands over what was put since the last call, and collects what has been sent. */
void xd_xsk_tx_flush(struct xd_xsk *xsk);
/* Frames that the kernel has not taken yet: flush again soon. */
bool xd_xsk_tx_pending(const struct xd_xsk *xsk);

void xd_xsk_stats(const struct xd_xsk *xsk, struct xd_xsk_stats *stats);

#endif /* XD_XSK_H */
