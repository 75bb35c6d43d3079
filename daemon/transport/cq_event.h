/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of armed CQs, and their moderation. */
#ifndef XT_CQ_EVENT_H
#define XT_CQ_EVENT_H

#include "spinlock.h"
#include "transport.h"

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

/* A completion was added: raises an event if the CQ is armed for it. */
void xt_cq_notify(struct xt_flow *f, struct xt_cq *cq, bool solicited);
/* The period of a moderated CQ has passed. */
void xt_cq_timeout(struct xt_engine *e, struct xt_cq *cq);

#endif /* XT_CQ_EVENT_H */
