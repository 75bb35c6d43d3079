// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The callbacks of the engine (struct xt_ops): frames, events, other engines, the maps. */
#include "worker_internal.h"

#include <infiniband/verbs.h>
#include <sched.h>

#include "inbox.h"
#include "daemon/io/tables.h"

/* ---- frames ------------------------------------------------------------------------------ */

static bool worker_op_tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	struct xd_worker *w = ctx;

	/* whether the frame is for this device is not known yet */
	return w->socket && !w->self_full && xd_socket_tx_get(w->socket, len, frame);
}

static void worker_op_tx_put(void *ctx, struct xt_frame *frame)
{
	struct xd_worker *w = ctx;

	if (!xd_worker_tx_fault(w, frame)) {
		xd_socket_tx_cancel(w->socket, frame);
		return;
	}
	if (xd_worker_captures(w))
		xd_worker_capture_tx(w, frame);
	if (__builtin_expect(frame->self, false) && xd_worker_send_self(w, frame))
		xd_socket_tx_cancel(w->socket, frame);
	else
		xd_socket_tx_put(w->socket, frame);
}

static void worker_op_tx_push(void *ctx)
{
	struct xd_worker *w = ctx;

	xd_socket_tx_flush(w->socket, false);
}

static void op_show(void *ctx, const struct xt_frame *frame)
{
	xd_worker_capture_local(ctx, frame);
}

/* ---- events ------------------------------------------------------------------------------ */

static void worker_op_cq_event(void *ctx, struct xt_cq *cq)
{
	struct xd_worker *w = ctx;

	w->all->config.events->cq(cq);
}

static void worker_op_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct xd_worker *w = ctx;

	w->all->config.events->async(qp, cq, type);
	if (type == IBV_EVENT_CQ_ERR)
		xd_count(&w->stats.queue_errors, 1);
}

static void worker_op_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	struct xd_worker *w = ctx;

	w->all->config.events->srq(srq, type);
	if (type == IBV_EVENT_SRQ_ERR)
		xd_count(&w->stats.queue_errors, 1);
}

/* ---- mirror ------------------------------------------------------------------------------ */

/* If the update fails, XDP passes packets that the engine then refuses. */
static void worker_op_qp_state(void *ctx, struct xt_qp *qp)
{
	struct xd_worker *w = ctx;
	struct xr_qp_entry entry;

	xd_count(&w->stats.qp_errors, 1);
	xt_qp_entry(qp, &entry);
	xd_tables_set_qp(w->all->config.io->tables, xt_qp_info(qp)->qpn, &entry);
}

/*
 * If the update fails, XDP passes requests that the engine then refuses, or refuses requests that
 * the engine would execute.
 */
static void worker_op_key_changed(void *ctx, const struct xt_key *key)
{
	struct xd_worker *w = ctx;

	xd_tables_set_key(w->all->config.io->tables, key->index, &key->entry);
}

/* ---- other engines ----------------------------------------------------------------------- */

static bool op_engine_lock(void *ctx, struct xt_engine *other)
{
	return xd_worker_enter(ctx, xt_engine_ctx(other));
}

static void op_engine_unlock(void *ctx, struct xt_engine *other)
{
	(void)ctx;
	xd_worker_leave(xt_engine_ctx(other));
}

/*
 * Does not take the lock that the owner holds in a round: waiting could take long, and giving up
 * would lose the frame.
 */
static bool op_forward(void *ctx, struct xt_engine *other, const struct xt_frame *frame)
{
	struct xd_worker *w = ctx, *to = xt_engine_ctx(other);

	w->forwarded[to->index / 64] |= 1ull << to->index % 64;
	return xd_inbox_put(to->inbox, frame);
}

void xd_worker_wake_forwarded(struct xd_worker *w)
{
	for (unsigned int i = 0; i <= (w->all->count - 1) / 64; i++) {
		uint64_t *bits = &w->forwarded[i];

		for (; *bits; *bits &= *bits - 1)
			xd_worker_wake(w->all->worker[i * 64 + (unsigned)__builtin_ctzll(*bits)]);
	}
}

static void op_wake(void *ctx, struct xt_engine *other)
{
	xd_worker_wake(xt_engine_ctx(other));
}

/* ---- keys -------------------------------------------------------------------------------- */

/*
 * Waits until every other worker has ended its present round. The caller marks itself as using no
 * key while it waits, so two workers that wait for each other both continue.
 */
static void op_quiesce_keys(void *ctx)
{
	struct xd_worker *w = ctx;

	xd_worker_keys_end(w);
	for (unsigned int i = 0; i < w->all->count; i++) {
		uint64_t *other = &w->all->worker[i]->key_use;
		uint64_t seen = __atomic_load_n(other, __ATOMIC_SEQ_CST);

		for (int n = 1; seen & 1 && __atomic_load_n(other, __ATOMIC_ACQUIRE) == seen; n++) {
			if (n % XD_LOCK_SPINS)
				__builtin_ia32_pause();
			else
				sched_yield();
		}
	}
	xd_worker_keys_begin(w);
}

const struct xt_ops xd_worker_ops = {
	.tx_get = worker_op_tx_get,
	.tx_put = worker_op_tx_put,
	.tx_push = worker_op_tx_push,
	.show = op_show,
	.cq_event = worker_op_cq_event,
	.async_event = worker_op_async_event,
	.srq_event = worker_op_srq_event,
	.qp_state = worker_op_qp_state,
	.forward = op_forward,
	.refusal = xd_worker_refusal,
	.wake = op_wake,
	.key_changed = worker_op_key_changed,
	.quiesce_keys = op_quiesce_keys,
	.engine_lock = op_engine_lock,
	.engine_unlock = op_engine_unlock,
};
