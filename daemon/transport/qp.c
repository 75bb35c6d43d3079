// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QPs: creation, destruction, errors. */
#include <errno.h>
#include <stdlib.h>

#include <xroce/bits.h>
#include <xroce/probes.h>

#include "engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "flush.h"
#include "daemon/transport/base/list.h"
#include "qp.h"
#include "daemon/transport/rc/rd.h"
#include "daemon/transport/rc/rtt.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/scheduling/timer.h"

/* Work requests that a doorbell in ERR flushes at once; the others when the QP is scheduled */
#define DOORBELL_FLUSH 16

/* ---- creation ----------------------------------------------------------------------------- */

static bool init_sane(const struct xt_qp_init *init)
{
	uint32_t send_room = init->max_send_sge * sizeof(struct xr_sge);
	bool initiator = init->type == XR_QPT_XRC_SEND, target = init->type == XR_QPT_XRC_RECV;

	if (!init->psns)
		return false;
	/* XRC initiators only send, targets only receive */
	if (target)
		return init->xrcd && !init->sq && !init->rq && !init->srq;
	if (!init->send_cq || !init->sq || (!initiator && !init->recv_cq))
		return false;
	if (initiator && (init->rq || init->srq))
		return false;
	if (init->type == XR_QPT_UD ? !init->ahs : init->gsi)
		return false;
	if (init->max_send_sge > XR_MAX_SGE || init->max_recv_sge > XR_MAX_SGE)
		return false;
	if (send_room < init->max_inline)
		send_room = init->max_inline;
	if (!xr_is_pow2(init->sq_depth) || init->sq_stride < sizeof(struct xr_send_wqe) + send_room)
		return false;
	if (init->srq)
		return !init->rq;
	return !init->rq || (xr_is_pow2(init->rq_depth) &&
			     init->rq_stride >= xr_recv_stride(init->max_recv_sge));
}

static uint32_t max_recv_sge(const struct xt_qp_init *init)
{
	if (init->type == XR_QPT_XRC_RECV)
		return XR_MAX_SGE;
	return init->srq ? init->srq->max_sge : init->max_recv_sge;
}

static void init_qp(struct xt_qp *qp, struct xt_engine *e, const struct xt_qp_init *init)
{
	qp->info.type = init->type;
	qp->info.pd = init->pd;
	qp->info.owner = init->owner;
	qp->info.engine = e;
	qp->engine = e;
	qp->flow = init->flow ? init->flow : &e->flow;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->srq = init->srq;
	qp->xrcd = init->xrcd;
	qp->sq_ring = init->sq;
	qp->rq_ring = init->rq;
	qp->sq_depth = init->sq_depth;
	qp->rq_depth = init->rq_depth;
	qp->sq_stride = init->sq_stride;
	qp->rq_stride = init->rq_stride;
	qp->max_send_sge = init->max_send_sge;
	qp->max_recv_sge = max_recv_sge(init);
	qp->max_inline = init->max_inline;
	qp->sq_sig_all = init->sq_sig_all;
	qp->reserved_lkey_mem = init->type == XR_QPT_XRC_RECV ? NULL : init->reserved_lkey_mem;
	qp->ahs = init->ahs;
	qp->retry_timer.deadline = qp->rate_timer.deadline = XT_NEVER;
	qp->retry_timer.slot = qp->rate_timer.slot = XT_NO_TIMER;
	xt_flow_begin(qp);
	xt_list_init(&qp->ack_link);
	xt_list_init(&qp->failed_link);
	xt_list_init(&qp->ending.poll_link);
	xt_waiting_init(qp);
	xt_accesses_init(qp);
}

/* Returns false for an unknown type. */
static bool class_of(uint32_t type, uint8_t *class)
{
	static const uint8_t classes[] = {
		[XR_QPT_RC] = XR_CLASS_RC,	  [XR_QPT_UC] = XR_CLASS_UC,
		[XR_QPT_UD] = XR_CLASS_UD,	  [XR_QPT_XRC_SEND] = XR_CLASS_XRC,
		[XR_QPT_XRC_RECV] = XR_CLASS_XRC,
	};

	if (type >= sizeof(classes) || (!classes[type] && type != XR_QPT_RC))
		return false;
	*class = classes[type];
	return true;
}

static bool qp_add_number(struct xt_qp *qp, bool gsi)
{
	struct xt_numbers *qps = qp->engine->shared->qps;
	const struct xt_tuning *tuning = &qp->engine->tuning;

	if (!gsi)
		return xt_numbers_add_of(qps, qp, tuning->qpn_modulus, tuning->qpn_rest,
					 &qp->info.slot, &qp->info.qpn);
	qp->info.qpn = XR_GSI_QPN;
	return xt_numbers_add_gsi(qps, qp, &qp->info.slot);
}

uint64_t xt_qp_bytes(const struct xt_qp_init *init)
{
	uint64_t send = sizeof(struct xt_swqe) + init->max_send_sge * sizeof(struct xr_sge);
	uint64_t receive = (max_recv_sge(init) + 1) * sizeof(struct xr_sge);

	return sizeof(struct xt_qp) + receive + (init->sq ? init->sq_depth * send : 0);
}

int xt_qp_new(struct xt_engine *e, const struct xt_qp_init *init, struct xt_qp **out)
{
	struct xt_qp *qp;
	uint8_t class;
	int err;

	if (!class_of(init->type, &class))
		return -EOPNOTSUPP;
	if (!init_sane(init))
		return -EINVAL;
	err = xt_timer_reserve(e);
	if (!err)
		err = xt_numbers_prepare(e->shared->qps);
	if (err)
		return err;
	qp = aligned_alloc(XR_CACHELINE, (sizeof(*qp) + XR_CACHELINE - 1) & ~(XR_CACHELINE - 1ul));
	if (!qp)
		return -ENOMEM;
	memset(qp, 0, sizeof(*qp));
	init_qp(qp, e, init);
	qp->class = class;
	qp->rq_sge = calloc(qp->max_recv_sge + 1, sizeof(*qp->rq_sge));
	if (!qp->rq_sge) {
		free(qp);
		return -ENOMEM;
	}
	e->qp_count++;
	*out = qp;
	return 0;
}

int xt_qp_add(struct xt_qp *qp, const struct xt_qp_init *init)
{
	if (!qp_add_number(qp, init->gsi))
		return -ENOMEM;
	qp->psn = &init->psns[qp->info.slot];
	xt_qp_store_state(qp, XR_QPS_RESET);
	return 0;
}

int xt_qp_create(struct xt_engine *e, const struct xt_qp_init *init, struct xt_qp **out)
{
	int err = xt_qp_new(e, init, out);

	if (err)
		return err;
	err = xt_qp_add(*out, init);
	if (err)
		xt_qp_free(*out);
	return err;
}

void xt_qp_refuse_windows(struct xt_qp *qp)
{
	qp->no_windows = true;
}

void xt_qp_remove(struct xt_qp *qp)
{
	xt_qp_stop(qp);
	xt_qp_unbind(qp, UINT32_MAX);
	qp->ending.key[XT_REQUESTER].region = 0;
	xt_qp_store_state(qp, XR_QPS_RESET);
}

void xt_qp_withdraw(struct xt_qp *qp)
{
	xt_numbers_del(qp->engine->shared->qps, qp->info.qpn);
}

void xt_qp_free(struct xt_qp *qp)
{
	qp->engine->qp_count--;
	xt_sq_free(qp);
	xt_rd_free(qp);
	free(qp->rq_sge);
	free(qp);
}

void xt_qp_forget(struct xt_qp *qp)
{
	xt_io_forget(qp);
}

void xt_qp_destroy(struct xt_qp *qp)
{
	struct xt_qp *sender;

	if (!qp)
		return;
	sender = xt_loopback_sender(qp);
	xt_qp_remove(qp);
	if (sender)
		xt_loopback_peer_stopped(sender, qp, sender->engine->now);
	xt_qp_withdraw(qp);
	xt_qp_forget(qp);
	xt_qp_free(qp);
}

void xt_qp_set_flow(struct xt_qp *qp, struct xt_flow *flow)
{
	xt_waiting_set_flow(qp, flow);
	xt_flow_move(qp, flow);
}

/* ---- state ------------------------------------------------------------------------------ */

const struct xt_qp_info *xt_qp_info(const struct xt_qp *qp)
{
	return &qp->info;
}

const struct xt_path *xt_qp_path(const struct xt_qp *qp)
{
	return &qp->path;
}

void xt_qp_entry(const struct xt_qp *qp, struct xr_qp_entry *entry)
{
	*entry = (struct xr_qp_entry){
		.peer = qp->path.dgid,
		.local = qp->path.sgid,
		.dest_qpn = qp->attr.dest_qp_num,
		.pd = qp->info.pd,
		.slot = qp->info.slot,
		.qkey = qp->attr.qkey,
		.pkey = XR_DEFAULT_PKEY,
		/* UD: not checked by XDP */
		.path_mtu = qp->info.type == XR_QPT_UD ? 0 : qp->mtu,
		.state = qp->info.state,
		.type = qp->info.type,
		.access = qp->attr.qp_access_flags & XR_ACCESS_REMOTE,
	};
}

static void qp_check_armed(struct xt_qp *qp, uint64_t now)
{
	if (qp->send_cq)
		xt_cq_check_armed(qp->flow, qp->send_cq, now);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		xt_cq_check_armed(qp->flow, qp->recv_cq, now);
}

bool xt_qp_doorbell(struct xt_qp *qp, uint64_t now)
{
	uint32_t sends = qp->sq.producer, receives = qp->rq.producer;

	qp->engine->now = now;
	if (qp->info.state == XR_QPS_ERR || qp->info.state == XR_QPS_SQE) {
		if (xt_qp_may_flush(qp) && xt_qp_flush(qp, DOORBELL_FLUSH))
			xt_activate(qp);
	} else if (xt_may_send(qp) && xt_sq_poll(qp) && qp->sq.producer != sends) {
		xt_activate(qp);
	}
	xt_flush_failed(qp->engine);
	qp_check_armed(qp, now);
	return qp->sq.producer != sends || qp->rq.producer != receives;
}

void xt_qp_mark(const struct xt_qp *qp, struct xt_send_mark *m)
{
	const struct xt_requester *r = &qp->req;

	*m = (struct xt_send_mark){ .wr = qp->sq.producer, .psn = r->unacked + r->window };
}

bool xt_qp_sends(const struct xt_qp *qp, const struct xt_send_mark *m)
{
	const struct xt_requester *r = &qp->req;

	if (qp->info.state != XR_QPS_RTS)
		return false;
	if (xt_unreliable(qp))
		return xt_diff(qp->sq.completed, m->wr) < 0;
	return (xt_flow_has_turn(qp) || qp->accesses.reads[XT_READS_SEND].waits) &&
	       xt_diff(qp->sq.cur, m->wr) < 0 && xt_diff(r->next, m->psn) < 0;
}

/* ---- statistics ----------------------------------------------------------------------------- */

static uint32_t posted(const struct xr_queue *ring, uint32_t completed, uint32_t depth)
{
	uint32_t n = ring ? __atomic_load_n(&ring->producer, __ATOMIC_RELAXED) - completed : 0;

	return n < depth ? n : depth; /* the client may have stored anything */
}

void xt_qp_stats(const struct xt_qp *qp, struct xt_qp_stats *s)
{
	const struct xt_requester *r = &qp->req;

	*s = (struct xt_qp_stats){
		.counters = qp->counters,
		.failure = qp->failure,
		.sq_psn = r->next & XR_PSN_MASK,
		.unacked_psn = r->unacked & XR_PSN_MASK,
		.rq_psn = qp->resp.epsn & XR_PSN_MASK,
		.window = r->window,
		.in_flight = xt_unreliable(qp) ? 0 : r->next - r->unacked,
		.sq_posted = posted(qp->sq_ring, qp->sq.completed, qp->sq_depth),
		.rq_posted = posted(qp->rq_ring, qp->rq.completed, qp->rq_depth),
		.retries_left = r->retry_left,
		.rnr_retries_left = r->rnr_left,
		.wait = r->wait,
	};
	xt_rtt_stats(qp, s);
}

static void qp_add_counters(struct xt_qp_counters *sum, const struct xt_qp_counters *c)
{
#define X(field) sum->field += c->field;
	XT_QP_COUNTERS(X)
#undef X
}

void xt_qp_add_traffic(const struct xt_qp *qp, struct xt_traffic *sum)
{
	qp_add_counters(&sum->counters, &qp->counters);
	xt_rtt_add_history(qp, sum);
}

void xt_traffic_add(struct xt_traffic *sum, const struct xt_traffic *t)
{
	qp_add_counters(&sum->counters, &t->counters);
	sum->rtt_sum += t->rtt_sum;
	for (uint32_t i = 0; i < XT_RTT_BUCKETS; i++)
		sum->rtt[i] += t->rtt[i];
}
