// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Shared receive queues: order of receives, limit event, resize, corrupt indices, last WQE
 * event. The senders use loopback.
 */
#include <errno.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/rq.h"
#include "harness.h"
#include "selftests/lib/resize.h"
#include "selftests/lib/tap.h"

#define BASE 0x100000
#define SIZE 65536
#define DEPTH 8
#define OTHER_PD 7
#define PAIRS 3

static uint8_t memory[SIZE];
static struct h_mr mr, other_mr;
static uint32_t key, other_key;

struct pairs {
	struct harness *h;
	struct xt_srq srq;
	struct xr_queue *ring;
	struct h_qp from[PAIRS], to[PAIRS]; /* to: QPs with the SRQ */
};

static void connect(struct h_qp *q, uint32_t to)
{
	struct xt_path path = h_path(0x0a000001, 0x0a000001);
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	path.loopback = true;
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = to;
		attr.rnr_retry = 1;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, q->h->now);
	}
	if (err)
		TAP_OK(false, "connect: %d", err);
}

static struct pairs *begin(void)
{
	struct pairs *p = calloc(1, sizeof(*p));
	struct harness *h = p->h = h_new(H_CQE);
	unsigned i;

	memset(memory, 0, SIZE);
	key = h_reg(h, &mr, memory, SIZE, BASE);
	other_key = h_reg(h, &other_mr, memory, SIZE, BASE);
	other_mr.key->entry.pd = OTHER_PD;
	p->ring = h_queue(DEPTH, xr_recv_stride(H_SGE));
	xt_srq_init(&p->srq, p->ring, DEPTH, H_SGE, 1);
	for (i = 0; i < PAIRS; i++) {
		h->srq = NULL;
		h_create(h, &p->from[i]);
		h->srq = &p->srq;
		h_create(h, &p->to[i]);
		connect(&p->from[i], p->to[i].qpn);
		connect(&p->to[i], p->from[i].qpn);
	}
	return p;
}

static void end(struct pairs *p)
{
	unsigned i;

	for (i = 0; i < PAIRS; i++) {
		h_destroy(&p->from[i]);
		h_destroy(&p->to[i]);
	}
	h_free(p->h);
	free(p->ring);
	free(p);
}

static void post(struct pairs *p, uint64_t first, unsigned n, uint32_t lkey)
{
	for (; n--; first++)
		h_post_to(p->ring, p->srq.depth, first, BASE + 1000 * (first % 16), 1000, lkey);
}

/* Sends one byte from pair @i and runs the engine until it is idle. */
static void send_value(struct pairs *p, unsigned i, uint8_t value)
{
	struct harness *h = p->h;
	uint64_t next;
	unsigned n;

	memory[SIZE - 1] = value;
	h_post_send(&p->from[i], 1000 + value, XR_WR_SEND, BASE + SIZE - 1, 1, key);
	xt_qp_doorbell(p->from[i].qp, h->now);
	for (n = 0; n < 1000; n++) {
		next = xt_engine_run(h->engine, h->now);
		if (next == XT_NEVER)
			return;
		h->now = next > h->now ? next : h->now + 1000;
	}
}

/* Polls the next completion of a receive, skipping those of sends. */
static bool received(struct pairs *p, struct xr_cqe *cqe)
{
	while (h_poll(p->h, cqe))
		if (cqe->is_recv)
			return true;
	return false;
}

static bool receives(struct pairs *p, unsigned i, uint64_t wr_id, uint8_t value)
{
	struct xr_cqe cqe;

	send_value(p, i, value);
	return received(p, &cqe) && cqe.wr_id == wr_id && !cqe.status && cqe.qpn == p->to[i].qpn &&
	       memory[1000 * (wr_id % 16)] == value;
}

static uint32_t state_of(const struct h_qp *q)
{
	return xt_qp_info(q->qp)->state;
}

static void test_sharing(void)
{
	struct pairs *p = begin();
	struct xr_cqe cqe;
	unsigned i;

	post(p, 0, DEPTH, key);
	TAP_OK(receives(p, 1, 0, 50) && receives(p, 0, 1, 51) && receives(p, 1, 2, 52) &&
		       receives(p, 2, 3, 53),
	       "messages of all QPs use receives in the order of arrival");
	TAP_OK(p->ring->consumer == 4, "an entry is free as soon as a message uses it");
	post(p, 8, 4, key);
	for (i = 4; i < 12 && receives(p, i % PAIRS, i, i); i++)
		;
	TAP_OK(i == 12, "the ring wraps");
	send_value(p, 0, 60);
	TAP_OK(h_poll(p->h, &cqe) && cqe.status == 0, "the send of the previous message completes");
	while (h_poll(p->h, &cqe))
		;
	TAP_OK(cqe.status == IBV_WC_RNR_RETRY_EXC_ERR && p->h->engine->counters.rnr_naks_sent == 2,
	       "an empty SRQ: RNR NAKs until the retries are exhausted");
	TAP_OK(state_of(&p->to[0]) == XR_QPS_RTS && !p->h->events[IBV_EVENT_SRQ_LIMIT_REACHED],
	       "the receiving QP stays in RTS, and there is no limit event");
	end(p);
}

/* L_Keys are checked against the PD of the SRQ, not of the QP (IBTA 10.2.9). */
static void test_pd(void)
{
	struct pairs *p = begin();
	struct xr_cqe cqe;

	p->srq.pd = OTHER_PD;
	post(p, 1, 1, other_key);
	post(p, 2, 1, key);
	TAP_OK(receives(p, 0, 1, 9), "an L_Key of the SRQ's PD is accepted");
	send_value(p, 1, 10);
	TAP_OK(received(p, &cqe) && cqe.wr_id == 2 && cqe.status == IBV_WC_LOC_PROT_ERR &&
		       state_of(&p->to[1]) == XR_QPS_ERR && state_of(&p->to[0]) == XR_QPS_RTS,
	       "an L_Key of another PD fails only the QP that uses the receive");
	end(p);
}

static void test_limit(void)
{
	struct pairs *p = begin();
	unsigned *event = &p->h->events[IBV_EVENT_SRQ_LIMIT_REACHED];

	post(p, 0, 6, key);
	TAP_OK(!xt_srq_arm(&p->srq, 4) && p->srq.limit == 4, "xt_srq_arm() sets the limit");
	TAP_OK(receives(p, 0, 0, 1) && receives(p, 1, 1, 2) && !*event,
	       "no event while as many receives as the limit are left");
	TAP_OK(receives(p, 2, 2, 3) && *event == 1 && !p->srq.limit,
	       "the limit event is raised when fewer receives than the limit are left");
	TAP_OK(receives(p, 0, 3, 4) && *event == 1, "the limit event is sent once");
	TAP_OK(xt_srq_arm(&p->srq, 3) && !p->srq.limit,
	       "xt_srq_arm() reports a limit that is already reached");
	TAP_OK(!xt_srq_arm(&p->srq, 2), "the SRQ can be armed again");
	post(p, 6, 2, key);
	TAP_OK(receives(p, 0, 4, 5) && receives(p, 0, 5, 6) && *event == 1,
	       "receives posted after arming count");
	TAP_OK(!xt_srq_arm(&p->srq, 0) && receives(p, 0, 6, 7) && *event == 1, "limit 0 disarms");
	end(p);
}

static void test_resize(void)
{
	struct pairs *p = begin();
	struct xr_queue *old = p->ring, *small = h_queue(2, xr_recv_stride(H_SGE)), *large;

	large = h_queue(32, xr_recv_stride(H_SGE));
	post(p, 0, 5, key);
	TAP_OK(receives(p, 0, 0, 1), "one receive is used");
	TAP_OK(srq_resize(&p->srq, small, 2) == -EINVAL && receives(p, 0, 1, 2),
	       "a resize below the number of posted receives fails and changes nothing");
	TAP_OK(!srq_resize(&p->srq, large, 32) && large->producer == 3 && !large->consumer,
	       "resize to a larger ring keeps the posted receives");
	p->ring = large;
	post(p, 5, 20, key);
	TAP_OK(receives(p, 1, 2, 3) && receives(p, 2, 3, 4) && receives(p, 1, 4, 5) &&
		       receives(p, 1, 5, 6),
	       "the larger ring delivers old and new receives");
	old->producer += 1000;
	TAP_OK(receives(p, 1, 6, 7), "the old ring is no longer read");
	free(old);
	free(small);
	end(p);
}

/* Receives used and posted while entries are copied to another ring */
static void test_move(void)
{
	struct pairs *p = begin();
	struct xr_queue *old = p->ring, *large = h_queue(32, xr_recv_stride(H_SGE));
	struct xt_srq_move m;

	post(p, 0, 5, key);
	TAP_OK(receives(p, 0, 0, 1) && !xt_srq_move_begin(&p->srq, large, 32, &m), "a move begins");
	xt_srq_move_copy(&p->srq, &m);
	TAP_OK(receives(p, 1, 1, 2) && receives(p, 0, 2, 3),
	       "messages use receives of the old ring during the move");
	post(p, 5, 1, key);
	TAP_OK(xt_srq_move_end(&p->srq, &m) == -EINVAL && p->srq.queue == old,
	       "move_end fails if receives were posted during the move");
	TAP_OK(!xt_srq_move_begin(&p->srq, large, 32, &m), "a second move begins");
	xt_srq_move_copy(&p->srq, &m);
	TAP_OK(receives(p, 0, 3, 4) && !xt_srq_move_end(&p->srq, &m) && large->producer == 3 &&
		       large->consumer == 1,
	       "move_end succeeds and skips the receives used during the move");
	p->ring = large;
	TAP_OK(receives(p, 1, 4, 5) && receives(p, 0, 5, 6),
	       "a move neither loses nor duplicates a receive");
	free(old);
	end(p);
}

static void test_corrupt(void)
{
	struct pairs *p = begin();
	unsigned *error = &p->h->events[IBV_EVENT_SRQ_ERR],
		 *fatal = &p->h->events[IBV_EVENT_QP_FATAL];

	post(p, 0, 2, key);
	TAP_OK(receives(p, 0, 0, 1), "one receive is used");
	p->ring->producer += DEPTH + 1;
	TAP_OK(receives(p, 0, 1, 2) && !*error, "a receive seen before the corruption can be used");
	send_value(p, 0, 3);
	TAP_OK(*error == 1 && *fatal == 1 && state_of(&p->to[0]) == XR_QPS_ERR,
	       "corrupt indices raise SRQ_ERR, and QP_FATAL for the QP that needs a receive");
	p->ring->producer = 2;
	post(p, 2, 1, key);
	send_value(p, 1, 4);
	TAP_OK(*error == 1 && *fatal == 2 && state_of(&p->to[1]) == XR_QPS_ERR,
	       "the SRQ stays in error: the next QP that needs a receive fails");
	TAP_OK(state_of(&p->to[2]) == XR_QPS_RTS, "a QP that needs no receive stays in RTS");
	TAP_OK(p->srq.taken == 2 && p->srq.missed == 2 && p->srq.error.qpn == p->to[0].qpn &&
		       p->srq.error.cause == XT_CAUSE_RING,
	       "what tools show: receives, messages without one, the first QP that failed");
	TAP_OK(!xt_srq_arm(&p->srq, 8) && srq_resize(&p->srq, p->ring, DEPTH) == -EINVAL,
	       "an SRQ in error cannot be resized or raise a limit event");
	end(p);
}

static void test_bad_entry(void)
{
	struct pairs *p = begin();
	struct xr_recv_wqe *wqe = (void *)(p->ring + 1);
	struct xr_cqe cqe;

	post(p, 0, 2, key);
	wqe->num_sge = H_SGE + 1;
	send_value(p, 0, 1);
	TAP_OK(received(p, &cqe) && cqe.wr_id == 0 && cqe.status == IBV_WC_LOC_QP_OP_ERR,
	       "an entry with too many elements completes with an error");
	TAP_OK(receives(p, 1, 1, 2), "another QP uses the next entry");
	end(p);
}

/* A QP that fails in the middle of a message */
static void test_last_wqe(void)
{
	struct pairs *p = begin();
	unsigned *last = &p->h->events[IBV_EVENT_QP_LAST_WQE_REACHED];
	struct xt_wc_error fault;
	struct xr_cqe cqe;

	post(p, 0, 3, key);
	TAP_OK(xt_rq_take(p->to[0].qp, &fault) == XT_TAKE_OK && p->ring->consumer == 1,
	       "the first packet of a message takes a receive");
	h_modify(&p->to[0], XR_QPS_ERR);
	TAP_OK(received(p, &cqe) && cqe.wr_id == 0 && cqe.status == IBV_WC_WR_FLUSH_ERR &&
		       cqe.qpn == p->to[0].qpn && !received(p, &cqe),
	       "ERR flushes only the receive in use");
	TAP_OK(*last == 1, "ERR raises QP_LAST_WQE_REACHED");
	h_modify(&p->to[0], XR_QPS_ERR);
	xt_qp_doorbell(p->to[0].qp, p->h->now);
	TAP_OK(*last == 1 && p->ring->consumer == 1 && !received(p, &cqe),
	       "QP_LAST_WQE_REACHED is raised once");
	h_modify(&p->to[1], XR_QPS_ERR);
	TAP_OK(*last == 2 && !received(p, &cqe),
	       "QP_LAST_WQE_REACHED is raised without a receive in use, too");
	h_modify(&p->from[0], XR_QPS_ERR);
	TAP_OK(*last == 2, "QP_LAST_WQE_REACHED is not raised for a QP without an SRQ");
	TAP_OK(receives(p, 2, 1, 5), "other QPs continue to use the SRQ");
	end(p);
}

static void test_creation(void)
{
	struct harness *h = h_new(H_CQE);
	struct xr_queue *rings[3] = { h_queue(4, 256), h_queue(4, 256), h_queue(4, 256) };
	struct xt_srq srq;
	struct xt_qp_init init = {
		.type = XR_QPT_RC,
		.pd = 1,
		.send_cq = &h->cq,
		.recv_cq = &h->cq,
		.sq = rings[0],
		.rq = rings[1],
		.sq_depth = 4,
		.rq_depth = 4,
		.sq_stride = 128,
		.rq_stride = 32,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.srq = &srq,
		.psns = h->psns,
	};
	struct xt_qp *qp;

	xt_srq_init(&srq, rings[2], 4, 1, 1);
	TAP_OK(xt_qp_create(h->engine, &init, &qp) == -EINVAL,
	       "a QP with an SRQ and an RQ is refused");
	init.rq = NULL;
	TAP_OK(!xt_qp_create(h->engine, &init, &qp) && xt_qp_info(qp)->state == XR_QPS_RESET,
	       "a QP with an SRQ and no RQ is created");
	xt_qp_destroy(qp);
	h_free(h);
	free(rings[0]);
	free(rings[1]);
	free(rings[2]);
}

int main(void)
{
	test_creation();
	test_sharing();
	test_pd();
	test_limit();
	test_resize();
	test_move();
	test_corrupt();
	test_bad_entry();
	test_last_wqe();
	return tap_end();
}
