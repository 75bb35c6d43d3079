// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The program at one end of a connection: allocates memory for its WRs, posts them when the ring
 * has room, polls, and pauses at random.
 */
#include "ring.h"

/* Number of consecutive steps without free memory after which a program gives up */
#define MAX_STARVED 3000

/* ---- memory of operations ------------------------------------------------ */

static bool claim_pieces(struct sim_qp *q, uint32_t len, unsigned n, uint32_t access,
			 bool exclusive, const void *owner, struct piece *out)
{
	return host_claim_pieces(q->host, q->conn->mr[q - q->conn->qp], q->pd, len, n, access,
				 exclusive, owner, out);
}

static void read_pieces(const struct host *h, const struct piece *p, unsigned n, uint8_t *out)
{
	for (; n--; out += p->len, p++)
		memcpy(out, h->mem + p->off, p->len);
}

static void fill_pieces(struct host *h, const struct piece *p, unsigned n, const uint8_t *data)
{
	for (; n--; data += p->len, p++)
		host_fill(h, p->off, data, p->len);
}

/* Claims the source of a message, with new data or the present contents. */
static bool claim_source(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->sched;
	bool fresh = op->scratch || rng_chance(r, 70);
	uint32_t i;

	if (op->chained) /* claimed together with the READ that fills it */
		return true;
	op->data = malloc(op->len + 1);
	if (!(op->flags & XR_SEND_INLINE) &&
	    !claim_pieces(q, op->len, op->nsge, 0, fresh, op, op->sge))
		return false;
	if (!fresh && !(op->flags & XR_SEND_INLINE)) {
		read_pieces(q->host, op->sge, op->nsge, op->data);
		return true;
	}
	rng_bytes(r, op->data, op->len);
	for (i = 0; op->scratch && i < op->words; i++) {
		uint64_t tag = scratch_tag(q, op - q->ops, op->word + i);

		memcpy(op->data + 8 * i, &tag, 8);
	}
	if (!(op->flags & XR_SEND_INLINE))
		fill_pieces(q->host, op->sge, op->nsge, op->data);
	return true;
}

/* The operation after a READ sends the data of the READ from the same memory. */
static void chain_next(struct sim_qp *q, struct sim_op *op)
{
	struct sim_op *next = op + 1;
	unsigned i;

	if (next >= q->ops + q->op_count || !next->chained)
		return;
	next->nsge = op->nsge;
	next->len = op->len;
	memcpy(next->sge, op->sge, sizeof(op->sge));
	next->data = malloc(op->len + 1);
	memcpy(next->data, op->data, op->len);
	for (i = 0; i < op->nsge; i++)
		host_claim_too(q->host, &op->sge[i], next);
}

static bool claim_remote(struct sim_qp *q, struct sim_op *op)
{
	struct host *h = q->peer->host;
	int only_mr = q->conn->mr[1 - (q - q->conn->qp)];
	bool write = op->opcode != XR_WR_RDMA_READ;
	uint32_t access = write ? XR_ACCESS_REMOTE_WRITE : XR_ACCESS_REMOTE_READ;
	bool fresh = write || rng_chance(&q->w->sched, 70);
	uint32_t align = op->opcode == XR_WR_ATOMIC_WRITE ? 8 : 1;

	if (op->scratch)
		return true;
	if (!host_claim(h, only_mr, remote_pd(q, op), op->len, access, fresh, align, &op->remote,
			&op->remote))
		return false;
	if (write)
		return true;
	op->data = malloc(op->len + 1);
	if (fresh) {
		rng_bytes(&q->w->sched, op->data, op->len);
		host_fill(h, op->remote.off, op->data, op->len);
	} else {
		memcpy(op->data, h->mem + op->remote.off, op->len);
	}
	return true;
}

static bool claim_atomic(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->sched;
	struct counter *c = op->counter;

	if (!claim_pieces(q, 8, op->nsge, XR_ACCESS_LOCAL_WRITE, true, op, op->sge))
		return false;
	op->operand = c->swaps ? rng_next(r) | 1 : rng_between(r, 1, 1ull << 40);
	op->compare = rng_chance(r, 80) ? c->guess : rng_next(r);
	op->remote = (struct piece){ .mr = remote_pd(q, op) - 1, .off = c->off, .len = 8 };
	if (c->swaps)
		c->guess = op->operand;
	return true;
}

/* A region of the right PD with all remote access */
static struct sim_mr *good_mr(struct sim_qp *q, const struct sim_op *op)
{
	struct host *h = q->peer->host;
	unsigned i;

	for (i = 0; i < h->mrs; i++)
		if (h->mr[i].key && h->mr[i].key->entry.pd == remote_pd(q, op) &&
		    !h->mr[i].reserved && !(XR_ACCESS_REMOTE & ~h->mr[i].key->entry.access))
			return &h->mr[i];
	return NULL;
}

static struct sim_mr *mr_without(struct sim_qp *q, const struct sim_op *op, bool other_pd)
{
	struct host *h = q->peer->host;
	unsigned i;

	for (i = 0; i < h->mrs; i++)
		if (h->mr[i].key && (h->mr[i].key->entry.pd != remote_pd(q, op)) == other_pd &&
		    (other_pd || !(h->mr[i].key->entry.access & XR_ACCESS_REMOTE)))
			return &h->mr[i];
	return NULL;
}

/* Sets an invalid remote address or R_Key. No memory is claimed, none may change. */
static void break_remote(struct sim_qp *q, struct sim_op *op)
{
	struct sim_mr *mr = good_mr(q, op), *other;

	op->rkey = mr->value;
	op->raddr = (mr->key->entry.va + 7) & ~7ull;
	switch (op->broken) {
	case BREAK_RKEY_INDEX:
		op->rkey ^= 0x80000000;
		break;
	case BREAK_RKEY_VARIANT:
		op->rkey ^= 1;
		break;
	case BREAK_RKEY_PD:
	case BREAK_RKEY_ACCESS:
		other = mr_without(q, op, op->broken == BREAK_RKEY_PD);
		op->rkey = other->value;
		op->raddr = (other->key->entry.va + 7) & ~7ull;
		break;
	case BREAK_RANGE_LOW:
		op->raddr = mr->key->entry.va - 1;
		break;
	case BREAK_RANGE_HIGH:
		op->raddr = mr->key->entry.va + mr->len - op->len + 1;
		break;
	case BREAK_RANGE_WRAP:
		op->raddr = UINT64_MAX - (op->len - 2) / 2;
		break;
	case BREAK_ALIGN:
		op->raddr = ((mr->key->entry.va + 15) & ~7ull) + 3;
		break;
	}
}

static bool is_bad_remote(const struct sim_op *op)
{
	return op->broken >= BREAK_RKEY_INDEX && op->broken <= BREAK_ALIGN;
}

static bool is_atomic(const struct sim_op *op)
{
	return op->opcode == XR_WR_ATOMIC_CMP_AND_SWP || op->opcode == XR_WR_ATOMIC_FETCH_AND_ADD;
}

static bool has_remote(const struct sim_op *op)
{
	return op->opcode != XR_WR_SEND && op->opcode != XR_WR_SEND_WITH_IMM && !is_local_op(op);
}

/* Makes a local SGE refer to a region that the engine must refuse. */
static void break_local(struct sim_qp *q, struct sim_op *op)
{
	unsigned i;

	for (i = 0; i < q->host->mrs; i++) {
		struct sim_mr *mr = &q->host->mr[i];

		if (!mr->key || (op->broken == BREAK_LKEY_PD) != (mr->key->entry.pd != q->pd))
			continue;
		if (op->broken == BREAK_LKEY_ACCESS &&
		    mr->key->entry.access & XR_ACCESS_LOCAL_WRITE)
			continue;
		op->sge[op->nsge - 1].mr = i;
		op->sge[op->nsge - 1].off = mr->off;
		return;
	}
	CHECK(q->w, false, "no region for a broken local key");
}

/* A FLUSH claims no memory, because it changes none. */
static bool prepare_flush(struct sim_qp *q, struct sim_op *op)
{
	struct sim_mr *mr = &q->peer->host->mr[remote_pd(q, op) - 1];

	op->nsge = 0;
	if (is_bad_remote(op)) {
		break_remote(q, op);
	} else {
		op->rkey = mr->value;
		op->raddr = mr_va(mr, q->scratch_off);
	}
	return true;
}

static bool prepare(struct sim_qp *q, struct sim_op *op)
{
	bool bad = is_bad_remote(op), ok = true;

	if (is_local_op(op))
		return true;
	if (op->opcode == XR_WR_FLUSH)
		return prepare_flush(q, op);
	if (is_unreliable(q))
		unreliable_aim(q, op);
	if (is_atomic(op))
		ok = claim_atomic(q, op);
	else if (op->opcode == XR_WR_RDMA_READ)
		ok = claim_pieces(q, op->len, op->nsge, XR_ACCESS_LOCAL_WRITE, true, op, op->sge);
	else
		ok = claim_source(q, op);
	if (ok && has_remote(op) && !is_atomic(op) && !bad)
		ok = claim_remote(q, op);
	if (!ok) {
		host_release(q->peer->host, &op->remote);
		/* The memory of a chained operation was claimed with the READ. */
		if (!op->chained) {
			host_release(q->host, op);
			free(op->data);
			op->data = NULL;
		}
		return false;
	}
	if (bad) {
		break_remote(q, op);
	} else if (has_remote(op)) {
		op->rkey = q->peer->host->mr[op->remote.mr].value;
		op->raddr = mr_va(&q->peer->host->mr[op->remote.mr], op->remote.off);
	}
	if (op->opcode == XR_WR_RDMA_READ && !bad && !op->scratch)
		chain_next(q, op);
	if (op->broken == BREAK_LKEY_ACCESS || op->broken == BREAK_LKEY_PD)
		break_local(q, op);
	return true;
}

void op_release(struct sim_qp *q, const struct sim_op *op)
{
	host_release(q->host, op);
	host_release(q->peer->host, &op->remote);
}

void op_lose(struct sim_qp *q, const struct sim_op *op)
{
	host_lose(q->host, op);
	host_lose(q->peer->host, &op->remote);
}

/* ---- posting ------------------------------------------------------------- */

static void give_up(struct sim_qp *q)
{
	TRACE(q->w, "qp %u: gives up, no free memory", q->id);
	q->w->gave_up++;
	q->conn->broken = true;
	q->op_count = q->op_next;
}

bool may_post(const struct sim_qp *q)
{
	return q->qp && q->conn->phase == CONN_RUNNING && !q->conn->broken && !q->in_error;
}

static void post_sends(struct sim_qp *q)
{
	unsigned budget = rng_between(&q->w->sched, 1, 12);
	bool any = false;

	while (may_post(q) && q->ready && !q->sq_error && q->op_next < q->op_count && budget-- &&
	       ring_free(&q->sq) && q->op_next - q->op_head < q->sq.depth) {
		struct sim_op *op = &q->ops[q->op_next];

		if (is_unreliable(q) && !is_local_op(op) && !unreliable_may_post(q, op))
			break;
		if (!prepare(q, op)) {
			if (++q->starved > MAX_STARVED)
				give_up(q);
			break;
		}
		q->starved = 0;
		/* A queue full of unsignalled WRs would never make progress. */
		q->since_signal++;
		if (q->since_signal >= q->sq.depth || q->op_next + 1 == q->op_count)
			op->flags |= XR_SEND_SIGNALED;
		if (op->flags & XR_SEND_SIGNALED)
			q->since_signal = 0;
		op->state = OP_POSTED;
		qp_post_send(q, op, WR_ID(q, 0, q->op_next));
		q->op_next++;
		any = true;
	}
	if (any)
		engine_ring(q);
}

static struct sim_recv *new_recv(struct sim_qp *q)
{
	if (q->recv_next == q->recv_room) {
		q->recv_room = q->recv_room ? 2 * q->recv_room : 16;
		q->recvs = realloc(q->recvs, q->recv_room * sizeof(*q->recvs));
	}
	memset(&q->recvs[q->recv_next], 0, sizeof(*q->recvs));
	return &q->recvs[q->recv_next];
}

struct sim_op *next_message(struct sim_qp *q, const struct sim_srq *s)
{
	struct sim_qp *p = q->peer;
	unsigned i;

	for (i = q->recv_match; i < p->op_count; i++) {
		struct sim_op *op = &p->ops[i];

		if (op->takes_recv && !op->received) {
			/* XRC messages to different SRQs are not ordered. */
			if (!s || !op->srq || op->srq == s)
				return op;
		} else if (i == q->recv_match) {
			q->recv_match++;
		}
	}
	return NULL;
}

/* The peer's operation that the next receive is for; NULL: none */
static struct sim_op *op_for_recv(struct sim_qp *q)
{
	struct sim_qp *p = q->peer;

	if (is_unreliable(q))
		return NULL;
	if (takes_any(q))
		return next_message(q, NULL);
	while (q->recv_cursor < p->op_count && !p->ops[q->recv_cursor].takes_recv)
		q->recv_cursor++;
	return q->recv_cursor < p->op_count ? &p->ops[q->recv_cursor] : NULL;
}

static void plan_recv(struct sim_qp *q, struct sim_recv *r, struct sim_op *op)
{
	struct rng *rng = &q->w->sched;
	bool data = op && (op->opcode == XR_WR_SEND || op->opcode == XR_WR_SEND_WITH_IMM);

	r->op = op;
	if (is_unreliable(q)) {
		r->len = RECV_ROOM + XR_GRH_LEN + rng_below(rng, 100);
		r->nsge = rng_between(rng, 1, q->max_recv_sge);
		return;
	}
	r->len = data ? op->len : rng_below(rng, 64);
	r->nsge = rng_between(rng, r->len ? 1 : 0, q->max_recv_sge);
	if (op && op->broken == BREAK_RECV_SMALL)
		r->len = rng_below(rng, op->len);
	else if (op && op->broken == BREAK_RECV_LKEY)
		r->broken = BREAK_RECV_LKEY;
	else if (r->nsge && rng_chance(rng, 40))
		r->len += rng_below(rng, 300);
	if (!r->nsge)
		r->len = 0;
	if (r->broken || r->len)
		r->nsge = r->nsge ? r->nsge : 1;
}

static bool post_recv(struct sim_qp *q, struct sim_op *op)
{
	struct sim_recv *r = new_recv(q);

	plan_recv(q, r, op);
	/* The claim's owner is the wr_id, because the array may be reallocated. */
	if (!claim_pieces(q, r->len, r->nsge, XR_ACCESS_LOCAL_WRITE, true,
			  (void *)(uintptr_t)WR_ID(q, 1, q->recv_next), r->sge)) {
		host_release(q->host, (void *)(uintptr_t)WR_ID(q, 1, q->recv_next));
		if (++q->starved > MAX_STARVED)
			give_up(q);
		return false;
	}
	r->state = OP_POSTED;
	ring_post_recv(q->host, &q->rq, r, WR_ID(q, 1, q->recv_next));
	q->recv_next++;
	return true;
}

static void post_shared(struct sim_qp *q)
{
	struct host *h = q->host;
	struct sim_srq *s = q->srq ? q->srq
				   : &h->srq[rng_between(&q->w->sched, MAX_SRQS / 2, MAX_SRQS - 1)];

	if (may_post(q) && !srq_post(s) && ++q->starved > MAX_STARVED)
		give_up(q);
}

static void post_recvs(struct sim_qp *q)
{
	unsigned budget = rng_between(&q->w->sched, 1, 16);

	if (q->srq || q->type == XR_QPT_XRC_RECV) {
		post_shared(q);
		return;
	}
	if (!q->rq.queue)
		return;

	while (may_post(q) && budget-- && ring_free(&q->rq) &&
	       q->recv_next - q->recv_head < q->rq.depth) {
		struct sim_op *op = op_for_recv(q);

		if (op && op->broken == BREAK_RNR)
			break;
		if (!op && !q->extra_recvs && !is_unreliable(q))
			break;
		if (!post_recv(q, op))
			break;
		if (op)
			q->recv_cursor++;
		else if (q->extra_recvs)
			q->extra_recvs--;
	}
}

void client_post_in_err(struct sim_qp *q)
{
	unsigned n = rng_below(&q->w->sched, 4);

	if (!q->qp || !q->in_error)
		return;
	for (; n && q->rq.queue && ring_free(&q->rq) && q->recv_next - q->recv_head < q->rq.depth;
	     n--)
		if (!post_recv(q, NULL))
			break;
	n = rng_below(&q->w->sched, 4);
	for (; n && q->sq.queue && ring_free(&q->sq) && q->op_next < q->op_count; n--) {
		struct sim_op *op = &q->ops[q->op_next];

		if (q->op_next - q->op_head >= q->sq.depth || op->broken || op->chained ||
		    !prepare(q, op))
			break;
		op->state = OP_POSTED;
		qp_post_send(q, op, WR_ID(q, 0, q->op_next));
		q->op_next++;
	}
	engine_ring(q);
}

void client_abort(struct sim_qp *q)
{
	unsigned i;

	for (i = q->op_head; i < q->op_next; i++) {
		struct sim_op *op = &q->ops[i];

		op->state = OP_ABORTED;
		op_lose(q, op);
		if (op->counter)
			atomic_done(op, 0, false);
	}
	for (i = q->recv_head; i < q->recv_next; i++) {
		q->recvs[i].state = OP_ABORTED;
		host_lose(q->host, (void *)(uintptr_t)WR_ID(q, 1, i));
	}
	if (q->srq)
		srq_lose(q->srq);
	for (i = MAX_SRQS / 2; q->type == XR_QPT_XRC_RECV && i < MAX_SRQS; i++)
		srq_lose(&q->host->srq[i]);
	/* An unposted operation chained to an aborted READ has lost its memory. */
	while (q->op_next < q->op_count && q->ops[q->op_next].chained) {
		host_lose(q->host, &q->ops[q->op_next]);
		q->ops[q->op_next++].state = OP_ABORTED;
	}
	q->op_head = q->op_base = q->op_next;
	q->recv_head = q->recv_base = q->promised = q->recv_next;
	q->overdrawn = true; /* by messages in flight */
	q->sq_error = q->rq_error = false;
	q->since_signal = 0;
}

/* ---- polling ----------------------------------------------------------------------------------
 */

bool client_poll(struct sim_cq *cq, unsigned budget)
{
	struct world *w = cq->host->w;

	while (budget--) {
		uint32_t producer = __atomic_load_n(&cq->queue->producer, __ATOMIC_ACQUIRE);
		struct xr_cqe cqe;

		CHECK(w, producer - cq->consumer <= cq->depth, "CQ indices %u..%u", cq->consumer,
		      producer);
		if (producer == cq->consumer) {
			if (cq->solicited)
				verify_solicited(cq);
			return true;
		}
		memcpy(&cqe, (struct xr_cqe *)(cq->queue + 1) + (cq->consumer & (cq->depth - 1)),
		       sizeof(cqe));
		cq->consumer++;
		__atomic_store_n(&cq->queue->consumer, cq->consumer, __ATOMIC_RELEASE);
		verify_completion(cq, &cqe);
	}
	return false;
}

/*
 * Polls some completions, then arms, and polls no more before the next event (UCX): an event is due
 * for those that are left.
 */
static void poll_and_arm(struct sim_qp *q, struct sim_cq *cq)
{
	client_poll(cq, rng_below(&q->w->sched, 20));
	host_arm(cq);
	if (__atomic_load_n(&cq->queue->producer, __ATOMIC_ACQUIRE) != cq->consumer)
		engine_ring(q);
}

/* Returns true if there may be more completions. */
static bool poll_cq(struct sim_qp *q, struct sim_cq *cq)
{
	if (!cq->events)
		return !client_poll(cq, rng_between(&cq->host->w->sched, 1, 20));
	if (!cq->event)
		return false;
	cq->event = false;
	if (cq->late_arm) {
		poll_and_arm(q, cq);
		return false;
	}
	/* Get the event, arm, poll until empty: the order that keeps IBTA's rules. */
	host_arm(cq);
	client_poll(cq, UINT32_MAX);
	return false;
}

bool client_idle(const struct sim_qp *q)
{
	if (!q->qp)
		return true;
	if (q->op_head != q->op_next)
		return false;
	return q->conn->broken || q->in_error || q->op_next == q->op_count;
}

static bool wants_receives(struct sim_qp *q)
{
	if (is_unreliable(q) && !q->srq)
		return ring_free(&q->rq) && q->recv_next - q->recv_head < q->rq.depth;
	if (is_unreliable(q))
		return srq_wants(q->srq);
	return op_for_recv(q) != NULL;
}

void client_step(struct sim_qp *q)
{
	struct rng *r = &q->w->sched;
	bool more;

	q->step = NEVER;
	if (!q->qp)
		return;
	more = poll_cq(q, q->scq);
	more |= poll_cq(q, q->rcq);
	if (q->rcq->depth < 4096 && rng_chance(r, 1))
		host_resize_cq(q->rcq);
	if (!q->conn->late_recv || rng_chance(r, 30))
		post_recvs(q);
	else
		more |= wants_receives(q);
	if (is_unreliable(q))
		unreliable_recover(q);
	post_sends(q);
	more |= may_post(q) && ((q->ready && q->op_next < q->op_count) || wants_receives(q));
	if (more)
		q->step = q->w->now + rng_between(r, 200, q->conn->pace) +
			  rng_below(r, q->conn->late_recv + 1);
}
