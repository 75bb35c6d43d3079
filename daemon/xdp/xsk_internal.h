/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the files of a worker's AF_XDP sockets: xsk.c (all together), xsk_queue.c (the socket
 * of one queue), xsk_receive.c and xsk_send.c.
 */
#ifndef XD_XSK_INTERNAL_H
#define XD_XSK_INTERNAL_H

#include <linux/if_xdp.h>
#include <xdp/xsk.h>

#include "daemon/io/io.h"
#include "gso_queue.h"
#include "gso_split.h"
#include "rx_depth.h"
#include "xsk.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

#define XD_XSK_FRAME 4096u

/* ---- xsk_queue.c -------------------------------------------------------------------------- */

/* The socket of one RX queue, with the buffers that it receives into */
struct xd_xsk_queue {
	struct xsk_ring_cons rx;
	uint32_t taken; /* descriptors of received frames that the engine has now */
	uint32_t number;
	struct xsk_ring_prod fill;
	struct xd_rx_depth depth;
	uint32_t rx_frames; /* buffers to receive into */
	uint32_t rx_depth;  /* of them, those that the kernel should have; atomic */
	uint64_t *rx_spare; /* stack of those that it does not have */
	uint32_t rx_spare_count;
	uint8_t *area; /* the buffers */
	struct xsk_umem *umem;
	struct xsk_socket *xsk;
	struct xsk_ring_prod tx; /* only the first queue uses it, and its completion ring */
	struct xsk_ring_cons comp;
};

struct xd_xsk_area {
	uint8_t *at;
	uint32_t rx_frames, tx_frames;
};

/*
 * Binds a socket to a queue. Its buffers: those to receive into, then those to send from. If there
 * are none to send from, the socket does not send.
 */
int xd_xsk_queue_open(struct xd_xsk_queue *q, const struct xd_xsk_config *config, uint32_t number,
		      const struct xd_xsk_area *area);
void xd_xsk_queue_close(struct xd_xsk_queue *q);
static inline int xd_xsk_queue_fd(const struct xd_xsk_queue *q)
{
	return xsk_socket__fd(q->xsk);
}
/* Sets the number of buffers that the kernel has to receive into. */
void xd_xsk_queue_set_depth(struct xd_xsk_queue *q, uint32_t depth);
/* Gives the buffers of the taken frames back to the kernel. */
void xd_xsk_queue_give_back(struct xd_xsk_queue *q);

/* ---- all queues of a worker --------------------------------------------------------------- */

struct xd_xsk_rx {
	const struct xt_receivers *receivers;
	struct xt_receivers seen; /* those for which the queues have their depths */
	uint32_t next;		  /* index of the queue that comes first */
	uint32_t touched_count;
	uint8_t touched[XR_MAX_WORKERS]; /* indices of the queues with frames that were taken */
	struct xd_gso_frame gso;	 /* the frame that is being taken */
	struct xd_gso_headers headers[XD_BATCH];
};

struct xd_xsk_tx {
	bool multi_buffer;
	uint64_t *free; /* stack of free frames to send from */
	uint32_t free_count;
	uint32_t queued;		/* descriptors not submitted yet */
	bool stalled;			/* the kernel took none of the last descriptors */
	struct xd_gso_queue gso_queue;	/* frames behind those in the ring */
	const struct xd_gso_ways *ways; /* by which they leave it */
	int gso;			/* packet socket, -1: GSO frames are not sent; atomic */
};

struct xd_xsk {
	struct xd_socket socket; /* first */
	struct xd_xsk_queue *queue;
	uint32_t queues;
	int epoll; /* readable if a queue has frames; -1: the only socket is watched itself */
	uint8_t *area;
	size_t area_size;
	struct xd_xsk_rx rx;
	struct xd_xsk_tx tx;
	struct xd_socket_stats stats;
};

static inline struct xd_xsk *xd_xsk_of(struct xd_socket *s)
{
	return (struct xd_xsk *)s;
}

static inline const struct xd_xsk *xd_const_xsk_of(const struct xd_socket *s)
{
	return (const struct xd_xsk *)s;
}

/* ---- xsk_receive.c: struct xd_socket_ops -------------------------------------------------- */

unsigned int xd_xsk_recv(struct xd_socket *s, struct xt_frame *frames, unsigned int max,
			 uint64_t now);
void xd_xsk_recv_done(struct xd_socket *s);
bool xd_xsk_pending(struct xd_socket *s);

/* ---- xsk_send.c: struct xd_socket_ops ----------------------------------------------------- */

bool xd_xsk_tx_get(struct xd_socket *s, uint32_t len, struct xt_frame *frame);
void xd_xsk_tx_put(struct xd_socket *s, const struct xt_frame *frame);
void xd_xsk_tx_cancel(struct xd_socket *s, const struct xt_frame *frame);
void xd_xsk_tx_flush(struct xd_socket *s, bool more);
bool xd_xsk_tx_pending(const struct xd_socket *s);
bool xd_xsk_tx_stalled(const struct xd_socket *s);
bool xd_xsk_sends_gso(const struct xd_socket *s);
/* The buffers to send from are behind so many others. */
int xd_xsk_tx_init(struct xd_xsk_tx *tx, const struct xd_xsk_config *config, uint32_t behind);
void xd_xsk_tx_free(struct xd_xsk_tx *tx);

#endif /* XD_XSK_INTERNAL_H */
