/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of armed CQs, and their moderation. */
#ifndef XT_CQ_EVENT_H
#define XT_CQ_EVENT_H

#include "daemon/transport/base/spinlock.h"
#include "daemon/transport/transport.h"

static inline void xt_cq_lock(struct xt_cq *cq)
{
	if (cq->locked)
		xt_spin_lock(&cq->lock);
}

static inline void xt_cq_unlock(struct xt_cq *cq)
{
	if (cq->locked)
		xt_spin_unlock(&cq->lock);
}

/*
 * Adds the completion of a successful work request, one of several: returns its entry, which the
 * caller has to fill before xt_cq_end(), and takes the lock of the CQ. Returns NULL if there is no
 * room; xt_cq_push() reports that. The client need not see the completion before xt_cq_publish().
 *
 * Publishing the index each time, and the fence that is needed to see whether the CQ is armed, wait
 * until the program's cache has given up its lines.
 */
struct xr_cqe *xt_cq_begin(struct xt_cq *cq);
void xt_cq_end(struct xt_flow *f, struct xt_cq *cq, bool solicited);
/* To be called behind the last one, and xt_cq_check_armed() after a full fence. */
void xt_cq_publish(struct xt_cq *cq);

/* A completion was added: raises an event if the CQ is armed for it. */
void xt_cq_notify(struct xt_flow *f, struct xt_cq *cq, bool solicited);
/* The period of a moderated CQ has passed. */
void xt_cq_timeout(struct xt_engine *e, struct xt_cq *cq);

#endif /* XT_CQ_EVENT_H */
