/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The device that a daemon provides: the parts of lower levels that clients and objects use. */
#ifndef XD_DEVICE_H
#define XD_DEVICE_H

#include "daemon/transport/transport.h"

struct xd_dreqs;
struct xd_gsi;
struct xd_io;
struct xd_loop;
struct xd_movers;
struct xd_net;
struct xd_options;
struct xd_spawner;
struct xd_tables;
struct xd_workers;

struct xd_device {
	const struct xd_options *opt;
	struct xd_loop *loop;
	struct xd_net *net;
	struct xd_io *io;
	char io_why[256];	  /* reason for this way */
	struct xd_tables *tables; /* of io */
	struct xd_workers *workers;
	struct xd_movers *movers;
	struct xd_spawner *spawner;
	struct xd_gsi *gsi;	 /* NULL in tests: there is no connection manager */
	struct xd_dreqs *dreqs;	 /* of the helper; NULL in tests */
	uint32_t index;		 /* of xr_hello_rep and of replies of rdma_cm */
	struct xt_shared shared; /* keys, QPs, SRQs and multicast groups of all engines */
};

#endif /* XD_DEVICE_H */
