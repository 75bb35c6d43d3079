/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The service that answers HTTP requests for metrics, a program of its own:
 *
 *   serve.c   its event loop and its end
 *   listen.c  listening sockets
 *   scrape.c  connections and their limits
 *   http.c    requests
 */
#ifndef XD_EXPORTER_SERVE_H
#define XD_EXPORTER_SERVE_H

#include "scrape.h"

/*
 * Serves the listening sockets, and takes them over, until SIGINT or SIGTERM. Returns 0 or -errno,
 * -E2BIG if there are more than XD_SCRAPE_SOCKETS.
 */
int xd_serve_metrics(const int *fds, uint32_t n, xd_scrape_collect *collect, void *arg);

#endif /* XD_EXPORTER_SERVE_H */
