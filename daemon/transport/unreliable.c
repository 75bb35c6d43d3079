// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * UC and UD, IBTA 9.8. There are no acknowledgements: a work request completes when its last packet
 * is passed to the environment, so `unacked`, `next` and `max` of the requester are always equal.
 * The responder silently drops messages that it cannot receive.
 */
#include <xroce/gid.h>

#include "build.h"
#include "ah.h"
#include "copy.h"
#include "engine.h"
#include "flow.h"
#include "guard.h"
#include "group.h"
#include "loopback_show.h"
#include "pace.h"
#include "packet.h"
#include "parked.h"
#include "qp.h"
#include "requester.h"
#include "responder.h"
#include "rq.h"
#include "sq.h"
#include "unreliable.h"
#include "wr_kind.h"

/*
 * Completes the oldest work request after its last packet. Returns false if the QP is in ERR now.
 */
static bool finish(struct xt_qp *qp, const struct xt_swqe *w)
{
	struct xt_requester *r = &qp->req;

	r->unacked = r->next = r->max = w->psn + w->npsn;
	r->cur = r->retired + 1;
	if (!xt_sq_retire(qp))
		return false;
	xt_req_check_drained(qp);
	return true;
}

/* Returns the work request to send from; NULL: none, or it failed and the queue was flushed. */
static struct xt_swqe *current(struct xt_qp *qp)
{
	struct xt_swqe *w = xt_sq_current(qp);

	if (!w)
		return NULL;
	if (w->error.status) {
		xt_sq_fail(qp, w->error);
		return NULL;
	}
	/* SQD: work requests not begun yet must wait */
	if (qp->info.state == XR_QPS_SQD && qp->req.next == w->psn)
		return NULL;
	return w;
}

/* ---- UC ------------------------------------------------------------------------------------ */

uint32_t xt_uc_run(struct xt_qp *qp, uint32_t budget, bool *more)
{
	struct xt_requester *r = &qp->req;
	struct xt_packet p;
	struct xt_swqe *w;
	uint32_t cost;

	for (cost = 0; (w = current(qp)) && xt_pace_uc_open(qp); cost++) {
		if (cost == budget) {
			*more = true;
			break;
		}
		if (w->kind == XT_KIND_LOCAL) {
			if (!xt_req_run_local(qp, w))
				break;
			continue;
		}
		xt_packet_init(&p, 0, r->next);
		if (!xt_req_build(qp, &(struct xt_cursor){ r->cur, r->next, 1 }, &p)) {
			if (w->error.status)
				continue;
			break; /* parked */
		}
		if (!xt_send(qp, &p)) {
			*more = true;
			break;
		}
		xt_pace_uc_spend(qp, xt_frame_len(&qp->tmpl, p.ext_len + p.payload.len));
		r->unacked = r->max = ++r->next;
		if (r->next == w->psn + w->npsn && !finish(qp, w))
			break;
	}
	return cost;
}

/* IBTA 9.8.2.2: after a lost packet, packets are dropped until the next message begins. */
bool xt_uc_rx(struct xt_qp *qp, const struct xt_rx *rx)
{
	struct xt_responder *resp = &qp->resp;
	uint32_t psn = resp->epsn + xr_psn_diff(rx->psn, resp->epsn & XR_PSN_MASK);
	enum xt_outcome outcome = XT_REFUSED;
	struct xt_request rq;
	struct xt_result res;

	xt_resp_established(qp);
	if (rx->flags & XR_OPF_START)
		xt_resp_begin_message(qp, psn);
	xt_resp_parse(qp, rx, &rq);
	if (psn == resp->epsn)
		outcome = xt_resp_request(qp, &rq, &res);
	if (outcome == XT_PARKED) {
		xt_step_park(rq.src.step);
		return false;
	}
	xt_step_end(rq.src.step);
	if (outcome != XT_ACCEPTED)
		xt_resp_drop_message(qp);
	return true;
}

/* ---- UD: into a receive queue --------------------------------------------------------------- */

struct datagram {
	uint8_t grh[XR_GRH_LEN];
	struct xt_source src;
	uint32_t len;
	uint32_t qkey;
	uint32_t src_qpn;
	__be32 imm;
	bool has_imm, solicited;
};

static void fail_receive(struct xt_qp *qp, const struct xt_wc_error *error)
{
	struct xr_cqe cqe = {
		.status = error->status,
		.vendor_err = error->verr,
		.opcode = IBV_WC_RECV,
	};

	xt_qp_note(qp, XT_CAUSE_RECEIVE, error->status, error->verr);
	xt_rq_complete(qp, &cqe, false);
	xt_qp_error(qp, true);
}

/*
 * Value of the completion's `sl`, which has no meaning without VLANs. UCX before 1.18 expects the
 * format of ConnectX there and drops datagrams over IPv4 otherwise: bit 3: UDP; bits 2..0: 1 for
 * IPv6, 2 for IPv4.
 */
static uint8_t header_type(const struct datagram *d)
{
	return 8 | (d->grh[0] >> 4 == 6 ? 1 : 2);
}

/* write: posted write with which the receive completes; NULL: all data is in memory */
static void complete_receive(struct xt_qp *qp, const struct datagram *d, struct xt_mem_io *write)
{
	struct xr_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = XR_GRH_LEN + d->len,
		.imm_data = d->has_imm ? d->imm : 0,
		.wc_flags = IBV_WC_GRH | (d->has_imm ? IBV_WC_WITH_IMM : 0),
		.src_qpn = d->src_qpn,
		.sl = header_type(d),
	};

	qp->counters.rx_messages++;
	qp->resp.epsn++;
	if (write)
		xt_rq_post(qp, &cqe, d->solicited, write);
	else
		xt_rq_complete(qp, &cqe, d->solicited);
}

/* Stores the payload of a datagram as a list, which has room for XR_MAX_SGE segments. */
static void list_payload(const struct datagram *d, struct xt_seg *out)
{
	const struct xt_seg *from = d->src.seg;
	uint64_t skip = d->src.off;
	uint32_t left;

	for (left = d->len; left; left -= (out++)->len, from++, skip = 0) {
		for (; skip >= from->len; from++)
			skip -= from->len;
		out->data = from->data + skip;
		out->len = from->len - skip < left ? from->len - (uint32_t)skip : left;
	}
}

/*
 * Copies the GRH and the payload to the memory of the receive, by one access if possible. A payload
 * that is still in the memory of a work request takes another one.
 */
static enum xt_side scatter(struct xt_qp *qp, struct datagram *d, struct xt_wc_error *error)
{
	struct xt_seg whole[1 + XR_MAX_SGE];
	struct xt_source src = { .seg = whole, .step = d->src.step, .last = d->src.seg || !d->len };
	struct xt_sgl l = xt_receive_sgl(qp);
	enum xt_side side, of_payload;

	whole[0] = (struct xt_seg){ d->grh, XR_GRH_LEN };
	if (d->src.seg) {
		list_payload(d, whole + 1);
		return xt_scatter(&l, 0, &src, XR_GRH_LEN + d->len, error);
	}
	side = xt_scatter(&l, 0, &src, XR_GRH_LEN, error);
	if (side != XT_SIDE_NONE && side != XT_SIDE_WAIT)
		return side;
	of_payload = xt_scatter(&l, XR_GRH_LEN, &d->src, d->len, error);
	return of_payload == XT_SIDE_NONE ? side : of_payload;
}

/*
 * Delivers a datagram, IBTA 9.8.3.1, or drops it. Returns XT_SIDE_SOURCE with *error set if reading
 * the sender's memory failed, XT_SIDE_WAIT if the receiver's memory must be waited for, else
 * XT_SIDE_NONE.
 */
static enum xt_side try_deliver(struct xt_qp *qp, struct datagram *d, struct xt_wc_error *error)
{
	struct xt_counters *c = &qp->engine->counters;
	struct xt_mem_io *write;
	enum xt_take take;
	enum xt_side side;

	if (d->qkey != qp->attr.qkey) {
		c->qkey_errors++;
		return XT_SIDE_NONE;
	}
	take = xt_rq_take(qp, error);
	if (take == XT_TAKE_EMPTY) {
		c->no_receive++;
		return XT_SIDE_NONE;
	}
	if (take == XT_TAKE_OK && XR_GRH_LEN + (uint64_t)d->len > qp->rq.length) {
		c->unreliable_drops++;
		return XT_SIDE_NONE;
	}
	side = take == XT_TAKE_BAD ? XT_SIDE_TARGET : scatter(qp, d, error);
	write = xt_posted_now(qp);
	/* receives complete in order */
	if (xt_posted_before(qp) && (side == XT_SIDE_TARGET || (side == XT_SIDE_NONE && !write)))
		return XT_SIDE_WAIT;
	if (side == XT_SIDE_TARGET)
		fail_receive(qp, error);
	else if (side == XT_SIDE_NONE)
		complete_receive(qp, d, write);
	return side == XT_SIDE_TARGET ? XT_SIDE_NONE : side;
}

/* A datagram that waits for the receiver's memory */
struct parked_datagram {
	struct xt_parked head;
	struct datagram d;
	struct xt_seg payload;
	uint8_t data[];
};

static enum xt_side park(struct xt_qp *qp, const struct datagram *d, struct xt_wc_error *error)
{
	struct parked_datagram *item = xt_park_add(qp, XT_PARK_RESPONDER, sizeof(*item) + d->len);

	if (!item)
		return XT_SIDE_NONE;
	/* mapped memory of the sender may be absent */
	if (xt_guard_copy_segs(item->data, d->src.seg, d->src.off, d->len)) {
		xt_parked_take_out(qp, &item->head);
		xt_parked_free(qp, &item->head);
		xt_park_lose(qp, XT_PARK_RESPONDER);
		*error = (struct xt_wc_error){ IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY };
		return XT_SIDE_SOURCE;
	}
	item->d = *d;
	item->payload = (struct xt_seg){ item->data, d->len };
	item->d.src.seg = &item->payload;
	item->d.src.off = 0;
	return XT_SIDE_NONE;
}

/* Returns false if the datagram must go on waiting. */
static bool deliver_or_wait(struct xt_qp *qp, struct datagram *d, struct xt_wc_error *error,
			    enum xt_side *side)
{
	bool posts = xt_resp_posts_receive(qp, false);
	struct xt_step *step = &qp->park.step[posts ? XT_STEP_POST : XT_STEP_EXECUTE];

	d->src.step = step;
	d->src.last = true;
	*side = try_deliver(qp, d, error);
	if (*side == XT_SIDE_WAIT) {
		xt_step_park(step);
		return false;
	}
	xt_step_end(step);
	return true;
}

void xt_ud_write_failed(struct xt_qp *qp)
{
	struct xt_wc_error error;

	/* the receive that the data was for is the oldest */
	if (xt_rq_take(qp, &error) == XT_TAKE_EMPTY)
		return;
	error = (struct xt_wc_error){ IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY };
	fail_receive(qp, &error);
}

bool xt_ud_resume(struct xt_qp *qp, struct xt_parked *item)
{
	struct xt_wc_error error;
	enum xt_side side;

	return deliver_or_wait(qp, &((struct parked_datagram *)item)->d, &error, &side);
}

/*
 * Delivers a datagram now or later. If the receiver's memory has to be waited for and d->src is a
 * work request, its bytes must be mapped. Returns XT_SIDE_SOURCE as try_deliver(), or XT_SIDE_NONE.
 */
static enum xt_side deliver(struct xt_qp *qp, struct datagram *d, struct xt_wc_error *error)
{
	struct xt_payload payload;
	enum xt_side side;

	if (!xt_park_waits(&qp->park, XT_PARK_RESPONDER) && deliver_or_wait(qp, d, error, &side))
		return side;
	if (!d->src.seg) {
		*error = (struct xt_wc_error){ 0 };
		if (!xt_gather(d->src.qp, d->src.index, 0, d->len, &payload, error))
			return XT_SIDE_SOURCE;
		d->src = (struct xt_source){ .seg = payload.seg };
	}
	return park(qp, d, error);
}

void xt_ud_rx(struct xt_qp *qp, const struct xt_rx *rx)
{
	struct xt_wc_error error;
	struct xr_deth deth;
	struct datagram d;

	memcpy(&deth, rx->ext, sizeof(deth));
	d.src = (struct xt_source){ .seg = rx->frame->seg, .off = rx->frame->meta.payload_off };
	d.len = rx->len;
	d.qkey = be32toh(deth.qkey);
	d.src_qpn = be32toh(deth.sqpn) & XR_QPN_MASK;
	d.has_imm = rx->flags & XR_EXT_IMMDT;
	d.solicited = rx->solicited;
	if (d.has_imm)
		memcpy(&d.imm, rx->ext + sizeof(deth), sizeof(d.imm));
	xt_grh_of_frame(rx->frame, d.grh);
	deliver(qp, &d, &error);
}

static struct xr_addr destination(const struct xt_frame *frame)
{
	const uint8_t *ip = frame->seg[0].data + frame->meta.ip_off;
	struct xr_addr gid;
	__be32 addr;

	if (frame->meta.ip_version == 4) {
		memcpy(&addr, ip + 16, sizeof(addr));
		xr_gid_set_ipv4(&gid, addr);
	} else {
		memcpy(gid.raw, ip + 24, sizeof(gid.raw));
	}
	return gid;
}

/* The sender gets no copy (IBTA 10.5.2). */
static bool is_sender(const struct xt_qp *qp, const struct xt_rx *rx)
{
	struct xr_deth deth;

	memcpy(&deth, rx->ext, sizeof(deth));
	return rx->frame->self && qp->info.qpn == (be32toh(deth.sqpn) & XR_QPN_MASK);
}

void xt_ud_rx_group(struct xt_engine *e, const struct xt_rx *rx)
{
	struct xr_addr gid = destination(rx->frame);
	const struct xt_group *g = xt_group_find(e->shared->groups, &gid);
	struct xt_qp *qp;
	uint32_t i;

	if (!g && !rx->frame->self)
		e->counters.rx_no_qp++;
	for (i = 0; g && i < g->members; i++) {
		qp = g->member[i];
		if (qp->engine == e) {
			if (xt_may_receive(qp) && !is_sender(qp, rx))
				xt_ud_rx(qp, rx);
		} else if (xt_group_first_of_engine(g, i) && !rx->frame->forwarded) {
			xt_forward(e, qp->engine, rx->frame);
		}
	}
}

/* ---- UD: out of a send queue ---------------------------------------------------------------- */

enum step { STEP_ON, STEP_BUSY, STEP_PARKED };

static void build(const struct xt_qp *qp, const struct xt_swqe *w, const struct xt_ah *ah,
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
static enum step gather(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	bool gathered = xt_gather(qp, qp->req.retired, 0, w->length, &p->payload, &w->error);

	if (__builtin_expect(qp->park.step[XT_STEP_SEND].used, false))
		xt_sq_read_ahead(qp, qp->req.retired);
	if (gathered)
		return STEP_ON;
	return w->error.status ? STEP_ON : STEP_PARKED;
}

static enum step send_wire(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	enum step step = gather(qp, w, p);

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
	    (xt_park_waits(&to->park, XT_PARK_RESPONDER) ||
	     xt_posted(&to->park, XT_PARK_RESPONDER)))
		e->ops->wake(e->ctx, to->engine);
}

/*
 * Delivers the datagram to a QP of this daemon, whose engine the caller has entered. The payload
 * was collected before, unless it is mapped.
 */
static void send_copy(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p, struct xt_qp *to)
{
	struct datagram d = {
		.src = { .qp = qp, .index = qp->req.retired },
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
	if (xt_may_receive(to) && deliver(to, &d, &error) == XT_SIDE_SOURCE)
		w->error = error;
	else
		qp->engine->counters.loopback_operations++;
	wake_receiver(qp, to);
}

/*
 * Sends to a QP of this device. If there is none, the send still completes with success. QPNs that
 * no engine here has may be those of programs that share the addresses.
 */
static enum step send_loopback(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	struct xt_qp *peer = xt_qp_by_num(qp->engine->shared->qps, w->remote_qpn);
	struct xt_sgl l = xt_swqe_sgl(qp, qp->req.retired);
	enum step step;

	if (!peer && qp->engine->tuning.shares_addresses)
		return send_wire(qp, w, p);
	/* invalid L_Keys fail the work request even if the datagram is lost */
	if (!xt_check_sgl(&l, 0, &w->error))
		return STEP_ON;
	if (!peer || peer->info.type != XR_QPT_UD)
		return STEP_ON;
	if (!xt_wqe_is_mapped(qp, qp->req.retired)) {
		step = gather(qp, w, p);
		if (step != STEP_ON || w->error.status)
			return step;
	}
	if (!xt_engine_enter(qp->engine, peer->engine))
		return STEP_BUSY;
	if (__builtin_expect(qp->engine->show_len, 0))
		xt_show_datagram(qp, p, qp->req.retired);
	send_copy(qp, w, p, peer);
	xt_engine_leave(qp->engine, peer->engine);
	return STEP_ON;
}

static void leave_members(struct xt_engine *e, const struct xt_group *g, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (xt_group_first_of_engine(g, i))
			xt_engine_leave(e, g->member[i]->engine);
}

/* Enters the engines of all members. Returns false, with none entered, if one of them is busy. */
static bool enter_members(struct xt_engine *e, const struct xt_group *g)
{
	uint32_t i;

	for (i = 0; i < g->members; i++) {
		if (!xt_group_first_of_engine(g, i) || xt_engine_enter(e, g->member[i]->engine))
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
	uint32_t i;

	for (i = 0; i < g->members && !w->error.status; i++)
		if (g->member[i] != qp)
			send_copy(qp, w, p, g->member[i]);
}

static enum step send_to_group(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p)
{
	struct xt_engine *e = qp->engine;
	const struct xt_group *g = xt_group_find(e->shared->groups, &p->ah->path.dgid);
	enum step step;

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

static enum step send_one(struct xt_qp *qp, struct xt_swqe *w)
{
	const struct xt_ah *ah = xt_ah_get(qp->ahs, w->ah);
	struct xt_packet p;
	enum step step;

	/* destroyed since the work request was checked */
	if (!ah) {
		w->error = (struct xt_wc_error){ IBV_WC_LOC_QP_OP_ERR, XR_VERR_AH };
		return STEP_ON;
	}
	build(qp, w, ah, &p);
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
	enum step step = STEP_ON;
	struct xt_swqe *w;
	uint32_t cost;

	for (cost = 0; (w = current(qp)) && xt_pace_open(qp); cost++) {
		if (cost < budget)
			step = send_one(qp, w);
		if (cost == budget || step == STEP_BUSY)
			*more = true;
		if (cost == budget || step != STEP_ON)
			break;
		/* if a QP sends to itself, its own receive may have moved it to ERR */
		if (!xt_may_send(qp))
			break;
		if (!w->error.status && !finish(qp, w))
			break;
	}
	return cost;
}
