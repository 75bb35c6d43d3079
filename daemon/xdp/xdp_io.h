/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The way of packets through an XDP program and AF_XDP sockets, of which a worker has several. */
#ifndef XD_XDP_IO_H
#define XD_XDP_IO_H

struct xd_helper;
struct xd_io;
struct xd_link;
struct xd_options;

struct xd_xdp_io_config {
	const struct xd_options *opt;
	const struct xd_link *link;
	struct xd_helper *helper; /* steers packets to the queues that are served */
};

/* Loads the program and pins the maps. Logs errors. */
int xd_xdp_io_new(const struct xd_xdp_io_config *config, struct xd_io **io);

#endif /* XD_XDP_IO_H */
