// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues: the producer of the ring (ring.h). */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include <xroce/probes.h>

#include "cq_event.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "rings.h"

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
		.moderation = { .timer = { .deadline = XT_NEVER, .slot = XT_NO_TIMER } },
	};
}

/* Reads the client's index only when the ring seems full. An invalid index frees no entries. */
static bool cq_has_room(struct xt_cq *cq)
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

/* Returns NULL if there is no room. */
static struct xr_cqe *cq_next_entry(struct xt_cq *cq)
{
	if (cq->overrun || (!cq->ignore_overrun && !cq_has_room(cq)))
		return NULL;
	return (struct xr_cqe *)(void *)cq->entries + (cq->producer & (cq->depth - 1));
}

static void cq_add_entry(struct xt_cq *cq, bool solicited)
{
	cq->producer++;
	cq->completions++;
	if (solicited)
		cq->solicited = cq->producer;
}

static void cq_publish(struct xt_cq *cq)
{
	__atomic_store_n(&cq->queue->producer, cq->producer, __ATOMIC_RELEASE);
}

static int store_entry(struct xt_cq *cq, const struct xr_cqe *cqe, bool solicited)
{
	struct xr_cqe *entry = cq_next_entry(cq);

	if (!entry)
		return -ENOSPC;
	memcpy(entry, cqe, sizeof(*cqe));
	cq_add_entry(cq, solicited);
	cq_publish(cq);
	return 0;
}

static void cq_note(struct xt_cq *cq, enum xt_cause cause, const struct xr_cqe *cqe, uint64_t now)
{
	cq->failure = (struct xt_failure){ now, cause, (uint8_t)cqe->status, cqe->vendor_err };
	cq->failed_qpn = cqe->qpn;
}

/* Flushed work requests follow from an error, and lost completions from the first one. */
static void note_error(struct xt_cq *cq, const struct xr_cqe *cqe, bool is_lost, uint64_t now)
{
	cq->errors += cqe->status != IBV_WC_SUCCESS;
	cq->lost += is_lost;
	if (is_lost && !cq->overrun) {
		cq_note(cq, XT_CAUSE_COMPLETION, cqe, now);
		xt_queue_note(&cq->error, XT_CAUSE_COMPLETION, cqe->qpn, now);
	} else if (!is_lost && cqe->status != IBV_WC_WR_FLUSH_ERR) {
		cq_note(cq, cqe->is_recv ? XT_CAUSE_RECEIVE : XT_CAUSE_REQUEST, cqe, now);
	}
	cq->overrun |= is_lost;
}

int xt_cq_push(struct xt_flow *f, struct xt_cq *cq, const struct xr_cqe *cqe, bool solicited)
{
	struct xt_engine *e = f->engine;
	bool first_loss;
	int err;

	solicited |= cqe->status != IBV_WC_SUCCESS;
	xt_cq_lock(cq);
	err = store_entry(cq, cqe, solicited);
	first_loss = err && !cq->overrun;
	if (__builtin_expect(err || cqe->status != IBV_WC_SUCCESS, false))
		note_error(cq, cqe, err, e->now);
	xt_cq_unlock(cq);

	if (!err) {
		e->counters.completions++;
		e->counters.completion_errors += cqe->status != IBV_WC_SUCCESS;
		xt_cq_notify(f, cq, solicited);
	} else if (first_loss) {
		XR_PROBE2(cq_overrun, cqe->qpn, cq->depth);
		xt_flow_charge(f, XT_EVENT_COST);
		e->ops->async_event(e->ctx, NULL, cq, IBV_EVENT_CQ_ERR);
	}
	return err;
}

struct xr_cqe *xt_cq_begin(struct xt_cq *cq)
{
	struct xr_cqe *entry;

	xt_cq_lock(cq);
	entry = cq_next_entry(cq);
	if (!entry)
		xt_cq_unlock(cq);
	return entry;
}

void xt_cq_end(struct xt_flow *f, struct xt_cq *cq, bool solicited)
{
	bool armed = __atomic_load_n(&cq->queue->word, __ATOMIC_RELAXED);

	cq_add_entry(cq, solicited);
	if (armed)
		cq_publish(cq);
	xt_cq_unlock(cq);
	f->engine->counters.completions++;
	if (armed)
		xt_cq_notify(f, cq, solicited);
}

void xt_cq_publish(struct xt_cq *cq)
{
	xt_cq_lock(cq);
	cq_publish(cq);
	xt_cq_unlock(cq);
}

void xt_cq_inject(struct xt_flow *f, struct xt_cq *cq, uint32_t qpn, bool fails)
{
	const struct xr_cqe cqe = { .qpn = qpn };
	struct xt_engine *e = f->engine;
	bool failed;

	xt_cq_lock(cq);
	failed = fails && cq->overrun;
	cq->overrun |= fails;
	if (!failed) {
		cq_note(cq, XT_CAUSE_INJECTED, &cqe, e->now);
		xt_queue_note(&cq->error, XT_CAUSE_INJECTED, qpn, e->now);
	}
	xt_cq_unlock(cq);
	if (failed)
		return;
	xt_flow_charge(f, XT_EVENT_COST);
	e->ops->async_event(e->ctx, NULL, cq, IBV_EVENT_CQ_ERR);
}

/* ---- moving to another ring -------------------------------------------------------------- */

#define MOVE_LAST 1024 /* entries copied while no engine may use the CQ, at most */

/* Sets *first to the oldest unpolled entry. Returns -EINVAL if the client's index is invalid. */
static int find_unpolled(const struct xt_cq *cq, uint32_t depth, uint32_t *first)
{
	uint32_t n;

	*first = __atomic_load_n(&cq->queue->consumer, __ATOMIC_ACQUIRE);
	n = cq->producer - *first;
	if (cq->ignore_overrun && n > cq->depth) {
		*first = cq->producer - cq->depth;
		n = cq->depth;
	}
	return n > cq->depth || n > depth ? -EINVAL : 0;
}

int xt_cq_move_begin(const struct xt_cq *cq, struct xr_queue *to, uint32_t depth,
		     struct xt_cq_move *m)
{
	*m = (struct xt_cq_move){
		.from = cq->entries,
		.from_depth = cq->depth,
		.to = to,
		.depth = depth,
		.end = cq->producer,
	};
	if (find_unpolled(cq, depth, &m->first))
		return -EINVAL;
	m->next = m->first;
	return 0;
}

/*
 * Engines may run meanwhile. They overwrite an entry only if the CQ ignores overruns or the
 * client's index is wrong; the entry is lost in either case.
 */
static void copy_entries(struct xt_cq_move *m)
{
	const size_t size = sizeof(struct xr_cqe);

	for (; m->next != m->end; m->next++)
		memcpy(entries_of(m->to) + ((m->next - m->first) & (m->depth - 1)) * size,
		       m->from + (m->next & (m->from_depth - 1)) * size, size);
}

/* The first write to a page takes a page fault: not when xt_cq_move_end() copies the last ones. */
static void touch_next(const struct xt_cq_move *m)
{
	const uint32_t step = 4096 / sizeof(struct xr_cqe);
	uint32_t i = m->next - m->first, end = i + MOVE_LAST;

	for (; i < m->depth && i < end; i += step)
		*(volatile uint8_t *)(entries_of(m->to) + i * sizeof(struct xr_cqe)) = 0;
}

void xt_cq_move_copy(struct xt_cq_move *m)
{
	copy_entries(m);
	touch_next(m);
}

static void cq_use_ring(struct xt_cq *cq, const struct xt_cq_move *m, uint32_t first)
{
	uint32_t armed = __atomic_exchange_n(&cq->queue->word, 0, __ATOMIC_SEQ_CST);

	cq->producer -= m->first;
	cq->solicited -= m->first;
	cq->consumer = first - m->first;
	__atomic_store_n(&m->to->consumer, cq->consumer, __ATOMIC_RELAXED);
	__atomic_store_n(&m->to->producer, cq->producer, __ATOMIC_RELEASE);
	__atomic_fetch_or(&m->to->word, armed, __ATOMIC_SEQ_CST);
	cq->queue = m->to;
	cq->entries = entries_of(m->to);
	cq->depth = m->depth;
}

int xt_cq_move_end(struct xt_cq *cq, struct xt_cq_move *m)
{
	uint32_t first;

	if (find_unpolled(cq, m->depth, &first) || first - m->first > cq->producer - m->first)
		return -EINVAL;
	/* skip entries polled or lost since */
	if (first - m->first > m->next - m->first)
		m->next = first;
	m->end = cq->producer;
	if (m->end - m->next > MOVE_LAST)
		return -EAGAIN;
	copy_entries(m);
	cq_use_ring(cq, m, first);
	return 0;
}
