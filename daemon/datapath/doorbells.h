/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The worker's side of doorbells (include/xroce/ring.h): finds the QPs whose doorbells were rung. A
 * client can write anything into the shared words; bits of slots without a QP are ignored.
 *
 * Only doorbells with QPs are watched, so that a client without QPs cannot wake the worker. A
 * watched doorbell is polled, armed or both. The worker scans polled doorbells in each round. The
 * client of an armed doorbell writes to its eventfd after ringing, and the worker finds the eventfd
 * by epoll. A doorbell is polled from its first ring on, until no new work request has come for
 * XD_DOORBELL_QUIET_NS. So a round costs nothing for doorbells that are not rung, and a client that
 * sets bits without posting anything is not polled for more than a round.
 *
 * All functions need the worker's lock.
 */
#ifndef XD_DOORBELLS_H
#define XD_DOORBELLS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

/* Limit of one scan of all polled doorbells, in words and slots that are examined */
#define XD_DOORBELL_STEPS 512
/* Steps that each doorbell may use in a scan however many are polled */
#define XD_DOORBELL_MIN_STEPS 16
/* Doorbells that one xd_doorbells_collect() finds */
#define XD_DOORBELL_COLLECT 8
#define XD_DOORBELL_QUIET_NS 1000000u

/* The doorbells of one worker */
struct xd_doorbell_list {
	struct xt_list polled;
	unsigned int polled_count, count; /* count: watched ones */
	int epoll; /* watches the eventfds, edge-triggered; data.ptr is the doorbell */
};

/* Returns true if the QP had new work requests. */
typedef bool (*xd_ring_fn)(struct xt_qp *qp, void *arg);

void xd_doorbells_init(struct xd_doorbell_list *l, int epoll);
/* Returns -errno if the eventfd cannot be watched. */
int xd_doorbell_watch(struct xd_doorbell_list *l, struct xd_doorbell *d);
/* Does nothing if the doorbell is not watched. */
void xd_doorbell_unwatch(struct xd_doorbell_list *l, struct xd_doorbell *d);

/*
 * Clears bits of polled doorbells and calls ring() for the QP of each. A client that has set more
 * bits than its share of XD_DOORBELL_STEPS continues in the next scan. Returns true if QPs had new
 * work requests or bits are left.
 */
bool xd_doorbells_scan(struct xd_doorbell_list *l, uint64_t now, xd_ring_fn ring, void *arg);

/* Returns true if there are watched doorbells that only xd_doorbells_collect() finds. */
static inline bool xd_doorbells_unpolled(const struct xd_doorbell_list *l)
{
	return l->polled_count < l->count;
}
/*
 * Polls the watched doorbells whose eventfds were written, some at a time. Returns true if epoll
 * reports another descriptor, whose data.ptr is NULL.
 */
bool xd_doorbells_collect(struct xd_doorbell_list *l);

/*
 * Announces that the worker will sleep: from now on each client that rings writes to its eventfd.
 * Returns false if a bit is set already.
 */
bool xd_doorbells_arm(struct xd_doorbell_list *l);
/* Ends the announcement. slept: duration of the sleep in ns, which does not count as quiet. */
void xd_doorbells_disarm(struct xd_doorbell_list *l, uint64_t slept);

#endif /* XD_DOORBELLS_H */
