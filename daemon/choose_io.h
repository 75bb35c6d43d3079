/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Chooses the way of packets: --io auto. */
#ifndef XD_CHOOSE_IO_H
#define XD_CHOOSE_IO_H

#include <stddef.h>

#include "daemon/base/options.h"
#include "daemon/netdev/net.h"

/* Returns XD_IO_XDP or XD_IO_SOCKET, and the reason as text. */
enum xd_io_option xd_choose_io(const struct xd_options *opt, char *why, size_t size);
/* Packets pass through other interfaces if UDP sockets are bound to addresses (--bind). */
enum xd_net_way xd_choose_way(const struct xd_options *opt, enum xd_io_option io);

#endif /* XD_CHOOSE_IO_H */
