/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections whose peers have to be told when the daemon has ended: a peer that only waits for a
 * message would otherwise never know. The daemon keeps the list in memory that it shares with the
 * helper, which sends a DREQ for each entry that is left (disconnect.h).
 */
#ifndef XD_DREQS_H
#define XD_DREQS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/transport/transport.h"

struct xd_dreqs;

/* What a DREQ (IBTA 12.6.10) and its headers contain. Numbers in host byte order */
struct xd_dreq {
	uint32_t local_id, remote_id; /* communication IDs */
	uint32_t remote_qpn;
	uint64_t tid;
	struct xt_path path;
};

#define XD_NO_DREQ UINT32_MAX

/* Returns a list for at most so many connections, or NULL. To be called before a fork. */
struct xd_dreqs *xd_dreqs_new(uint32_t max);
void xd_dreqs_free(struct xd_dreqs *list); /* NULL allowed */

/* In the daemon, one thread. Returns the number of the entry; XD_NO_DREQ: the list is full. */
uint32_t xd_dreqs_add(struct xd_dreqs *list, const struct xd_dreq *c);
void xd_dreqs_del(struct xd_dreqs *list, uint32_t number);

/*
 * In the helper: copies the first entry whose number is at least *number, and sets *number to that
 * of the next one. Returns false if there is none. The entry is not trusted.
 */
bool xd_dreqs_next(const struct xd_dreqs *list, uint32_t *number, struct xd_dreq *c);

#endif /* XD_DREQS_H */
