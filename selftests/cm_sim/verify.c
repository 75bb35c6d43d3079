// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of events, messages, states, and of the whole world at rest. See the list in cm_sim.h. */
#include <errno.h>
#include <stdio.h>

#include "cm_sim.h"

#define FAIL_END(e, fmt, ...)                                                                      \
	sim_fail((e)->w, "host %u, conn %d, id %08x, %s: " fmt, (e)->host->index,                  \
		 (e)->conn ? (int)(e)->conn->number : -1, (e)->comm_id, end_names[(e)->state],     \
		 ##__VA_ARGS__)
#define CHECK_END(e, cond, ...)                                                                    \
	do {                                                                                       \
		if (!(cond))                                                                       \
			FAIL_END(e, __VA_ARGS__);                                                  \
	} while (0)

static void count(struct end *e, enum total which)
{
	e->w->totals.count[which]++;
}

/* Nanoseconds of a timeout code, less what rounding in milliseconds may change */
static uint64_t at_least(uint8_t code)
{
	return (4096ull << code) * 9 / 10;
}

/* ---- states ------------------------------------------------------------------------ */

#define IN(state) (1u << (state))

/* The states of the engine that agree with a state of the program */
static const uint32_t agreeing[END_STATES] = {
	[END_CONNECTING] = IN(XC_REQ_SENT) | IN(XC_MRA_REQ_RCVD),
	[END_REQUESTED] = IN(XC_REQ_RCVD) | IN(XC_MRA_REQ_SENT),
	[END_ACCEPTED] = IN(XC_REP_SENT) | IN(XC_MRA_REP_RCVD),
	[END_REPLIED] = IN(XC_REP_RCVD) | IN(XC_MRA_REP_SENT),
	[END_UP] = IN(XC_ESTABLISHED),
	[END_CLOSING] = IN(XC_DREQ_SENT),
	[END_ASKED] = IN(XC_DREQ_RCVD),
	[END_TIMEWAIT] = IN(XC_TIMEWAIT),
	[END_LINGERING] = IN(XC_DREQ_SENT) | IN(XC_TIMEWAIT),
	[END_SIDR_SENT] = IN(XC_SIDR_REQ_SENT),
	[END_SIDR_RECEIVED] = IN(XC_SIDR_REQ_RCVD),
	[END_OVER] = IN(XC_IDLE),
};

static uint32_t expected_qpn(const struct end *e)
{
	if (e->active)
		return e->req.qpn;
	return e->state == END_REQUESTED ? 0 : e->rep.qpn;
}

/*
 * The peer's host crashed and its new connection has the same QPN: the old one is stale. After a
 * late REQ of before the crash, it is the other way round.
 */
static bool may_be_stale(const struct end *e)
{
	return e->w->weak || !e->conn || e->conn->from->life || e->conn->to->life;
}

void verify_state(struct end *e)
{
	const struct xc_info *info;
	const struct conn *c = e->conn;

	if (e->state == END_GONE)
		return;
	info = xc_info(e->id);
	if (e->state == END_UP && info->state == XC_DREQ_SENT && may_be_stale(e))
		e->state = END_CLOSING; /* by the engine */
	CHECK_END(e, agreeing[e->state] & IN(info->state), "the engine's state is %s",
		  xc_state_name(info->state));
	CHECK_END(e,
		  info->owner == e && info->local_id == e->comm_id && !info->orphan &&
			  info->active == e->active,
		  "wrong xc_info()");
	if (!c || e->w->weak)
		return;
	CHECK_END(e, info->sidr == c->sidr && xr_gid_equal(&info->path.local, &e->host->gid),
		  "wrong xc_info()");
	if (c->sidr || e->state == END_OVER)
		return;
	CHECK_END(e, info->local_qpn == expected_qpn(e), "xc_info() has the QPN %06x",
		  info->local_qpn);
	CHECK_END(e,
		  e->active || (info->remote_qpn == c->active->req.qpn &&
				info->remote_guid == c->from->config.guid &&
				info->remote_id == c->active->comm_id &&
				info->service_id == c->active->req.service_id &&
				info->transport == c->active->req.transport),
		  "wrong numbers of the peer in xc_info()");
	CHECK_END(e,
		  !e->active || e->state == END_CONNECTING || !e->peer ||
			  (info->remote_qpn == e->peer->rep.qpn &&
			   info->remote_id == e->peer->comm_id),
		  "wrong numbers of the peer in xc_info()");
}

/* ---- calls --------------------------------------------------------------------------- */

static bool call_permitted(const struct end *e, enum act act)
{
	switch (act) {
	case ACT_ACCEPT:
		return e->state == END_REQUESTED;
	case ACT_REJECT:
		return e->state == END_REQUESTED || e->state == END_REPLIED ||
		       e->state == END_ACCEPTED || e->state == END_CONNECTING;
	case ACT_MRA:
		return e->state == END_REQUESTED || e->state == END_REPLIED;
	case ACT_ESTABLISH:
		return e->state == END_REPLIED;
	case ACT_NOTIFY:
		return e->state == END_ACCEPTED;
	case ACT_DISCONNECT:
		return e->state == END_UP;
	case ACT_REPLY:
		return e->state == END_ASKED;
	case ACT_SIDR_REPLY:
		return e->state == END_SIDR_RECEIVED;
	default:
		return true;
	}
}

bool verify_call(struct end *e, enum act act, int result)
{
	enum xc_state state = xc_info(e->id)->state;

	/* xc_notify_established() has called the event function, which changed the state. */
	if (act == ACT_NOTIFY && !result) {
		CHECK_END(e, e->was_up, "xc_notify_established() succeeded without an event");
		count(e, TOTAL_NOTIFIED);
		return true;
	}
	/* The engine may have sent an MRA, in response to a duplicate. */
	if (act == ACT_MRA && call_permitted(e, act) && result &&
	    (state == XC_MRA_REQ_SENT || state == XC_MRA_REP_SENT))
		return false;
	if (call_permitted(e, act)) {
		CHECK_END(e, !result, "call %u failed with %d in state %s", act, result,
			  xc_state_name(state));
		return true;
	}
	CHECK_END(e, result == (act == ACT_NOTIFY && e->state == END_UP ? -EISCONN : -EINVAL),
		  "call %u returned %d in state %s", act, result, xc_state_name(state));
	count(e, TOTAL_INVALID);
	return false;
}

/* ---- contents of messages -------------------------------------------------------------- */

/* True if a field has the given bytes at its start, and zeros after them. */
static bool same_data(const struct xc_data *got, const struct blob *b, unsigned field)
{
	const uint8_t *p = got->data;
	unsigned i;

	if (got->len != field || memcmp(p, b->bytes, b->len))
		return false;
	for (i = b->len; i < field; i++)
		if (p[i])
			return false;
	return true;
}

static const struct blob nothing;

static bool same_path(const struct xc_path *a, const struct xc_path *b)
{
	return xr_gid_equal(&a->local, &b->peer) && xr_gid_equal(&a->peer, &b->local) &&
	       a->flow_label == b->flow_label && a->traffic_class == b->traffic_class &&
	       a->hop_limit == b->hop_limit && a->sl == b->sl;
}

static void verify_req(struct end *e, const struct xc_req *got)
{
	const struct xc_req *q = &e->conn->active->req;

#define SAME(field)                                                                                \
	CHECK_END(e, got->field == q->field, "REQ: " #field " is %llx, not %llx",                  \
		  (unsigned long long)got->field, (unsigned long long)q->field)
	SAME(service_id);
	SAME(guid);
	SAME(transport);
	SAME(qpn);
	SAME(qkey);
	SAME(starting_psn);
	SAME(responder_resources);
	SAME(initiator_depth);
	SAME(remote_response_timeout);
	SAME(local_response_timeout);
	SAME(max_cm_retries);
	SAME(retry_count);
	SAME(rnr_retry_count);
	SAME(ack_timeout);
	SAME(mtu);
	SAME(rate);
	SAME(pkey);
	SAME(flow_control);
	SAME(srq);
	SAME(vendor_id);
	SAME(ece_options);
#undef SAME
	CHECK_END(e, same_path(&got->path, &q->path), "REQ: another path");
	CHECK_END(e, same_data(&got->data, &e->conn->active->sent[XC_REQ].data, XC_REQ_DATA),
		  "REQ: other private data");
}

/*
 * A new request of a peer. While an end of the same request exists, also in TIMEWAIT, another copy
 * of the REQ must not appear.
 */
void verify_request(struct host *h, struct end *e, const struct xc_msg *msg)
{
	struct conn *c = e->conn;
	struct end *old;

	if (h->w->weak)
		return;
	if (!c)
		return;
	for (old = c->ends; old; old = old->sibling)
		CHECK_END(e,
			  old == e || old->active || old->life != h->life ||
				  old->state == END_OVER || old->state == END_GONE,
			  "a copy of the request appears as a new one");
	if (msg->kind == XC_REQ) {
		CHECK_END(e, !c->sidr, "a REQ for a SIDR_REQ");
		verify_req(e, &msg->req);
		return;
	}
	CHECK_END(e, c->sidr, "a SIDR_REQ for a REQ");
	CHECK_END(e,
		  msg->sidr_req.service_id == c->active->sidr.req.service_id &&
			  msg->sidr_req.pkey == c->active->sidr.req.pkey,
		  "SIDR_REQ: another service or P_Key");
	CHECK_END(e,
		  same_data(&msg->sidr_req.data, &c->active->sent[XC_SIDR_REQ].data,
			    XC_SIDR_REQ_DATA),
		  "SIDR_REQ: other private data");
}

static void verify_rep(struct end *e, const struct xc_msg *msg)
{
	struct end *p = end_by_comm_id(e->conn->to, msg->local_id);
	const struct xc_rep *got = &msg->rep, *q;

	CHECK_END(e, p && p->conn == e->conn && !p->active, "REP: of another connection");
	e->peer = p;
	q = &p->rep;
#define SAME(field)                                                                                \
	CHECK_END(e, got->field == q->field, "REP: " #field " is %llx, not %llx",                  \
		  (unsigned long long)got->field, (unsigned long long)q->field)
	SAME(qpn);
	SAME(qkey);
	SAME(starting_psn);
	SAME(responder_resources);
	SAME(initiator_depth);
	SAME(target_ack_delay);
	SAME(failover);
	SAME(rnr_retry_count);
	SAME(flow_control);
	SAME(srq);
	SAME(vendor_id);
	SAME(ece_options);
#undef SAME
	CHECK_END(e, got->guid == e->conn->to->config.guid, "REP: another GUID");
	CHECK_END(e, same_data(&got->data, &p->sent[XC_REP].data, XC_REP_DATA),
		  "REP: other private data");
}

/* True if the program of this end has sent this REJ. */
static bool is_rej_of(const struct end *p, const struct xc_rej *rej)
{
	return p->rej.reason == rej->reason && rej->ari.len == p->info.len &&
	       !memcmp(rej->ari.data, p->info.bytes, p->info.len) &&
	       same_data(&rej->data, &p->sent[XC_REJ].data, XC_REJ_DATA);
}

/* A REJ is that of the peer's program, or one of the engine without private data. */
static void verify_rej(struct end *e, const struct xc_msg *msg)
{
	const struct xc_rej *rej = &msg->rej;
	struct end *p;

	for (p = e->conn->ends; p; p = p->sibling)
		if (p->active != e->active && is_rej_of(p, rej))
			return;
	CHECK_END(e, same_data(&rej->data, &nothing, XC_REJ_DATA),
		  "REJ with reason %u: other private data", rej->reason);
	switch (rej->reason) {
	case XC_REJ_TIMEOUT:
	case XC_REJ_COMM_ID:
	case XC_REJ_STALE:
	case XC_REJ_CONSUMER:
	case XC_REJ_SERVICE_ID:
		return;
	default:
		FAIL_END(e, "REJ with reason %u, which nobody sent", rej->reason);
	}
}

static struct end *peer_of(struct end *e)
{
	return e->peer ? e->peer : e->active ? e->conn->passive : e->conn->active;
}

static void verify_plain(struct end *e, const struct xc_data *got, enum xc_kind kind,
			 unsigned field)
{
	const struct end *p = peer_of(e);

	if (p && same_data(got, &p->sent[kind].data, field))
		return;
	/* The engine responds itself after TIMEWAIT, for a destroyed id, and after a crash. */
	if (kind == XC_DREP &&
	    (!p || p->state == END_GONE || p->state == END_OVER || p->sent[XC_DREQ].count) &&
	    same_data(got, &nothing, field))
		return;
	if (kind == XC_DREQ && p && p->life != p->host->life && same_data(got, &nothing, field))
		return;
	FAIL_END(e, "%s: other private data", xc_kind_name(kind));
}

static void verify_sidr_rep(struct end *e, const struct xc_msg *msg)
{
	const struct xc_sidr_rep *got = &msg->sidr_rep;
	struct end *p;

	CHECK_END(e, got->service_id == e->sidr.req.service_id, "SIDR_REP: another service");
	for (p = e->conn->ends; p; p = p->sibling) {
		const struct xc_sidr_rep *q = &p->sidr_rep;

		if (!p->active && got->status == q->status && got->qpn == q->qpn &&
		    got->qkey == q->qkey && got->vendor_id == q->vendor_id &&
		    got->ece_options == q->ece_options && got->info.len == p->info.len &&
		    !memcmp(got->info.data, p->info.bytes, p->info.len) &&
		    same_data(&got->data, &p->sent[XC_SIDR_REP].data, XC_SIDR_REP_DATA))
			return;
	}
	CHECK_END(e, got->status == XC_SIDR_REJECTED || got->status == XC_SIDR_UNSUPPORTED,
		  "SIDR_REP with status %u, which nobody sent", got->status);
	CHECK_END(e, same_data(&got->data, &nothing, XC_SIDR_REP_DATA),
		  "SIDR_REP: other private data");
}

static void verify_contents(struct end *e, const struct xc_event *event)
{
	const struct xc_msg *m = event->msg;

	if (e->w->weak || !e->conn || !m)
		return;
	switch (event->type) {
	case XC_EVENT_REP:
		verify_rep(e, m);
		break;
	case XC_EVENT_ESTABLISHED:
		verify_plain(e, &m->rtu.data, XC_RTU, XC_RTU_DATA);
		break;
	case XC_EVENT_REJECTED:
		verify_rej(e, m);
		break;
	case XC_EVENT_DREQ:
		verify_plain(e, &m->dreq.data, XC_DREQ, XC_DREQ_DATA);
		break;
	case XC_EVENT_DISCONNECTED:
		if (m->kind == XC_DREP)
			verify_plain(e, &m->drep.data, XC_DREP, XC_DREP_DATA);
		break;
	case XC_EVENT_SIDR_REP:
		verify_sidr_rep(e, m);
		break;
	default:
		break;
	}
}

/* ---- order of events --------------------------------------------------------------------- */

static void verify_timeout(struct end *e, enum xc_kind kind)
{
	const struct end *a = e->conn ? e->conn->active : NULL;
	unsigned tries;

	count(e, kind == XC_DREQ ? TOTAL_NO_DREP : TOTAL_UNREACHABLE);
	e->timed_out = true;
	if (!a || e->w->weak)
		return;
	CHECK_END(e, !e->w->calm, "%s timed out without faults", xc_kind_name(kind));
	CHECK_END(e, kind == XC_DREQ || e->w->now >= e->patient, "timeout in spite of an MRA");
	tries = 1 + (e->conn->sidr ? a->sidr.max_cm_retries : a->req.max_cm_retries);
	CHECK_END(e,
		  e->sent[kind].count == tries || (kind == XC_REP && e->sent[kind].count > tries),
		  "timeout after %u %ss instead of %u", e->sent[kind].count, xc_kind_name(kind),
		  tries);
}

static void enter_timewait(struct end *e)
{
	e->state = END_TIMEWAIT;
	e->timewait_at = e->w->now;
}

static void check_before(struct end *e, const struct xc_event *event, uint32_t states)
{
	CHECK_END(e, states & IN(e->state), "event %u is not permitted", event->type);
}

/* The QP may have been used, or the peer has a connection with it. */
static void after_rejected(struct end *e, unsigned reason)
{
	count(e, TOTAL_REJECTED);
	if (e->state == END_REPLIED || e->state == END_UP || e->state == END_CLOSING ||
	    reason == XC_REJ_STALE)
		enter_timewait(e);
	else
		e->state = END_OVER;
}

/* The engine responds itself if both ends have sent a DREQ, or the program has not sent its RTU. */
static void after_dreq(struct end *e)
{
	if (e->state == END_CLOSING)
		count(e, TOTAL_BOTH);
	if (e->state == END_CLOSING || e->state == END_REPLIED ||
	    (may_be_stale(e) && xc_info(e->id)->state == XC_TIMEWAIT))
		enter_timewait(e);
	else
		e->state = END_ASKED;
}

static void after_timewait(struct end *e)
{
	const struct conn *c = e->conn;

	if (c && !e->w->weak && e->state == END_TIMEWAIT)
		CHECK_END(e, e->w->now - e->timewait_at >= at_least(c->active->req.ack_timeout),
			  "TIMEWAIT took %llu us only",
			  (unsigned long long)(e->w->now - e->timewait_at) / USEC);
	e->state = END_OVER;
}

void verify_event(struct end *e, const struct xc_event *event)
{
	static const char *const names[] = { "REQ",	     "REP",	      "ESTABLISHED",
					     "REJECTED",     "UNREACHABLE",   "DREQ",
					     "DISCONNECTED", "TIMEWAIT_EXIT", "SIDR_REQ",
					     "SIDR_REP" };
	bool ends = true;

	TRACE(e->w, "%u: event %s conn %d, %s, status %d, reason %d", e->host->index,
	      names[event->type], e->conn ? (int)e->conn->number : -1, end_names[e->state],
	      event->status,
	      event->msg && event->msg->kind == XC_REJ ? event->msg->rej.reason : -1);
	verify_contents(e, event);
	switch (event->type) {
	case XC_EVENT_REP:
		check_before(e, event, IN(END_CONNECTING));
		e->state = END_REPLIED;
		ends = false;
		break;
	case XC_EVENT_ESTABLISHED:
		check_before(e, event, IN(END_ACCEPTED));
		e->state = END_UP;
		e->was_up = true;
		count(e, TOTAL_ESTABLISHED);
		ends = false;
		break;
	case XC_EVENT_REJECTED:
		check_before(e, event,
			     IN(END_CONNECTING) | IN(END_REQUESTED) | IN(END_ACCEPTED) |
				     IN(END_REPLIED) | IN(END_UP) | IN(END_CLOSING));
		after_rejected(e, event->msg->rej.reason);
		break;
	case XC_EVENT_UNREACHABLE:
		check_before(e, event, IN(END_CONNECTING) | IN(END_ACCEPTED) | IN(END_SIDR_SENT));
		CHECK_END(e, event->status == -ETIMEDOUT && !event->msg, "wrong UNREACHABLE");
		verify_timeout(e, e->state == END_CONNECTING ? XC_REQ
				  : e->state == END_ACCEPTED ? XC_REP
							     : XC_SIDR_REQ);
		e->state = e->state == END_ACCEPTED ? END_LINGERING : END_OVER;
		break;
	case XC_EVENT_DREQ:
		check_before(e, event,
			     IN(END_ACCEPTED) | IN(END_REPLIED) | IN(END_UP) | IN(END_CLOSING));
		after_dreq(e);
		break;
	case XC_EVENT_DISCONNECTED:
		check_before(e, event,
			     IN(END_CLOSING) | IN(END_ASKED) | (may_be_stale(e) ? IN(END_UP) : 0));
		if (event->status == -ETIMEDOUT)
			verify_timeout(e, XC_DREQ);
		enter_timewait(e);
		count(e, TOTAL_DISCONNECTED);
		break;
	case XC_EVENT_TIMEWAIT_EXIT:
		check_before(e, event, IN(END_TIMEWAIT) | IN(END_LINGERING));
		after_timewait(e);
		ends = false;
		break;
	case XC_EVENT_SIDR_REP:
		check_before(e, event, IN(END_SIDR_SENT));
		e->state = END_OVER;
		count(e, TOTAL_SIDR);
		break;
	default:
		FAIL_END(e, "event %u", event->type);
	}
	CHECK_END(e, !ends || !e->over || event->type == XC_EVENT_DISCONNECTED,
		  "event %u after the end of the exchange", event->type);
	e->over |= ends;
}

/* ---- MADs on the wire ---------------------------------------------------------------------- */

static void verify_header(struct host *h, const uint8_t *mad)
{
	static const uint8_t start[8] = { 1, 7, 2, 3 };
	unsigned attr = mad_attr(mad);

	CHECK(h->w, !memcmp(mad, start, sizeof(start)) && !be_at(mad + 18, 2),
	      "a MAD with an invalid header");
	CHECK(h->w, attr >= MAD_REQ && attr < MAD_END, "a MAD with attribute %x", attr);
}

static uint8_t response_timeout(const struct end *e)
{
	if (e->conn->sidr)
		return e->sidr.response_timeout;
	return e->active ? e->req.remote_response_timeout
			 : e->conn->active->req.local_response_timeout;
}

/*
 * A message that waits for a response may be repeated, unchanged. A REP is also the response to
 * each copy of the REQ.
 */
static void verify_repetition(struct end *e, enum xc_kind kind, const uint8_t *mad)
{
	struct sent *s = &e->sent[kind];
	const struct end *a = e->conn ? e->conn->active : NULL;
	unsigned max;

	if (s->count && a && !e->w->weak) {
		CHECK_END(e, kind != XC_REQ || e->w->now >= e->patient,
			  "a REQ again before the service timeout of an MRA");
		max = e->conn->sidr ? a->sidr.max_cm_retries : a->req.max_cm_retries;
		CHECK_END(e, !memcmp(s->mad, mad, XC_MAD_LEN), "a repeated %s differs",
			  xc_kind_name(kind));
		if (kind == XC_REP)
			max += e->conn->arrivals;
		CHECK_END(e, s->count <= max, "%u %ss, permitted are %u", s->count + 1,
			  xc_kind_name(kind), max + 1);
		CHECK_END(e, kind == XC_REP || e->w->now - s->at >= at_least(response_timeout(e)),
			  "a %s again after %llu us", xc_kind_name(kind),
			  (unsigned long long)(e->w->now - s->at) / USEC);
		CHECK_END(e, !e->w->calm, "a %s again without faults", xc_kind_name(kind));
	}
	s->count++;
	s->at = e->w->now;
	memcpy(s->mad, mad, XC_MAD_LEN);
}

/* True if an end of the connection has sent a DREQ with this transaction ID. */
static bool answers_dreq(const struct conn *c, uint64_t tid)
{
	const struct end *p;

	for (p = c->ends; p; p = p->sibling)
		if (p->sent[XC_DREQ].count && mad_tid(p->sent[XC_DREQ].mad) == tid)
			return true;
	return false;
}

static void verify_tid(struct end *e, enum xc_kind kind, const uint8_t *mad)
{
	if (e->conn && e->active && (kind == XC_REQ || kind == XC_SIDR_REQ))
		e->conn->tid = mad_tid(mad);
	if (!e->conn || e->w->weak)
		return;
	switch (kind) {
	case XC_REP:
	case XC_RTU:
	case XC_MRA:
		CHECK_END(e, mad_tid(mad) == e->conn->tid,
			  "a %s without the transaction ID of the REQ", xc_kind_name(kind));
		break;
	case XC_DREQ:
		CHECK_END(e, e->active || mad_tid(mad) != e->conn->tid,
			  "a DREQ of the passive end with the transaction ID of the REQ");
		break;
	case XC_DREP:
		CHECK_END(e, answers_dreq(e->conn, mad_tid(mad)),
			  "a DREP without the transaction ID of the DREQ");
		break;
	default:
		break;
	}
}

/*
 * A REJ in response to a REQ or REP refers to this message: the peer may not have the communication
 * ID of the sender.
 */
static void verify_rejected_message(struct host *h, enum xc_kind kind, const uint8_t *mad)
{
	unsigned message = mad[24 + 8] >> 6;

	if (kind != XC_REJ || h->w->weak)
		return;
	CHECK(h->w, h->receiving != MAD_REQ || message == XC_MESSAGE_REQ,
	      "a REJ in response to a REQ does not refer to it");
	CHECK(h->w, h->receiving != MAD_REP || message == XC_MESSAGE_REP,
	      "a REJ in response to a REP does not refer to it");
}

/*
 * After xc_destroy() the engine ends an exchange: it makes no new connection, and it does not end
 * that of an XRC target. It keeps the id of the target for at least two response timeouts, unless
 * there are too many ids.
 */
static void verify_given_up(const struct end *e, enum xc_kind kind, const uint8_t *mad)
{
	if (!e->conn || e->state != END_GONE || e->w->weak)
		return;
	CHECK_END(e, kind != XC_REQ && kind != XC_SIDR_REQ && kind != XC_REP && kind != XC_RTU,
		  "a %s after xc_destroy()", xc_kind_name(kind));
	CHECK_END(e,
		  kind != XC_REJ || mad_remote_id(mad) != e->conn->active->comm_id ||
			  e->w->limited || !e->left_up_at ||
			  e->w->now - e->left_up_at >
				  2 * at_least(e->conn->active->req.remote_response_timeout),
		  "a REJ ends the connection of an XRC target");
}

static struct end *end_of_mad(struct host *h, enum xc_kind kind, const uint8_t *mad)
{
	struct end *e = h->connecting;

	if (kind == XC_SIDR_REP)
		return NULL; /* It has the peer's number. */
	if (e && (kind == XC_REQ || kind == XC_SIDR_REQ) && !e->comm_id)
		e->comm_id = mad_local_id(mad);
	return end_by_comm_id(h, mad_local_id(mad));
}

struct end *verify_mad(struct host *h, const struct xc_path *path, const uint8_t *mad)
{
	enum xc_kind kind;
	struct end *e;

	verify_header(h, mad);
	kind = mad_attr(mad) - MAD_REQ;
	CHECK(h->w, xr_gid_equal(&path->local, &h->gid), "a MAD from a wrong address");
	verify_rejected_message(h, kind, mad);
	if (kind == XC_MRA)
		h->w->totals.count[TOTAL_MRA]++;
	e = end_of_mad(h, kind, mad);
	if (!e)
		return NULL;
	/* The response to a DREQ or REP of a wrong source goes there. */
	if (e->conn && !h->w->weak && e->life == h->life && kind != XC_DREP && kind != XC_REJ)
		CHECK_END(
			e,
			xr_gid_equal(&path->peer, &(e->active ? e->conn->to : e->conn->from)->gid),
			"a %s to a wrong host", xc_kind_name(kind));
	if (e->life != h->life)
		return e;
	verify_given_up(e, kind, mad);
	if (kind == XC_REQ || kind == XC_REP || kind == XC_DREQ || kind == XC_SIDR_REQ)
		verify_repetition(e, kind, mad);
	verify_tid(e, kind, mad);
	return e;
}

/* ---- limits -------------------------------------------------------------------------------- */

static bool is_half_open(const struct xc_info *info)
{
	switch (info->state) {
	case XC_REQ_RCVD:
	case XC_MRA_REQ_SENT:
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
	case XC_SIDR_REQ_RCVD:
		return true;
	default:
		return false;
	}
}

/* States that end after some time. The user has to end the others. */
static bool has_timer(const struct xc_info *info)
{
	switch (info->state) {
	case XC_REQ_RCVD:
	case XC_MRA_REQ_SENT:
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
	case XC_ESTABLISHED:
	case XC_DREQ_RCVD:
	case XC_SIDR_REQ_RCVD:
		return false;
	case XC_IDLE:
		return info->orphan;
	default:
		return true;
	}
}

/* Half-open ids of the same source as `id`, which is the first of this source in the list */
static unsigned of_source(const struct host *h, const struct xc_id *id)
{
	const struct xc_path *path = &xc_info(id)->path;
	unsigned n = 0;

	for (; id; id = xc_next(h->cm, id))
		n += is_half_open(xc_info(id)) &&
		     xr_gid_equal(&xc_info(id)->path.peer, &path->peer);
	return n;
}

/* A host that goes away without a crash has to tell these peers. */
static bool peer_may_be_connected(const struct xc_info *info)
{
	switch (info->state) {
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
	case XC_ESTABLISHED:
	case XC_DREQ_SENT:
		return true;
	default:
		return false;
	}
}

static void verify_host(struct host *h)
{
	const struct xc_config *c = &h->config;
	struct xc_gauges g = xc_gauges(h->cm);
	unsigned ids = 0, half_open = 0, users = 0, ends = 0, timers = 0, peers = 0;
	struct xc_id *id = NULL;
	struct end *e;

	while ((id = xc_next(h->cm, id))) {
		const struct xc_info *info = xc_info(id);

		ids++;
		users += !info->orphan;
		timers += has_timer(info);
		peers += peer_may_be_connected(info);
		half_open += is_half_open(info);
		if (is_half_open(info))
			CHECK(h->w, of_source(h, id) <= c->max_source_half_open,
			      "host %u: %u half-open ids of one source", h->index,
			      of_source(h, id));
	}
	for (e = h->ends; e; e = e->next) {
		ends += e->state != END_GONE;
		verify_state(e);
	}
	CHECK(h->w, !timers == (xc_deadline(h->cm) == XC_NEVER),
	      "host %u: %u ids that wait for a timer, and the next one expires at %llu", h->index,
	      timers, (unsigned long long)xc_deadline(h->cm));
	CHECK(h->w, peers == h->peers, "host %u: %u peers, but %u were reported", h->index, peers,
	      h->peers);
	CHECK(h->w, users == ends, "host %u: %u ids of users, but %u exist", h->index, ends, users);
	CHECK(h->w, ids == g.ids && half_open == g.half_open,
	      "host %u: the gauges count %u ids, %u half open; there are %u, %u", h->index, g.ids,
	      g.half_open, ids, half_open);
	CHECK(h->w, ids <= c->max_ids && half_open <= c->max_half_open,
	      "host %u: %u ids, %u half open", h->index, ids, half_open);
}

void verify_limits(struct world *w)
{
	unsigned i;

	for (i = 0; i < w->hosts; i++)
		if (w->host[i].cm && w->steps % 8 == 0)
			verify_host(&w->host[i]);
}

/* ---- the world at rest ---------------------------------------------------------------------- */

static const char *verify_resting(const struct end *e)
{
	switch (e->state) {
	case END_UP:
	case END_OVER:
	case END_GONE:
	case END_TIMEWAIT:
		return NULL;
	default:
		return end_names[e->state];
	}
}

/* `up` is connected and its peer is not: the peer must have tried to report the end in vain. */
static void verify_half_open(struct end *up)
{
	struct end *p = up->peer;

	if (up->conn->crashed)
		return;
	CHECK_END(up, p, "connected to no end");
	CHECK_END(up, !p->told, "still connected after the peer has reported the end");
	/* The target QP of XRC outlives its id. */
	if (!p->active && up->req.transport == XC_XRC && p->state == END_GONE)
		return;
	CHECK_END(up, !up->w->calm, "half open without faults");
	CHECK_END(up,
		  p->timed_out || p->sent[XC_DREQ].count || p->sent[XC_REJ].count ||
			  p->state == END_GONE,
		  "half open, and the peer has not tried to report the end");
	count(up, TOTAL_EXCUSED);
}

/* A QP has one connection: an older one of the same remote QP is stale and must have ended. */
static void verify_one_connection(const struct end *e)
{
	const struct xc_info *a = xc_info(e->id), *b;
	const struct end *other;

	for (other = e->next; other; other = other->next) {
		if (other->state != END_UP)
			continue;
		b = xc_info(other->id);
		CHECK_END(e, a->remote_qpn != b->remote_qpn || a->remote_guid != b->remote_guid,
			  "two connections with QPN %06x of the same host", a->remote_qpn);
	}
}

static void verify_pair(const struct end *e)
{
	const struct end *p = e->peer;

	CHECK_END(e, p->peer == e, "both ends are connected, but not with each other");
	verify_one_connection(e);
}

void verify_agreement(struct world *w)
{
	struct end *e;
	unsigned i;

	for (i = 0; i < w->hosts; i++)
		for (e = w->host[i].ends; e; e = e->next) {
			CHECK_END(e, !verify_resting(e), "the end waits for ever");
			if (e->state != END_UP || !e->conn || w->weak)
				continue;
			if (!e->peer || e->peer->state != END_UP)
				verify_half_open(e);
			else
				verify_pair(e);
		}
}

void verify_reconnect(struct world *w)
{
	struct conn *c;

	for (c = w->conns; c; c = c->next) {
		struct end *e = c->active;

		if (!c->probe || !e || c->crashed)
			continue;
		if (c->retried)
			continue;
		CHECK_END(e,
			  e->state == END_UP && (w->weak || (e->peer && e->peer->state == END_UP)),
			  "cannot connect in a network without faults, attempt %u", c->tries);
	}
}

void verify_end(struct world *w)
{
	struct xc_gauges g;
	struct end *e;
	unsigned i;

	for (i = 0; i < w->hosts; i++) {
		struct host *h = &w->host[i];

		for (e = h->ends; e; e = e->next)
			CHECK_END(e, e->state == END_GONE, "not destroyed");
		g = xc_gauges(h->cm);
		CHECK(w, !g.ids && !g.half_open && !g.sources && !xc_next(h->cm, NULL),
		      "host %u: %u ids, %u half open, %u sources are left", i, g.ids, g.half_open,
		      g.sources);
		CHECK(w, xc_deadline(h->cm) == XC_NEVER, "host %u: a timer is left", i);
	}
}
