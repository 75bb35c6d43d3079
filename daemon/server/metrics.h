/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of the device in the OpenMetrics text format; docs/metrics.md has the names. */
#ifndef XD_METRICS_H
#define XD_METRICS_H

#include <stdbool.h>
#include <stdio.h>

struct xd_server;

/*
 * Writes all metrics to f. all: also those of each client and program, and the size of the heap,
 * which are for operators.
 */
void xd_metrics_write(FILE *f, struct xd_server *s, bool all);

#endif /* XD_METRICS_H */
