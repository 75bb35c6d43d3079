// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QPs as JSON: a row of a list, and everything that is known of a QP. */
#include <infiniband/verbs.h>
#include <string.h>

#include <xroce/nak_names.h>
#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/clients/client.h"
#include "daemon/datapath/worker.h"
#include "cq.h"
#include "pd.h"
#include "qp.h"
#include "srq.h"

static const char *name_of(const char *const *names, size_t n, uint32_t value)
{
	return value < n && names[value] ? names[value] : "?";
}
#define NAME_OF(names, value) name_of(names, sizeof(names) / sizeof((names)[0]), value)

const char *xd_qp_state_name(uint32_t state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return NAME_OF(names, state);
}

static const char *qp_show_type_name(uint32_t type, bool gsi)
{
	switch (type) {
	case XR_QPT_RC:
		return "RC";
	case XR_QPT_UC:
		return "UC";
	case XR_QPT_UD:
		return gsi ? "GSI" : "UD";
	case XR_QPT_XRC_SEND:
		return "XRC_SEND";
	case XR_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return "?";
	}
}

const char *xd_qp_type_name(const struct xd_qp *qp)
{
	return qp_show_type_name(qp->type, qp->gsi);
}

const char *xd_qp_type_of(uint32_t type)
{
	return qp_show_type_name(type, false);
}

/* What does not change while the QP exists */
struct constants {
	const char *type;
	uint32_t qpn, client, worker;
	bool direct;			    /* it has no worker */
	uint32_t pd, send_cq, recv_cq, srq; /* handles; 0: none */
	uint32_t sq_depth, rq_depth;
};

/* State of the QP in the engine, read in one pause of the worker */
struct qp_show_snapshot {
	struct constants constants;
	struct xr_qp_attr attr;
	struct xt_path path;
	struct xt_qp_stats stats;
};

static void qp_show_take(const struct xd_qp *qp, struct qp_show_snapshot *s)
{
	struct xd_workers *workers = qp->obj.client->dev->workers;

	s->constants = (struct constants){
		.type = xd_qp_type_name(qp),
		.qpn = qp->qpn,
		.client = qp->obj.client->id,
		.worker = qp->worker,
		.pd = qp->pd ? qp->pd->obj.handle : 0, /* XRC_RECV has none */
		.send_cq = qp->send_cq ? qp->send_cq->obj.handle : 0,
		.recv_cq = qp->recv_cq ? qp->recv_cq->obj.handle : 0,
		.srq = qp->srq ? qp->srq->obj.handle : 0,
		.sq_depth = qp->max_send_wr,
		.rq_depth = qp->max_recv_wr,
	};
	xd_worker_pause(workers, qp->worker);
	xt_qp_query(qp->xt, &s->attr);
	s->path = *xt_qp_path(qp->xt);
	xt_qp_stats(qp->xt, &s->stats);
	xd_worker_resume_no_wake(workers, qp->worker);
}

static void qp_show_put_row(struct json *j, const struct qp_show_snapshot *s)
{
	const struct constants *c = &s->constants;

	json_number(j, "qpn", c->qpn);
	json_text(j, "type", c->type);
	json_text(j, "state", xd_qp_state_name(s->attr.qp_state));
	json_number(j, "client", c->client);
	if (c->direct)
		json_no_value(j, "worker");
	else
		json_number(j, "worker", c->worker);
	json_address(j, "peer", &s->path.dgid);
	json_number(j, "dest_qpn", s->attr.dest_qp_num);
	json_number(j, "path_mtu", s->attr.path_mtu ? 128u << s->attr.path_mtu : 0);
	json_number(j, "send_cq", c->send_cq);
	json_number(j, "recv_cq", c->recv_cq);
	json_number(j, "srq", c->srq);
	json_boolean(j, "local", s->path.loopback || s->path.self);
	json_text(j, "path", c->direct ? "direct" : "daemon");
}

void xd_qp_show(struct json *j, struct xd_object *obj)
{
	struct xd_qp *qp = container_of(obj, struct xd_qp, obj);
	struct qp_show_snapshot s;

	qp_show_take(qp, &s);
	qp_show_put_row(j, &s);
}

/* ---- detail ---------------------------------------------------------------------- */

static void qp_show_put_queues(struct json *j, const struct constants *c,
			       const struct xt_qp_stats *s)
{
	static const char *const waits[] = { "nothing", "ACK", "RNR timer", "peer" };

	json_number(j, "pd", c->pd);
	json_number(j, "sq_depth", c->sq_depth);
	json_number(j, "sq_used", s->sq_posted);
	json_number(j, "rq_depth", c->rq_depth);
	json_number(j, "rq_used", s->rq_posted);
	json_number(j, "sq_psn", s->sq_psn);
	json_number(j, "unacked_psn", s->unacked_psn);
	json_number(j, "rq_psn", s->rq_psn);
	json_number(j, "window", s->window);
	json_number(j, "in_flight", s->in_flight);
	json_text(j, "waits_for", NAME_OF(waits, s->wait));
	json_number(j, "retries_left", s->retries_left);
	json_number(j, "rnr_retries_left", s->rnr_retries_left);
}

static void put_attributes(struct json *j, const struct xr_qp_attr *a)
{
	json_number(j, "timeout", a->timeout);
	json_number(j, "retry_cnt", a->retry_cnt);
	json_number(j, "rnr_retry", a->rnr_retry);
	json_number(j, "max_rd_atomic", a->max_rd_atomic);
	json_number(j, "max_dest_rd_atomic", a->max_dest_rd_atomic);
	json_number(j, "rate_limit_kbps", a->rate_limit);
}

static void qp_show_put_rtt(struct json *j, const struct xt_qp_stats *s)
{
	uint32_t i;

	json_begin(j, "rtt", '{');
	json_number(j, "least_ns", s->rtt_least);
	json_number(j, "usual_ns", s->rtt_usual);
	json_begin(j, "histogram", '[');
	for (i = 0; i < XT_RTT_BUCKETS; i++) {
		if (!s->rtt[i])
			continue;
		json_begin(j, NULL, '{');
		json_number(j, "from_ns", i ? 1ull << (XT_RTT_FIRST_BITS + i - 1) : 0);
		json_number(j, "count", s->rtt[i]);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_end(j, '}');
}

static const char *status_name(uint32_t status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "SUCCESS",
		[IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
		[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
		[IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
		[IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
		[IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
		[IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
		[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
		[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
		[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
		[IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
		[IBV_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
		[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
		[IBV_WC_REM_INV_RD_REQ_ERR] = "REM_INV_RD_REQ_ERR",
		[IBV_WC_FATAL_ERR] = "FATAL_ERR",
		[IBV_WC_RESP_TIMEOUT_ERR] = "RESP_TIMEOUT_ERR",
		[IBV_WC_GENERAL_ERR] = "GENERAL_ERR",
	};

	return NAME_OF(names, status);
}

const char *xd_qp_failure_reason(const struct xt_failure *f)
{
	static const char *const reasons[XT_CAUSES] = {
		[XT_CAUSE_NONE] = "none",
		[XT_CAUSE_PROGRAM] = "the program moved it to ERR",
		[XT_CAUSE_REQUEST] = "a work request failed",
		[XT_CAUSE_RECEIVE] = "a receive failed",
		[XT_CAUSE_REFUSED] = "a request of the peer was refused",
		[XT_CAUSE_RING] = "the program stored invalid ring indices",
		[XT_CAUSE_COMPLETION] = "a completion was lost: CQ overrun",
		[XT_CAUSE_SRQ] = "its SRQ is in error",
		[XT_CAUSE_INJECTED] = "an injected fault",
	};

	return NAME_OF(reasons, xt_failure_cause(f));
}

const char *xd_qp_failure_status(const struct xt_failure *f)
{
	const char *nak;

	switch (f->cause) {
	case XT_CAUSE_REQUEST:
	case XT_CAUSE_RECEIVE:
		return status_name(f->status);
	case XT_CAUSE_REFUSED:
		nak = xr_nak_name(f->status);
		return nak ? nak : "?";
	default:
		return "";
	}
}

void xd_show_failure_cause(struct json *j, const struct xt_failure *f)
{
	const char *status = xd_qp_failure_status(f);

	json_text(j, "reason", xd_qp_failure_reason(f));
	if (*status)
		json_text(j, "status", status);
	json_number(j, "vendor_err", f->verr);
}

void xd_show_failure(struct json *j, const struct xt_failure *f, uint32_t qpn)
{
	if (f->cause == XT_CAUSE_NONE)
		return;
	json_begin(j, "last_error", '{');
	xd_show_moment(j, f->at);
	if (qpn)
		json_number(j, "qpn", qpn);
	xd_show_failure_cause(j, f);
	json_end(j, '}');
}

static void qp_show_put_detail(struct json *j, const struct qp_show_snapshot *s)
{
	const struct xt_qp_counters *c = &s->stats.counters;

	qp_show_put_row(j, s);
	qp_show_put_queues(j, &s->constants, &s->stats);
	put_attributes(j, &s->attr);
#define X(field) json_number(j, #field, c->field);
	XT_QP_COUNTERS(X)
#undef X
	qp_show_put_rtt(j, &s->stats);
	xd_show_failure(j, &s->stats.failure, 0);
}

void xd_qp_show_detail(struct json *j, struct xd_object *obj)
{
	struct qp_show_snapshot s;

	qp_show_take(container_of(obj, struct xd_qp, obj), &s);
	qp_show_put_detail(j, &s);
}

/* ---- QPs of direct programs -------------------------------------------------------- */

void xd_view_failure(const struct xr_view_failure *r, struct xt_failure *f)
{
	*f = (struct xt_failure){
		.at = r->at,
		.cause = r->cause,
		.status = r->status,
		.verr = r->verr,
	};
}

/* Numbers that the program has stored: each is shown as it is, and none is an index. */
static void take_view(const struct xr_view_qp *r, const struct xd_client *c,
		      struct qp_show_snapshot *s)
{
	*s = (struct qp_show_snapshot){
		.constants = {
			.type = xd_qp_type_of(r->type),
			.qpn = r->qpn,
			.client = c->id,
			.direct = true,
			.pd = r->pd,
			.send_cq = r->send_cq,
			.recv_cq = r->recv_cq,
			.srq = r->srq,
			.sq_depth = r->sq_depth,
			.rq_depth = r->rq_depth,
		},
		.attr = {
			.qp_state = r->state,
			.dest_qp_num = r->dest_qpn,
			.path_mtu = r->path_mtu <= IBV_MTU_4096 ? r->path_mtu : 0,
			.timeout = r->timeout,
			.retry_cnt = r->retry_cnt,
			.rnr_retry = r->rnr_retry,
			.max_rd_atomic = r->max_rd_atomic,
			.max_dest_rd_atomic = r->max_dest_rd_atomic,
			.rate_limit = r->rate_limit,
		},
		.path = { .dgid = r->peer, .loopback = r->local },
		.stats = {
			.rtt_least = r->rtt_least,
			.rtt_usual = r->rtt_usual,
			.sq_psn = r->sq_psn,
			.unacked_psn = r->unacked_psn,
			.rq_psn = r->rq_psn,
			.window = r->window,
			.in_flight = r->in_flight,
			.sq_posted = r->sq_posted,
			.rq_posted = r->rq_posted,
			.retries_left = r->retries_left,
			.rnr_retries_left = r->rnr_retries_left,
			.wait = r->wait,
		},
	};
	memcpy(&s->stats.counters, r->counter, sizeof(s->stats.counters));
	memcpy(s->stats.rtt, r->rtt, sizeof(s->stats.rtt));
	xd_view_failure(&r->failure, &s->stats.failure);
}

void xd_qp_show_view(struct json *j, const void *record, const struct xd_client *c, bool detail)
{
	struct qp_show_snapshot s;

	take_view(record, c, &s);
	if (detail)
		qp_show_put_detail(j, &s);
	else
		qp_show_put_row(j, &s);
}
