// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The engine: dispatches received frames to QPs, and schedules active QPs. */
#include <errno.h>
#include <stdlib.h>

#include <xroce/gid.h>

#include "checksum.h"
#include "completer.h"
#include "cq_event.h"
#include "engine.h"
#include "flow.h"
#include "icrc.h"
#include "list.h"
#include "loopback.h"
#include "packet.h"
#include "qp.h"
#include "requester.h"
#include "resend.h"
#include "responder.h"
#include "responses.h"
#include "timer.h"
#include "unreliable.h"

/* Limit for all QPs in one round, in the unit of XT_QP_BUDGET */
#define ROUND_BUDGET 256
#define COMPETING_BUDGET 64 /* while flows compete */
#define LOSSY_BUDGET 32	    /* while packets are lost: a long round delays what is missing */
#define LOSSY_NS 10000000u  /* for this time after a loss, more losses are expected */
#define ROUND_TIMERS 64	    /* timers of each kind that expire in one round */
#define ROUND_DROPPED 512   /* packets freed in one round */
/* Flushed work requests that cost as much as a packet */
#define FLUSHED_PER_PACKET 16
/* Cost of scheduling a QP, in bytes */
#define SCHEDULE_COST (XT_PACKET_COST / 8)

struct xt_engine *xt_engine_new(const struct xt_ops *ops, void *ctx, struct xt_shared *shared)
{
	struct xt_engine *e = calloc(1, sizeof(*e));

	if (!e || xt_park_pool_init(&e->parked)) {
		free(e);
		return NULL;
	}
	e->ops = ops;
	e->ctx = ctx;
	e->shared = shared;
	e->tuning = (struct xt_tuning)XT_TUNING_DEFAULT;
	xt_list_init(&e->flows);
	xt_flow_init(&e->flow, e);
	xt_list_init(&e->acks_due);
	xt_list_init(&e->resumed);
	xt_list_init(&e->dropped);
	return e;
}

void xt_engine_free(struct xt_engine *e)
{
	if (!e)
		return;
	xt_timer_free(e);
	xt_park_pool_free(&e->parked);
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
	if (t->first_window > t->window)
		return -EINVAL;
	e->tuning = *t;
	if (!t->first_window)
		e->tuning.first_window = t->window;
	return 0;
}

void xt_event(struct xt_qp *qp, uint32_t type)
{
	xt_flow_charge(qp->flow, XT_EVENT_COST);
	qp->engine->ops->async_event(qp->engine->ctx, qp, NULL, type);
}

/* ---- scheduling -------------------------------------------------------------------------- */

void xt_schedule_response(struct xt_qp *qp)
{
	if (xt_list_empty(&qp->ack_link))
		xt_list_add_tail(&qp->engine->acks_due, &qp->ack_link);
}

#define OF_LIST(l, member) ((struct xt_qp *)((char *)(l)-offsetof(struct xt_qp, member)))

static void run_timers(struct xt_engine *e)
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

static bool hurried(const struct xt_engine *e)
{
	return e->ops->hurry && e->ops->hurry(e->ctx);
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
	struct xt_step *send = &qp->park.step[XT_STEP_SEND];
	struct xt_step *respond = &qp->park.step[XT_STEP_RESPOND];

	if (__builtin_expect(send->used, false))
		xt_step_idle(send);
	if (__builtin_expect(respond->used, false))
		xt_step_idle(respond);
}

/* A QP in ERR or SQE: flushes what was posted since, as far as the budget permits. */
static uint32_t flush(struct xt_qp *qp, uint32_t budget, bool *more)
{
	*more |= xt_qp_flush(qp, budget * FLUSHED_PER_PACKET);
	xt_flow_charge(qp->flow, budget * XT_PACKET_COST);
	return budget;
}

static uint32_t visit(struct xt_qp *qp, uint32_t budget)
{
	bool more = false;
	uint32_t cost = xt_resp_run(qp, budget, &more);

	if (qp->info.state == XR_QPS_ERR || qp->info.state == XR_QPS_SQE)
		cost += flush(qp, budget, &more);
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
static uint32_t serve(struct xt_flow *f)
{
	if (xt_cq_raise_late(f))
		return 1;
	/* scheduling a QP has a cost even if it sends nothing */
	xt_flow_charge(f, SCHEDULE_COST);
	return 1 + visit(xt_flow_take(f), XT_QP_BUDGET);
}

uint64_t xt_engine_next(struct xt_engine *e)
{
	if (!xt_list_empty(&e->flows) || !xt_list_empty(&e->acks_due) ||
	    !xt_list_empty(&e->resumed) || !xt_list_empty(&e->dropped))
		return e->now;
	return xt_timer_next(e);
}

bool xt_engine_short_rounds(const struct xt_engine *e)
{
	return xt_engine_competes(e) || e->now < e->lossy_until;
}

void xt_engine_lossy(struct xt_engine *e)
{
	e->lossy_until = e->now + LOSSY_NS;
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
	e->tx_full = false;
	xt_resume(e);
	run_timers(e);
	send_acks(e);
	budget = round_budget(e);
	while (spent < budget && !e->tx_full && !hurried(e) && (f = xt_flow_turn(e)))
		spent += serve(f);
	xt_park_free(e, ROUND_DROPPED);
	return xt_engine_next(e);
}

uint32_t xt_qp_catch_up(struct xt_qp *qp, uint64_t now, uint32_t visits)
{
	struct xt_engine *e = qp->engine;

	e->tx_full = false;
	xt_qp_doorbell(qp, now);
	for (; visits && !qp->capped && !xt_list_empty(&qp->active_link) && !e->tx_full; visits--) {
		xt_list_del(&qp->active_link);
		visit(qp, XT_QP_BUDGET);
	}
	return visits;
}

bool xt_engine_enter(struct xt_engine *e, struct xt_engine *other)
{
	if (other != e && (!e->ops->engine_lock || !e->ops->engine_lock(e->ctx, other)))
		return false;
	if (other->now < e->now)
		other->now = e->now;
	other->entered = other != e;
	return true;
}

void xt_engine_leave(struct xt_engine *e, struct xt_engine *other)
{
	if (other == e)
		return;
	other->entered = false;
	e->ops->engine_unlock(e->ctx, other);
}

/* ---- received frames ------------------------------------------------------------------------ */

/* The metadata is not trusted: every offset that is used below is checked here. */
static bool parse(const struct xt_frame *frame, struct xt_rx *rx)
{
	const struct xr_meta *m = &frame->meta;
	uint32_t word, end;
	struct xr_bth bth;

	if (!frame->nseg || m->bth_off + XR_BTH_HLEN > frame->seg[0].len)
		return false;
	memcpy(&bth, frame->seg[0].data + m->bth_off, sizeof(bth));
	rx->frame = frame;
	rx->opcode = bth.opcode;
	rx->flags = xr_opcodes[bth.opcode].flags;
	rx->solicited = bth.flags & XR_BTH_SE;
	rx->ext = frame->seg[0].data + m->bth_off + XR_BTH_HLEN;
	rx->len = m->payload_len;
	word = be32toh(bth.ack_psn);
	rx->ackreq = word & XR_BTH_ACKREQ;
	rx->psn = word & XR_PSN_MASK;

	end = m->payload_off + m->payload_len + xt_pad_count(rx->ext - XR_BTH_HLEN) + XR_ICRC_LEN;
	return (be16toh(bth.pkey) & XR_PKEY_MASK) == (XR_DEFAULT_PKEY & XR_PKEY_MASK) &&
	       rx->flags && m->payload_off <= frame->seg[0].len && end <= frame->len &&
	       m->payload_off == m->bth_off + XR_BTH_HLEN + xr_opcodes[rx->opcode].ext_len;
}

/*
 * Returns true if the frame's addresses are those of the QP's path. A loopback peer sends no
 * frames, or the device itself has received them: else one with our own source address is forged.
 */
static bool from_peer(const struct xt_qp *qp, const struct xt_frame *frame)
{
	const struct xt_path *path = &qp->path;
	const uint8_t *ip = frame->seg[0].data + frame->meta.ip_off;

	if (path->loopback || frame->self != path->self ||
	    frame->meta.ip_version != path->ip_version)
		return false;
	if (path->ip_version == 4)
		return xr_gid_is_ipv4(&path->dgid) &&
		       !memcmp(ip + 12, path->dgid.raw + XR_GID_IPV4_OFF, 4) &&
		       !memcmp(ip + 16, path->sgid.raw + XR_GID_IPV4_OFF, 4);
	return !memcmp(ip + 8, path->dgid.raw, 16) && !memcmp(ip + 24, path->sgid.raw, 16);
}

/*
 * Checks the opcode's class against the QP's type. Connected types accept frames of their peer
 * only. XRC initiators accept responses, and targets accept requests.
 */
static bool fits(const struct xt_qp *qp, const struct xt_rx *rx)
{
	bool request = rx->flags & XR_OPF_REQUEST;

	switch (rx->opcode & XR_CLASS_MASK) {
	case XR_CLASS_RC:
		return qp->info.type == XR_QPT_RC && from_peer(qp, rx->frame);
	case XR_CLASS_UC:
		return qp->info.type == XR_QPT_UC && from_peer(qp, rx->frame);
	case XR_CLASS_XRC:
		return qp->info.type == (request ? XR_QPT_XRC_RECV : XR_QPT_XRC_SEND) &&
		       from_peer(qp, rx->frame);
	case XR_CLASS_UD:
		return qp->info.type == XR_QPT_UD;
	default:
		return false;
	}
}

bool xt_rx_connected(struct xt_qp *qp, const struct xt_rx *rx)
{
	if (qp->info.type == XR_QPT_UC)
		return xt_uc_rx(qp, rx);
	if (rx->flags & XR_OPF_REQUEST)
		return xt_responder_rx(qp, rx);
	return xt_completer_rx(qp, rx);
}

static void to_qp(struct xt_engine *e, struct xt_qp *qp, struct xt_rx *rx)
{
	enum xt_park_side side;

	if (!fits(qp, rx)) {
		e->counters.rx_malformed++;
		return;
	}
	if (!xt_may_receive(qp)) {
		e->counters.rx_qp_state++;
		return;
	}
	xt_flow_received(qp->flow);
	qp->counters.rx_packets++;
	qp->counters.rx_bytes += rx->frame->len;
	/* from here on the opcode is the operation without the class */
	rx->opcode &= ~XR_CLASS_MASK;
	if (qp->info.type == XR_QPT_UD) {
		xt_ud_rx(qp, rx);
		return;
	}
	side = rx->flags & XR_OPF_REQUEST ? XT_PARK_RESPONDER : XT_PARK_REQUESTER;
	if (__builtin_expect(rx->frame->inject.kind != XT_INJECT_NONE, false)) {
		xt_qp_inject(qp, rx->frame->inject, true);
		if (!xt_may_receive(qp))
			return;
	}
	if (xt_park_waits(&qp->park, side) || !xt_rx_connected(qp, rx))
		xt_park_rx(qp, rx);
}

void xt_forward(struct xt_engine *e, struct xt_engine *other, const struct xt_frame *frame)
{
	if (e->ops->forward && e->ops->forward(e->ctx, other, frame))
		e->counters.rx_forwarded++;
	else
		e->counters.rx_forward_lost++;
}

/*
 * The engine that receives a frame checks it, also for a QP of another engine, so that invalid
 * frames use no room there. The UDP checksum comes last: in most packets it is 0, which costs
 * nothing to check.
 */
static bool is_intact(struct xt_engine *e, const struct xt_frame *frame)
{
	if (frame->forwarded)
		return true;
	if (!xt_icrc_ok(frame)) {
		e->counters.rx_icrc_errors++;
		return false;
	}
	if (!xt_udp_checksum_ok(frame)) {
		e->counters.rx_udp_checksum_errors++;
		return false;
	}
	return true;
}

static void rx_group(struct xt_engine *e, const struct xt_rx *rx)
{
	if (!is_intact(e, rx->frame))
		return;
	if ((rx->opcode & XR_CLASS_MASK) != XR_CLASS_UD)
		e->counters.rx_malformed++;
	else
		xt_ud_rx_group(e, rx);
}

static void rx_one(struct xt_engine *e, const struct xt_frame *frame)
{
	struct xt_qp *qp;
	struct xt_rx rx;

	e->counters.rx_packets++;
	e->counters.rx_bytes += frame->len;
	if (!parse(frame, &rx)) {
		e->counters.rx_malformed++;
		return;
	}
	if (frame->meta.qpn == XR_MULTICAST_QPN) {
		rx_group(e, &rx);
		return;
	}
	qp = xt_qp_by_num(e->shared->qps, frame->meta.qpn);
	if (!qp) {
		e->counters.rx_no_qp++;
		return;
	}
	if (!is_intact(e, frame))
		return;
	if (qp->engine != e) {
		xt_forward(e, qp->engine, frame);
		return;
	}
	if (rx.opcode == XR_OPCODE_CNP)
		e->counters.cnps_received++;
	else
		to_qp(e, qp, &rx);
}

void xt_engine_rx(struct xt_engine *e, struct xt_frame *frames, unsigned n, uint64_t now)
{
	unsigned i;

	e->now = now;
	for (i = 0; i < n; i++)
		rx_one(e, &frames[i]);
}
