// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues: the producer's side of ring.h. */
#include <errno.h>

#include "internal.h"

static uint8_t *entries_of(struct xr_queue *queue)
{
	return (uint8_t *)(queue + 1);
}

void xt_cq_init(struct xt_cq *cq, struct xr_queue *queue, uint32_t depth)
{
	*cq = (struct xt_cq){
		.queue = queue,
		.entries = entries_of(queue),
		.depth = depth,
	};
}

static void cq_lock(struct xt_cq *cq)
{
	if (cq->locked)
		xt_spin_lock(&cq->lock);
}

static void cq_unlock(struct xt_cq *cq)
{
	if (cq->locked)
		xt_spin_unlock(&cq->lock);
}

/*
 * The client's index is looked at only when the ring seems full. One that makes no
 * sense frees nothing.
 */
static bool has_room(struct xt_cq *cq)
{
	uint32_t consumer;

	if (cq->producer - cq->consumer < cq->depth)
		return true;
	consumer = __atomic_load_n(&cq->queue->consumer, __ATOMIC_ACQUIRE);
	if (cq->producer - consumer >= cq->depth)
		return false;
	cq->consumer = consumer;
	return true;
}

static int store_entry(struct xt_cq *cq, const struct xr_cqe *cqe)
{
	if (cq->overrun || (!cq->ignore_overrun && !has_room(cq)))
		return -ENOSPC;
	memcpy(cq->entries + (size_t)(cq->producer & (cq->depth - 1)) * sizeof(*cqe), cqe,
	       sizeof(*cqe));
	cq->producer++;
	__atomic_store_n(&cq->queue->producer, cq->producer, __ATOMIC_RELEASE);
	return 0;
}

/* One event for each arming, IBTA 11.4.2.2: any completion, or a solicited one or error. */
static void notify(struct xt_engine *e, struct xt_cq *cq, bool solicited)
{
	uint32_t wanted = XR_ARM_ANY | (solicited ? XR_ARM_SOLICITED : 0);

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!(__atomic_load_n(&cq->queue->word, __ATOMIC_RELAXED) & wanted))
		return;
	if (__atomic_exchange_n(&cq->queue->word, 0, __ATOMIC_SEQ_CST) & wanted)
		e->ops->cq_event(e->ctx, cq);
}

int xt_cq_push(struct xt_engine *e, struct xt_cq *cq, const struct xr_cqe *cqe, bool solicited)
{
	bool first_loss;
	int err;

	cq_lock(cq);
	err = store_entry(cq, cqe);
	first_loss = err && !cq->overrun;
	if (err)
		cq->overrun = true;
	cq_unlock(cq);

	if (!err) {
		e->counters.completions++;
		e->counters.completion_errors += cqe->status != IBV_WC_SUCCESS;
		notify(e, cq, solicited || cqe->status != IBV_WC_SUCCESS);
	} else if (first_loss) {
		e->ops->async_event(e->ctx, NULL, cq, IBV_EVENT_CQ_ERR);
	}
	return err;
}

int xt_cq_resize(struct xt_cq *cq, struct xr_queue *queue, uint32_t depth)
{
	uint32_t consumer = __atomic_load_n(&cq->queue->consumer, __ATOMIC_ACQUIRE);
	uint32_t n = cq->producer - consumer, i;
	uint8_t *entries = entries_of(queue);
	uint32_t armed;

	if (cq->ignore_overrun && n > cq->depth) {
		consumer = cq->producer - cq->depth;
		n = cq->depth;
	}
	if (n > cq->depth || n > depth)
		return -EINVAL;
	for (i = 0; i < n; i++)
		memcpy(entries + (size_t)i * sizeof(struct xr_cqe),
		       cq->entries + (size_t)((consumer + i) & (cq->depth - 1)) *
					     sizeof(struct xr_cqe),
		       sizeof(struct xr_cqe));
	armed = __atomic_exchange_n(&cq->queue->word, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&queue->consumer, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&queue->producer, n, __ATOMIC_RELEASE);
	__atomic_fetch_or(&queue->word, armed, __ATOMIC_SEQ_CST);

	cq->queue = queue;
	cq->entries = entries;
	cq->depth = depth;
	cq->producer = n;
	cq->consumer = 0;
	return 0;
}
