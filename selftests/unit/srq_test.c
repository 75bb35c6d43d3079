// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Shared receive queues: who takes what, the limit and its event, another size, indices that are
 * corrupt, and how a QP leaves. The senders reach their peers by the direct way.
 */
#include <errno.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/rq.h"
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
	struct h_qp from[PAIRS], to[PAIRS]; /* to: with the SRQ */
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

/* One byte of that value, from pair i; runs until nothing is left to do. */
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

/* The next completion of a receive; those of sends are passed over. */
static bool received(struct pairs *p, struct xr_cqe *cqe)
{
	while (h_poll(p->h, cqe))
		if (cqe->is_recv)
			return true;
	return false;
}

static bool takes(struct pairs *p, unsigned i, uint64_t wr_id, uint8_t value)
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
	TAP_OK(takes(p, 1, 0, 50) && takes(p, 0, 1, 51) && takes(p, 1, 2, 52) && takes(p, 2, 3, 53),
	       "QPs take in the order of their messages");
	TAP_OK(p->ring->consumer == 4, "slots are free when they are taken");
	post(p, 8, 4, key);
	for (i = 4; i < 12 && takes(p, i % PAIRS, i, i); i++)
		;
	TAP_OK(i == 12, "the ring wraps");
	send_value(p, 0, 60);
	TAP_OK(h_poll(p->h, &cqe) && cqe.status == 0, "(the last send's completion)");
	while (h_poll(p->h, &cqe))
		;
	TAP_OK(cqe.status == IBV_WC_RNR_RETRY_EXC_ERR && p->h->engine->counters.rnr_naks_sent == 2,
	       "none left: RNR");
	TAP_OK(state_of(&p->to[0]) == XR_QPS_RTS && !p->h->events[IBV_EVENT_SRQ_LIMIT_REACHED],
	       "which harms no receiver, and there is no limit");
	end(p);
}

/* The SRQ's PD counts, whatever the QPs' (IBTA 10.2.9) */
static void test_pd(void)
{
	struct pairs *p = begin();
	struct xr_cqe cqe;

	p->srq.pd = OTHER_PD;
	post(p, 1, 1, other_key);
	post(p, 2, 1, key);
	TAP_OK(takes(p, 0, 1, 9), "an L_Key of the SRQ's PD");
	send_value(p, 1, 10);
	TAP_OK(received(p, &cqe) && cqe.wr_id == 2 && cqe.status == IBV_WC_LOC_PROT_ERR &&
		       state_of(&p->to[1]) == XR_QPS_ERR && state_of(&p->to[0]) == XR_QPS_RTS,
	       "one of the QP's PD fails the QP that met it");
	end(p);
}

static void test_limit(void)
{
	struct pairs *p = begin();
	unsigned *event = &p->h->events[IBV_EVENT_SRQ_LIMIT_REACHED];

	post(p, 0, 6, key);
	TAP_OK(!xt_srq_arm(&p->srq, 4) && p->srq.limit == 4, "armed");
	TAP_OK(takes(p, 0, 0, 1) && takes(p, 1, 1, 2) && !*event, "as many as the limit are left");
	TAP_OK(takes(p, 2, 2, 3) && *event == 1 && !p->srq.limit, "one less: the event");
	TAP_OK(takes(p, 0, 3, 4) && *event == 1, "once");
	TAP_OK(xt_srq_arm(&p->srq, 3) && !p->srq.limit, "reached when armed: told at once");
	TAP_OK(!xt_srq_arm(&p->srq, 2), "armed again");
	post(p, 6, 2, key);
	TAP_OK(takes(p, 0, 4, 5) && takes(p, 0, 5, 6) && *event == 1,
	       "what was posted since counts");
	TAP_OK(!xt_srq_arm(&p->srq, 0) && takes(p, 0, 6, 7) && *event == 1, "disarmed");
	end(p);
}

static void test_resize(void)
{
	struct pairs *p = begin();
	struct xr_queue *old = p->ring, *small = h_queue(2, xr_recv_stride(H_SGE)), *large;

	large = h_queue(32, xr_recv_stride(H_SGE));
	post(p, 0, 5, key);
	TAP_OK(takes(p, 0, 0, 1), "(one taken)");
	TAP_OK(srq_resize(&p->srq, small, 2) == -EINVAL && takes(p, 0, 1, 2),
	       "what is posted does not fit: as it was");
	TAP_OK(!srq_resize(&p->srq, large, 32) && large->producer == 3 && !large->consumer,
	       "a larger ring");
	p->ring = large;
	post(p, 5, 20, key);
	TAP_OK(takes(p, 1, 2, 3) && takes(p, 2, 3, 4) && takes(p, 1, 4, 5) && takes(p, 1, 5, 6),
	       "nothing is lost, and more fits");
	old->producer += 1000;
	TAP_OK(takes(p, 1, 6, 7), "the old ring is not read any more");
	free(old);
	free(small);
	end(p);
}

/* What is taken and posted while entries are copied to another ring */
static void test_move(void)
{
	struct pairs *p = begin();
	struct xr_queue *old = p->ring, *large = h_queue(32, xr_recv_stride(H_SGE));
	struct xt_srq_move m;

	post(p, 0, 5, key);
	TAP_OK(takes(p, 0, 0, 1) && !xt_srq_move_begin(&p->srq, large, 32, &m), "a move begins");
	xt_srq_move_copy(&p->srq, &m);
	TAP_OK(takes(p, 1, 1, 2) && takes(p, 0, 2, 3), "messages take from the old ring meanwhile");
	post(p, 5, 1, key);
	TAP_OK(xt_srq_move_end(&p->srq, &m) == -EINVAL && p->srq.queue == old,
	       "who posts there meanwhile has it stay");
	TAP_OK(!xt_srq_move_begin(&p->srq, large, 32, &m), "(again)");
	xt_srq_move_copy(&p->srq, &m);
	TAP_OK(takes(p, 0, 3, 4) && !xt_srq_move_end(&p->srq, &m) && large->producer == 3 &&
		       large->consumer == 1,
	       "a move ends");
	p->ring = large;
	TAP_OK(takes(p, 1, 4, 5) && takes(p, 0, 5, 6), "nothing is lost, or taken twice");
	free(old);
	end(p);
}

static void test_corrupt(void)
{
	struct pairs *p = begin();
	unsigned *error = &p->h->events[IBV_EVENT_SRQ_ERR],
		 *fatal = &p->h->events[IBV_EVENT_QP_FATAL];

	post(p, 0, 2, key);
	TAP_OK(takes(p, 0, 0, 1), "(one taken)");
	p->ring->producer += DEPTH + 1;
	TAP_OK(takes(p, 0, 1, 2) && !*error, "(the other, that was seen before)");
	send_value(p, 0, 3);
	TAP_OK(*error == 1 && *fatal == 1 && state_of(&p->to[0]) == XR_QPS_ERR,
	       "corrupt indices: the SRQ's event, and the QP's that met them");
	p->ring->producer = 2;
	post(p, 2, 1, key);
	send_value(p, 1, 4);
	TAP_OK(*error == 1 && *fatal == 2 && state_of(&p->to[1]) == XR_QPS_ERR,
	       "the SRQ stays dead: the next QP that wants a receive fails");
	TAP_OK(state_of(&p->to[2]) == XR_QPS_RTS, "one that wants none goes on");
	TAP_OK(!xt_srq_arm(&p->srq, 8) && srq_resize(&p->srq, p->ring, DEPTH) == -EINVAL,
	       "and nothing can be done about it");
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
	TAP_OK(takes(p, 1, 1, 2), "and the next is another QP's");
	end(p);
}

/* A message that stops half way */
static void test_last_wqe(void)
{
	struct pairs *p = begin();
	unsigned *last = &p->h->events[IBV_EVENT_QP_LAST_WQE_REACHED];
	struct xt_wc_error fault;
	struct xr_cqe cqe;

	post(p, 0, 3, key);
	TAP_OK(xt_rq_take(p->to[0].qp, &fault) == XT_TAKE_OK && p->ring->consumer == 1,
	       "a message has begun");
	h_modify(&p->to[0], XR_QPS_ERR);
	TAP_OK(received(p, &cqe) && cqe.wr_id == 0 && cqe.status == IBV_WC_WR_FLUSH_ERR &&
		       cqe.qpn == p->to[0].qpn && !received(p, &cqe),
	       "ERR flushes the receive that was taken, and no other");
	TAP_OK(*last == 1, "then it is the last");
	h_modify(&p->to[0], XR_QPS_ERR);
	xt_qp_doorbell(p->to[0].qp, p->h->now);
	TAP_OK(*last == 1 && p->ring->consumer == 1 && !received(p, &cqe), "once");
	h_modify(&p->to[1], XR_QPS_ERR);
	TAP_OK(*last == 2 && !received(p, &cqe), "a QP that had taken none says so, too");
	h_modify(&p->from[0], XR_QPS_ERR);
	TAP_OK(*last == 2, "a QP without an SRQ does not");
	TAP_OK(takes(p, 2, 1, 5), "the others go on");
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
	TAP_OK(xt_qp_create(h->engine, &init, &qp) == -EINVAL, "an SRQ and an RQ: refused");
	init.rq = NULL;
	TAP_OK(!xt_qp_create(h->engine, &init, &qp) && xt_qp_info(qp)->state == XR_QPS_RESET,
	       "an SRQ alone");
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
