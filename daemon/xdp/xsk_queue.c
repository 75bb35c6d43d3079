// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The AF_XDP socket of one RX queue: its rings and buffers. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xsk_internal.h"

#define BIND_RETRIES 100
#define BIND_RETRY_US 10000

/* ---- buffers to receive into -------------------------------------------------------------- */

/* There is always room: the ring is twice as long as the number of frames. */
static void xsk_queue_fill(struct xd_xsk_queue *q, const uint64_t *frame, uint32_t n)
{
	uint32_t idx;

	if (!n || xsk_ring_prod__reserve(&q->fill, n, &idx) != n)
		return;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&q->fill, idx + i) = frame[i];
	xsk_ring_prod__submit(&q->fill, n);
}

void xd_xsk_queue_set_depth(struct xd_xsk_queue *q, uint32_t depth)
{
	uint32_t has = q->rx_frames - q->rx_spare_count, more;

	__atomic_store_n(&q->rx_depth, depth, __ATOMIC_RELAXED);
	if (has >= depth)
		return;
	more = depth - has;
	q->rx_spare_count -= more;
	xsk_queue_fill(q, &q->rx_spare[q->rx_spare_count], more);
}

/* Returns how many buffers the kernel has more than it should have. */
static uint32_t excess(const struct xd_xsk_queue *q)
{
	uint32_t has = q->rx_frames - q->rx_spare_count;

	return has > q->rx_depth ? has - q->rx_depth : 0;
}

/* Returns the buffer of the i-th frame that was taken; its descriptor is still in the ring. */
static uint64_t taken_buffer(const struct xd_xsk_queue *q, uint32_t i)
{
	uint32_t idx = q->rx.cached_cons - q->taken + i;

	return xsk_ring_cons__rx_desc(&q->rx, idx)->addr & ~(uint64_t)(XD_XSK_FRAME - 1);
}

void xd_xsk_queue_give_back(struct xd_xsk_queue *q)
{
	uint32_t kept = excess(q), idx, n;

	kept = kept < q->taken ? kept : q->taken;
	n = q->taken - kept;
	for (uint32_t i = 0; i < kept; i++)
		q->rx_spare[q->rx_spare_count++] = taken_buffer(q, n + i);
	if (n && xsk_ring_prod__reserve(&q->fill, n, &idx) == n) {
		for (uint32_t i = 0; i < n; i++)
			*xsk_ring_prod__fill_addr(&q->fill, idx + i) = taken_buffer(q, i);
		xsk_ring_prod__submit(&q->fill, n);
	}
	xsk_ring_cons__release(&q->rx, q->taken);
	q->taken = 0;
	if (xsk_ring_prod__needs_wakeup(&q->fill))
		recvfrom(xd_xsk_queue_fd(q), NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

/* ---- open and close ----------------------------------------------------------------------- */

static int create_umem(struct xd_xsk_queue *q, const struct xd_xsk_config *c,
		       const struct xd_xsk_area *area)
{
	struct xsk_umem_config cfg = {
		/*
		 * Twice the number of frames: the kernel delivers packets before it advances the
		 * consumer index of the fill ring.
		 */
		.fill_size = area->rx_frames * 2,
		.comp_size = c->tx_size,
		.frame_size = XD_XSK_FRAME,
	};
	uint64_t size = ((uint64_t)area->rx_frames + area->tx_frames) * XD_XSK_FRAME;
	int err = xsk_umem__create(&q->umem, area->at, size, &q->fill, &q->comp, &cfg);

	if (err)
		q->umem = NULL;
	return err;
}

static int create_socket(struct xd_xsk_queue *q, const struct xd_xsk_config *c,
			 const struct xd_xsk_area *area)
{
	struct xsk_socket_config cfg = {
		.rx_size = area->rx_frames,
		.tx_size = c->tx_size,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = (__u16)(XDP_USE_NEED_WAKEUP |
				      (c->zerocopy ? XDP_ZEROCOPY : XDP_COPY) |
				      (c->multi_buffer ? XDP_USE_SG : 0)),
	};
	int err = 0;

	for (int i = 0; i < BIND_RETRIES; i++) {
		err = xsk_socket__create(&q->xsk, c->ifname, q->number, q->umem, &q->rx,
					 area->tx_frames ? &q->tx : NULL, &cfg);
		if (err != -EBUSY)
			break;
		usleep(BIND_RETRY_US);
	}
	if (err)
		q->xsk = NULL;
	return err;
}

int xd_xsk_queue_open(struct xd_xsk_queue *q, const struct xd_xsk_config *c, uint32_t number,
		      const struct xd_xsk_area *area)
{
	uint32_t n = area->rx_frames;
	int err;

	q->number = number;
	q->area = area->at;
	xd_rx_depth_init(&q->depth, n, c->of_qp);
	q->rx_spare = calloc(n, sizeof(*q->rx_spare));
	if (!q->rx_spare)
		return -ENOMEM;
	q->rx_frames = q->rx_spare_count = n;
	for (uint32_t i = 0; i < n; i++)
		q->rx_spare[i] = (uint64_t)(n - 1 - i) * XD_XSK_FRAME;
	err = create_umem(q, c, area);
	if (!err)
		err = create_socket(q, c, area);
	if (!err)
		xd_xsk_queue_set_depth(q, n);
	return err;
}

void xd_xsk_queue_close(struct xd_xsk_queue *q)
{
	if (q->xsk)
		xsk_socket__delete(q->xsk);
	if (q->umem)
		xsk_umem__delete(q->umem);
	free(q->rx_spare);
}
