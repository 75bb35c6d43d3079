// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The engine: rounds, in which active QPs send. rx.c dispatches received frames. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/transport/queue/cq_event.h"
#include "daemon/transport/memory/ending.h"
#include "engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "flush.h"
#include "daemon/transport/base/list.h"
#include "daemon/transport/loopback/loopback.h"
#include "daemon/transport/scheduling/pace.h"
#include "qp.h"
#include "daemon/transport/rc/requester.h"
#include "daemon/transport/rc/resend.h"
#include "daemon/transport/rc/responses.h"
#include "resume.h"
#include "daemon/transport/scheduling/timer.h"
#include "daemon/transport/unreliable/unreliable.h"

/* Limit for all QPs in one round, in the unit of XT_QP_BUDGET */
#define ROUND_BUDGET 256
#define COMPETING_BUDGET 64 /* while flows compete */
#define LOSSY_BUDGET 32	    /* while packets are lost: a long round delays what is missing */
#define ROUND_TIMERS 64	    /* timers of each kind that expire in one round */
#define ROUND_DROPPED 512   /* packets freed in one round */
/* Flushed work requests that cost as much as a packet */
#define FLUSHED_PER_PACKET 16
/* Cost of scheduling a QP, in bytes */
#define SCHEDULE_COST (XT_PACKET_COST / 8)

struct xt_engine *xt_engine_new(const struct xt_ops *ops, void *ctx, struct xt_shared *shared)
{
	struct xt_engine *e = calloc(1, sizeof(*e));

	if (!e || xt_kept_pool_init(&e->kept)) {
		free(e);
		return NULL;
	}
	e->ops = ops;
	e->ctx = ctx;
	e->shared = shared;
	xt_engine_tune(e, &(struct xt_tuning)XT_TUNING_DEFAULT);
	xt_list_init(&e->flows);
	xt_flow_init(&e->flow, e);
	xt_list_init(&e->acks_due);
	xt_list_init(&e->failed);
	xt_list_init(&e->resumed);
	xt_list_init(&e->polls);
	xt_list_init(&e->dropped);
	return e;
}

void xt_engine_free(struct xt_engine *e)
{
	if (!e)
		return;
	xt_timer_free(e);
	xt_kept_pool_free(&e->kept);
	free(e);
}

void xt_engine_show(struct xt_engine *e, uint32_t len)
{
	e->show_len = e->ops->show ? len : 0;
}

void *xt_engine_ctx(const struct xt_engine *e)
{
	return e->ctx;
}

const struct xt_counters *xt_engine_counters(const struct xt_engine *e)
{
	return &e->counters;
}

void xt_counters_add(struct xt_counters *sum, const struct xt_counters *c)
{
#define X(field, text) sum->field += c->field;
	XT_COUNTERS(X)
#undef X
}

int xt_engine_tune(struct xt_engine *e, const struct xt_tuning *t)
{
	if (t->window < XT_MIN_WINDOW || t->window > 8192 || t->engine_window < t->window)
		return -EINVAL;
	if (!t->read_packets || t->read_packets > t->window || t->read_packets > 128)
		return -EINVAL;
	if (t->first_window > t->window || t->uc_rate > XT_MAX_RATE)
		return -EINVAL;
	if (t->short_window && (t->short_window < t->window || t->short_window > 8192))
		return -EINVAL;
	if (t->qpn_modulus > XT_MAX_MODULUS || (t->qpn_modulus && t->qpn_rest >= t->qpn_modulus))
		return -EINVAL;
	e->tuning = *t;
	xt_pace_set_uc(e, t->uc_rate);
	if (!t->first_window)
		e->tuning.first_window = t->window;
	if (!t->short_window)
		e->tuning.short_window = t->window;
	return 0;
}

/* ---- scheduling -------------------------------------------------------------------------- */

#define OF_LIST(l, member) ((struct xt_qp *)((char *)(l)-offsetof(struct xt_qp, member)))

static void engine_run_timers(struct xt_engine *e)
{
	unsigned left = ROUND_TIMERS;
	struct xt_qp *qp;
	struct xt_cq *cq;

	for (; left && (qp = xt_timer_expired_retry(e, e->now)); left--)
		xt_req_timeout(qp);
	for (left = ROUND_TIMERS; left && (qp = xt_timer_expired_rate(e, e->now)); left--)
		xt_activate(qp);
	for (left = ROUND_TIMERS; left && (cq = xt_timer_expired_event(e, e->now)); left--)
		xt_cq_timeout(e, cq);
}

/* Sends ACKs and NAKs before QPs are scheduled, unless READ responses precede them. */
static void send_acks(struct xt_engine *e)
{
	struct xt_qp *qp;
	bool more;

	while (!e->tx_full && !xt_list_empty(&e->acks_due)) {
		qp = OF_LIST(e->acks_due.next, ack_link);
		xt_list_del(&qp->ack_link);
		more = false;
		xt_resp_run(qp, 0, &more);
		if (more)
			xt_activate(qp);
	}
}

/* Data that was read ahead for a QP is kept until another QP needs the staging memory. */
static void idle(struct xt_qp *qp)
{
	struct xt_reads *send = &qp->accesses.reads[XT_READS_SEND];
	struct xt_reads *respond = &qp->accesses.reads[XT_READS_RESPOND];

	if (__builtin_expect(send->used, false))
		xt_reads_idle(send);
	if (__builtin_expect(respond->used, false))
		xt_reads_idle(respond);
}

/* A QP in ERR or SQE: flushes what was posted since, as far as the budget permits. */
static uint32_t engine_flush(struct xt_qp *qp, uint32_t budget, bool *more)
{
	*more |= xt_qp_flush(qp, budget * FLUSHED_PER_PACKET);
	xt_flow_charge(qp->flow, budget * XT_PACKET_COST);
	return budget;
}

static uint32_t engine_visit(struct xt_qp *qp, uint32_t budget)
{
	bool more = false;
	uint32_t cost = xt_resp_run(qp, budget, &more);

	if ((qp->info.state == XR_QPS_ERR || qp->info.state == XR_QPS_SQE) && xt_qp_may_flush(qp))
		cost += engine_flush(qp, budget, &more);
	if (xt_may_send(qp) && !qp->engine->tx_full) {
		if (qp->info.type == XR_QPT_UD)
			cost += xt_ud_run(qp, budget, &more);
		else if (qp->path.loopback)
			cost += xt_loopback_run(qp, budget, &more);
		else if (qp->info.type == XR_QPT_UC)
			cost += xt_uc_run(qp, budget, &more);
		else
			cost += xt_req_run(qp, budget, &more);
	} else if (xt_may_send(qp)) {
		more = true;
	}
	if (more)
		xt_activate(qp);
	else
		idle(qp);
	return cost;
}

/* Returns the cost. */
static uint32_t engine_serve(struct xt_flow *f)
{
	if (xt_cq_raise_late(f))
		return 1;
	/* scheduling a QP has a cost even if it sends nothing */
	xt_flow_charge(f, SCHEDULE_COST);
	return 1 + engine_visit(xt_flow_take(f), XT_QP_BUDGET);
}

uint64_t xt_engine_next(struct xt_engine *e)
{
	uint64_t timer, poll;

	if (!xt_list_empty(&e->flows) || !xt_list_empty(&e->acks_due) ||
	    !xt_list_empty(&e->failed) || !xt_list_empty(&e->resumed) ||
	    !xt_list_empty(&e->dropped))
		return e->now;
	timer = xt_timer_next(e);
	poll = xt_ending_next(e);
	return timer < poll ? timer : poll;
}

bool xt_engine_short_rounds(const struct xt_engine *e)
{
	return xt_engine_competes(e) || e->now < e->lossy_until;
}

static uint32_t round_budget(const struct xt_engine *e)
{
	if (e->now < e->lossy_until)
		return LOSSY_BUDGET;
	return xt_engine_competes(e) ? COMPETING_BUDGET : ROUND_BUDGET;
}

uint64_t xt_engine_run(struct xt_engine *e, uint64_t now)
{
	uint32_t spent = 0, budget;
	struct xt_flow *f;

	e->now = now;
	e->tx_full = e->lock_failed = false;
	xt_flush_failed(e); /* QPs that another engine has marked */
	xt_ending_run(e);
	xt_resume(e);
	engine_run_timers(e);
	xt_flush_failed(e);
	send_acks(e);
	budget = round_budget(e);
	while (spent < budget && !e->tx_full && !e->lock_failed && (f = xt_flow_turn(e))) {
		spent += engine_serve(f);
		xt_flush_failed(e);
	}
	xt_kept_free_dropped(e, ROUND_DROPPED);
	return xt_engine_next(e);
}

uint32_t xt_qp_catch_up(struct xt_qp *qp, uint64_t now, uint32_t visits)
{
	struct xt_engine *e = qp->engine;

	e->tx_full = false;
	xt_qp_doorbell(qp, now);
	for (; visits && !e->tx_full && xt_flow_take_qp(qp); visits--) {
		engine_visit(qp, XT_QP_BUDGET);
		xt_flush_failed(e);
	}
	xt_flow_rest(qp->flow); /* else the engine would have a turn for it, xt_engine_next() */
	return visits;
}
