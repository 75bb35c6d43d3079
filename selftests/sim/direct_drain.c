// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Draining. A program sends and receives on one or two connections, which may share an SRQ and CQs.
 * It drains the first one while packets are in flight. When the calls return, all completions of
 * that QP were polled, the markers last, and none follows; its memory is neither read nor written
 * any more; the other connection goes on, and the SRQ has lost no receive.
 */
#include <errno.h>
#include <string.h>

#include "direct.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/srq.h"

#define CONNS 2
#define AREA (48u << 10)
#define MAX_LEN 6000u
#define MAX_WRS 16384u /* of each queue in a run */
#define POISON 0xee

/* Areas of each connection. The peer accesses OPEN by RDMA; PEER is its own memory. */
enum area { SOURCE, TARGET, RECEIVED, OPEN, PEER_SOURCE, PEER, AREAS };
_Static_assert(CONNS *AREAS *AREA + AREA <= DRAIN_MEMORY, "and the SRQ's area");

enum direction { SEND, RECV };

/* The WRs of a queue are numbered from 0 on. */
struct fifo {
	uint64_t posted, polled;
	enum ibv_wc_status last; /* status of the last completion */
	bool drained;
	bool silent[MAX_WRS]; /* need not complete */
};

struct conn {
	struct ibv_qp *qp, *peer;
	struct fifo queue[2];
	bool draining, peer_failed;
};

struct program {
	struct world *w;
	struct ibv_pd *pd, *peer_pd;
	struct ibv_cq *cq[2], *peer_cq; /* cq: by direction; may be the same */
	struct ibv_srq *srq;
	struct conn conn[CONNS];
	unsigned conns;
	uint64_t srq_posted, srq_polled;
	bool srq_seen[MAX_WRS];
	/* what the callback of draining does */
	bool stall;
	int err;
};

#define WR_ID(conn, direction, n) ((uint64_t)(conn) << 48 | (uint64_t)(direction) << 40 | (n))
#define SRQ_CONN 0xff /* in wr_ids */

static uint8_t *area(const struct program *p, unsigned conn, enum area a)
{
	return p->w->memory + (size_t)(conn * AREAS + a) * AREA;
}

static struct ibv_sge piece(struct program *p, uint8_t *from)
{
	struct rng *r = &p->w->rng;
	uint32_t len = (uint32_t)rng_below(r, rng_chance(r, 70) ? 200 : MAX_LEN);

	return (struct ibv_sge){ world_address(p->w, from) + rng_below(r, AREA - MAX_LEN), len,
				 p->w->key };
}

/* ---- posting ------------------------------------------------------------------------- */

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_READ,
};

/* Returns false if the queue is full. */
static bool post_send(struct program *p, struct ibv_qp *qp, uint64_t wr_id, bool signaled,
		      const enum area a[3], unsigned conn)
{
	struct rng *r = &p->w->rng;
	enum ibv_wr_opcode opcode = opcodes[rng_below(r, qp->qp_type == IBV_QPT_RC ? 3 : 2)];
	struct ibv_sge sge = piece(p, area(p, conn, opcode == IBV_WR_RDMA_READ ? a[1] : a[0]));
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = signaled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { piece(p, area(p, conn, a[2])).addr, p->w->key },
	};
	int err = xp_post_send(qp, &wr, &bad);

	CHECK(p->w, !err || err == ENOMEM, "a send was not posted");
	return !err;
}

static void post_sends(struct program *p, unsigned i)
{
	static const enum area areas[] = { SOURCE, TARGET, PEER };
	struct conn *c = &p->conn[i];
	struct fifo *q = &c->queue[SEND];

	for (unsigned n = (unsigned)rng_below(&p->w->rng, 5); n; n--) {
		bool last = xp_ring_room(&xp_qp(c->qp)->sq) == 1;
		bool signaled = last || rng_chance(&p->w->rng, 70);

		if (!post_send(p, c->qp, WR_ID(i, SEND, q->posted), signaled, areas, i))
			return;
		q->silent[q->posted++ % MAX_WRS] = !signaled;
	}
}

static void post_recvs(struct program *p, unsigned i)
{
	struct conn *c = &p->conn[i];
	uint64_t *posted = p->srq ? &p->srq_posted : &c->queue[RECV].posted;
	uint8_t *to = p->srq ? area(p, CONNS, 0) : area(p, i, RECEIVED);
	struct ibv_sge sge = { world_address(p->w, to), MAX_LEN, p->w->key };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	int err = 0;

	for (unsigned n = (unsigned)rng_below(&p->w->rng, 5); n; n--) {
		sge.addr = world_address(p->w, to) + rng_below(&p->w->rng, AREA - MAX_LEN);
		wr.wr_id = WR_ID(p->srq ? SRQ_CONN : i, RECV, *posted);
		err = p->srq ? xp_post_srq_recv(p->srq, &wr, &bad) : xp_post_recv(c->qp, &wr, &bad);
		if (err)
			break;
		++*posted;
	}
	CHECK(p->w, !err || err == ENOMEM, "a receive was not posted");
}

/* ---- completions of the program --------------------------------------------------------- */

static void completed(struct program *p, const struct ibv_wc *wc)
{
	struct conn *c = &p->conn[wc->wr_id >> 48];
	enum direction d = wc->wr_id >> 40 & 1;
	uint64_t n = wc->wr_id & 0xffffffffff;
	struct fifo *q = &c->queue[d];

	for (; q->polled < n; q->polled++)
		CHECK(p->w, q->silent[q->polled % MAX_WRS], "a completion is missing");
	CHECK(p->w, q->polled == n && n < q->posted, "a WR completed twice");
	CHECK(p->w, !q->drained, "a completion follows the end of draining");
	CHECK(p->w,
	      wc->status == IBV_WC_SUCCESS || (c->draining && wc->status == IBV_WC_WR_FLUSH_ERR),
	      "a completion with an error");
	q->polled++;
	q->last = wc->status;
}

static void srq_completed(struct program *p, const struct ibv_wc *wc)
{
	struct conn *c = &p->conn[wc->qp_num != p->conn[0].qp->qp_num];
	uint64_t n = wc->wr_id & 0xffffffffff;

	CHECK(p->w, n < p->srq_posted && !p->srq_seen[n % MAX_WRS],
	      "a receive of the SRQ completed twice");
	CHECK(p->w, !c->queue[RECV].drained, "a receive of the SRQ follows the end of draining");
	CHECK(p->w,
	      wc->status == IBV_WC_SUCCESS || (c->draining && wc->status == IBV_WC_WR_FLUSH_ERR),
	      "a receive of the SRQ with an error");
	p->srq_seen[n % MAX_WRS] = true;
	p->srq_polled++;
}

static int poll_some(struct program *p, struct ibv_cq *cq)
{
	struct ibv_wc wc[8];
	int got = xp_poll_cq(cq, 1 + (int)rng_below(&p->w->rng, 8), wc);

	for (int i = 0; i < got; i++) {
		if (wc[i].wr_id >> 48 == SRQ_CONN)
			srq_completed(p, &wc[i]);
		else
			completed(p, &wc[i]);
	}
	return got;
}

/* ---- the peer, which never stops -------------------------------------------------------- */

static void peer_posts(struct program *p, unsigned i)
{
	static const enum area areas[] = { PEER_SOURCE, PEER, OPEN };
	struct conn *c = &p->conn[i];
	struct ibv_sge sge = { world_address(p->w, area(p, i, PEER)), MAX_LEN, p->w->key };
	struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	while (!xp_post_recv(c->peer, &wr, &bad))
		;
	for (unsigned n = (unsigned)rng_below(&p->w->rng, 4); n; n--)
		post_send(p, c->peer, i, true, areas, i);
}

static void peer_step(struct program *p)
{
	struct ibv_wc wc;

	while (xp_poll_cq(p->peer_cq, 1, &wc) > 0) {
		CHECK(p->w, wc.status == IBV_WC_SUCCESS || p->conn[wc.wr_id].draining,
		      "a completion of the peer with an error");
		p->conn[wc.wr_id].peer_failed |= wc.status != IBV_WC_SUCCESS;
	}
	for (unsigned i = 0; i < p->conns; i++)
		if (!p->conn[i].peer_failed && rng_chance(&p->w->rng, 30))
			peer_posts(p, i);
}

/* ---- draining --------------------------------------------------------------------------- */

static void step(struct program *p)
{
	for (unsigned i = 0; i < p->conns; i++) {
		if (p->conn[i].draining)
			continue;
		if (rng_chance(&p->w->rng, 20))
			post_sends(p, i);
		if (rng_chance(&p->w->rng, 20))
			post_recvs(p, i);
	}
	if (rng_chance(&p->w->rng, 10))
		poll_some(p, p->cq[SEND]);
	if (rng_chance(&p->w->rng, 10))
		poll_some(p, p->cq[RECV]);
	peer_step(p);
	world_step(p->w);
}

static int poll_in_call(struct ibv_cq *cq, void *arg)
{
	struct program *p = arg;

	if (p->w->wrong)
		return -ECANCELED;
	if (p->err)
		return -p->err;
	if (p->stall)
		return 0;
	peer_step(p);
	world_step(p->w);
	return poll_some(p, cq);
}

static void other_thread(void *arg)
{
	struct program *p = arg;

	peer_step(p);
	poll_some(p, p->cq[SEND]);
	poll_some(p, p->cq[RECV]);
}

/* The library's marker is a WR like others, but not posted if the call ends before. */
static uint64_t marker(struct conn *c, unsigned i, enum direction d)
{
	struct fifo *q = &c->queue[d];

	q->silent[q->posted % MAX_WRS] = true;
	return WR_ID(i, d, q->posted++);
}

typedef int drain_fn(struct ibv_qp *qp, const struct xrocedv_drain_attr *attr);

static int call(struct program *p, unsigned i, drain_fn *fn, bool callback, int timeout_ms)
{
	struct conn *c = &p->conn[i];
	struct xrocedv_drain_attr attr = {
		.timeout_ms = timeout_ms,
		.poll = callback ? poll_in_call : NULL,
		.arg = p,
	};
	int err;

	if (fn != xrocedv_drain_rq)
		attr.send_wr_id = marker(c, i, SEND);
	if (fn != xrocedv_drain_sq && !p->srq)
		attr.recv_wr_id = marker(c, i, RECV);
	p->w->idle = callback ? NULL : other_thread;
	p->w->idle_arg = p;
	err = fn(c->qp, &attr);
	p->w->idle = NULL;
	return err;
}

static void check_drained(struct program *p, struct conn *c, enum direction d)
{
	struct fifo *q = &c->queue[d];

	q->drained = true;
	if (d == RECV && p->srq)
		return;
	CHECK(p->w, q->polled == q->posted && q->last == IBV_WC_WR_FLUSH_ERR,
	      "draining ended before the marker was polled");
}

static void drain(struct program *p, unsigned i, drain_fn *fn)
{
	struct rng *r = &p->w->rng;
	struct conn *c = &p->conn[i];
	bool callback = rng_chance(r, 70);
	uint64_t start = p->w->h->now;
	int err;

	c->draining = true;
	if (callback && rng_chance(r, 20)) {
		p->stall = true;
		err = call(p, i, fn, true, 2);
		p->stall = false;
		CHECK(p->w, err == ETIMEDOUT ? p->w->h->now - start >= 2 * MSEC : p->srq && !err,
		      "a call without polling did not run into its time-out");
	} else if (callback && rng_chance(r, 20)) {
		p->err = EPROTO;
		err = call(p, i, fn, true, -1);
		p->err = 0;
		CHECK(p->w, err == EPROTO || (p->srq && !err),
		      "a call did not return the error of the callback");
	}
	err = call(p, i, fn, callback, callback ? -1 : 5000);
	CHECK(p->w, !err, "draining failed");
	CHECK(p->w, c->qp->state == IBV_QPS_ERR, "the QP is not in the error state");
	if (fn != xrocedv_drain_rq)
		check_drained(p, c, SEND);
	if (fn != xrocedv_drain_sq)
		check_drained(p, c, RECV);
	p->w->done++;
}

/* The program uses the memory for something else. */
static void drain_both(struct program *p, unsigned i)
{
	static const enum area own[] = { SOURCE, TARGET, RECEIVED, OPEN };
	unsigned order = (unsigned)rng_below(&p->w->rng, 3);

	if (!order) {
		drain(p, i, xrocedv_drain_qp);
	} else {
		drain(p, i, order == 1 ? xrocedv_drain_sq : xrocedv_drain_rq);
		drain(p, i, order == 1 ? xrocedv_drain_rq : xrocedv_drain_sq);
	}
	for (unsigned a = 0; a < sizeof(own) / sizeof(own[0]); a++)
		memset(area(p, i, own[a]), POISON, AREA);
}

static void check_memory(struct program *p, unsigned i)
{
	static const enum area own[] = { SOURCE, TARGET, RECEIVED, OPEN };

	for (unsigned a = 0; a < sizeof(own) / sizeof(own[0]); a++) {
		const uint8_t *m = area(p, i, own[a]);

		CHECK(p->w, m[0] == POISON && !memcmp(m, m + 1, AREA - 1),
		      "memory was written after draining");
	}
	CHECK(p->w, !memchr(area(p, i, PEER), POISON, AREA), "memory was read after draining");
}

/* ---- a run ------------------------------------------------------------------------------- */

static struct ibv_qp *make_qp(struct program *p, bool peer, enum ibv_qp_type type)
{
	struct rng *r = &p->w->rng;
	struct ibv_qp_init_attr init = {
		.send_cq = peer ? p->peer_cq : p->cq[SEND],
		.recv_cq = peer ? p->peer_cq : p->cq[RECV],
		.srq = peer ? NULL : p->srq,
		.cap = { .max_send_wr = 4u << rng_below(r, 4),
			 .max_recv_wr = 4u << rng_below(r, 4),
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = type,
	};

	return xp_create_qp(peer ? p->peer_pd : p->pd, &init);
}

static void set_up(struct program *p)
{
	struct rng *r = &p->w->rng;
	struct ibv_context *ctx[2] = { &p->w->host[0].ibctx, &p->w->host[1].ibctx };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 1 } };
	enum ibv_qp_type type = rng_chance(r, 80) ? IBV_QPT_RC : IBV_QPT_UC;
	bool shared = rng_chance(r, 50);

	p->pd = xp_alloc_pd(ctx[0]);
	p->peer_pd = xp_alloc_pd(ctx[1]);
	p->cq[SEND] = xp_create_cq(ctx[0], 512, NULL, NULL, 0);
	p->cq[RECV] = rng_chance(r, 50) ? p->cq[SEND] : xp_create_cq(ctx[0], 512, NULL, NULL, 0);
	p->peer_cq = xp_create_cq(ctx[1], 512, NULL, NULL, 0);
	p->srq = shared ? xp_create_srq(p->pd, &srq) : NULL;
	p->conns = 1 + (unsigned)rng_below(r, CONNS);
	for (unsigned i = 0; i < p->conns; i++) {
		p->conn[i].qp = make_qp(p, false, type);
		p->conn[i].peer = make_qp(p, true, type);
		world_connect(p->w, p->conn[i].qp, p->conn[i].peer);
		/* bytes that differ from the poison */
		for (unsigned k = 0; k < AREA; k++) {
			area(p, i, SOURCE)[k] = rng_next(r) & 0x7f;
			area(p, i, PEER_SOURCE)[k] = rng_next(r) & 0x7f;
		}
	}
}

static void tear_down(struct program *p)
{
	for (unsigned i = 0; i < p->conns; i++) {
		xp_destroy_qp(p->conn[i].qp);
		xp_destroy_qp(p->conn[i].peer);
	}
	if (p->srq)
		xp_destroy_srq(p->srq);
	xp_destroy_cq(p->cq[SEND]);
	if (p->cq[RECV] != p->cq[SEND])
		xp_destroy_cq(p->cq[RECV]);
	xp_destroy_cq(p->peer_cq);
	xp_dealloc_pd(p->pd);
	xp_dealloc_pd(p->peer_pd);
}

static void run(struct program *p)
{
	struct world *w = p->w;
	unsigned n;

	for (n = (unsigned)rng_below(&w->rng, 400); n && !w->wrong; n--)
		step(p);
	drain_both(p, 0);
	for (n = 0; n < 1000 && !w->wrong; n++)
		step(p);
	if (p->conns > 1) {
		CHECK(w, !p->conn[1].peer_failed, "the other connection failed");
		drain_both(p, 1);
	}
	for (n = 0; n < 100 && !w->wrong; n++)
		step(p);
	for (unsigned i = 0; i < p->conns; i++)
		check_memory(p, i);
	if (p->srq)
		CHECK(w,
		      p->srq_posted - p->srq_polled == xp_ring_posted_shared(&xp_srq(p->srq)->ring),
		      "the SRQ has lost a receive");
}

void direct_drain(struct world *w)
{
	struct program *p = calloc(1, sizeof(*p));

	p->w = w;
	set_up(p);
	run(p);
	if (!w->wrong) {
		tear_down(p);
		host_close(&w->host[0]);
		host_close(&w->host[1]);
	}
	free(p);
}
