/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Empty polls: a program that spins lets the daemon or a local peer have the processor, by a yield
 * or, if nap.h finds that this costs no latency, by a nap.
 */
#ifndef XP_CQ_PAUSE_H
#define XP_CQ_PAUSE_H

#include "provider/verbs/cq.h"

/* The pause after an empty poll */
struct xp_pause {
	bool yield;   /* false: no pause */
	uint64_t now; /* end of the poll; 0: it is not timed */
	uint32_t nap; /* time to sleep in ns, or 0 */
};

/* Returns true if the process may use few processors. The first call decides. */
bool xp_few_cpus(void);
/*
 * Returns what to do after an empty poll. Needs cq->lock. Without a nap the program yields: if the
 * process may use few processors, after each empty poll; otherwise after many in a row. It neither
 * yields nor naps while other threads may wait for a lock that it holds (others.h).
 */
struct xp_pause xp_pause_due(struct xp_cq *cq);
/* Does it, without cq->lock. */
void xp_pause(struct xp_cq *cq, const struct xp_pause *p);

/* Reports that a poll has found completions. */
void xp_poll_found(struct xp_cq *cq);

#endif /* XP_CQ_PAUSE_H */
