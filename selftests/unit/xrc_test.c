// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XRC initiators, targets and SRQs, by packets that are fed back to the same engine and by
 * loopback. The XRC domain, PD and CQ are those of the SRQ that a request selects.
 */
#include <errno.h>

#include "daemon/transport/rc/completer.h"
#include "daemon/transport/flush.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/rc/responder.h"
#include "daemon/transport/queue/srq.h"
#include "harness.h"
#include "selftests/lib/tap.h"

#define BASE 0x100000
#define SIZE 65536
#define DEPTH 8
#define DOMAIN 3
#define PD_A 1
#define PD_B 2

static uint8_t memory[SIZE];
static struct h_mr mr_a, mr_b;
static uint32_t key_a, key_b;

struct srq {
	struct xt_srq xt;
	struct xt_cq cq;
	struct xr_queue *ring, *cq_ring;
	uint32_t consumer, slot;
};

struct pair {
	struct harness *h;
	struct h_qp from, to;
	struct srq a, b, foreign;	/* foreign: of another XRC domain */
	uint8_t first_opcode, last_ack; /* of packets */
	uint32_t first_srqn;
	unsigned frames;
};

/* ---- setting up ---------------------------------------------------------- */

static int create(struct harness *h, struct h_qp *q, uint32_t type)
{
	bool target = type == XR_QPT_XRC_RECV;
	struct xt_qp_init init = {
		.type = type,
		.pd = target ? 0 : PD_A,
		.xrcd = target ? DOMAIN : 0,
		.send_cq = target ? NULL : &h->cq,
		.sq_depth = H_DEPTH,
		.sq_stride = xr_send_stride(H_SGE, H_INLINE),
		.max_send_sge = H_SGE,
		.max_inline = H_INLINE,
		.psns = h->psns,
		.owner = q,
	};
	int err;

	memset(q, 0, sizeof(*q));
	q->h = h;
	if (!target)
		q->sq = init.sq = h_queue(H_DEPTH, init.sq_stride);
	err = xt_qp_create(h->engine, &init, &q->qp);
	q->qpn = err ? 0 : xt_qp_info(q->qp)->qpn;
	return err;
}

/* An initiator requires the requester's attributes of RC, a target the responder's. */
static uint32_t mask_of(struct h_qp *q, uint32_t state, struct xr_qp_attr *attr)
{
	uint32_t mask = h_attr(state, attr);

	if (xt_qp_info(q->qp)->type == XR_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
}

static void connect(struct h_qp *q, uint32_t to, const struct xt_path *path)
{
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = mask_of(q, state, &attr);
		attr.dest_qp_num = to;
		attr.rnr_retry = 1;
		attr.min_rnr_timer = 1;
		err = xt_qp_modify(q->qp, &attr, mask, path, 4096, q->h->now);
	}
	if (err)
		TAP_OK(false, "connect: %d", err);
}

static void make_srq(struct harness *h, struct srq *s, uint32_t pd, uint32_t domain)
{
	s->ring = h_queue(DEPTH, xr_recv_stride(H_SGE));
	s->cq_ring = h_queue(DEPTH, sizeof(struct xr_cqe));
	xt_cq_init(&s->cq, s->cq_ring, DEPTH);
	xt_srq_init(&s->xt, s->ring, DEPTH, H_SGE, pd);
	s->xt.xrcd = domain;
	s->xt.cq = &s->cq;
	xt_numbers_add(h->shared.srqs, &s->xt, &s->slot, &s->xt.number);
}

static void free_srq(struct srq *s)
{
	free(s->ring);
	free(s->cq_ring);
}

static struct pair *begin(bool local)
{
	struct pair *p = calloc(1, sizeof(*p));
	struct xt_path there = h_path(0x0a000001, 0x0a000002), back;
	struct harness *h = p->h = h_new(H_CQE);

	back = h_path(0x0a000002, 0x0a000001);
	there.loopback = back.loopback = local;
	h->shared.srqs = xt_numbers_new(32, 9);
	memset(memory, 0, SIZE);
	key_a = h_reg(h, &mr_a, memory, SIZE, BASE);
	key_b = h_reg(h, &mr_b, memory, SIZE, BASE);
	mr_b.key->entry.pd = PD_B;
	make_srq(h, &p->a, PD_A, DOMAIN);
	make_srq(h, &p->b, PD_B, DOMAIN);
	make_srq(h, &p->foreign, PD_A, DOMAIN + 1);
	if (create(h, &p->from, XR_QPT_XRC_SEND) || create(h, &p->to, XR_QPT_XRC_RECV))
		TAP_OK(false, "create");
	connect(&p->from, p->to.qpn, &there);
	connect(&p->to, p->from.qpn, &back);
	return p;
}

static void end(struct pair *p)
{
	xt_qp_destroy(p->from.qp);
	xt_qp_destroy(p->to.qp);
	free(p->from.sq);
	free_srq(&p->a);
	free_srq(&p->b);
	free_srq(&p->foreign);
	xt_numbers_free(p->h->shared.srqs);
	h_free(p->h);
	free(p);
}

/* ---- sending and receiving ----------------------------------------------- */

static void record_packet(struct pair *p, const uint8_t *frame)
{
	const uint8_t *bth = frame + 42;
	__be32 word;

	memcpy(&word, bth + 12, sizeof(word));
	if (!p->frames++) {
		p->first_opcode = bth[0];
		p->first_srqn = be32toh(word);
	} else if (bth[0] == (XR_CLASS_XRC | XR_OP_ACK)) {
		p->last_ack = be32toh(word) >> 24;
	}
}

/* Runs the engine until it is idle, at most 2000 times. */
static void run_until_idle(struct pair *p)
{
	struct harness *h = p->h;
	static struct h_frame f;
	uint64_t next;
	unsigned i, n;

	xt_qp_doorbell(p->from.qp, h->now);
	for (i = 0; i < 2000; i++) {
		next = xt_engine_run(h->engine, h->now);
		for (n = 0; n < h->sent_count; n++) {
			f = h->sent[n];
			record_packet(p, f.data);
			if (n + 1 == h->sent_count)
				h->sent_count = 0;
			h_receive(h, f.data, f.len);
			if (!h->sent_count)
				break;
		}
		if (next == XT_NEVER && !h->sent_count)
			return;
		h->now = next > h->now && next != XT_NEVER ? next : h->now + 1000;
	}
}

static struct xr_send_wqe *post(struct pair *p, uint8_t opcode, uint32_t len, uint32_t srqn)
{
	struct xr_send_wqe *w = h_post_send(&p->from, 7, opcode, BASE, len, key_a);

	w->xrc_srqn = srqn;
	w->remote_addr = BASE + 32768;
	w->rkey = key_a;
	return w;
}

static uint32_t sent_status(struct pair *p)
{
	struct xr_cqe cqe;

	run_until_idle(p);
	return h_poll(p->h, &cqe) ? cqe.status : UINT32_MAX;
}

static bool received(struct srq *s, struct xr_cqe *cqe)
{
	if (s->consumer == s->cq_ring->producer)
		return false;
	*cqe = ((struct xr_cqe *)(s->cq_ring + 1))[s->consumer++ & (DEPTH - 1)];
	s->cq_ring->consumer = s->consumer;
	return true;
}

static uint32_t state_of(const struct h_qp *q)
{
	return xt_qp_info(q->qp)->state;
}

/* ---- tests --------------------------------------------------------------- */

static void test_creation(void)
{
	struct harness *h = h_new(H_CQE);
	struct xr_queue *ring = h_queue(H_DEPTH, 256);
	struct xt_srq srq;
	struct xt_qp_init target = { .type = XR_QPT_XRC_RECV, .psns = h->psns };
	struct xt_qp_init initiator = {
		.type = XR_QPT_XRC_SEND,
		.psns = h->psns,
		.send_cq = &h->cq,
		.sq = ring,
		.sq_depth = 4,
		.sq_stride = 128,
		.max_send_sge = 1,
	};
	struct xt_qp *qp;

	TAP_OK(xt_qp_create(h->engine, &target, &qp) == -EINVAL,
	       "a target without an XRC domain is refused");
	target.xrcd = 1;
	target.sq = ring;
	TAP_OK(xt_qp_create(h->engine, &target, &qp) == -EINVAL, "a target with an SQ is refused");
	initiator.srq = &srq;
	TAP_OK(xt_qp_create(h->engine, &initiator, &qp) == -EINVAL,
	       "an initiator with an SRQ is refused");
	initiator.srq = NULL;
	initiator.rq = ring;
	TAP_OK(xt_qp_create(h->engine, &initiator, &qp) == -EINVAL,
	       "an initiator with an RQ is refused");
	free(ring);
	h_free(h);
}

static void test_masks(void)
{
	struct harness *h = h_new(H_CQE);
	struct xt_path path = h_path(0, 0);
	struct xr_qp_attr attr;
	struct h_qp from, to;
	uint32_t mask;

	create(h, &from, XR_QPT_XRC_SEND);
	create(h, &to, XR_QPT_XRC_RECV);
	mask = mask_of(&from, XR_QPS_INIT, &attr);
	xt_qp_modify(from.qp, &attr, mask, NULL, 4096, 0);
	xt_qp_modify(to.qp, &attr, mask, NULL, 4096, 0);
	mask = h_attr(XR_QPS_RTR, &attr);
	TAP_OK(xt_qp_modify(from.qp, &attr, mask, &path, 4096, 0) == -EINVAL &&
		       !xt_qp_modify(to.qp, &attr, mask, &path, 4096, 0),
	       "RTR: only a target takes responder attributes");
	mask = mask_of(&from, XR_QPS_RTR, &attr);
	xt_qp_modify(from.qp, &attr, mask, &path, 4096, 0);
	mask = h_attr(XR_QPS_RTS, &attr);
	TAP_OK(xt_qp_modify(to.qp, &attr, mask, NULL, 4096, 0) == -EINVAL &&
		       !xt_qp_modify(from.qp, &attr, mask, NULL, 4096, 0),
	       "RTS: only an initiator takes requester attributes");
	mask = mask_of(&to, XR_QPS_RTS, &attr);
	TAP_OK(!xt_qp_modify(to.qp, &attr, mask, NULL, 4096, 0) && state_of(&to) == XR_QPS_RTS,
	       "a target without an SQ enters RTS");
	TAP_OK(!h_modify(&to, XR_QPS_SQD) && !h_modify(&to, XR_QPS_ERR) &&
		       !h_modify(&to, XR_QPS_RESET),
	       "a target enters SQD, ERR and RESET");
	xt_qp_destroy(from.qp);
	xt_qp_destroy(to.qp);
	free(from.sq);
	h_free(h);
}

static void test_send(bool local)
{
	struct pair *p = begin(local);
	const char *path = local ? "loopback" : "packets";
	struct xr_cqe cqe;

	memset(memory, 0x5a, 3000);
	h_post_to(p->a.ring, DEPTH, 1, BASE + 10000, 4000, key_a);
	h_post_to(p->b.ring, DEPTH, 2, BASE + 20000, 4000, key_b);
	post(p, XR_WR_SEND, 3000, p->b.xt.number);
	TAP_OK(!sent_status(p) && received(&p->b, &cqe) && cqe.wr_id == 2 && !cqe.status &&
		       cqe.byte_len == 3000 && cqe.qpn == p->to.qpn && cqe.srqn == p->b.xt.number &&
		       !memcmp(memory, memory + 20000, 3000),
	       "%s: SEND to one SRQ uses the PD of the SRQ", path);
	post(p, XR_WR_SEND_WITH_IMM, 10, p->a.xt.number)->imm_data = 99;
	TAP_OK(!sent_status(p) && received(&p->a, &cqe) && cqe.wr_id == 1 && cqe.imm_data == 99 &&
		       !received(&p->b, &cqe),
	       "%s: the same target receives a SEND to another SRQ", path);
	if (!local)
		TAP_OK(p->first_opcode == (XR_CLASS_XRC | XR_OP_SEND_FIRST) &&
			       p->first_srqn == p->b.xt.number &&
			       p->last_ack == XR_AETH_CREDITS_INVALID,
		       "%s: the XRCETH has the SRQ number; ACKs have no credits", path);
	post(p, XR_WR_SEND, 10, p->a.xt.number);
	TAP_OK(sent_status(p) == IBV_WC_RNR_RETRY_EXC_ERR && state_of(&p->to) == XR_QPS_RTS,
	       "%s: SEND without a receive: RNR NAK", path);
	end(p);
}

static void test_rdma(bool local)
{
	struct pair *p = begin(local);
	const char *path = local ? "loopback" : "packets";
	struct xr_cqe cqe;
	uint64_t word = 41;

	memset(memory, 0x77, 5000);
	post(p, XR_WR_RDMA_WRITE, 5000, p->a.xt.number);
	TAP_OK(!sent_status(p) && !memcmp(memory, memory + 32768, 5000), "%s: WRITE", path);
	h_post_to(p->b.ring, DEPTH, 5, BASE + 20000, 0, key_b);
	post(p, XR_WR_RDMA_WRITE_WITH_IMM, 2000, p->b.xt.number)->rkey = key_b;
	TAP_OK(!sent_status(p) && received(&p->b, &cqe) && cqe.wr_id == 5 &&
		       cqe.opcode == IBV_WC_RECV_RDMA_WITH_IMM && cqe.byte_len == 2000,
	       "%s: a WRITE with immediate data may use an R_Key of the SRQ's PD", path);
	memset(memory + 32768, 0x33, 4000);
	post(p, XR_WR_RDMA_READ, 4000, p->a.xt.number);
	TAP_OK(!sent_status(p) && !memcmp(memory, memory + 32768, 4000), "%s: READ", path);
	memcpy(memory + 32768, &word, 8);
	post(p, XR_WR_ATOMIC_FETCH_AND_ADD, 8, p->a.xt.number)->atomic.compare_add = 1;
	TAP_OK(!sent_status(p) && memory[32768] == 42 && memory[0] == 41, "%s: atomic", path);
	post(p, XR_WR_RDMA_READ, 100, p->b.xt.number);
	TAP_OK(sent_status(p) == IBV_WC_REM_ACCESS_ERR && state_of(&p->to) == XR_QPS_ERR &&
		       p->h->events[IBV_EVENT_QP_ACCESS_ERR] == 1,
	       "%s: an R_Key of another SRQ's PD is refused", path);
	end(p);
}

static void test_invalidate(bool local)
{
	struct pair *p = begin(local);
	struct xr_cqe cqe;

	mr_b.key->entry.flags = XR_KEYF_FAST;
	h_post_to(p->a.ring, DEPTH, 1, BASE + 10000, 100, key_a);
	post(p, XR_WR_SEND_WITH_INV, 10, p->a.xt.number)->invalidate_rkey = key_b;
	TAP_OK(sent_status(p) && received(&p->a, &cqe) && cqe.status == IBV_WC_REM_INV_REQ_ERR &&
		       mr_b.key->entry.state == XR_KEY_VALID,
	       "%s: an R_Key of another SRQ's PD is not invalidated",
	       local ? "loopback" : "packets");
	end(p);
	p = begin(local);
	mr_b.key->entry.flags = XR_KEYF_FAST;
	h_post_to(p->b.ring, DEPTH, 2, BASE + 20000, 100, key_b);
	post(p, XR_WR_SEND_WITH_INV, 10, p->b.xt.number)->invalidate_rkey = key_b;
	TAP_OK(!sent_status(p) && received(&p->b, &cqe) && cqe.invalidated_rkey == key_b &&
		       mr_b.key->entry.state == XR_KEY_FREE,
	       "%s: an R_Key of the SRQ's PD is invalidated", local ? "loopback" : "packets");
	end(p);
}

/* Requests to an SRQ of another XRC domain or a destroyed SRQ */
static void test_wrong_srq(bool local, uint8_t op)
{
	struct pair *p = begin(local);
	uint32_t number = p->a.xt.number;

	h_post_to(p->foreign.ring, DEPTH, 1, BASE, 100, key_a);
	post(p, op, 10, p->foreign.xt.number);
	TAP_OK(sent_status(p) == IBV_WC_REM_INV_REQ_ERR && state_of(&p->to) == XR_QPS_ERR &&
		       p->h->events[IBV_EVENT_QP_REQ_ERR] == 1,
	       "opcode %u, %s: an SRQ of another XRC domain is refused", op,
	       local ? "loopback" : "packets");
	end(p);
	p = begin(local);
	xt_numbers_del(p->h->shared.srqs, number);
	post(p, op, 10, number);
	TAP_OK(sent_status(p) == IBV_WC_REM_INV_REQ_ERR, "opcode %u: a destroyed SRQ is refused",
	       op);
	end(p);
}

/* Two packets of one message with different SRQ numbers */
static void test_srq_change(void)
{
	struct pair *p = begin(false);
	struct xt_request rq = {
		.op = XR_OP_SEND_FIRST,
		.flags = xr_opcodes[XR_CLASS_XRC | XR_OP_SEND_FIRST].flags,
		.len = 1024,
		.full = 1024,
		.packets = 1,
		.srqn = p->a.xt.number,
	};
	uint8_t data[1024] = { 0 };
	struct xt_seg seg = { data, sizeof(data) };
	struct xt_result res;
	struct xt_put put;
	struct xr_cqe cqe;

	rq.src.seg = &seg;
	rq.src.put = &put;
	xt_put_begin(&put, p->to.qp, XT_RESPONDER, 0);
	h_post_to(p->a.ring, DEPTH, 1, BASE + 10000, 4000, key_a);
	TAP_OK(xt_resp_request(p->to.qp, &rq, &res) == XT_ACCEPTED,
	       "the first packet of a message is accepted");
	rq.op = XR_OP_SEND_LAST;
	rq.flags = xr_opcodes[XR_CLASS_XRC | XR_OP_SEND_LAST].flags;
	rq.srqn = p->b.xt.number;
	TAP_OK(xt_resp_request(p->to.qp, &rq, &res) == XT_REFUSED &&
		       res.nak == XR_NAK_INVALID_REQUEST,
	       "a packet with another SRQ number is refused");
	xt_flush_failed(p->h->engine);
	TAP_OK(received(&p->a, &cqe) && cqe.status == IBV_WC_WR_FLUSH_ERR && cqe.wr_id == 1,
	       "the receive in use is flushed to the CQ of its SRQ");
	end(p);
}

static void test_srq_destroyed(void)
{
	struct pair *p = begin(false);
	struct xt_request rq = {
		.op = XR_OP_SEND_FIRST,
		.flags = xr_opcodes[XR_CLASS_XRC | XR_OP_SEND_FIRST].flags,
		.len = 1024,
		.full = 1024,
		.packets = 1,
		.srqn = p->a.xt.number,
	};
	uint8_t data[1024] = { 0 };
	struct xt_seg seg = { data, sizeof(data) };
	struct xt_result res;
	struct xt_put put;
	struct xr_cqe cqe;

	rq.src.seg = &seg;
	rq.src.put = &put;
	xt_put_begin(&put, p->to.qp, XT_RESPONDER, 0);
	h_post_to(p->a.ring, DEPTH, 1, BASE + 10000, 4000, key_a);
	xt_resp_request(p->to.qp, &rq, &res);
	xt_numbers_del(p->h->shared.srqs, p->a.xt.number);
	h_modify(&p->to, XR_QPS_ERR);
	TAP_OK(!received(&p->a, &cqe) && state_of(&p->to) == XR_QPS_ERR,
	       "no completion for a receive of an SRQ destroyed in the middle of a message");
	end(p);
}

int main(void)
{
	int local;

	test_creation();
	test_masks();
	for (local = 0; local < 2; local++) {
		test_send(local);
		test_rdma(local);
		test_invalidate(local);
		test_wrong_srq(local, XR_WR_SEND);
		test_wrong_srq(local, XR_WR_RDMA_READ);
		test_wrong_srq(local, XR_WR_RDMA_WRITE);
	}
	test_srq_change();
	test_srq_destroyed();
	return tap_end();
}
