/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What an engine asks of the worker that drives it: frames, events, other engines; and faults on the way. */
#include "worker_internal.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "delay.h"
#include "inbox.h"
#include "xdp.h"

#define LOCK_SPINS 2000

/* ---- faults --------------------------------------------------------------------------- */

static void send_copy(struct xd_worker *w, const struct xt_frame *from)
{
	struct xt_frame to;
	uint32_t s = 0, s_off = 0;

	if (!xd_xsk_tx_get(w->xsk, from->len, &to))
		return;
	for (uint32_t i = 0; i < to.nseg; i++) {
		uint32_t done = 0;

		while (done < to.seg[i].len) {
			uint32_t n = from->seg[s].len - s_off;

			if (n > to.seg[i].len - done)
				n = to.seg[i].len - done;
			memcpy(to.seg[i].data + done, from->seg[s].data + s_off, n);
			done += n;
			s_off += n;
			if (s_off == from->seg[s].len) {
				s++;
				s_off = 0;
			}
		}
	}
	xd_xsk_tx_put(w->xsk, &to);
}

/* A frame meets its fate; true: it goes on as it is, now. */
static bool goes_on(struct xd_worker *w, uint32_t direction, struct xt_frame *f)
{
	struct xd_fate fate = xd_fault_next(&w->fault);

	if (fate.copies != 1 || fate.flips || fate.delay_ns[0])
		xd_count(&w->stats.faults, 1);
	for (uint32_t i = 1; i < fate.copies; i++)
		xd_delay_add(w->held, direction, w->now + fate.delay_ns[i], f);
	if (fate.flips)
		xd_fault_damage(&fate, f);
	if (fate.copies && fate.delay_ns[0])
		xd_delay_add(w->held, direction, w->now + fate.delay_ns[0], f);
	return fate.copies && !fate.delay_ns[0];
}

unsigned int xd_worker_rx_faults(struct xd_worker *w, unsigned int n)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n; i++)
		if (goes_on(w, XR_FAULT_RX, &w->frames[i]))
			w->frames[kept++] = w->frames[i];
	return kept;
}

void xd_worker_release_held(struct xd_worker *w)
{
	struct xt_frame f;

	while (xd_delay_due(w->held, XR_FAULT_RX, w->now, &f))
		xt_engine_rx(w->engine, &f, 1, w->now);
	while (xd_delay_due(w->held, XR_FAULT_TX, w->now, &f))
		send_copy(w, &f);
}

/* ---- the engine's environment --------------------------------------------------------- */

static bool op_tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	struct xd_worker *w = ctx;

	return xd_xsk_tx_get(w->xsk, len, frame);
}

static void op_tx_put(void *ctx, struct xt_frame *frame)
{
	struct xd_worker *w = ctx;

	if (!xd_fault_on(&w->fault, XR_FAULT_TX) || goes_on(w, XR_FAULT_TX, frame))
		xd_xsk_tx_put(w->xsk, frame);
	else
		xd_xsk_tx_cancel(w->xsk, frame);
}

static void op_cq_event(void *ctx, struct xt_cq *cq)
{
	struct xd_worker *w = ctx;

	w->all->config.events->cq(cq);
}

static void op_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct xd_worker *w = ctx;

	w->all->config.events->async(qp, cq, type);
}

static void op_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	struct xd_worker *w = ctx;

	w->all->config.events->srq(srq, type);
}

static void op_qp_state(void *ctx, struct xt_qp *qp)
{
	struct xd_worker *w = ctx;
	struct xr_qp_entry entry;

	/* If this fails, packets pass XDP that the engine then refuses. */
	xt_qp_entry(qp, &entry);
	xd_xdp_qp_set(w->all->config.xdp, xt_qp_info(qp)->qpn, &entry);
}

static struct xd_worker *worker_of(const struct xd_workers *ws, const struct xt_engine *e)
{
	for (unsigned int i = 0; i < ws->count; i++)
		if (ws->worker[i]->engine == e)
			return ws->worker[i];
	return NULL;
}

/* Two workers may want each other's lock: neither waits longer than a moment. */
static bool op_engine_lock(void *ctx, struct xt_engine *other)
{
	struct xd_worker *own = ctx, *w = worker_of(own->all, other);

	if (own->all->paused)
		return true;
	for (int i = 0; i < LOCK_SPINS; i++) {
		if (!pthread_mutex_trylock(&w->lock))
			return true;
		__builtin_ia32_pause();
	}
	return false;
}

static void op_engine_unlock(void *ctx, struct xt_engine *other)
{
	struct xd_worker *own = ctx;

	if (!own->all->paused)
		pthread_mutex_unlock(&worker_of(own->all, other)->lock);
}

/* No lock of the other's round: it may be long, and the packet would be lost. */
static bool op_forward(void *ctx, struct xt_engine *other, const struct xt_frame *frame)
{
	struct xd_worker *w = ctx, *to = worker_of(w->all, other);

	w->forwarded |= 1u << to->index;
	return xd_inbox_put(to->inbox, frame);
}

void xd_worker_wake_forwarded(struct xd_worker *w)
{
	for (; w->forwarded; w->forwarded &= w->forwarded - 1)
		xd_worker_wake(w->all->worker[__builtin_ctz(w->forwarded)]);
}

static void op_key_changed(void *ctx, const struct xt_key *key)
{
	struct xd_worker *w = ctx;

	/* If this fails, XDP may let a request in that the engine then refuses, or the other way round. */
	xd_xdp_key_set(w->all->config.xdp, key->index, &key->entry);
}

void xd_worker_turn_keys(struct xd_worker *w)
{
	__atomic_add_fetch(&w->using_keys, 1, __ATOMIC_SEQ_CST);
}

/*
 * Every other worker's round ends, or is not begun. Of two that wait for each other neither uses a
 * key, and both see that.
 */
static void op_quiesce_keys(void *ctx)
{
	struct xd_worker *w = ctx;

	xd_worker_turn_keys(w);
	for (unsigned int i = 0; i < w->all->count; i++) {
		uint64_t *other = &w->all->worker[i]->using_keys;
		uint64_t seen = __atomic_load_n(other, __ATOMIC_SEQ_CST);

		for (int n = 1; seen & 1 && __atomic_load_n(other, __ATOMIC_ACQUIRE) == seen; n++) {
			if (n % LOCK_SPINS)
				__builtin_ia32_pause();
			else
				sched_yield();
		}
	}
	xd_worker_turn_keys(w);
}

const struct xt_ops xd_worker_ops = {
	.tx_get = op_tx_get,
	.tx_put = op_tx_put,
	.cq_event = op_cq_event,
	.async_event = op_async_event,
	.srq_event = op_srq_event,
	.qp_state = op_qp_state,
	.forward = op_forward,
	.key_changed = op_key_changed,
	.quiesce_keys = op_quiesce_keys,
	.engine_lock = op_engine_lock,
	.engine_unlock = op_engine_unlock,
};
