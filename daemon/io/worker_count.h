/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many workers a device has, whatever the way of packets. */
#ifndef XD_WORKER_COUNT_H
#define XD_WORKER_COUNT_H

#include <stdint.h>

struct xd_options;

/*
 * Returns --workers, or as many as the machine runs well: one for two processors, at most 4. The
 * other processors are for the programs, whose threads are as busy.
 */
uint32_t xd_io_worker_count(const struct xd_options *opt);

#endif /* XD_WORKER_COUNT_H */
