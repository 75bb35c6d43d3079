// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Shared receive queues. A receive that a QP has taken is no longer part of the SRQ. */
#include <errno.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "rings.h"
#include "receive.h"
#include "daemon/transport/base/spinlock.h"
#include "srq.h"

void xt_srq_init(struct xt_srq *srq, struct xr_queue *queue, uint32_t depth, uint32_t max_sge,
		 uint32_t pd)
{
	*srq = (struct xt_srq){
		.queue = queue,
		.depth = depth,
		.max_sge = max_sge,
		.pd = pd,
	};
}

static uint8_t *srq_entry(struct xr_queue *queue, uint32_t index, uint32_t depth, uint32_t max_sge)
{
	return xt_ring_entry(queue, index, depth, xr_recv_stride(max_sge));
}

/* Reads the producer index. If it is corrupt, marks the SRQ as unusable. */
static void srq_poll_producer(struct xt_srq *srq)
{
	if (!srq->dead && !xt_ring_poll(srq->queue, &srq->producer, srq->consumer, srq->depth))
		srq->dead = true;
}

/* Called with the lock held. */
static void srq_count(struct xt_srq *srq, const struct xt_qp *qp, enum xt_take took, bool died)
{
	if (__builtin_expect(took != XT_TAKE_EMPTY, true))
		srq->taken++;
	else
		srq->missed++;
	if (!died)
		return;
	xt_queue_note(&srq->error, XT_CAUSE_RING, qp->info.qpn, qp->engine->now);
}

static uint32_t srq_left(const struct xt_srq *srq)
{
	return srq->producer - srq->consumer;
}

/*
 * Returns true once for each arming, if fewer entries than the limit are left. Called with the lock
 * held.
 */
static bool limit_reached(struct xt_srq *srq)
{
	if (srq_left(srq) >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

struct xt_srq *xt_srq_of(const struct xt_qp *qp, uint32_t number)
{
	struct xt_numbers *srqs = qp->engine->shared->srqs;
	struct xt_srq *srq;

	if (qp->info.type != XR_QPT_XRC_RECV)
		return qp->srq;
	srq = srqs ? xt_numbers_get(srqs, number) : NULL;
	return srq && srq->xrcd == qp->xrcd ? srq : NULL;
}

static enum xt_take srq_take(struct xt_qp *qp, struct xt_srq *srq, struct xt_wc_error *error)
{
	enum xt_take took;

	/* read the client's index, which costs a cache miss, only when few receives are left */
	if (srq_left(srq) <= srq->limit)
		srq_poll_producer(srq);
	if (srq->dead || !srq_left(srq))
		return XT_TAKE_EMPTY;
	qp->rq.pd = srq->pd;
	qp->rq.srqn = srq->number;
	qp->rq.consumer = qp->rq.completed = srq->consumer;
	took = xt_receive_copy(qp, srq_entry(srq->queue, srq->consumer, srq->depth, srq->max_sge),
			       srq->max_sge, error);
	srq->consumer++;
	xt_ring_publish(srq->queue, srq->consumer);
	return took;
}

/* IBTA 10.2.9: a QP that needs a receive of an SRQ in error goes to ERR. */
static void srq_fail(struct xt_qp *qp)
{
	xt_qp_note(qp, XT_CAUSE_SRQ, 0, 0);
	xt_event(qp, IBV_EVENT_QP_FATAL);
	xt_qp_error(qp, true);
}

enum xt_take xt_srq_take(struct xt_qp *qp, struct xt_wc_error *error)
{
	struct xt_srq *srq = xt_srq_of(qp, qp->rq.next_srqn);
	struct xt_engine *e = qp->engine;
	bool was_dead, died, reached;
	enum xt_take took;

	if (!srq)
		return XT_TAKE_EMPTY;
	if (srq->locked)
		xt_spin_lock(&srq->lock);
	was_dead = srq->dead;
	took = srq_take(qp, srq, error);
	died = srq->dead && !was_dead;
	srq_count(srq, qp, took, died);
	reached = !srq->dead && limit_reached(srq);
	if (srq->locked)
		xt_spin_unlock(&srq->lock);

	if (reached || died)
		xt_flow_charge(qp->flow, XT_EVENT_COST);
	if (reached)
		e->ops->srq_event(e->ctx, srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	if (died)
		e->ops->srq_event(e->ctx, srq, IBV_EVENT_SRQ_ERR);
	if (was_dead || died)
		srq_fail(qp);
	return took;
}

void xt_srq_inject(struct xt_qp *qp, struct xt_srq *srq)
{
	struct xt_engine *e = qp->engine;

	if (srq->locked)
		xt_spin_lock(&srq->lock);
	xt_queue_note(&srq->error, XT_CAUSE_INJECTED, qp->info.qpn, e->now);
	if (srq->locked)
		xt_spin_unlock(&srq->lock);
	e->ops->srq_event(e->ctx, srq, IBV_EVENT_SRQ_ERR);
}

bool xt_srq_arm(struct xt_srq *srq, uint32_t limit)
{
	srq->limit = limit;
	srq_poll_producer(srq);
	return !srq->dead && limit_reached(srq);
}

int xt_srq_move_begin(struct xt_srq *srq, struct xr_queue *to, uint32_t depth,
		      struct xt_srq_move *m)
{
	srq_poll_producer(srq);
	if (srq->dead || srq_left(srq) > depth)
		return -EINVAL;
	*m = (struct xt_srq_move){
		.to = to,
		.depth = depth,
		.first = srq->consumer,
		.end = srq->producer,
	};
	return 0;
}

void xt_srq_move_copy(const struct xt_srq *srq, const struct xt_srq_move *m)
{
	uint32_t i;

	for (i = m->first; i != m->end; i++)
		memcpy(srq_entry(m->to, i - m->first, m->depth, srq->max_sge),
		       srq_entry(srq->queue, i, srq->depth, srq->max_sge),
		       xr_recv_stride(srq->max_sge));
}

int xt_srq_move_end(struct xt_srq *srq, const struct xt_srq_move *m)
{
	srq_poll_producer(srq);
	if (srq->dead || srq->producer != m->end)
		return -EINVAL;
	srq->consumer -= m->first;
	srq->producer -= m->first;
	__atomic_store_n(&m->to->consumer, srq->consumer, __ATOMIC_RELAXED);
	__atomic_store_n(&m->to->producer, srq->producer, __ATOMIC_RELEASE);
	srq->queue = m->to;
	srq->depth = m->depth;
	return 0;
}
