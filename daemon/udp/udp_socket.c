// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* UDP sockets of a worker as struct xd_socket. */
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/io/count.h"
#include "daemon/io/verdict.h"
#include "udp.h"

static void close_descriptors(struct xd_udp *u)
{
	for (uint32_t i = 0; i < u->rx_fds; i++)
		if (u->rx_fd[i] != u->socket.fd)
			close(u->rx_fd[i]);
	for (uint32_t i = 0; i < XD_UDP_PORTS; i++)
		if (u->tx.fd[i] >= 0)
			close(u->tx.fd[i]);
}

static void udp_close_socket(struct xd_socket *s)
{
	struct xd_udp *u = xd_udp_of(s);

	if (u->calls)
		u->calls->close(u->calls_arg);
	else
		close_descriptors(u);
	if (s->fd >= 0)
		close(s->fd);
	xd_verdict_free(u->verdict);
	xd_udp_rx_free(u);
	xd_udp_tx_free(u);
	free(u);
}

static bool tx_pending(const struct xd_socket *s)
{
	return xd_const_udp_of(s)->tx.unsent;
}

static bool tx_stalled(const struct xd_socket *s)
{
	return xd_const_udp_of(s)->tx.stalled;
}

static bool sends_gso(const struct xd_socket *s)
{
	return __atomic_load_n(&xd_const_udp_of(s)->tx.joins, __ATOMIC_RELAXED);
}

/* Returns how many datagrams the kernel has dropped because the buffer was full. */
static uint64_t dropped_of(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(info);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len))
		return 0;
	return info[SK_MEMINFO_DROPS];
}

static uint64_t udp_socket_dropped(const struct xd_udp *u)
{
	uint64_t n = u->dropped_before;

	for (uint32_t i = 0; i < u->rx_fds; i++)
		n += dropped_of(u->calls ? -1 : u->rx_fd[i]);
	return n;
}

static void udp_socket_read_stats(const struct xd_socket *s, struct xd_socket_stats *stats)
{
	const struct xd_udp *u = xd_const_udp_of(s);

	*stats = (struct xd_socket_stats){
		.tx_kicks = xd_counted(&u->stats.tx_kicks),
		.tx_full = xd_counted(&u->stats.tx_full),
		.tx_refused = xd_counted(&u->stats.tx_refused),
		.tx_by_memory = xd_counted(&u->stats.tx_by_memory),
		.tx_gso_frames = xd_counted(&u->stats.tx_gso_frames),
		.tx_gso_packets = xd_counted(&u->stats.tx_gso_packets),
		.rx_gso_frames = xd_counted(&u->stats.rx_gso_frames),
		.rx_gso_packets = xd_counted(&u->stats.rx_gso_packets),
		.rx_ring_full = udp_socket_dropped(u),
	};
}

static const struct xd_socket_ops udp_ops = {
	.close = udp_close_socket,
	.recv = xd_udp_recv,
	.recv_done = xd_udp_recv_done,
	.pending = xd_udp_rx_pending,
	.tx_get = xd_udp_tx_get,
	.tx_put = xd_udp_tx_put,
	.tx_cancel = xd_udp_tx_cancel,
	.tx_flush = xd_udp_tx_flush,
	.tx_pending = tx_pending,
	.tx_stalled = tx_stalled,
	.sends_gso = sends_gso,
	.stats = udp_socket_read_stats,
	.kernel_headers = true,
};

struct xd_udp *xd_udp_new(bool ipv6, const uint8_t *mac, bool joins)
{
	struct xd_udp *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->socket.ops = &udp_ops;
	u->socket.fd = -1;
	u->ipv6 = ipv6;
	u->tx.joins = joins;
	memcpy(u->mac, mac, sizeof(u->mac));
	for (uint32_t i = 0; i < XD_UDP_PORTS; i++)
		u->tx.fd[i] = -1;
	return u;
}

int xd_udp_remove_rx(struct xd_udp *u, uint32_t index)
{
	int fd = u->rx_fd[index];

	u->dropped_before += dropped_of(fd);
	u->rx_fd[index] = u->rx_fd[--u->rx_fds];
	return fd;
}
