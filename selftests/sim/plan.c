// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Derives a run from its seed. Sizes and rates favour edge cases. */
#include <xroce/bits.h>

#include "sim.h"

/* ---- network ------------------------------------------------------------- */

struct faults {
	unsigned n;
	struct xd_fault_rule rule[5];
};

/* Adds a fault of this many packets in 1000, with a delay of at least and at most that many ns. */
static void add_fault(struct faults *f, enum xd_fault_kind kind, unsigned per_mille, uint64_t delay,
		      uint64_t jitter)
{
	if (!per_mille)
		return;
	f->rule[f->n++] = (struct xd_fault_rule){
		.kind = kind,
		.match = {
			.direction = XD_FAULT_TX,
			.qpn = XD_FAULT_ANY,
			.queue = XD_FAULT_ANY,
			.pid = XD_FAULT_ANY,
			.uid = XD_FAULT_ANY,
		},
		.when = { .every = 1, .probability = XD_FAULT_CERTAIN / 1000 * per_mille },
		.delay = delay,
		.jitter = jitter,
	};
}

/* Fault rates at which retry_cnt 7 suffices for all operations to succeed */
static void plan_faults(struct world *w)
{
	struct rng *r = &w->rng;
	uint64_t seed = rng_next(r);
	unsigned most = 0, kind = rng_below(r, 100), late;
	struct faults f = { .n = 0 };

	if (kind >= 25)
		most = kind < 55 ? 6 : 45;
	if (most) {
		add_fault(&f, XD_FAULT_DROP, rng_chance(r, 70) ? rng_below(r, most) : 0, 0, 0);
		add_fault(&f, XD_FAULT_CORRUPT, rng_chance(r, 50) ? rng_below(r, most / 2) : 0, 0,
			  0);
		add_fault(&f, XD_FAULT_DUPLICATE, rng_chance(r, 50) ? rng_below(r, 2 * most) : 0, 0,
			  0);
		add_fault(&f, XD_FAULT_DELAY, rng_chance(r, 50) ? rng_below(r, 4 * most) : 0, 0,
			  50 * USEC);
		late = rng_chance(r, 30) ? rng_below(r, most) : 0;
		add_fault(&f, XD_FAULT_DELAY, late, rng_between(r, 1, 300) * USEC, 0);
	}
	w->faults = xd_faults_new();
	xd_faults_set(w->faults, NULL, seed, f.rule, f.n);
	w->latency = rng_between(r, 1, 20) * USEC;
	w->inbox_max = most && rng_chance(r, 20) ? rng_between(r, 40, 400) : UINT32_MAX;
}

bool world_is_lossy(const struct world *w)
{
	return xd_faults_on(w->faults, XD_FAULT_TX) || w->inbox_max != UINT32_MAX;
}

/* ---- hosts --------------------------------------------------------------- */

#define COUNTER_AREA 4096
#define SCRATCH_AREA (2 * MAX_CONNS * SCRATCH_WORDS * 8)
#define FIXED_AREA (COUNTER_AREA + SCRATCH_AREA)

static void add_part(struct host *h, uint32_t size, uint32_t pd, uint32_t access)
{
	uint32_t off = rng_between(&h->w->rng, 0, size / 2);

	host_add_mr(h, off, rng_between(&h->w->rng, size / 4, size / 2), pd, access);
}

/* Regions 0 and 1 cover all memory, for PDs 1 and 2; others cover parts with fewer rights. */
static void plan_regions(struct host *h, uint32_t size)
{
	struct rng *r = &h->w->rng;
	struct piece fixed = { .off = 0, .len = FIXED_AREA };
	uint32_t pd;

	for (pd = 1; pd <= 2; pd++)
		host_add_mr(h, 0, size, pd,
			    XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE | XR_ACCESS_MW_BIND);
	for (pd = 1; pd <= 2; pd++) {
		add_part(h, size, pd, XR_ACCESS_LOCAL_WRITE);
		add_part(h, size, pd, XR_ACCESS_REMOTE_READ);
		if (rng_chance(r, 50))
			add_part(h, size, pd, XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE);
	}
	host_claim_too(h, &fixed, h);
}

static void plan_counters(struct host *h)
{
	struct rng *r = &h->w->rng;
	unsigned i;

	h->counters = rng_between(r, 1, MAX_COUNTERS);
	for (i = 0; i < h->counters; i++) {
		struct counter *c = &h->counter[i];

		c->off = 8 * (i + rng_below(r, 2) * MAX_COUNTERS);
		c->swaps = i % 2;
		c->initial = c->guess = rng_next(r) >> (c->swaps ? 0 : 8);
		host_fill(h, c->off, (uint8_t *)&c->initial, 8);
	}
}

/* ---- operations -------------------------------------------------------------------------------
 */

static uint32_t choose_len(struct rng *r, uint32_t mtu, uint32_t most)
{
	uint32_t len;

	switch (rng_below(r, 8)) {
	case 0:
		len = 0;
		break;
	case 1:
	case 2:
		len = rng_between(r, 1, 64);
		break;
	case 3:
		len = mtu - 1 + rng_below(r, 3);
		break;
	case 4:
		len = mtu * rng_between(r, 1, 12) - 2 + rng_below(r, 5);
		break;
	case 5:
		len = rng_between(r, 1, most);
		break;
	default:
		len = rng_between(r, 1, 2 * mtu);
		break;
	}
	return len < most ? len : most;
}

static bool may_inline(const struct sim_qp *q, const struct sim_op *op)
{
	return op->opcode <= XR_WR_SEND_WITH_IMM && op->len <= q->max_inline;
}

static void plan_scratch(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->rng;

	op->scratch = true;
	op->opcode = rng_chance(r, 50) ? XR_WR_RDMA_WRITE : XR_WR_RDMA_READ;
	op->words = rng_between(r, 1, SCRATCH_WORDS);
	op->word = rng_below(r, SCRATCH_WORDS - op->words + 1);
	op->len = 8 * op->words;
	op->remote = (struct piece){
		.mr = remote_pd(q, op) - 1,
		.off = q->scratch_off + 8 * op->word,
		.len = op->len,
	};
}

static void plan_atomic(struct sim_qp *q, struct sim_op *op)
{
	struct host *h = q->peer->host;

	op->counter = &h->counter[rng_below(&q->w->rng, h->counters)];
	op->opcode = op->counter->swaps ? XR_WR_ATOMIC_CMP_AND_SWP : XR_WR_ATOMIC_FETCH_AND_ADD;
	op->len = 8;
}

static void plan_atomic_write(struct sim_op *op)
{
	op->opcode = XR_WR_ATOMIC_WRITE;
	op->len = 8;
}

/* When a FLUSH completes, all earlier WRITEs must be in memory. */
static void plan_flush(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->rng;

	op->opcode = XR_WR_FLUSH;
	op->flush_mr = rng_chance(r, 30);
	op->flags = (rng_chance(r, 50) ? XR_SEND_SIGNALED : 0) |
		    (rng_chance(r, 10) ? XR_SEND_FENCE : 0);
}

/* Most of these errors are silent; the others move the QP to SQE. */
static void break_unreliable(struct sim_qp *q, struct sim_op *op)
{
	static const uint8_t own[] = {
		BREAK_LKEY,
		BREAK_LKEY_RANGE,
		BREAK_OPCODE,
		BREAK_SGE_COUNT,
	};
	struct rng *r = &q->w->rng;

	op->len += 2;
	op->nsge = 1;
	op->flags &= ~XR_SEND_INLINE;
	if (rng_chance(r, 30))
		op->broken = own[rng_below(r, 4)];
	else if (op->opcode == XR_WR_RDMA_WRITE || op->opcode == XR_WR_RDMA_WRITE_WITH_IMM)
		op->broken = rng_between(r, BREAK_RKEY_INDEX, BREAK_RANGE_WRAP);
	else
		op->broken = q->type == XR_QPT_UD && rng_chance(r, 50) ? BREAK_QKEY
								       : BREAK_TOO_LONG;
	if (op->broken == BREAK_TOO_LONG)
		op->len = RECV_ROOM + 1024 + rng_below(r, 2000);
	else if (op->len > RECV_ROOM)
		op->len = RECV_ROOM;
}

static void plan_unreliable(struct sim_qp *q, struct sim_op *op, uint32_t most)
{
	static const uint8_t opcodes[] = {
		XR_WR_SEND,
		XR_WR_SEND_WITH_IMM,
		XR_WR_RDMA_WRITE,
		XR_WR_RDMA_WRITE_WITH_IMM,
	};
	struct rng *r = &q->w->rng;

	op->opcode = opcodes[rng_below(r, q->type == XR_QPT_UC ? 4 : 2)];
	op->len = choose_len(r, q->conn->mtu, most < RECV_ROOM ? most : RECV_ROOM);
}

static void plan_opcode(struct sim_qp *q, struct sim_op *op, uint32_t most)
{
	struct rng *r = &q->w->rng;
	unsigned kind = q->w->deep ? rng_between(r, 40, 99) : rng_below(r, 100);

	if (is_unreliable(q)) {
		plan_unreliable(q, op, most);
		return;
	}
	op->len = choose_len(r, q->conn->mtu, most);
	if (kind < 3)
		plan_atomic_write(op);
	else if (kind < 25)
		op->opcode = XR_WR_RDMA_WRITE;
	else if (kind < 45)
		op->opcode = XR_WR_SEND;
	else if (kind < 52)
		op->opcode = XR_WR_SEND_WITH_IMM;
	else if (kind < 60)
		op->opcode = XR_WR_RDMA_WRITE_WITH_IMM;
	else if (kind < 78)
		op->opcode = XR_WR_RDMA_READ;
	else if (kind < 88)
		plan_atomic(q, op);
	else
		plan_scratch(q, op);
}

static void plan_flags(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->rng;

	if (rng_chance(r, 65))
		op->flags |= XR_SEND_SIGNALED;
	if (rng_chance(r, 20))
		op->flags |= XR_SEND_SOLICITED;
	if (rng_chance(r, 10))
		op->flags |= XR_SEND_FENCE;
	if (may_inline(q, op) && rng_chance(r, 40))
		op->flags |= XR_SEND_INLINE;
}

static void finish_op(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->rng;
	unsigned most = op->counter && q->max_send_sge > 3 ? 3 : q->max_send_sge;

	op->nsge = rng_between(r, op->len ? 1 : 0, most);
	op->imm = rng_next(r);
	op->takes_recv = op->opcode == XR_WR_SEND || op->opcode == XR_WR_SEND_WITH_IMM ||
			 op->opcode == XR_WR_RDMA_WRITE_WITH_IMM;
	if (takes_any(q->peer) && op->opcode != XR_WR_RDMA_WRITE_WITH_IMM && op->takes_recv &&
	    op->len > RECV_ROOM)
		op->len = RECV_ROOM;
	/* Short messages may be equal, so a received one cannot be matched to its operation. */
	if (is_unreliable(q) && op->len < 8)
		op->flags &= ~XR_SEND_SOLICITED;
	if (is_unreliable(q) && rng_chance(r, 8))
		break_unreliable(q, op);
}

/* Plans an operation that sends the data of the preceding READ; the fence makes it wait. */
static void plan_chained(struct sim_qp *q, struct sim_op *op)
{
	struct rng *r = &q->w->rng;

	op->chained = true;
	op->opcode = op[-1].len <= RECV_ROOM && rng_chance(r, 50) ? XR_WR_SEND : XR_WR_RDMA_WRITE;
	op->flags = XR_SEND_FENCE | (rng_chance(r, 50) ? XR_SEND_SIGNALED : 0);
	op->len = op[-1].len;
	op->takes_recv = op->opcode == XR_WR_SEND;
}

static void plan_ops(struct sim_qp *q, unsigned count, uint32_t most)
{
	struct rng *r = &q->w->rng;
	bool bound = false;
	unsigned i;

	q->ops = calloc(count + 1, sizeof(*q->ops));
	q->op_count = count;
	for (i = 0; i < count; i++) {
		struct sim_op *op = &q->ops[i];
		bool after_read = i && op[-1].opcode == XR_WR_RDMA_READ && !op[-1].scratch;

		if (is_xrc(q))
			op->srq = srq_choose(q->peer->host, true);
		if (after_read && rng_chance(r, 30)) {
			plan_chained(q, op);
			continue;
		}
		/* Bind and invalidate alternate. Retransmissions must not change their order. */
		if (!is_unreliable(q) && rng_chance(r, 6)) {
			op->opcode = bound ? XR_WR_LOCAL_INV : XR_WR_BIND_MW;
			bound = !bound;
			op->flags = rng_chance(r, 50) ? XR_SEND_SIGNALED : 0;
			continue;
		}
		if (!is_unreliable(q) && rng_chance(r, 6)) {
			plan_flush(q, op);
			continue;
		}
		plan_opcode(q, op, most);
		plan_flags(q, op);
		finish_op(q, op);
	}
	q->extra_recvs = rng_chance(r, 40) ? rng_below(r, 5) : 0;
}

/* ---- connections --------------------------------------------------------------------------------
 */

static struct sim_cq *add_cq(struct host *h, uint32_t depth)
{
	struct sim_cq *cq = host_add_cq(h, xr_pow2_roundup(depth));

	cq->events = rng_chance(&h->w->rng, 30);
	cq->solicited = !cq->events && rng_chance(&h->w->rng, 40);
	cq->late_arm = cq->events && rng_chance(&h->w->rng, 50);
	if (cq->events && rng_chance(&h->w->rng, 40))
		host_moderate(cq, rng_between(&h->w->rng, 2, 40), rng_between(&h->w->rng, 1, 200));
	if (cq->events || cq->solicited)
		host_arm(cq);
	return cq;
}

/* One CQ for both queues, one for each, or one shared by QPs of the host */
static void plan_cqs(struct sim_qp *q)
{
	struct host *h = q->host;
	unsigned kind = rng_below(&q->w->rng, 3);

	if (q->type == XR_QPT_XRC_RECV) { /* no CQs; the program polls those of the SRQs */
		q->scq = h->xrc_cq[0];
		q->rcq = h->xrc_cq[1];
		return;
	}
	if (kind == 0) {
		if (!h->common_cq)
			h->common_cq = add_cq(h, 4096);
		q->scq = q->rcq = h->common_cq;
		return;
	}
	q->scq = add_cq(h, q->sq.depth + (kind == 1 ? q->rq.depth : 0));
	q->rcq = kind == 1 ? q->scq : add_cq(h, q->rq.depth);
}

static uint32_t choose_psn(struct rng *r)
{
	switch (rng_below(r, 4)) {
	case 0: /* wraps soon */
		return XR_PSN_MASK - rng_below(r, 40);
	case 1:
		return rng_below(r, 2);
	case 2:
		return (1u << 23) - rng_below(r, 40);
	default:
		return rng_next(r) & XR_PSN_MASK;
	}
}

static void plan_qp(struct sim_qp *q, struct conn *c, unsigned side, struct host *h)
{
	static const uint8_t depths[] = { 2, 16, 17, XT_MAX_RD_ATOMIC, XT_MAX_RD_ATOMIC };
	struct world *w = h->w;
	struct rng *r = &w->rng;

	q->conn = c;
	q->w = w;
	q->host = h;
	q->id = 2 * c->index + side;
	q->peer = &c->qp[1 - side];
	q->engine = &h->engine[rng_below(r, h->engines)];
	q->pd = rng_between(r, 1, 2);
	q->max_send_sge = rng_chance(r, 15) ? XR_MAX_SGE : rng_between(r, 1, 6);
	q->max_recv_sge = rng_chance(r, 15) ? XR_MAX_SGE : rng_between(r, 1, 6);
	q->max_inline = rng_chance(r, 50) ? 0 : rng_between(r, 1, XR_MAX_INLINE);
	q->sig_all = rng_chance(r, 20);
	q->sq.depth = 1 << (h->w->deep ? rng_between(r, 6, 8) : rng_below(r, 7));
	q->rq.depth = 1 << rng_below(r, 7);
	q->type = c->type == XR_QPT_XRC_SEND && side ? XR_QPT_XRC_RECV : c->type;
	if (!is_xrc(q) && rng_chance(r, 30)) {
		q->srq = srq_choose(h, false);
		q->rq.depth = 64; /* for the size of the CQ: more than any SRQ has receives */
	}
	if (is_unreliable(q) && !q->srq) /* each receive is large enough for any message */
		q->rq.depth = 1 << rng_below(r, 4);
	if (q->type == XR_QPT_UD)
		q->groups = rng_below(r, 1 << MAX_GROUPS);
	q->sq_psn = choose_psn(r);
	q->rd_atomic = rng_chance(r, 30) ? 1 : rng_between(r, 1, 16);
	if (h->w->deep)
		q->rd_atomic = depths[rng_below(r, 5)];
	q->step = rng_below(r, 20 * USEC);
	if (!is_xrc(q) && rng_chance(r, 15)) {
		q->rate = rng_between(r, 50, 1000) * (rng_chance(r, 50) ? 1000 : 10000);
		q->burst = rng_between(r, 1, 64 << 10);
	}
	plan_cqs(q);
}

static void plan_scratch_area(struct sim_qp *q)
{
	struct host *h = q->peer->host;
	uint32_t word;

	q->scratch_off = COUNTER_AREA + q->id * SCRATCH_WORDS * 8;
	for (word = 0; word < SCRATCH_WORDS; word++) {
		uint64_t tag = scratch_tag(q, -1u, word);

		host_fill(h, q->scratch_off + 8 * word, (uint8_t *)&tag, 8);
	}
}

static uint32_t choose_type(struct rng *r)
{
	static const uint8_t types[] = {
		XR_QPT_UC, XR_QPT_UD, XR_QPT_XRC_SEND, XR_QPT_RC, XR_QPT_RC, XR_QPT_RC,
	};

	return types[rng_below(r, sizeof(types))];
}

static void plan_conn(struct world *w, struct conn *c, unsigned count, uint32_t most)
{
	struct rng *r = &w->rng;
	struct host *a = &w->host[rng_below(r, w->hosts)], *b = &w->host[rng_below(r, w->hosts)];
	int version = rng_chance(r, 50) ? 4 : 6, side;

	/* Most connections use the network. */
	if (a == b && w->hosts > 1 && rng_chance(r, 70))
		b = &w->host[(a->index + 1) % w->hosts];
	c->type = choose_type(r);
	c->mtu = 256 << rng_below(r, 5);
	c->timeout = rng_between(r, w->big ? 10 : 8, 11);
	/* memory takes its time */
	if (w->async_tier)
		c->timeout += 5;
	c->retry_cnt = world_is_lossy(w) ? 7 : rng_between(r, 1, 7);
	c->rnr_retry = 7;
	c->rnr_timer = rng_chance(r, 90) ? rng_between(r, 1, 14) : rng_below(r, 32);
	c->local = a == b && rng_chance(r, 85);
	c->late_recv = rng_chance(r, 30) ? rng_between(r, 1, 1000) * USEC : 0;
	c->pace = rng_chance(r, 50) ? 2 * USEC : rng_between(r, 1, 60) * USEC;
	if (rng_chance(r, 4)) /* 0.5 to 2.1 s */
		c->timeout = rng_between(r, 17, 19);
	if (c->retry_cnt >= 4 && rng_chance(r, 15))
		c->slow = rng_between(r, 1, 800) * USEC;
	/* Unreliable requesters do not wait until the peer is ready. */
	if (c->type == XR_QPT_UC || c->type == XR_QPT_UD)
		c->slow = 0;
	c->script_at = c->close_at = c->ready_at = NEVER;
	c->mr[0] = c->mr[1] = -1;
	plan_qp(&c->qp[0], c, 0, a);
	plan_qp(&c->qp[1], c, 1, b);
	for (side = 0; side < 2; side++) {
		struct sim_qp *q = &c->qp[side];

		plan_scratch_area(q);
		if (q->type != XR_QPT_XRC_RECV)
			plan_ops(q, rng_chance(r, 15) ? 0 : rng_between(r, 1, count), most);
		qp_set_path(q, version, rng_next(r) & 0xfffff, rng_chance(r, 10) ? 100 : 0);
	}
}

/* Without loss connections may have timeout 0, i.e. no ACK timeout. */
static void plan_no_timeout(struct world *w)
{
	unsigned i;

	for (i = 0; i < w->conns; i++)
		if (w->conn[i].script == SCRIPT_CUT)
			return;
	for (i = 0; i < w->conns; i++) {
		struct conn *c = &w->conn[i];

		if (!world_is_lossy(w) && !c->script && !c->slow && rng_chance(&w->rng, 10))
			c->timeout = 0;
	}
}

static void plan_memory(struct world *w)
{
	static const uint64_t latency[] = { 1, 20 * USEC, 200 * USEC };
	struct rng *r = &w->rng;

	w->async_tier = w->private_tier && rng_chance(r, 60);
	w->mem_latency = latency[rng_below(r, 3)];
	w->staging = rng_chance(r, 50) ? UINT32_MAX : rng_between(r, 300, 2000) << 10;
	w->no_staging = rng_chance(r, 30) ? rng_between(r, 1, 30) : 0;
}

void plan_world(struct world *w)
{
	struct rng *r = &w->rng;
	unsigned i, count, kind = rng_below(r, 100);
	struct rng own = { w->seed };
	uint32_t size, most, sockets;

	w->large = rng_chance(&own, 70);
	w->big = kind < 2;
	w->deep = kind == 2;
	plan_faults(w);
	w->hosts = kind % 10 == 9 ? 1 : kind % 10 == 8 ? 3 : 2;
	sockets = rng_chance(r, 30) ? 100 : 20; /* percent of the hosts */
	w->conns = w->big || w->deep   ? rng_between(r, 1, 2)
		   : sockets == 100    ? rng_between(r, 1, MAX_CONNS)
		   : rng_chance(r, 30) ? 1
		   : rng_chance(r, 80) ? rng_between(r, 2, 5)
				       : rng_between(r, 6, MAX_CONNS);
	count = w->big ? 5 : w->deep ? 250 : rng_between(r, 1, 50);
	w->xdp_checks = rng_chance(r, 50);
	w->private_tier = rng_chance(r, 50);
	plan_memory(w);
	w->tight_tx = rng_chance(r, 15);
	w->forge = rng_chance(r, 25) ? rng_between(r, 1, 50) : 0;
	size = (w->big ? 24u << 20 : 640u << 10) + FIXED_AREA;
	most = w->big				   ? 3u << 20
	       : w->deep			   ? 300
	       : w->conns < 6 && rng_chance(r, 30) ? 32 << 10
						   : 8 << 10;
	for (i = 0; i < w->hosts; i++) {
		struct host *h = &w->host[i];

		h->sockets = rng_chance(r, sockets);
		host_init(w, h, i, size + 2 * MAX_RESERVED * RESERVED_SIZE,
			  1 + rng_chance(r, h->sockets ? 60 : 40));
		plan_regions(h, size);
		plan_counters(h);
		srq_plan(h);
		h->reserved_off = size;
	}
	for (i = 0; i < w->hosts; i++)
		host_add_ahs(&w->host[i]);
	for (i = 0; i < w->conns; i++) {
		w->conn[i].index = i;
		plan_conn(w, &w->conn[i], count, most);
	}
	if (rng_chance(r, 40))
		for (i = 0; i < w->conns; i++)
			if (rng_chance(r, 50))
				script_plan(w, &w->conn[i]);
	plan_no_timeout(w);
	for (i = 0; i < 2 * w->conns; i++)
		qp_create(&w->conn[i / 2].qp[i % 2]);
	for (i = 0; i < w->conns; i++)
		conn_connect(&w->conn[i]);
}

void plan_free(struct world *w)
{
	unsigned i, k;

	for (i = 0; i < 2 * w->conns; i++) {
		struct sim_qp *q = &w->conn[i / 2].qp[i % 2];

		qp_destroy(q);
		for (k = 0; k < q->op_count; k++)
			free(q->ops[k].data);
		free(q->ops);
		free(q->recvs);
	}
	flights_free(&w->flights);
	xd_faults_free(w->faults);
	memory_free(w);
	for (i = 0; i < w->hosts; i++)
		host_free(&w->host[i]);
}
