// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "xsk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/io/count.h"
#include "xsk_internal.h"

/*
 * Buffers to receive into, of a worker with several queues, as a multiple of those of one queue.
 * Most packets in flight to a worker arrive at few queues, as long as peers are few.
 */
#define SHARED_RINGS 4
/* Of a queue at least: the window of a QP, whose long packets take two (XT_TUNING_DEFAULT) */
#define LEAST_FRAMES 512

bool xd_xsk_multi_buffer_possible(void)
{
	struct sockaddr_xdp sa = { .sxdp_family = AF_XDP, .sxdp_flags = XDP_USE_SG };
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	bool possible;

	if (fd < 0)
		return false;
	/* bind() without an interface always fails, but with EINVAL if the flag is unknown */
	possible = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINVAL;
	close(fd);
	return possible;
}

uint32_t xd_xsk_queue_frames(uint32_t rx_size, uint32_t queues)
{
	uint32_t n = rx_size;

	while (n > LEAST_FRAMES && (uint64_t)n * queues > (uint64_t)rx_size * SHARED_RINGS)
		n /= 2;
	return n;
}

static void add_kernel_stats(const struct xd_xsk_queue *q, struct xd_socket_stats *stats)
{
	struct xdp_statistics k = { 0 };
	socklen_t len = sizeof(k);

	stats->rx_buffers += __atomic_load_n(&q->rx_depth, __ATOMIC_RELAXED);
	if (!getsockopt(xd_xsk_queue_fd(q), SOL_XDP, XDP_STATISTICS, &k, &len))
		stats->rx_ring_full += k.rx_ring_full + k.rx_dropped + k.rx_fill_ring_empty_descs;
}

static void xsk_read_stats(const struct xd_socket *s, struct xd_socket_stats *stats)
{
	const struct xd_xsk *x = xd_const_xsk_of(s);

	*stats = (struct xd_socket_stats){
		.rx_no_metadata = xd_counted(&x->stats.rx_no_metadata),
		.rx_too_long = xd_counted(&x->stats.rx_too_long),
		.rx_gso_frames = xd_counted(&x->stats.rx_gso_frames),
		.rx_gso_packets = xd_counted(&x->stats.rx_gso_packets),
		.rx_gso_refused = xd_counted(&x->stats.rx_gso_refused),
		.tx_full = xd_counted(&x->stats.tx_full),
		.tx_kicks = xd_counted(&x->stats.tx_kicks),
		.tx_gso_frames = xd_counted(&x->stats.tx_gso_frames),
		.tx_gso_packets = xd_counted(&x->stats.tx_gso_packets),
	};
	for (uint32_t i = 0; i < x->queues; i++)
		add_kernel_stats(&x->queue[i], stats);
}

/* ---- open and close ----------------------------------------------------------------------- */

static void close_xsk(struct xd_socket *s)
{
	struct xd_xsk *x = xd_xsk_of(s);

	xd_xsk_tx_free(&x->tx);
	for (uint32_t i = 0; i < x->queues; i++)
		xd_xsk_queue_close(&x->queue[i]);
	if (x->epoll >= 0)
		close(x->epoll);
	if (x->area)
		munmap(x->area, x->area_size);
	free(x->queue);
	free(x);
}

static const struct xd_socket_ops xsk_ops = {
	.close = close_xsk,
	.recv = xd_xsk_recv,
	.recv_done = xd_xsk_recv_done,
	.pending = xd_xsk_pending,
	.tx_get = xd_xsk_tx_get,
	.tx_put = xd_xsk_tx_put,
	.tx_cancel = xd_xsk_tx_cancel,
	.tx_flush = xd_xsk_tx_flush,
	.tx_pending = xd_xsk_tx_pending,
	.tx_stalled = xd_xsk_tx_stalled,
	.sends_gso = xd_xsk_sends_gso,
	.stats = xsk_read_stats,
};

static int map_area(struct xd_xsk *x, uint64_t frames)
{
	x->area_size = frames * XD_XSK_FRAME;
	x->area = mmap(NULL, x->area_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (x->area == MAP_FAILED) {
		x->area = NULL;
		return -ENOMEM;
	}
	madvise(x->area, x->area_size, MADV_HUGEPAGE);
	return 0;
}

/* Only the first queue has buffers to send from. */
static int open_queues(struct xd_xsk *x, const struct xd_xsk_config *c, uint32_t rx_frames)
{
	struct xd_xsk_area area = { x->area, rx_frames, c->tx_size };
	int err = 0;

	for (uint32_t i = 0; !err && i < c->queues.count; i++) {
		x->queues++;
		err = xd_xsk_queue_open(&x->queue[i], c, xd_xsk_queue_number(c, i), &area);
		area.at += ((size_t)area.rx_frames + area.tx_frames) * XD_XSK_FRAME;
		area.tx_frames = 0;
	}
	return err;
}

/* A worker waits for one descriptor, whatever the number of queues. */
static int xsk_watch(struct xd_xsk *x)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (x->queues == 1) {
		x->socket.fd = xd_xsk_queue_fd(x->queue);
		return 0;
	}
	x->socket.fd = x->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (x->epoll < 0)
		return -errno;
	for (uint32_t i = 0; i < x->queues; i++)
		if (epoll_ctl(x->epoll, EPOLL_CTL_ADD, xd_xsk_queue_fd(&x->queue[i]), &ev))
			return -errno;
	return 0;
}

static int xsk_open_all(struct xd_xsk *x, const struct xd_xsk_config *c)
{
	uint32_t rx_frames = xd_xsk_queue_frames(c->rx_size, c->queues.count);
	int err;

	x->queue = calloc(c->queues.count, sizeof(*x->queue));
	if (!x->queue)
		return -ENOMEM;
	err = map_area(x, (uint64_t)rx_frames * c->queues.count + c->tx_size);
	if (!err)
		err = open_queues(x, c, rx_frames);
	if (!err)
		err = xsk_watch(x);
	return err ? err : xd_xsk_tx_init(&x->tx, c, rx_frames);
}

int xd_xsk_open(struct xd_socket **socket, const struct xd_xsk_config *c, uint32_t *queue)
{
	struct xd_xsk *x = calloc(1, sizeof(*x));
	int err;

	if (!x)
		return -ENOMEM;
	x->socket.ops = &xsk_ops;
	x->epoll = x->tx.gso = -1;
	x->rx.receivers = c->receivers;
	x->rx.seen = (struct xt_receivers){ UINT32_MAX, UINT32_MAX };
	err = xsk_open_all(x, c);
	*queue = xd_xsk_queue_number(c, x->queues ? x->queues - 1 : 0);
	if (err)
		close_xsk(&x->socket);
	else
		*socket = &x->socket;
	return err;
}

int xd_xsk_fd(const struct xd_socket *s, uint32_t i)
{
	return xd_xsk_queue_fd(&xd_const_xsk_of(s)->queue[i]);
}
