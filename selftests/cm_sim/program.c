// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs: users of the engine at each host. They respond at once or later, or not at all,
 * call functions in wrong states, and destroy ids in any state.
 */
#include <errno.h>

#include "cm_sim.h"

const char *const end_names[END_STATES] = {
	[END_CONNECTING] = "connecting",
	[END_REQUESTED] = "requested",
	[END_ACCEPTED] = "accepted",
	[END_REPLIED] = "replied",
	[END_UP] = "up",
	[END_CLOSING] = "closing",
	[END_ASKED] = "asked",
	[END_TIMEWAIT] = "timewait",
	[END_LINGERING] = "lingering",
	[END_SIDR_SENT] = "sidr sent",
	[END_SIDR_RECEIVED] = "sidr received",
	[END_OVER] = "over",
	[END_GONE] = "gone",
};

static const char *const act_names[ACT_COUNT] = {
	[ACT_ACCEPT] = "accept", [ACT_REJECT] = "reject",
	[ACT_MRA] = "mra",	 [ACT_ESTABLISH] = "establish",
	[ACT_NOTIFY] = "notify", [ACT_DISCONNECT] = "disconnect",
	[ACT_REPLY] = "reply",	 [ACT_SIDR_REPLY] = "sidr reply",
	[ACT_IGNORE] = "ignore", [ACT_DESTROY] = "destroy",
};

/* ---- ends ------------------------------------------------------------------------- */

static void random_blob(struct world *w, struct blob *b, unsigned max)
{
	b->len = rng_chance(&w->sched, 20)   ? 0
		 : rng_chance(&w->sched, 20) ? max
					     : rng_between(&w->sched, 1, max);
	rng_bytes(&w->sched, b->bytes, b->len);
}

/* Chooses private data for a message. */
static struct xc_data *new_data(struct end *e, enum xc_kind kind, unsigned max, struct xc_data *d)
{
	struct blob *b = &e->sent[kind].data;

	random_blob(e->w, b, max);
	d->data = b->bytes;
	d->len = b->len;
	return d;
}

static struct end *end_new(struct host *h, struct conn *c, bool active)
{
	struct end *e = calloc(1, sizeof(*e));
	unsigned i;

	e->w = h->w;
	e->host = h;
	e->life = h->life;
	e->conn = c;
	e->active = active;
	e->next = h->ends;
	h->ends = e;
	if (c) {
		e->sibling = c->ends;
		c->ends = e;
	}
	for (i = 0; i < MAX_ACTS; i++)
		e->plan[i].when = NEVER;
	return e;
}

struct end *end_by_comm_id(struct host *h, uint32_t comm_id)
{
	struct end *e;

	for (e = h->ends; e; e = e->next)
		if (e->comm_id == comm_id && comm_id)
			return e;
	for (e = h->gone; e; e = e->next)
		if (e->comm_id == comm_id && comm_id)
			return e;
	return NULL;
}

/* Removes ends that are gone from the list of live ones. Those of conns are kept for the checks. */
static void sort_out(struct host *h)
{
	struct end **at = &h->ends, *e;

	while ((e = *at)) {
		if (e->state != END_GONE) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = h->gone;
		if (e->conn)
			h->gone = e;
		else
			free(e);
	}
}

void ends_free(struct host *h)
{
	struct end *e;

	sort_out(h);
	while ((e = h->gone)) {
		h->gone = e->next;
		free(e);
	}
}

void end_plan(struct end *e, enum act act, uint64_t delay)
{
	unsigned i;

	for (i = 0; i < MAX_ACTS; i++)
		if (e->plan[i].when == NEVER) {
			e->plan[i].when = e->w->now + delay;
			e->plan[i].act = act;
			return;
		}
}

/* Plans an action at once, within the current event, or up to `max` later. */
static void soon(struct end *e, enum act act, uint64_t max)
{
	end_plan(e, act, e->w->calm ? 0 : rng_below(&e->w->sched, max));
}

struct conn *conn_new(struct world *w, struct host *from, struct host *to, bool sidr)
{
	struct conn *c = calloc(1, sizeof(*c));

	c->number = w->conn_count++;
	c->from = from;
	c->to = to;
	c->sidr = sidr;
	c->next = w->conns;
	w->conns = c;
	return c;
}

/* ---- calls ------------------------------------------------------------------------ */

static int do_accept(struct end *e)
{
	struct rng *r = &e->w->sched;
	struct xc_rep *rep = &e->rep;

	*rep = (struct xc_rep){
		.qpn = e->host->next_qpn++ & 0xffffff,
		.qkey = (uint32_t)rng_next(r),
		.starting_psn = rng_next(r) & 0xffffff,
		.responder_resources = rng_next(r) & 0xff,
		.initiator_depth = rng_next(r) & 0xff,
		.target_ack_delay = rng_below(r, 16),
		.failover = rng_below(r, 3),
		.rnr_retry_count = rng_below(r, 8),
		.flow_control = rng_chance(r, 50),
		.srq = rng_chance(r, 50),
		.vendor_id = rng_next(r) & 0xffffff,
		.ece_options = (uint32_t)rng_next(r),
	};
	new_data(e, XC_REP, XC_REP_DATA, &rep->data);
	return xc_accept(e->id, rep);
}

static int do_reject(struct end *e)
{
	struct rng *r = &e->w->sched;

	e->rej = (struct xc_rej){ .reason = rng_chance(r, 70) ? XC_REJ_CONSUMER
							      : rng_between(r, 1, 40) };
	/* The peer enters TIMEWAIT for STALE and finds its id by GUID for TIMEOUT. */
	if (e->rej.reason == XC_REJ_STALE || e->rej.reason == XC_REJ_TIMEOUT)
		e->rej.reason = XC_REJ_VENDOR;
	new_data(e, XC_REJ, XC_REJ_DATA, &e->rej.data);
	random_blob(e->w, &e->info, XC_REJ_ARI);
	e->rej.ari = (struct xc_data){ e->info.bytes, e->info.len };
	return xc_reject(e->id, &e->rej);
}

static int do_sidr_reply(struct end *e)
{
	struct rng *r = &e->w->sched;
	struct xc_sidr_rep *rep = &e->sidr_rep;

	*rep = (struct xc_sidr_rep){
		.status = rng_chance(r, 80) ? XC_SIDR_OK : rng_below(r, 6),
		.qpn = rng_next(r) & 0xffffff,
		.qkey = (uint32_t)rng_next(r),
		.vendor_id = rng_next(r) & 0xffffff,
		.ece_options = (uint32_t)rng_next(r),
	};
	new_data(e, XC_SIDR_REP, XC_SIDR_REP_DATA, &rep->data);
	random_blob(e->w, &e->info, XC_SIDR_REP_INFO);
	rep->info = (struct xc_data){ e->info.bytes, e->info.len };
	return xc_sidr_reply(e->id, rep);
}

static void gone(struct end *e)
{
	unsigned i;

	e->state = END_GONE;
	e->id = NULL;
	for (i = 0; i < MAX_ACTS; i++)
		e->plan[i].when = NEVER;
}

static void do_destroy(struct end *e, enum act act)
{
	struct xc_id *id = e->id;

	if (e->conn && (e->state == END_REQUESTED || e->state == END_SIDR_RECEIVED))
		e->conn->ignored = true;
	if (e->conn && e->state == END_UP && !e->active && e->conn->active->req.transport == XC_XRC)
		e->left_up_at = e->w->now;
	gone(e);
	if (act == ACT_IGNORE)
		xc_ignore(id);
	else
		xc_destroy(id);
}

/* Calls the engine. The arguments of a call that must fail are not what is expected at the peer. */
static int call(struct end *e, enum act act)
{
	struct xc_data data;

	switch (act) {
	case ACT_ACCEPT:
		return do_accept(e);
	case ACT_REJECT:
		return do_reject(e);
	case ACT_MRA:
		return xc_mra(e->id, rng_between(&e->w->sched, 12, 19));
	case ACT_ESTABLISH:
		return xc_establish(e->id, new_data(e, XC_RTU, XC_RTU_DATA, &data));
	case ACT_NOTIFY:
		return xc_notify_established(e->id);
	case ACT_DISCONNECT:
		return xc_disconnect(e->id, new_data(e, XC_DREQ, XC_DREQ_DATA, &data));
	case ACT_REPLY:
		return xc_reply_disconnect(e->id, new_data(e, XC_DREP, XC_DREP_DATA, &data));
	case ACT_SIDR_REPLY:
		return do_sidr_reply(e);
	default:
		return 0;
	}
}

static void went_up(struct end *e)
{
	struct rng *r = &e->w->sched;
	unsigned dice = rng_below(r, 100);

	if (e->conn && e->conn->probe)
		return;
	if (dice < 55)
		end_plan(e, ACT_DISCONNECT, rng_below(r, 30 * SEC));
	else if (dice < 70 && !e->w->calm)
		end_plan(e, ACT_DESTROY, rng_below(r, 30 * SEC));
	/* Packets of the active end arrive at the QP of the passive end before the RTU. */
	if (e->active && e->peer && e->peer->state != END_GONE && rng_chance(r, 30))
		end_plan(e->peer, ACT_NOTIFY, rng_below(r, 2 * SEC));
}

static void after_call(struct end *e, enum act act)
{
	switch (act) {
	case ACT_ACCEPT:
		e->state = END_ACCEPTED;
		break;
	case ACT_ESTABLISH:
		e->state = END_UP;
		e->was_up = true;
		went_up(e);
		break;
	case ACT_DISCONNECT:
		e->state = END_CLOSING;
		break;
	case ACT_REPLY:
		e->state = END_TIMEWAIT;
		e->timewait_at = e->w->now;
		break;
	case ACT_REJECT:
	case ACT_SIDR_REPLY:
		e->over = true;
		e->state = e->state == END_ACCEPTED ? END_LINGERING : END_OVER;
		soon(e, ACT_DESTROY, 5 * SEC);
		break;
	default:
		break;
	}
}

/* True if the peer has established the connection with this end, so that it may send packets. */
static bool receives_packets(const struct end *e)
{
	return e->peer && e->peer->was_up && e->peer->peer == e;
}

static void do_act(struct end *e, enum act act)
{
	struct blob saved[XC_NUM_KINDS];
	struct xc_rep rep = e->rep;
	struct xc_rej rej = e->rej;
	struct xc_sidr_rep sidr_rep = e->sidr_rep;
	struct blob info = e->info;
	unsigned i;
	int ret;

	if (e->state == END_GONE)
		return;
	verify_state(e);
	if (act == ACT_NOTIFY && e->state == END_ACCEPTED && !receives_packets(e))
		return;
	TRACE(e->w, "%u: %s conn %d, %s", e->host->index, act_names[act],
	      e->conn ? (int)e->conn->number : -1, end_names[e->state]);
	if (act == ACT_DESTROY || act == ACT_IGNORE) {
		do_destroy(e, act);
		return;
	}
	for (i = 0; i < XC_NUM_KINDS; i++)
		saved[i] = e->sent[i].data;
	ret = call(e, act);
	if (e->state == END_GONE)
		return; /* by the event of xc_notify_established() */
	if (verify_call(e, act, ret)) {
		after_call(e, act);
	} else {
		for (i = 0; i < XC_NUM_KINDS; i++)
			e->sent[i].data = saved[i];
		e->rep = rep;
		e->rej = rej;
		e->sidr_rep = sidr_rep;
		e->info = info;
	}
	verify_state(e);
}

/* ---- connecting -------------------------------------------------------------------- */

static void fill_path(struct conn *c, struct xc_path *path)
{
	struct rng *r = &c->from->w->sched;

	path->local = c->from->gid;
	path->peer = c->to->gid;
	path->flow_label = rng_next(r) & 0xfffff;
	path->traffic_class = rng_next(r) & 0xff;
	path->hop_limit = rng_between(r, 1, 255);
	path->sl = rng_below(r, 8);
}

static uint64_t pick_service(struct conn *c)
{
	struct rng *r = &c->from->w->sched;
	unsigned i;

	for (i = 0; i < c->to->services; i++)
		if (c->to->service[i].sidr == c->sidr)
			return !c->probe && rng_chance(r, 6) ? c->to->service[i].id + 100
							     : c->to->service[i].id;
	return 0;
}

static void fill_req(struct end *e)
{
	struct rng *r = &e->w->sched;
	struct xc_req *q = &e->req;

	*q = (struct xc_req){
		.service_id = pick_service(e->conn),
		.transport = rng_below(r, 3),
		.qpn = e->host->next_qpn++ & 0xffffff,
		.qkey = (uint32_t)rng_next(r),
		.starting_psn = rng_next(r) & 0xffffff,
		.responder_resources = rng_next(r) & 0xff,
		.initiator_depth = rng_next(r) & 0xff,
		.remote_response_timeout = rng_between(r, 14, 20),
		.local_response_timeout = rng_between(r, 14, 20),
		.max_cm_retries = rng_chance(r, 60) ? 15 : rng_between(r, 1, 15),
		.retry_count = rng_below(r, 8),
		.rnr_retry_count = rng_below(r, 8),
		.ack_timeout = rng_between(r, 8, 20),
		.mtu = rng_between(r, 1, 5),
		.rate = rng_below(r, 64),
		.pkey = 0xffff,
		.flow_control = rng_chance(r, 50),
		.srq = rng_chance(r, 50),
		.vendor_id = rng_next(r) & 0xffffff,
		.ece_options = (uint32_t)rng_next(r),
	};
	if (e->w->calm || e->conn->probe) {
		q->remote_response_timeout = q->local_response_timeout = 18;
		q->max_cm_retries = 15;
	}
	fill_path(e->conn, &q->path);
	q->guid = e->host->config.guid;
	new_data(e, XC_REQ, XC_REQ_DATA, &q->data);
}

static int start_sidr(struct end *e)
{
	struct rng *r = &e->w->sched;
	struct xc_sidr_param *p = &e->sidr;

	p->response_timeout = e->w->calm ? 18 : rng_between(r, 14, 20);
	p->max_cm_retries = e->w->calm ? 15 : rng_between(r, 1, 15);
	p->req.service_id = pick_service(e->conn);
	p->req.pkey = 0xffff;
	fill_path(e->conn, &p->path);
	new_data(e, XC_SIDR_REQ, XC_SIDR_REQ_DATA, &p->req.data);
	e->state = END_SIDR_SENT;
	return xc_sidr_request(e->host->cm, p, e, &e->id);
}

static int start_rc(struct end *e)
{
	fill_req(e);
	e->state = END_CONNECTING;
	return xc_connect(e->host->cm, &e->req, e, &e->id);
}

/* Some programs give up at any time, or call what the state does not permit. */
static void plan_mischief(struct end *e)
{
	struct rng *r = &e->w->sched;

	if (e->w->closing)
		end_plan(e, ACT_DESTROY, rng_below(r, 30 * SEC));
	if (e->w->calm || (e->conn && e->conn->probe))
		return;
	if (rng_chance(r, 10))
		end_plan(e, ACT_DESTROY, rng_below(r, 10 * SEC));
	if (rng_chance(r, 4) && e->active)
		end_plan(e, ACT_REJECT, rng_below(r, 10 * SEC));
	if (rng_chance(r, 25))
		end_plan(e, rng_below(r, ACT_SIDR_REPLY + 1), rng_below(r, 5 * SEC));
}

void program_connect(struct world *w, struct conn *c)
{
	struct end *e;
	int ret;

	if (!c->from->cm)
		return;
	e = end_new(c->from, c, true);
	c->active = e;
	c->tries++;
	e->host->connecting = e;
	ret = c->sidr ? start_sidr(e) : start_rc(e);
	e->host->connecting = NULL;
	TRACE(w, "%u: connect to %u, conn %u, id %08x: %d", c->from->index, c->to->index, c->number,
	      e->comm_id, ret);
	if (ret) {
		CHECK(w, ret == -EMFILE, "xc_connect() failed with %d", ret);
		CHECK(w, xc_gauges(e->host->cm).ids >= e->host->config.max_ids,
		      "xc_connect() failed below the limit");
		gone(e);
		w->totals.count[TOTAL_LIMITED]++;
		return;
	}
	CHECK(w, xc_info(e->id)->local_id == e->comm_id, "the REQ has another id than xc_info()");
	verify_state(e);
	plan_mischief(e);
}

/* ---- reactions ---------------------------------------------------------------------- */

static struct conn *conn_of(struct host *h, const struct xc_msg *msg, const struct xc_path *path)
{
	struct host *from = host_by_gid(h->w, &path->peer);
	struct end *e = from ? end_by_comm_id(from, msg->local_id) : NULL;

	return e && e->active && e->conn && e->conn->to == h ? e->conn : NULL;
}

static const struct service *service_of(const struct host *h, uint64_t id, bool sidr)
{
	unsigned i;

	for (i = 0; i < h->services; i++)
		if (h->service[i].id == id && h->service[i].sidr == sidr)
			return &h->service[i];
	return NULL;
}

static unsigned pending(const struct host *h)
{
	const struct end *e;
	unsigned n = 0;

	for (e = h->ends; e; e = e->next)
		n += e->state == END_REQUESTED || e->state == END_SIDR_RECEIVED;
	return n;
}

static void refuse_service(struct end *e, bool sidr)
{
	struct xc_rej rej = { .reason = XC_REJ_SERVICE_ID };
	struct xc_sidr_rep rep = { .status = XC_SIDR_UNSUPPORTED };
	int ret;

	e->rej = rej;
	e->sidr_rep = rep;
	ret = sidr ? xc_sidr_reply(e->id, &rep) : xc_reject(e->id, &rej);
	CHECK(e->w, !ret, "a request without listener cannot be rejected: %d", ret);
	do_destroy(e, ACT_DESTROY);
}

/* A request: accepts it at once, later, or does something else. */
static void react_request(struct end *e, bool sidr)
{
	struct rng *r = &e->w->sched;
	enum act accept = sidr ? ACT_SIDR_REPLY : ACT_ACCEPT;
	unsigned dice = e->w->calm || (e->conn && e->conn->probe) ? 0 : rng_below(r, 100);

	if (dice < 45) {
		do_act(e, accept);
	} else if (dice < 62) {
		end_plan(e, accept, rng_below(r, 3 * SEC));
	} else if (dice < 70) {
		end_plan(e, accept, rng_below(r, 60 * SEC));
	} else if (dice < 78) {
		end_plan(e, sidr ? ACT_SIDR_REPLY : ACT_REJECT, rng_below(r, 3 * SEC));
	} else if (dice < 82) {
		do_act(e, ACT_IGNORE);
	} else if (dice < 85) {
		do_act(e, ACT_DESTROY);
	} else if (dice < 93) {
		do_act(e, ACT_MRA);
		end_plan(e, accept, rng_below(r, 5 * SEC));
	} else {
		end_plan(e, ACT_DESTROY, rng_below(r, 20 * SEC));
		end_plan(e, accept, rng_below(r, 20 * SEC));
	}
}

static void request(struct host *h, struct xc_id *id, const struct xc_msg *msg)
{
	bool sidr = msg->kind == XC_SIDR_REQ;
	const struct xc_info *info = xc_info(id);
	const struct service *s;
	struct end *e;

	CHECK(h->w, !info->owner, "a new id has an owner");
	e = end_new(h, conn_of(h, msg, &info->path), false);
	e->id = id;
	e->comm_id = info->local_id;
	e->state = sidr ? END_SIDR_RECEIVED : END_REQUESTED;
	e->peer = e->conn ? e->conn->active : NULL;
	xc_set_owner(id, e);
	TRACE(h->w, "%u: event %s conn %d, id %08x", h->index, xc_kind_name(msg->kind),
	      e->conn ? (int)e->conn->number : -1, e->comm_id);
	verify_request(h, e, msg);
	verify_state(e);
	if (e->conn)
		e->conn->passive = e;
	s = service_of(h, sidr ? msg->sidr_req.service_id : msg->req.service_id, sidr);
	if (!s) {
		refuse_service(e, sidr);
		return;
	}
	if (pending(h) > s->backlog) {
		do_destroy(e, ACT_IGNORE);
		return;
	}
	plan_mischief(e);
	react_request(e, sidr);
}

static void react_rep(struct end *e)
{
	struct rng *r = &e->w->sched;
	unsigned dice = e->w->calm || e->conn->probe ? 0 : rng_below(r, 100);

	if (dice < 60) {
		do_act(e, ACT_ESTABLISH);
	} else if (dice < 75) {
		end_plan(e, ACT_ESTABLISH, rng_below(r, 5 * SEC));
	} else if (dice < 80) {
		end_plan(e, ACT_ESTABLISH, rng_below(r, 60 * SEC));
	} else if (dice < 88) {
		do_act(e, ACT_MRA);
		end_plan(e, ACT_ESTABLISH, rng_below(r, 5 * SEC));
	} else if (dice < 94) {
		do_act(e, ACT_REJECT);
	} else {
		do_act(e, ACT_DESTROY);
	}
}

static void react_dreq(struct end *e)
{
	struct rng *r = &e->w->sched;
	unsigned dice = e->w->calm ? 0 : rng_below(r, 100);

	if (e->state != END_ASKED)
		return;
	if (dice < 60)
		do_act(e, ACT_REPLY);
	else if (dice < 80)
		end_plan(e, ACT_REPLY, rng_below(r, 10 * SEC));
	else if (dice < 90)
		do_act(e, ACT_DESTROY);
	else
		end_plan(e, ACT_DESTROY, rng_below(r, 10 * SEC));
}

/* Tries again if the peer still had a connection of before a crash. */
static void retry(struct end *e, const struct xc_msg *msg)
{
	struct conn *c = e->conn, *again;

	if (!msg || msg->kind != XC_REJ || msg->rej.reason != XC_REJ_STALE || !e->active)
		return;
	e->w->totals.count[TOTAL_STALE]++;
	if (!c || e->w->closing || c->tries >= RECONNECT_TRIES)
		return;
	c->retried = true;
	again = conn_new(e->w, c->from, c->to, false);
	again->probe = c->probe;
	again->tries = c->tries;
	program_connect(e->w, again);
}

/* The exchange has ended: destroys the id, at once, in TIMEWAIT, or later. */
static void react_over(struct end *e)
{
	if (e->state == END_GONE || e->state == END_ASKED)
		return;
	if (e->state == END_TIMEWAIT && rng_chance(&e->w->sched, 60))
		return; /* after TIMEWAIT_EXIT */
	if (rng_chance(&e->w->sched, 40))
		do_act(e, ACT_DESTROY);
	else
		soon(e, ACT_DESTROY, 10 * SEC);
}

static void react(struct end *e, const struct xc_event *event)
{
	switch (event->type) {
	case XC_EVENT_REP:
		react_rep(e);
		break;
	case XC_EVENT_ESTABLISHED:
		went_up(e);
		break;
	case XC_EVENT_DREQ:
		react_dreq(e);
		break;
	case XC_EVENT_REJECTED:
		retry(e, event->msg);
		react_over(e);
		break;
	default:
		react_over(e);
		break;
	}
}

void program_event(struct host *h, struct xc_id *id, const struct xc_event *event)
{
	struct world *w = h->w;
	struct end *e;

	CHECK(w, !h->in_call, "an event %u for a MAD that must have no effect", event->type);
	CHECK(w, !h->connecting, "an event within xc_connect()");
	if (event->type == XC_EVENT_REQ || event->type == XC_EVENT_SIDR_REQ) {
		request(h, id, event->msg);
		return;
	}
	e = xc_info(id)->owner;
	CHECK(w, e && e->id == id && e->state != END_GONE, "event %u for an id without user",
	      event->type);
	verify_event(e, event);
	verify_state(e);
	react(e, event);
}

/* ---- time ----------------------------------------------------------------------------- */

uint64_t users_next(const struct world *w)
{
	uint64_t when = w->connect_at;
	const struct end *e;
	unsigned i, k;

	for (i = 0; i < w->hosts; i++)
		for (e = w->host[i].ends; e; e = e->next)
			for (k = 0; k < MAX_ACTS && e->state != END_GONE; k++)
				when = earliest(when, e->plan[k].when);
	return when;
}

/* Executes the earliest action that is due. Returns false if there is none. */
static bool run_one(struct host *h)
{
	struct end *e;
	unsigned k;

	for (e = h->ends; e; e = e->next)
		for (k = 0; k < MAX_ACTS && e->state != END_GONE; k++)
			if (e->plan[k].when <= h->w->now) {
				e->plan[k].when = NEVER;
				do_act(e, e->plan[k].act);
				return true;
			}
	return false;
}

void users_run(struct world *w)
{
	unsigned i, from, to;

	for (i = 0; i < w->hosts; i++) {
		while (run_one(&w->host[i]))
			;
		sort_out(&w->host[i]);
	}
	if (w->connect_at > w->now)
		return;
	from = rng_below(&w->sched, w->hosts);
	to = rng_below(&w->sched, w->hosts);
	program_connect(w, conn_new(w, &w->host[from], &w->host[to], rng_chance(&w->sched, 20)));
	w->connect_at = --w->planned ? w->now + rng_below(&w->sched, 3 * SEC) : NEVER;
}
