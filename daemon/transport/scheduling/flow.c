// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stddef.h>

#include "daemon/transport/engine.h"
#include "flow.h"
#include "daemon/transport/qp.h"

#define COMPETE_NS 10000000u
/* The engine's window while flows compete, in packets: 1 MiB with a path MTU of 4096 */
#define COMPETING_WINDOW 256
/* Packets that a QP may have in flight beside others that have filled most of the window */
#define LITTLE 8
/* Largest excess that later turns make up for */
#define MAX_EXCESS (16 * XT_QUANTUM)

#define OF_LINK(l) ((struct xt_flow *)((char *)(l)-offsetof(struct xt_flow, link)))
#define OF_ACTIVE_LINK(l) ((struct xt_qp *)((char *)(l)-offsetof(struct xt_qp, turn.link)))

void xt_flow_init(struct xt_flow *f, struct xt_engine *e)
{
	*f = (struct xt_flow){ .engine = e };
	xt_list_init(&f->link);
	xt_list_init(&f->active);
	xt_list_init(&f->capped);
	xt_list_init(&f->late);
}

void xt_flow_end(struct xt_flow *f)
{
	xt_list_del(&f->link);
}

/* ---- scheduling ---------------------------------------------------------------------------- */

static void compete(struct xt_engine *e)
{
	e->compete_until = e->now + COMPETE_NS;
}

static void schedule(struct xt_flow *f)
{
	struct xt_engine *e = f->engine;

	if (!xt_list_empty(&f->link))
		return;
	if (!xt_list_empty(&e->flows) || e->flows_in_flight > (f->inflight != 0))
		compete(e);
	xt_list_add_tail(&e->flows, &f->link);
}

/* Notes that the flow is active now. */
static void flow_note(struct xt_flow *f)
{
	struct xt_last_flow *last = f->engine->last;

	if (f->of_daemon)
		return;
	if (last[0].flow != f) {
		__atomic_store_n(&last[1].flow, last[0].flow, __ATOMIC_RELAXED);
		__atomic_store_n(&last[1].at, last[0].at, __ATOMIC_RELAXED);
		__atomic_store_n(&last[0].flow, f, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&last[0].at, f->engine->now, __ATOMIC_RELAXED);
}

uint64_t xt_engine_others_at(const struct xt_engine *e, const struct xt_flow *f)
{
	const struct xt_last_flow *last = e->last;
	bool own = __atomic_load_n(&last[0].flow, __ATOMIC_RELAXED) == f;

	return __atomic_load_n(&last[own].at, __ATOMIC_RELAXED);
}

void xt_flow_received(struct xt_flow *f)
{
	struct xt_engine *e = f->engine;

	flow_note(f);
	if (e->received && e->received != f)
		compete(e);
	e->received = f;
}

bool xt_engine_competes(const struct xt_engine *e)
{
	return e->now < e->compete_until;
}

void xt_activate(struct xt_qp *qp)
{
	if (qp->turn.capped)
		xt_flow_forget(qp);
	if (xt_list_empty(&qp->turn.link))
		xt_list_add_tail(&qp->flow->active, &qp->turn.link);
	schedule(qp->flow);
}

void xt_flow_cap(struct xt_qp *qp)
{
	if (!xt_list_empty(&qp->turn.link))
		return;
	/* a QP that could not send although it was its turn keeps its place */
	xt_list_add_tail(qp->turn.lifted ? qp->flow->capped.next : &qp->flow->capped,
			 &qp->turn.link);
	qp->turn.lifted = false;
	qp->turn.capped = true;
	qp->flow->room = false;
}

void xt_flow_begin(struct xt_qp *qp)
{
	xt_list_init(&qp->turn.link);
}

bool xt_flow_has_turn(const struct xt_qp *qp)
{
	return !xt_list_empty(&qp->turn.link) && !qp->turn.capped;
}

bool xt_flow_take_qp(struct xt_qp *qp)
{
	bool has = xt_flow_has_turn(qp);

	if (has)
		xt_list_del(&qp->turn.link);
	return has;
}

void xt_flow_move(struct xt_qp *qp, struct xt_flow *to)
{
	uint32_t inflight = qp->turn.charged;

	xt_flow_forget(qp);
	xt_flow_set_inflight(qp, 0);
	qp->flow = to;
	xt_flow_set_inflight(qp, inflight);
	xt_activate(qp);
}

void xt_flow_forget(struct xt_qp *qp)
{
	xt_list_del(&qp->turn.link);
	qp->turn.capped = false;
}

void xt_flow_charge(struct xt_flow *f, uint32_t bytes)
{
	f->deficit -= (int32_t)bytes;
	if (f->deficit < -MAX_EXCESS)
		f->deficit = -MAX_EXCESS;
}

/* Activates the QP that has waited longest for the flow's window, one at a time. */
static void lift_cap(struct xt_flow *f)
{
	struct xt_qp *qp;

	if (!f->room || xt_list_empty(&f->capped))
		return;
	qp = OF_ACTIVE_LINK(f->capped.next);
	qp->turn.lifted = true;
	xt_activate(qp);
}

void xt_flow_add_late(struct xt_flow *f, struct xt_cq *cq)
{
	xt_list_add_tail(&f->late, &cq->late_link);
	schedule(f);
}

bool xt_flow_rest(struct xt_flow *f)
{
	lift_cap(f);
	if (!xt_list_empty(&f->active) || !xt_list_empty(&f->late))
		return false;
	xt_list_del(&f->link);
	if (f->deficit > 0)
		f->deficit = 0;
	return true;
}

struct xt_flow *xt_flow_turn(struct xt_engine *e)
{
	struct xt_flow *f;

	while (!xt_list_empty(&e->flows)) {
		f = OF_LINK(e->flows.next);
		if (xt_flow_rest(f))
			continue;
		if (f->deficit > 0) {
			flow_note(f);
			return f;
		}
		f->deficit += XT_QUANTUM;
		xt_list_del(&f->link);
		xt_list_add_tail(&e->flows, &f->link);
	}
	return NULL;
}

struct xt_qp *xt_flow_take(struct xt_flow *f)
{
	struct xt_qp *qp = OF_ACTIVE_LINK(f->active.next);

	xt_list_del(&qp->turn.link);
	return qp;
}

/* ---- the window ---------------------------------------------------------------------------- */

void xt_flow_set_inflight(struct xt_qp *qp, uint32_t packets)
{
	struct xt_flow *f = qp->flow;
	uint32_t before = f->inflight;

	if (packets < qp->turn.charged) {
		f->room = true;
		if (!xt_list_empty(&f->capped))
			schedule(f);
	}
	f->busy += (packets != 0) - (qp->turn.charged != 0);
	if (packets > qp->turn.charged)
		qp->turn.lifted = false;
	f->inflight += packets - qp->turn.charged;
	f->engine->flows_in_flight += (f->inflight != 0) - (before != 0);
	qp->turn.charged = packets;
}

/* Divides the engine's window equally among the flows that have packets in flight. */
static uint32_t window_of(const struct xt_flow *f)
{
	uint32_t flows = f->engine->flows_in_flight + !f->inflight;
	uint32_t window = f->engine->tuning.engine_window;

	if (xt_engine_competes(f->engine) && window > COMPETING_WINDOW)
		window = COMPETING_WINDOW;
	window /= flows;
	return window > XT_MIN_WINDOW ? window : XT_MIN_WINDOW;
}

/*
 * READs: the responses of all QPs must fit the window, or they overflow the host's own queue. QPs
 * that have waited go before those that have READs in flight, in turn, so all get equal shares.
 */
bool xt_flow_full_for_read(const struct xt_qp *qp, uint32_t own, uint32_t n)
{
	const struct xt_flow *f = qp->flow;
	uint32_t window = window_of(f);
	bool others_wait = !xt_list_empty(&f->capped);

	if (!f->busy)
		return false;
	if (window > 2 * n)
		window -= n; /* leaves room for a first READ */
	if (!own)
		return f->inflight > window || (others_wait && !qp->turn.lifted);
	return own + n > window / f->busy || f->inflight + n > window || others_wait;
}

/*
 * A quarter of the window is reserved for QPs that have little in flight, because the others' peers
 * may never respond. Nothing exceeds the window, as it is what the peer's ring holds.
 */
bool xt_flow_full(const struct xt_qp *qp, uint32_t own, uint32_t n)
{
	const struct xt_flow *f = qp->flow;
	uint32_t window, reserve, part, inflight;

	if (!f->busy)
		return false;
	window = window_of(f);
	/* `own` is newer than the number that the flow has */
	inflight = f->inflight - qp->turn.charged + own + n;
	reserve = f->inflight == qp->turn.charged ? 0 : window / 4;
	if (inflight <= window - reserve)
		return false;
	part = window / f->busy < LITTLE ? window / f->busy : LITTLE;
	return inflight > window || own >= (part ? part : 1);
}
