/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Grace periods. Workers look up entries of shared tables (keys, numbers of QPs and SRQs, address
 * handles, multicast groups) within a round, and keep no pointer to one beyond it. The control
 * thread frees an entry without stopping them:
 *
 *   it makes the entry unreachable for lookups, and takes a mark,
 *   it, or a job, waits until every round that was running then has ended,
 *   nothing uses the entry any more.
 *
 * A worker that sleeps is in no round, so nobody waits for it. This is the quiescent-state based
 * form of RCU.
 */
#ifndef XD_GRACE_H
#define XD_GRACE_H

#include <stdbool.h>
#include <stdint.h>

struct xd_workers;

/* Returns a mark behind all that the calling thread has changed before. */
uint64_t xd_grace_mark(struct xd_workers *ws);
/* Returns true if every round that was running at the mark has ended, as far as is known. */
bool xd_grace_over(struct xd_workers *ws, uint64_t mark);
/*
 * Waits until they have ended. One period ends the waits for all marks that were taken before it
 * began, so a thousand keys that are freed together cost few periods. Not in a pause of a worker.
 */
void xd_grace_wait(struct xd_workers *ws, uint64_t mark);
/*
 * Waits until every round that is running now has ended, as synchronize_rcu() of Linux does. For
 * the control thread
 */
void xd_grace_synchronize(struct xd_workers *ws);

#endif /* XD_GRACE_H */
