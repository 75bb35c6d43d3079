/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Metrics by HTTP, for Prometheus: GET /metrics at listening sockets. Peers may be hostile:
 * connections, bytes, time and rate are limited. A connection beyond the limit ends one of the
 * source that has most of them. The text is collected at most XD_SCRAPE_HZ times a second, because
 * that pauses each worker of a daemon.
 */
#ifndef XD_SCRAPE_H
#define XD_SCRAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XD_SCRAPE_PAGE "/metrics"
#define XD_SCRAPE_SOCKETS 8	      /* listening sockets */
#define XD_SCRAPE_PEERS 8	      /* connections at a time */
#define XD_SCRAPE_PEER_NS 5000000000u /* a connection's longest time */
#define XD_SCRAPE_RATE 50	      /* connections a second */
#define XD_SCRAPE_HZ 5

struct xd_loop;
struct xd_scrape;

/*
 * Collects the metrics. Stores a text, which the caller frees, or NULL without memory. Returns true
 * if the text has metrics; false if there are none: then it tells why, for a person. Peers wait
 * meanwhile.
 */
typedef bool xd_scrape_collect(void *arg, char **text);

/* Returns a server without sockets, NULL without memory. */
struct xd_scrape *xd_scrape_new(struct xd_loop *loop, xd_scrape_collect *collect, void *arg);
/*
 * Serves a listening socket that does not block, and takes it over, also after an error. -ENOMEM;
 * -E2BIG: there are XD_SCRAPE_SOCKETS already.
 */
int xd_scrape_add(struct xd_scrape *s, int fd);
void xd_scrape_free(struct xd_scrape *s); /* NULL allowed */

#endif /* XD_SCRAPE_H */
