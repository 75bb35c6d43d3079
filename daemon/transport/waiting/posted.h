/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Posted writes: accesses of the responder or the requester that have not ended, in the order of
 * PSNs (memory/put.h).
 *
 * The responder accepts a request before its data is in memory if only the ACK depends on that, or
 * a receive of the QP's own queue. An ACK covers only requests whose data is in memory, and a
 * receive completes when all data up to its end is. NAKs and all other completions wait until no
 * write is posted, and so do responses to later READs and atomics. If a posted write fails, the
 * responder refuses its request. An atomic is posted likewise, and its result is that of the
 * response.
 *
 * The requester posts the writes of READ responses. A READ is retired when all its responses have
 * arrived, and the peer's answers to later requests are processed. But the READ and all behind it
 * complete when its data is in memory. An answer that makes a later request fail waits until then.
 *
 * Writes of a UD datagram are posted likewise; UD has no expected PSN, so xt_responder.epsn counts
 * datagrams.
 */
#ifndef XT_POSTED_H
#define XT_POSTED_H

#include "waiting.h"

/* Returns true if writes of that side are posted. */
static inline bool xt_posted(const struct xt_accesses *a, enum xt_qp_side side)
{
	return __builtin_expect(a->busy, false) && !xt_list_empty(&a->posted[side]);
}

/* Returns the PSN of the first of them. */
static inline uint32_t xt_posted_first(const struct xt_accesses *a, enum xt_qp_side side)
{
	return XT_IO_OF(a->posted[side].next)->psn;
}

/* Returns the number of the messages before the first one of the responder. */
static inline uint32_t xt_posted_msn(const struct xt_accesses *a)
{
	return XT_IO_OF(a->posted[XT_RESPONDER].next)->msn;
}

/* Takes the first one from its list. It has ended, or is given up. */
void xt_posted_remove(struct xt_qp *qp, struct xt_mem_io *io);
/* To be called when some were removed. */
void xt_posted_update(struct xt_qp *qp);
/* Releases the posted writes of a side; those not finished are given up. */
void xt_posted_free(struct xt_qp *qp, enum xt_qp_side side);

#endif /* XT_POSTED_H */
