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
 * Blocks SIGINT and SIGTERM, and ignores SIGPIPE. Comes before the sockets are opened: the path of
 * a unix socket would stay if a signal ended the process in between.
 */
void xd_serve_block_signals(void);

/*
 * Serves the listening sockets, and takes them over, until SIGINT or SIGTERM, which are blocked.
 * path: of a unix socket, to be removed at the end; NULL: none. Returns 0 or -errno, -E2BIG if
 * there are more sockets than XD_SCRAPE_SOCKETS.
 */
int xd_serve_metrics(const int *fds, uint32_t n, const char *path, xd_scrape_collect *collect,
		     void *arg);

#endif /* XD_EXPORTER_SERVE_H */
