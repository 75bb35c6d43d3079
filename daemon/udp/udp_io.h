/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way of packets through UDP sockets, which needs no privilege and works on any interface: a
 * socket on port 4791 for each worker, in one SO_REUSEPORT group, and some to send from. If packets
 * pass through other interfaces, a worker has a socket for each address instead.
 */
#ifndef XD_UDP_IO_H
#define XD_UDP_IO_H

#include <stdint.h>

struct xd_helper;
struct xd_io;
struct xd_link;
struct xd_loop;
struct xd_net;
struct xd_options;

struct xd_udp_io_config {
	const struct xd_options *opt;
	const struct xd_link *link;
	const struct xd_net *net; /* for its addresses */
	struct xd_helper *helper;
	struct xd_loop *loop;
};

/* Logs errors: -EADDRINUSE if something else receives on port 4791 of the interface. */
int xd_udp_io_new(const struct xd_udp_io_config *config, struct xd_io **io);

#endif /* XD_UDP_IO_H */
