// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Deliberate errors and state changes, at most one per connection; closing of connections. */
#include "sim.h"

/* A send queue is drained after so many RNR NAKs. The code 0 is the longest timer. */
#define RNR_TIMER_MAX (655360 * USEC)
#define RNR_WAITS 10

/* Time after which all retries of a broken connection are exhausted */
static uint64_t retry_time(const struct conn *c)
{
	return SEC + (c->retry_cnt + 2) * (4096ull << c->timeout);
}

const char *script_name(unsigned script)
{
	static const char *const names[SCRIPT_COUNT] = {
		"none",	   "break", "cut",   "error", "reset",
		"destroy", "drain", "dereg", "fault", "hang",
	};

	return names[script];
}

const char *break_name(unsigned broken)
{
	static const char *const names[BREAK_COUNT] = {
		"good",
		"Q_Key",
		"too long",
		"SRQ number",
		"rkey index",
		"rkey variant",
		"rkey of another PD",
		"rkey without access",
		"below range",
		"beyond range",
		"wrapping range",
		"misaligned",
		"short receive",
		"receive with bad lkey",
		"no receive",
		"bad lkey",
		"lkey range",
		"lkey access",
		"lkey of another PD",
		"bad opcode",
		"too many SGEs",
	};

	return names[broken];
}

/* ---- planning ------------------------------------------------------------ */

static void make_remote(struct sim_qp *q, struct sim_op *op)
{
	static const uint8_t opcodes[] = {
		XR_WR_RDMA_WRITE,	    XR_WR_RDMA_READ, XR_WR_RDMA_WRITE_WITH_IMM, XR_WR_FLUSH,
		XR_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct rng *r = &q->w->rng;

	op->opcode = op->broken == BREAK_ALIGN
			     ? XR_WR_ATOMIC_FETCH_AND_ADD
			     : opcodes[rng_below(r, op->broken < BREAK_RANGE_LOW ? 5 : 4)];
	if (op->opcode == XR_WR_ATOMIC_FETCH_AND_ADD) {
		op->len = 8;
		op->counter = &q->peer->host->counter[0];
	}
	op->takes_recv = op->opcode == XR_WR_RDMA_WRITE_WITH_IMM;
}

static void make_send(struct sim_qp *q, struct sim_op *op)
{
	op->opcode = rng_chance(&q->w->rng, 50) ? XR_WR_SEND : XR_WR_SEND_WITH_IMM;
	op->takes_recv = true;
	if (op->broken == BREAK_RNR) {
		q->conn->rnr_retry = rng_below(&q->w->rng, 4);
		q->conn->late_recv = 0;
		if (rng_chance(&q->w->rng, 30))
			op->opcode = XR_WR_RDMA_WRITE_WITH_IMM;
	}
}

static void make_local(struct sim_qp *q, struct sim_op *op)
{
	op->opcode = op->broken == BREAK_LKEY_ACCESS || rng_chance(&q->w->rng, 30)
			     ? XR_WR_RDMA_READ
			     : XR_WR_RDMA_WRITE;
	op->takes_recv = false;
}

/* Errors of a receive require that it is posted for the message, so not with an SRQ. */
static unsigned choose_break(struct sim_qp *q)
{
	struct rng *r = &q->w->rng;
	unsigned broken;

	do
		broken = rng_between(r, is_xrc(q) ? BREAK_SRQN : BREAK_RKEY_INDEX, BREAK_COUNT - 1);
	while (takes_any(q->peer) && broken >= BREAK_RECV_SMALL && broken <= BREAK_RNR);
	return broken;
}

/* One request is invalid. All before it must succeed, none after it may have an effect. */
static void plan_break(struct sim_qp *q)
{
	struct rng *r = &q->w->rng;
	unsigned i = rng_below(r, q->op_count);
	struct sim_op *op = &q->ops[i];

	*op = (struct sim_op){
		.broken = choose_break(q),
		.srq = op->srq,
		.len = rng_between(r, 2, rng_chance(r, 50) ? 64 : 6000),
		.nsge = 1,
		.flags = rng_chance(r, 70) ? XR_SEND_SIGNALED : 0,
		.imm = rng_next(r),
	};
	if (i + 1 < q->op_count && op[1].chained) {
		op[1].chained = false;
		op[1].nsge = 1;
		op[1].len = rng_between(r, 1, 100);
	}
	if (op->broken == BREAK_SRQN)
		op->opcode = XR_WR_RDMA_WRITE;
	else if (op->broken <= BREAK_ALIGN)
		make_remote(q, op);
	else if (op->broken <= BREAK_RNR)
		make_send(q, op);
	else
		make_local(q, op);
}

/* Dedicated regions, so that their removal affects no other connection */
static void plan_reserved(struct conn *c)
{
	unsigned i;
	int side;

	c->qp[0].w->reserved++;
	for (side = 0; side < 2; side++) {
		struct sim_qp *q = &c->qp[side];
		struct host *h = q->host;
		struct sim_mr *mr;

		mr = host_add_mr(h, h->reserved_off, RESERVED_SIZE, q->pd,
				 XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE);
		mr->reserved = true;
		for (i = 0; c->script == SCRIPT_HANG && i < mr->mem.nseg; i++)
			mr->seg[i].ptr = NULL;
		h->reserved_off += RESERVED_SIZE;
		c->mr[side] = mr - h->mr;
	}
}

static bool uses_reserved(const struct conn *c)
{
	return c->script == SCRIPT_DEREG || c->script == SCRIPT_FAULT || c->script == SCRIPT_HANG;
}

/* XRC: only the initiator sends, and the SRQs determine the PD, so dedicated regions do not fit. */
static void fit_to_xrc(struct conn *c)
{
	if (c->script == SCRIPT_BREAK || c->script == SCRIPT_SQD)
		c->victim = 0;
	if (uses_reserved(c))
		c->script = SCRIPT_DESTROY;
}

/* Unreliable types have invalid requests without a script; removed memory causes no error. */
static void fit_to_unreliable(struct conn *c)
{
	if (c->script == SCRIPT_BREAK || uses_reserved(c))
		c->script = SCRIPT_RESET;
}

void script_plan(struct world *w, struct conn *c)
{
	struct rng *r = &w->rng;
	uint64_t most = rng_chance(r, 50) ? 60 * USEC : 2 * MSEC;

	c->victim = rng_below(r, 2);
	c->script = rng_chance(r, 50) ? SCRIPT_BREAK : rng_between(r, SCRIPT_CUT, SCRIPT_COUNT - 1);
	if (c->type == XR_QPT_XRC_SEND)
		fit_to_xrc(c);
	else if (c->type != XR_QPT_RC)
		fit_to_unreliable(c);
	switch (c->script) {
	case SCRIPT_BREAK:
		if (c->qp[c->victim].op_count)
			plan_break(&c->qp[c->victim]);
		else
			c->script = SCRIPT_NONE;
		return;
	case SCRIPT_CUT:
		if (c->local)
			c->script = SCRIPT_ERR;
		break;
	case SCRIPT_DEREG:
	case SCRIPT_FAULT:
	case SCRIPT_HANG:
		if (w->big || w->reserved == MAX_RESERVED ||
		    (c->script == SCRIPT_HANG && !w->async_tier))
			c->script = SCRIPT_DESTROY;
		else
			plan_reserved(c);
		break;
	}
	c->script_at = rng_between(r, 2 * USEC, most);
}

/* ---- execution ----------------------------------------------------------- */

static void poll_all(struct conn *c)
{
	int side;

	for (side = 0; side < 2; side++) {
		client_poll(c->qp[side].scq, UINT32_MAX);
		client_poll(c->qp[side].rcq, UINT32_MAX);
		verify_unsignalled(&c->qp[side]);
	}
}

/* Disconnects a host: all its connections over the network break. */
static void cut(struct world *w, struct host *h)
{
	unsigned i;

	TRACE(w, "host %u: cut off", h->index);
	h->cut = true;
	for (i = 0; i < w->conns; i++) {
		struct conn *c = &w->conn[i];

		if (c->local || (c->qp[0].host != h && c->qp[1].host != h))
			continue;
		c->broken = true;
		/* The invalid request may not be reached any more. */
		if (c->script == SCRIPT_BREAK)
			c->script = SCRIPT_CUT;
	}
}

/* Resets and reconnects both QPs with distant PSNs while old packets are in flight. */
static void reset(struct conn *c)
{
	int side;

	poll_all(c);
	for (side = 0; side < 2; side++) {
		qp_modify(&c->qp[side], XR_QPS_RESET);
		client_abort(&c->qp[side]);
		c->qp[side].sq_psn = (c->qp[side].sq_psn + (1 << 23) + 5) & XR_PSN_MASK;
	}
	for (side = 0; side < 2; side++) {
		struct sim_qp *q = &c->qp[side];

		q->recv_cursor = q->recv_match = q->peer->op_next;
		q->step = q->w->now;
	}
	conn_connect(c);
}

static void destroy(struct sim_qp *q)
{
	poll_all(q->conn);
	client_abort(q);
	qp_destroy(q);
}

static void remove_memory(struct sim_qp *q, bool dereg)
{
	struct sim_mr *mr = &q->host->mr[q->conn->mr[q - q->conn->qp]];

	TRACE(q->w, "host %u: key %08x %s", q->host->index, mr->value,
	      dereg ? "deregistered" : "its memory is lost");
	if (dereg) {
		host_del_mr(q->host, mr);
		return;
	}
	/* every access fails */
	mr->mem.length = 0;
	memory_stop(q->w, mr);
	host_freeze(q->host, mr);
}

/* RTS to SQD, SQ_DRAINED event, a time without requests, back to RTS */
static void drain(struct world *w, struct conn *c, struct sim_qp *q)
{
	c->script_at = w->now + 20 * USEC;
	if (q->in_sqe) {
		/* An error flushed the send queue; the program itself returns to RTS. */
		c->step = 0;
		c->script_at = NEVER;
		q->drained = q->quiet = false;
		q->step = w->now;
	} else if (c->step == 0) {
		qp_modify(q, XR_QPS_SQD);
		c->step = 1;
		c->drain_by = w->now + retry_time(c) + RNR_WAITS * RNR_TIMER_MAX;
	} else if (c->step == 1) {
		CHECK(w, w->now < c->drain_by, "qp %u: the send queue does not drain", q->id);
		if (!q->drained)
			return;
		c->step = 2;
		c->script_at = w->now + rng_below(&w->sched, 300 * USEC);
	} else {
		qp_modify(q, XR_QPS_RTS);
		q->step = w->now;
		c->step = 0;
		c->script_at = NEVER;
	}
}

void script_run(struct world *w, struct conn *c)
{
	struct sim_qp *q = &c->qp[c->victim];

	c->script_at = NEVER;
	if (c->phase != CONN_RUNNING || !q->qp || q->in_error)
		return;
	/* Already broken. A cut affects other connections, too; a drain in progress must end. */
	if (c->broken && c->script != SCRIPT_CUT && !(c->script == SCRIPT_SQD && c->step))
		return;
	if (c->ready_at != NEVER) { /* wait until connected */
		c->script_at = c->ready_at + 1;
		return;
	}
	TRACE(w, "connection %u: %s", c->index, script_name(c->script));
	switch (c->script) {
	case SCRIPT_CUT:
		cut(w, q->host);
		break;
	case SCRIPT_ERR:
		c->broken = true;
		qp_modify(q, XR_QPS_ERR);
		break;
	case SCRIPT_RESET:
		reset(c);
		break;
	case SCRIPT_DESTROY:
		c->broken = true;
		destroy(q);
		break;
	case SCRIPT_SQD:
		drain(w, c, q);
		break;
	case SCRIPT_DEREG:
	case SCRIPT_FAULT:
		c->broken = true;
		if (w->async_tier && c->script == SCRIPT_FAULT && rng_chance(&w->sched, 50))
			memory_fail(&q->host->mr[c->mr[c->victim]]);
		else
			remove_memory(q, c->script == SCRIPT_DEREG);
		break;
	case SCRIPT_HANG:
		c->broken = true;
		memory_hang(w, &q->host->mr[c->mr[c->victim]]);
		break;
	}
}

/* ---- closing ------------------------------------------------------------------------------------
 */

/* True if requests wait for receives that the peer's program will not post any more. */
static bool waits_for_receives(const struct sim_qp *q)
{
	return q->peer->qp && !q->peer->in_error && !q->in_error && q->op_head != q->op_next;
}

static bool has_ended(struct world *w, struct conn *c)
{
	bool idle;
	int side;

	if (c->broken)
		for (side = 0; side < 2; side++)
			verify_unsignalled(&c->qp[side]);
	idle = client_idle(&c->qp[0]) && client_idle(&c->qp[1]);
	if (c->script_at != NEVER || c->ready_at != NEVER)
		return false;
	if (!c->broken)
		return idle;
	if (c->close_at == NEVER)
		c->close_at = w->now + retry_time(c);
	if (idle || w->now < c->close_at)
		return idle;
	for (side = 0; side < 2; side++) {
		struct sim_qp *q = &c->qp[side];

		CHECK(w, client_idle(q) || waits_for_receives(q) || c->script == SCRIPT_HANG,
		      "qp %u: requests of a broken connection do not complete", q->id);
	}
	return true;
}

static void start_closing(struct world *w, struct conn *c)
{
	TRACE(w, "connection %u: closing", c->index);
	c->phase = CONN_CLOSING;
	c->step = 0;
	/* Packets in flight may still arrive. */
	c->close_at = w->now + rng_below(&w->sched, 2 * MSEC);
	/* Unreliable messages must arrive if nothing is lost. */
	if (c->type == XR_QPT_UC || c->type == XR_QPT_UD)
		c->close_at += w->async_tier ? 200 * MSEC : 5 * MSEC;
}

static bool ring_is_empty(const struct ring *r)
{
	return !r->queue || r->queue->consumer == r->producer;
}

/* With an SRQ only the receive in use is flushed. */
static void expect_flushed(struct sim_qp *q)
{
	verify_unsignalled(q);
	CHECK(q->w, q->op_head == q->op_next, "qp %u: in ERR, but requests %u..%u did not complete",
	      q->id, q->op_head, q->op_next);
	CHECK(q->w, q->async[IBV_EVENT_QP_LAST_WQE_REACHED] == !!q->srq,
	      "qp %u: in ERR with %u QP_LAST_WQE_REACHED events", q->id,
	      q->async[IBV_EVENT_QP_LAST_WQE_REACHED]);
	CHECK(q->w, q->recv_head == q->recv_next,
	      "qp %u: in ERR, but receives %u..%u did not complete", q->id, q->recv_head,
	      q->recv_next);
	CHECK(q->w, ring_is_empty(&q->sq) && ring_is_empty(&q->rq),
	      "qp %u: in ERR, but its rings are not empty", q->id);
}

static void close_one(struct world *w, struct conn *c, struct sim_qp *q)
{
	if (!q->qp)
		return;
	switch (c->step) {
	case 0:
		poll_all(c);
		if (rng_chance(&w->sched, 25))
			destroy(q);
		else
			qp_modify(q, XR_QPS_ERR);
		break;
	case 1:
		poll_all(c);
		expect_flushed(q);
		client_post_in_err(q);
		break;
	default:
		poll_all(c);
		expect_flushed(q);
		qp_destroy(q);
		break;
	}
}

void script_close(struct world *w, struct conn *c)
{
	if (c->phase == CONN_RUNNING) {
		if (has_ended(w, c))
			start_closing(w, c);
		return;
	}
	if (c->phase == CONN_CLOSED || w->now < c->close_at)
		return;
	close_one(w, c, &c->qp[0]);
	close_one(w, c, &c->qp[1]);
	/* writes that were given up may have to end first */
	c->close_at = w->now + 50 * USEC + (w->async_tier ? 2 * XT_ENDING_NS : 0);
	if (c->step++ == 2)
		c->phase = CONN_CLOSED;
}
