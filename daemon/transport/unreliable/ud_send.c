// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* UD: datagrams out of send queues. A QP of this daemon gets a copy without a packet. */
#include <xroce/gid.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/loopback/show.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/memory/guard.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/queue/wr_kind.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/scheduling/pace.h"
#include "daemon/transport/waiting/posted.h"
#include "daemon/transport/wire/ah.h"
#include "daemon/transport/wire/group.h"
#include "daemon/transport/wire/packet.h"
#include "send_queue.h"
#include "ud.h"
#include "unreliable.h"

enum ud_send_step { STEP_ON, STEP_BUSY, STEP_WAIT };

static void ud_send_build(const struct xt_qp *qp, const struct xt_swqe *w, const struct xt_ah *ah,
			  struct xt_packet *p)
{
	struct xr_deth deth = { htobe32(w->remote_qkey), htobe32(qp->info.qpn) };

	xt_packet_init(p, XR_OP_SEND_ONLY, w->psn);
	p->solicited = w->flags & XR_SEND_SOLICITED;
	p->ah = ah;
	p->dqpn = w->remote_qpn;
	memcpy(p->ext, &deth, sizeof(deth));
	p->ext_len = sizeof(deth);
	if (xt_has_imm(w)) {
		p->opcode = XR_OP_SEND_ONLY_IMM;
		memcpy(p->ext + p->ext_len, &w->imm, sizeof(w->imm));
		p->ext_len += sizeof(w->imm);
	}
}

/* Collects the payload. Sets w->error if its memory cannot be read. */
static enum ud_send_step gather(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	bool gathered = xt_gather(qp, qp->sq.retired, 0, w->length, &p->payload, &w->error);

	if (__builtin_expect(qp->accesses.reads[XT_READS_SEND].used, false))
		xt_sq_read_ahead(qp, qp->sq.retired);
	if (gathered)
		return STEP_ON;
	return w->error.status ? STEP_ON : STEP_WAIT;
}

static enum ud_send_step send_wire(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	enum ud_send_step step = gather(qp, w, p);

	if (step != STEP_ON || w->error.status)
		return step;
	return xt_send(qp, p) ? STEP_ON : STEP_BUSY;
}

/*
 * The worker of the receiver goes on with accesses to its memory that have begun. It may sleep, as
 * nothing else has told it of the datagram.
 */
static void wake_receiver(const struct xt_qp *qp, const struct xt_qp *to)
{
	const struct xt_engine *e = qp->engine;

	if (to->engine != e && e->ops->wake &&
	    (xt_keeps(&to->waiting, XT_RESPONDER) || xt_posted(&to->accesses, XT_RESPONDER)))
		e->ops->wake(e->ctx, to->engine);
}

/*
 * Delivers the datagram to a QP of this daemon, whose engine the caller has entered. The payload
 * was collected before, unless it is mapped.
 */
static void unreliable_send_copy(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p,
				 struct xt_qp *to)
{
	struct xt_datagram d = {
		.src = { .qp = qp, .index = qp->sq.retired },
		.len = w->length,
		.qkey = w->remote_qkey,
		.src_qpn = qp->info.qpn,
		.imm = w->imm,
		.has_imm = xt_has_imm(w),
		.solicited = w->flags & XR_SEND_SOLICITED,
	};
	struct xt_wc_error error;

	xt_flow_charge(qp->flow, XT_PACKET_COST + w->length);
	/* bytes that are not mapped were collected */
	if (p->payload.n)
		d.src = (struct xt_source){ .seg = p->payload.seg };
	p->payload.len = w->length;
	xt_grh_of_packet(qp, p, d.grh);
	qp->counters.tx_bytes += w->length;
	if (xt_may_receive(to))
		to->counters.rx_bytes += w->length;
	if (xt_may_receive(to) && xt_ud_deliver(to, &d, &error) == XT_SIDE_SOURCE)
		w->error = error;
	else
		qp->engine->counters.loopback_operations++;
	wake_receiver(qp, to);
}

/*
 * Sends to a QP of this device. If there is none, the send still completes with success. QPNs that
 * no engine here has may be those of programs that share the addresses.
 */
static enum ud_send_step send_loopback(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	struct xt_qp *peer = xt_qp_by_num(qp->engine->shared->qps, w->remote_qpn);
	struct xt_sgl l = xt_swqe_sgl(qp, qp->sq.retired);
	enum ud_send_step step;

	if (!peer && qp->engine->tuning.shares_addresses)
		return send_wire(qp, w, p);
	/* invalid L_Keys fail the work request even if the datagram is lost */
	if (!xt_check_sgl(&l, 0, &w->error))
		return STEP_ON;
	if (!peer || peer->info.type != XR_QPT_UD)
		return STEP_ON;
	if (!xt_wqe_is_mapped(qp, qp->sq.retired)) {
		step = gather(qp, w, p);
		if (step != STEP_ON || w->error.status)
			return step;
	}
	if (!xt_engine_enter(qp->engine, peer->engine))
		return STEP_BUSY;
	if (__builtin_expect(qp->engine->show_len, 0))
		xt_show_datagram(qp, p, qp->sq.retired);
	unreliable_send_copy(qp, w, p, peer);
	xt_engine_leave(qp->engine, peer->engine);
	return STEP_ON;
}

static void leave_members(struct xt_engine *e, const struct xt_group *g, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (xt_group_first_of_engine(g, i))
			xt_engine_leave(e, g->member[i].engine);
}

/* Enters the engines of all members. Returns false, with none entered, if one of them is busy. */
static bool enter_members(struct xt_engine *e, const struct xt_group *g)
{
	uint32_t i;

	for (i = 0; i < g->members; i++) {
		if (!xt_group_first_of_engine(g, i) || xt_engine_enter(e, g->member[i].engine))
			continue;
		leave_members(e, g, i);
		return false;
	}
	return true;
}

/* Delivers copies to all members of this daemon except the sender (IBTA 10.5.2). */
static void send_copies(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p,
			const struct xt_group *g)
{
	struct xt_qp *to;
	uint32_t i;

	for (i = 0; i < g->members && !w->error.status; i++) {
		to = xt_group_qp(g, i);
		if (to && to != qp)
			unreliable_send_copy(qp, w, p, to);
	}
}

static enum ud_send_step send_to_group(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	struct xt_engine *e = qp->engine;
	const struct xt_group *g = xt_group_find(e->shared->groups, &p->ah->path.dgid);
	enum ud_send_step step;

	if (!g || p->dqpn != XR_MULTICAST_QPN || p->ah->path.self)
		return send_wire(qp, w, p);
	if (!enter_members(e, g))
		return STEP_BUSY;
	step = send_wire(qp, w, p);
	if (step == STEP_ON && !w->error.status)
		send_copies(qp, w, p, g);
	leave_members(e, g, g->members);
	return step;
}

static enum ud_send_step send_one(struct xt_qp *qp, struct xt_swqe *w)
{
	const struct xt_ah *ah = xt_ah_get(qp->ahs, w->ah);
	struct xt_packet p;
	enum ud_send_step step;

	/* destroyed since the work request was checked */
	if (!ah) {
		w->error = (struct xt_wc_error){ IBV_WC_LOC_QP_OP_ERR, XR_VERR_AH };
		return STEP_ON;
	}
	ud_send_build(qp, w, ah, &p);
	if (ah->path.loopback)
		step = send_loopback(qp, w, &p);
	else
		step = ah->group ? send_to_group(qp, w, &p) : send_wire(qp, w, &p);
	if (step == STEP_ON)
		xt_pace_spend(qp, xt_frame_len(&ah->tmpl, p.ext_len + w->length));
	return step;
}

uint32_t xt_ud_run(struct xt_qp *qp, uint32_t budget, bool *more)
{
	enum ud_send_step step = STEP_ON;
	struct xt_swqe *w;
	uint32_t cost;

	for (cost = 0; (w = xt_unreliable_current(qp)) && xt_pace_open(qp); cost++) {
		if (cost < budget)
			step = send_one(qp, w);
		if (cost == budget || step == STEP_BUSY)
			*more = true;
		if (cost == budget || step != STEP_ON)
			break;
		/* if a QP sends to itself, its own receive may have moved it to ERR */
		if (!xt_may_send(qp))
			break;
		if (!w->error.status && !xt_unreliable_finish(qp, w))
			break;
	}
	return cost;
}
