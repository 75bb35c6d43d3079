// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Events of armed CQs: one for each arming (IBTA 11.4.2.2), for any completion, or for a solicited
 * one or an error. An event of a moderated CQ is held until enough completions were added, or until
 * a period has passed since the first of them.
 */
#include <stddef.h>

#include "cq_event.h"
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/scheduling/timer.h"

#define OF_LATE_LINK(l) ((struct xt_cq *)((char *)(l)-offsetof(struct xt_cq, late_link)))

/* Clears the arm bits if one of them is in @wanted. Returns false if none is. */
static bool cq_event_disarm(struct xt_cq *cq, uint32_t wanted)
{
	uint32_t word = __atomic_load_n(&cq->queue->word, __ATOMIC_RELAXED);

	do {
		if (!(word & wanted))
			return false;
	} while (!__atomic_compare_exchange_n(&cq->queue->word, &word, 0, true, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return true;
}

static void raise(struct xt_engine *e, struct xt_cq *cq)
{
	__atomic_add_fetch(&cq->events, 1, __ATOMIC_RELAXED);
	e->ops->cq_event(e->ctx, cq);
}

static void raise_now(struct xt_flow *f, struct xt_cq *cq, uint32_t wanted)
{
	struct xt_engine *e = f->engine;

	if (!cq_event_disarm(cq, wanted))
		return;
	xt_flow_charge(f, XT_EVENT_COST);
	raise(e, cq);
}

/* Engines that add completions meanwhile leave the event to the first one. */
static void raise_later(struct xt_flow *f, struct xt_cq *cq, uint32_t wanted)
{
	struct xt_engine *e = f->engine;
	bool first;

	xt_cq_lock(cq);
	first = !cq->late;
	cq->late |= wanted;
	if (first) {
		cq->late_in = e;
		xt_flow_add_late(f, cq);
	}
	xt_cq_unlock(cq);
	if (first && e->ops->wake)
		e->ops->wake(e->ctx, e);
}

bool xt_cq_raise_late(struct xt_flow *f)
{
	struct xt_cq *cq;
	uint32_t wanted;

	if (xt_list_empty(&f->late))
		return false;
	cq = OF_LATE_LINK(f->late.next);
	xt_cq_lock(cq);
	xt_list_del(&cq->late_link);
	wanted = cq->late;
	cq->late = 0;
	xt_cq_unlock(cq);
	raise_now(f, cq, wanted);
	return true;
}

static void raise_event(struct xt_flow *f, struct xt_cq *cq, uint32_t wanted)
{
	/* the engine's own flow is that of the daemon */
	if (xt_flow_in_debt(f) && f != &f->engine->flow)
		raise_later(f, cq, wanted);
	else
		raise_now(f, cq, wanted);
}

/* ---- moderation ---------------------------------------------------------------------------- */

static bool is_moderated(const struct xt_cq *cq)
{
	return __atomic_load_n(&cq->moderation.count, __ATOMIC_ACQUIRE);
}

/*
 * Starts the period. A timer that is set already ends earlier: it is set again then. Called with
 * the CQ's lock held.
 */
static void start_period(struct xt_flow *f, struct xt_cq *cq)
{
	struct xt_moderation *m = &cq->moderation;
	struct xt_engine *e = f->engine;

	m->raise_at = e->now + m->period;
	if (m->engine)
		return;
	m->engine = e;
	xt_timer_set_event(e, cq, m->raise_at);
	/* the timer raises an event in no flow */
	xt_flow_charge(f, XT_EVENT_COST);
	if (e->entered && e->ops->wake)
		e->ops->wake(e->ctx, e);
}

/*
 * Counts one more completion, or @unpolled completions since the CQ was armed. Returns true if the
 * event is due now.
 */
static bool count_completions(struct xt_flow *f, struct xt_cq *cq, uint32_t wanted,
			      uint32_t unpolled)
{
	struct xt_moderation *m = &cq->moderation;
	uint32_t before;
	bool due;

	xt_cq_lock(cq);
	before = m->held;
	if (!unpolled)
		m->held++;
	else if (unpolled > m->held)
		m->held = unpolled;
	m->wanted |= wanted;
	due = m->held >= m->count;
	if (due)
		m->held = m->wanted = 0;
	else if (!before)
		start_period(f, cq);
	xt_cq_unlock(cq);
	return due;
}

void xt_cq_timeout(struct xt_engine *e, struct xt_cq *cq)
{
	struct xt_moderation *m = &cq->moderation;
	uint32_t wanted = 0;

	xt_cq_lock(cq);
	m->engine = NULL;
	if (m->held && m->raise_at > e->now) {
		m->engine = e;
		xt_timer_set_event(e, cq, m->raise_at);
	} else if (m->held) {
		wanted = m->wanted;
		m->held = m->wanted = 0;
	}
	xt_cq_unlock(cq);
	if (cq_event_disarm(cq, wanted))
		raise(e, cq);
}

int xt_cq_moderation_reserve(struct xt_engine *e)
{
	return xt_timer_reserve_event(e);
}

void xt_cq_moderation_release(struct xt_engine *e)
{
	e->moderated_cqs--;
}

void xt_cq_moderate_off(struct xt_cq *cq)
{
	__atomic_store_n(&cq->moderation.count, 0, __ATOMIC_RELAXED);
}

void xt_cq_moderate(struct xt_cq *cq, uint32_t count, uint32_t period_us)
{
	struct xt_moderation *m = &cq->moderation;

	m->period = period_us * 1000ull;
	__atomic_store_n(&m->count, count > 1 && period_us ? count : 0, __ATOMIC_RELEASE);
}

/* ---- events that wait ---------------------------------------------------------------------- */

struct xt_engine *xt_cq_waits_in(struct xt_cq *cq)
{
	struct xt_engine *e;

	xt_cq_lock(cq);
	e = cq->late ? cq->late_in : cq->moderation.engine;
	xt_cq_unlock(cq);
	return e;
}

/* Returns the arm bits that the event is for; 0: there is none. */
static uint32_t queue_take_event(struct xt_engine *e, struct xt_cq *cq)
{
	struct xt_moderation *m = &cq->moderation;
	uint32_t wanted = 0;

	xt_cq_lock(cq);
	if (cq->late && cq->late_in == e) {
		xt_list_del(&cq->late_link);
		wanted = cq->late;
		cq->late = 0;
	}
	if (m->engine == e) {
		xt_timer_remove_event(e, cq);
		wanted |= m->wanted;
		m->engine = NULL;
		m->held = m->wanted = 0;
	}
	xt_cq_unlock(cq);
	return wanted;
}

void xt_cq_raise_waiting(struct xt_engine *e, struct xt_cq *cq)
{
	if (cq_event_disarm(cq, queue_take_event(e, cq)))
		raise(e, cq);
}

void xt_cq_drop_waiting(struct xt_engine *e, struct xt_cq *cq)
{
	queue_take_event(e, cq);
}

/* ---- armed CQs ----------------------------------------------------------------------------- */

void xt_cq_notify(struct xt_flow *f, struct xt_cq *cq, bool solicited)
{
	uint32_t wanted = XR_ARM_ANY | (solicited ? XR_ARM_SOLICITED : 0);

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!(__atomic_load_n(&cq->queue->word, __ATOMIC_RELAXED) & wanted))
		return;
	if (!is_moderated(cq) || count_completions(f, cq, wanted, 0))
		raise_event(f, cq, wanted);
}

/*
 * Returns the number of completions that the client has not polled, as far as its index is valid.
 * *wanted: the arm bits that they satisfy.
 */
static uint32_t unpolled(struct xt_cq *cq, uint32_t *wanted)
{
	uint32_t n;

	xt_cq_lock(cq);
	n = cq->producer - __atomic_load_n(&cq->queue->consumer, __ATOMIC_ACQUIRE);
	*wanted = n ? XR_ARM_ANY : 0;
	if (cq->producer - cq->solicited < n)
		*wanted |= XR_ARM_SOLICITED;
	xt_cq_unlock(cq);
	return n;
}

void xt_cq_check_armed(struct xt_flow *f, struct xt_cq *cq, uint64_t now)
{
	uint32_t word = __atomic_load_n(&cq->queue->word, __ATOMIC_RELAXED), wanted, n;

	f->engine->now = now;
	if (!word)
		return;
	n = unpolled(cq, &wanted);
	if (!(word & wanted))
		return;
	/* the number of solicited ones is not known */
	if (!(word & XR_ARM_ANY))
		n = 1;
	if (!is_moderated(cq) || count_completions(f, cq, wanted, n))
		raise_event(f, cq, wanted);
}
