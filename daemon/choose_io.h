/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Chooses the way of packets: --io auto. */
#ifndef XD_CHOOSE_IO_H
#define XD_CHOOSE_IO_H

#include <stddef.h>

#include "daemon/base/options.h"

/* Returns XD_IO_XDP or XD_IO_SOCKET, and the reason as text. */
enum xd_io_option xd_choose_io(const struct xd_options *opt, char *why, size_t size);

#endif /* XD_CHOOSE_IO_H */
