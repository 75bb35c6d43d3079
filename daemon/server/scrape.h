/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Metrics by HTTP, for Prometheus: GET /metrics at a TCP address or a unix socket (--metrics).
 * Peers may be hostile: connections, bytes, time and rate are limited. A connection beyond the
 * limit ends one of the source that has most of them. The text is made at most XD_SCRAPE_HZ times a
 * second, because that pauses each worker.
 */
#ifndef XD_SCRAPE_H
#define XD_SCRAPE_H

#include <stdint.h>
#include <sys/types.h>

#define XD_SCRAPE_PAGE "/metrics"
#define XD_SCRAPE_PEERS 8	      /* connections at a time */
#define XD_SCRAPE_PEER_NS 5000000000u /* a connection's longest time */
#define XD_SCRAPE_RATE 50	      /* connections a second */
#define XD_SCRAPE_HZ 5

struct xd_scrape;
struct xd_server;

/*
 * Opens a listening socket: address is HOST:PORT with a numeric host, [HOST]:PORT, or the path of a
 * unix socket. group: may connect, too; XD_NO_GROUP: only the user may. A socket that nobody
 * listens on is replaced. Logs errors. Returns the socket.
 */
int xd_scrape_listen(const char *address, gid_t group);
/* Serves the socket and takes it over, also after an error. -ENOMEM. */
int xd_scrape_start(struct xd_server *server, int fd, struct xd_scrape **scrape);
void xd_scrape_stop(struct xd_scrape *s); /* NULL allowed */

#endif /* XD_SCRAPE_H */
