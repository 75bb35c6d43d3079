// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loopback cases that the simulation does not cover: QPs connected to themselves, mismatched peers,
 * a CQ that is too small, corrupt rings.
 */
#include "daemon/transport/loopback/sends.h"
#include "harness.h"
#include "selftests/lib/tap.h"

#define BASE 0x100000
#define SIZE 65536

static uint8_t memory[SIZE];
static struct h_mr mr;
static uint32_t key;

/* Connects the QP by loopback to QP @to, and moves it to the state @last. */
static int connect_up_to(struct h_qp *q, uint32_t last, uint32_t to, uint32_t sq_psn,
			 uint32_t rq_psn)
{
	struct xt_path path = h_path(0x0a000001, 0x0a000001);
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	path.loopback = true;
	for (state = XR_QPS_INIT; state <= last && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = to;
		attr.sq_psn = sq_psn;
		attr.rq_psn = rq_psn;
		attr.timeout = 8;
		attr.retry_cnt = 2;
		attr.rnr_retry = 1;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, q->h->now);
	}
	return err;
}

static int connect(struct h_qp *q, uint32_t to, uint32_t sq_psn, uint32_t rq_psn)
{
	return connect_up_to(q, XR_QPS_RTS, to, sq_psn, rq_psn);
}

/* Rings the doorbell and runs the engine until it is idle. */
static void run_until_idle(struct h_qp *q)
{
	struct harness *h = q->h;
	uint64_t next;
	unsigned i;

	xt_qp_doorbell(q->qp, h->now);
	for (i = 0; i < 1000; i++) {
		next = xt_engine_run(h->engine, h->now);
		if (next == XT_NEVER)
			return;
		h->now = next > h->now ? next : h->now + 1000;
	}
}

static bool completes(struct harness *h, uint64_t wr_id, uint32_t status, uint32_t opcode)
{
	struct xr_cqe cqe;

	if (!h_poll(h, &cqe))
		return false;
	if (cqe.wr_id == wr_id && cqe.status == status && (status || cqe.opcode == opcode))
		return true;
	printf("# wr_id %llu status %u opcode %u\n", (unsigned long long)cqe.wr_id, cqe.status,
	       cqe.opcode);
	return false;
}

static struct harness *begin(struct h_qp *q, unsigned n, uint32_t cq_depth)
{
	struct harness *h = h_new(cq_depth);
	unsigned i;

	key = h_reg(h, &mr, memory, SIZE, BASE);
	for (i = 0; i < SIZE; i++)
		memory[i] = i * 7 + (i >> 8);
	for (i = 0; i < n; i++)
		h_create(h, &q[i]);
	return h;
}

static void end(struct h_qp *q, unsigned n)
{
	struct harness *h = q->h;

	while (n--)
		h_destroy(&q[n]);
	h_free(h);
}

static struct xr_send_wqe *post(struct h_qp *q, uint64_t wr_id, uint8_t opcode, uint32_t from,
				uint32_t to, uint32_t len)
{
	struct xr_send_wqe *w = h_post_send(q, wr_id, opcode, BASE + from, len, key);

	w->remote_addr = BASE + to;
	w->rkey = key;
	return w;
}

static void test_self(void)
{
	struct h_qp q;
	struct harness *h = begin(&q, 1, H_CQE);
	uint64_t word = 100, old;

	TAP_OK(!connect(&q, q.qpn, 0xfffffe, 0xfffffe), "a QP is connected to itself");
	h_post_recv(&q, 1, BASE + 40000, 6000, key);
	post(&q, 2, XR_WR_SEND, 0, 0, 5000);
	run_until_idle(&q);
	TAP_OK(completes(h, 1, 0, IBV_WC_RECV) && completes(h, 2, 0, IBV_WC_SEND) &&
		       !memcmp(memory, memory + 40000, 5000),
	       "SEND to itself");
	post(&q, 3, XR_WR_RDMA_WRITE, 0, 20000, 5001);
	post(&q, 4, XR_WR_RDMA_READ, 30000, 0, 4999);
	run_until_idle(&q);
	TAP_OK(completes(h, 3, 0, IBV_WC_RDMA_WRITE) && completes(h, 4, 0, IBV_WC_RDMA_READ) &&
		       !memcmp(memory, memory + 20000, 5001) &&
		       !memcmp(memory, memory + 30000, 4999),
	       "a QP can WRITE to and READ from itself");
	memcpy(memory + 50000, &word, 8);
	post(&q, 5, XR_WR_ATOMIC_FETCH_AND_ADD, 50008, 50000, 8)->atomic.compare_add = 11;
	run_until_idle(&q);
	memcpy(&word, memory + 50000, 8);
	memcpy(&old, memory + 50008, 8);
	TAP_OK(completes(h, 5, 0, IBV_WC_FETCH_ADD) && word == 111 && old == 100,
	       "a QP can send an atomic to itself");
	post(&q, 7, XR_WR_ATOMIC_WRITE, 80, 50016, 8);
	run_until_idle(&q);
	TAP_OK(completes(h, 7, 0, IBV_WC_ATOMIC_WRITE) && !memcmp(memory + 80, memory + 50016, 8),
	       "a QP can send an ATOMIC WRITE to itself");
	post(&q, 8, XR_WR_FLUSH, 0, 0, 8)->flush =
		(typeof(((struct xr_send_wqe *)0)->flush)){ 100, XR_FLUSH_GLOBAL, XR_FLUSH_RANGE };
	run_until_idle(&q);
	TAP_OK(completes(h, 8, 0, 8 /* IBV_WC_FLUSH */), "a QP can send a FLUSH to itself");
	post(&q, 6, XR_WR_SEND, 0, 0, 100);
	run_until_idle(&q);
	TAP_OK(completes(h, 6, IBV_WC_RNR_RETRY_EXC_ERR, 0),
	       "SEND to itself without a receive fails with RNR");
	end(&q, 1);
}

/* The QP is requester and responder of the refused request. */
static void test_self_refused(void)
{
	struct h_qp q;
	struct harness *h = begin(&q, 1, H_CQE);

	connect(&q, q.qpn, 5, 5);
	h_post_recv(&q, 1, BASE, 10, key);
	post(&q, 2, XR_WR_SEND, 0, 0, 100);
	post(&q, 3, XR_WR_SEND, 0, 0, 100);
	run_until_idle(&q);
	TAP_OK(completes(h, 1, IBV_WC_LOC_LEN_ERR, 0) && completes(h, 2, IBV_WC_WR_FLUSH_ERR, 0) &&
		       completes(h, 3, IBV_WC_WR_FLUSH_ERR, 0) && !h_poll(h, &(struct xr_cqe){ 0 }),
	       "SEND to itself longer than the receive: each WR completes once");
	end(&q, 1);
}

/* Mismatches that cause packets to be dropped on the wire fail in the same way by loopback. */
static void test_mismatch(void)
{
	static const struct row {
		const char *what;
		uint32_t sq_psn, rq_psn;
		int to; /* the peer's destination QP */
	} rows[] = {
		{ "the peer expects another PSN", 6, 5, 0 },
		{ "the peer expects a distant PSN", 0x800000, 5, 0 },
		{ "the peer is connected to another QP", 5, 5, 2 },
		{ "the peer is connected to itself", 5, 5, 1 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct h_qp q[3];
		struct harness *h = begin(q, 3, H_CQE);

		connect(&q[0], q[1].qpn, r->sq_psn, 9);
		connect(&q[1], q[r->to].qpn, 9, r->rq_psn);
		memset(memory + 1000, 0, 100);
		post(&q[0], 1, XR_WR_RDMA_WRITE, 0, 1000, 100);
		run_until_idle(&q[0]);
		TAP_OK(completes(h, 1, IBV_WC_RETRY_EXC_ERR, 0) && !memory[1001] && !memory[1099],
		       "%s", r->what);
		end(q, 3);
	}
}

/* IBTA 11.6.2: after an overrun the CQ is in error and the QP in ERR. */
static void test_overrun(void)
{
	struct h_qp q[2];
	struct harness *h = begin(q, 2, 4);
	unsigned i, done = 0;
	struct xr_cqe cqe;

	connect(&q[0], q[1].qpn, 5, 9);
	connect(&q[1], q[0].qpn, 9, 5);
	for (i = 0; i < 10; i++)
		post(&q[0], i, XR_WR_RDMA_WRITE, 0, 1000, 10);
	run_until_idle(&q[0]);
	TAP_OK(h->events[IBV_EVENT_CQ_ERR] == 1 && h->cq_errors == 1,
	       "a CQ overrun raises one CQ_ERR event");
	TAP_OK(xt_qp_info(q[0].qp)->state == XR_QPS_ERR && h->events[IBV_EVENT_QP_FATAL] == 1,
	       "the QP is in ERR with a QP_FATAL event");
	while (h_poll(h, &cqe))
		done += cqe.wr_id == done && !cqe.status;
	TAP_OK(done == 4, "completions before the overrun are kept");
	TAP_OK(q[0].sq->consumer == 10, "the send queue is consumed completely");
	end(q, 2);
}

/* A hostile program may write anything to its rings. Other QPs must not be affected. */
static void test_corrupt_rings(void)
{
	static const uint32_t jumps[] = { H_DEPTH + 1, 0x80000000, -1u, -5u };

	for (unsigned i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
		struct h_qp q[2];
		struct harness *h = begin(q, 2, H_CQE);

		connect(&q[0], q[1].qpn, 5, 9);
		connect(&q[1], q[0].qpn, 9, 5);
		q[1].rq->producer += jumps[i];
		post(&q[0], 1, XR_WR_SEND, 0, 0, 10);
		run_until_idle(&q[0]);
		TAP_OK(xt_qp_info(q[1].qp)->state == XR_QPS_ERR &&
			       h->events[IBV_EVENT_QP_FATAL] == 1,
		       "RQ producer index jumps by %d: the QP is in ERR", (int)jumps[i]);
		TAP_OK(completes(h, 1, IBV_WC_REM_OP_ERR, 0), "the peer's SEND fails");
		end(q, 2);

		h = begin(q, 2, H_CQE);
		connect(&q[0], q[1].qpn, 5, 9);
		connect(&q[1], q[0].qpn, 9, 5);
		q[0].sq->producer += jumps[i];
		run_until_idle(&q[0]);
		TAP_OK(xt_qp_info(q[0].qp)->state == XR_QPS_ERR &&
			       xt_qp_info(q[1].qp)->state == XR_QPS_RTS,
		       "SQ producer index jumps by %d: only this QP is in ERR", (int)jumps[i]);
		end(q, 2);
	}
}

/* WQEs with invalid fields */
static void test_bad_entries(void)
{
	static const struct row {
		const char *what;
		uint8_t opcode, flags;
		uint16_t num_sge;
		uint32_t inline_len, status;
	} rows[] = {
		{ "opcode 255", 255, 0, 1, 0, IBV_WC_LOC_QP_OP_ERR },
		{ "LOCAL_INV of key 0", XR_WR_LOCAL_INV, 0, 0, 0, IBV_WC_MW_BIND_ERR },
		{ "more SGEs than max_send_sge", XR_WR_SEND, 0, H_SGE + 1, 0,
		  IBV_WC_LOC_QP_OP_ERR },
		{ "65535 SGEs", XR_WR_SEND, 0, 65535, 0, IBV_WC_LOC_QP_OP_ERR },
		{ "too much inline data", XR_WR_SEND, XR_SEND_INLINE, 0, H_INLINE + 1,
		  IBV_WC_LOC_QP_OP_ERR },
		{ "4 GiB of inline data", XR_WR_SEND, XR_SEND_INLINE, 0, -1u,
		  IBV_WC_LOC_QP_OP_ERR },
		{ "READ with inline data", XR_WR_RDMA_READ, XR_SEND_INLINE, 0, 8,
		  IBV_WC_LOC_QP_OP_ERR },
		{ "atomic of length 0", XR_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 0, IBV_WC_LOC_LEN_ERR },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct xr_send_wqe *w;
		struct h_qp q[2];
		struct harness *h = begin(q, 2, H_CQE);

		connect(&q[0], q[1].qpn, 5, 9);
		connect(&q[1], q[0].qpn, 9, 5);
		w = post(&q[0], 1, r->opcode, 0, 1000, 8);
		w->flags |= r->flags;
		w->num_sge = r->num_sge;
		w->inline_len = r->inline_len;
		run_until_idle(&q[0]);
		TAP_OK(completes(h, 1, r->status, 0) && xt_qp_info(q[1].qp)->state == XR_QPS_RTS,
		       "%s", r->what);
		end(q, 2);
	}
}

/* More than 2^31 bytes (IBTA 9.7.7.1) */
static void test_too_long(void)
{
	struct h_qp q[2];
	struct harness *h = begin(q, 2, H_CQE);
	struct xr_send_wqe *w;
	struct xr_sge *sge;
	unsigned i;

	connect(&q[0], q[1].qpn, 5, 9);
	connect(&q[1], q[0].qpn, 9, 5);
	w = post(&q[0], 1, XR_WR_RDMA_WRITE, 0, 1000, 8);
	sge = (struct xr_sge *)(w + 1);
	for (i = 0; i < H_SGE; i++)
		sge[i] = (struct xr_sge){ BASE, -1u, key };
	w->num_sge = H_SGE;
	run_until_idle(&q[0]);
	TAP_OK(completes(h, 1, IBV_WC_LOC_LEN_ERR, 0), "a WRITE of 16 GiB is refused");
	end(q, 2);
}

/* ---- SENDs that are executed together ------------------------------------------------------ */

#define SENDS 10
#define TARGET 32768 /* of the first receive; each has 1000 bytes */

static bool receives(struct harness *h, uint64_t wr_id, uint32_t status, uint32_t len)
{
	struct xr_cqe cqe;

	return h_poll(h, &cqe) && cqe.is_recv && cqe.wr_id == wr_id && cqe.status == status &&
	       cqe.byte_len == len;
}

static bool arrived(unsigned i, uint32_t len)
{
	return !memcmp(memory + TARGET + i * 1000, memory + i * 100, len);
}

static struct harness *begin_sends(struct h_qp *q, unsigned posted)
{
	struct harness *h = begin(q, 2, H_CQE);
	unsigned i;

	connect(&q[0], q[1].qpn, 5, 9);
	connect(&q[1], q[0].qpn, 9, 5);
	memset(memory + TARGET, 0, SENDS * 1000);
	for (i = 0; i < posted; i++)
		h_post_recv(&q[1], 100 + i, BASE + TARGET + i * 1000, 1000, key);
	for (i = 0; i < SENDS; i++)
		post(&q[0], i, XR_WR_SEND, i * 100, 0, 500 + i);
	return h;
}

static struct xr_send_wqe *sent(struct h_qp *q, unsigned i)
{
	uint32_t stride = xr_send_stride(H_SGE, H_INLINE);

	return (void *)((uint8_t *)(q->sq + 1) + i * stride);
}

static void test_sends(void)
{
	struct xt_qp_stats from, to;
	struct h_qp q[2];
	struct harness *h = begin_sends(q, SENDS);
	bool ok = true;
	unsigned i;

	for (i = 0; i < SENDS; i++)
		sent(&q[0], i)->flags = i % 5 == 4 ? XR_SEND_SIGNALED : 0;
	run_until_idle(&q[0]);
	for (i = 0; i < SENDS; i++) {
		ok &= receives(h, 100 + i, 0, 500 + i) && arrived(i, 500 + i);
		ok &= !memory[TARGET + i * 1000 + 500 + i];
		ok &= i % 5 != 4 || completes(h, i, 0, IBV_WC_SEND);
	}
	TAP_OK(ok, "each SEND fills its receive; signalled ones complete behind it");
	TAP_OK(q[0].sq->consumer == SENDS && q[1].rq->consumer == SENDS, "both queues are free");
	xt_qp_stats(q[0].qp, &from);
	xt_qp_stats(q[1].qp, &to);
	TAP_OK(from.counters.tx_messages == SENDS && to.counters.rx_messages == SENDS &&
		       from.counters.tx_bytes == 500 * SENDS + 45 &&
		       to.counters.rx_bytes == from.counters.tx_bytes,
	       "messages and bytes are counted");
	/* the other direction, and operations that are executed one by one, use the same PSNs */
	h_post_recv(&q[0], 1, BASE + 60000, 100, key);
	h_post_recv(&q[1], 2, BASE + 61000, 100, key);
	post(&q[1], 3, XR_WR_SEND, 0, 0, 100);
	run_until_idle(&q[1]);
	post(&q[0], 4, XR_WR_RDMA_WRITE, 0, 62000, 3000);
	post(&q[0], 5, XR_WR_SEND, 200, 0, 100);
	run_until_idle(&q[0]);
	TAP_OK(receives(h, 1, 0, 100) && completes(h, 3, 0, IBV_WC_SEND) &&
		       completes(h, 4, 0, IBV_WC_RDMA_WRITE) && receives(h, 2, 0, 100) &&
		       completes(h, 5, 0, IBV_WC_SEND) && !memcmp(memory, memory + 62000, 3000) &&
		       !memcmp(memory + 200, memory + 61000, 100),
	       "what follows in both directions is executed");
	end(q, 2);
}

/* One of the SENDs is unusual: it must be found in its place, with those before it executed. */
static void test_unusual_sends(void)
{
	static const struct row {
		const char *what;
		uint8_t opcode, flags;
		uint16_t num_sge;
		uint32_t inline_len, len;
	} rows[] = {
		{ "a SEND with immediate data", XR_WR_SEND_WITH_IMM, 0, 1, 0, 505 },
		{ "a SEND without data", XR_WR_SEND, 0, 0, 0, 0 },
		{ "a SEND of two SGEs", XR_WR_SEND, 0, 2, 0, 535 },
		{ "a SEND with a fence", XR_WR_SEND, XR_SEND_FENCE, 1, 0, 505 },
		{ "a SEND of inline data", XR_WR_SEND, XR_SEND_INLINE, 0, 40, 40 },
		{ "a solicited SEND", XR_WR_SEND, XR_SEND_SOLICITED, 1, 0, 505 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct h_qp q[2];
		struct harness *h = begin_sends(q, SENDS);
		struct xr_send_wqe *w = sent(&q[0], 5);
		struct xr_sge *sge = (struct xr_sge *)(w + 1);
		bool ok = true;

		w->opcode = r->opcode;
		w->flags |= r->flags;
		w->num_sge = r->num_sge;
		w->inline_len = r->inline_len;
		sge[1] = (struct xr_sge){ BASE + 500 + 505, 30, key };
		if (r->flags & XR_SEND_INLINE)
			memcpy(sge, memory + 500, r->inline_len);
		run_until_idle(&q[0]);
		for (unsigned j = 0; j < SENDS; j++)
			ok &= receives(h, 100 + j, 0, j == 5 ? r->len : 500 + j) &&
			      completes(h, j, 0, IBV_WC_SEND) && arrived(j, j == 5 ? r->len : 500);
		TAP_OK(ok, "%s among others", r->what);
		end(q, 2);
	}
}

/* Returns true if SENDs [0, n) and their receives have completed. */
static bool executed(struct harness *h, unsigned n)
{
	bool ok = true;

	for (unsigned i = 0; i < n; i++)
		ok &= receives(h, 100 + i, 0, 500 + i) && completes(h, i, 0, IBV_WC_SEND) &&
		      arrived(i, 500 + i);
	return ok;
}

static void test_failing_sends(void)
{
	struct h_qp q[2];
	struct harness *h = begin_sends(q, SENDS);
	struct xr_sge *sge = (struct xr_sge *)(sent(&q[0], 5) + 1);

	sge->lkey ^= 1;
	run_until_idle(&q[0]);
	TAP_OK(executed(h, 5) && completes(h, 5, IBV_WC_LOC_PROT_ERR, 0) &&
		       completes(h, 6, IBV_WC_WR_FLUSH_ERR, 0) &&
		       xt_qp_info(q[1].qp)->state == XR_QPS_RTS,
	       "a SEND with an invalid L_Key fails behind those before it");
	end(q, 2);

	h = begin_sends(q, SENDS);
	sge = (struct xr_sge *)(sent(&q[0], 5) + 1);
	sge->addr = BASE + SIZE - sge->length + 1;
	run_until_idle(&q[0]);
	TAP_OK(executed(h, 5) && completes(h, 5, IBV_WC_LOC_PROT_ERR, 0),
	       "a SEND that ends behind its region fails behind those before it");
	end(q, 2);

	h = begin_sends(q, SENDS);
	sge = (struct xr_sge *)(sent(&q[0], 5) + 1);
	sge->length = 1001;
	run_until_idle(&q[0]);
	TAP_OK(executed(h, 5) && receives(h, 105, IBV_WC_LOC_LEN_ERR, 0) &&
		       xt_qp_info(q[1].qp)->state == XR_QPS_ERR,
	       "a SEND longer than its receive fails behind those before it");
	end(q, 2);

	h = begin_sends(q, 5);
	mr.seg.writable = false;
	h_post_recv(&q[1], 105, BASE + TARGET, 1000, key);
	run_until_idle(&q[0]);
	TAP_OK(receives(h, 100, IBV_WC_LOC_PROT_ERR, 0) && !memory[TARGET + 1],
	       "a SEND into memory that must not be written fails");
	end(q, 2);

	h = begin_sends(q, 5);
	xt_qp_doorbell(q[0].qp, h->now);
	xt_engine_run(h->engine, h->now);
	TAP_OK(executed(h, 5), "SENDs are executed as far as receives are posted");
	for (unsigned i = 5; i < SENDS; i++)
		h_post_recv(&q[1], 100 + i, BASE + TARGET + i * 1000, 1000, key);
	run_until_idle(&q[0]);
	TAP_OK(receives(h, 105, 0, 505) && completes(h, 5, 0, IBV_WC_SEND) && arrived(9, 509),
	       "the others follow when receives are posted");
	end(q, 2);
}

static uint64_t rnr_naks(struct h_qp *q)
{
	struct xt_qp_stats s;

	xt_qp_stats(q->qp, &s);
	return s.counters.rnr_naks_sent;
}

/* Runs the engine at each of its deadlines, at most `runs` times, until an RNR NAK is sent. */
static void run_until_nak(struct h_qp *from, struct h_qp *to, unsigned runs)
{
	struct harness *h = from->h;

	xt_qp_doorbell(from->qp, h->now);
	while (runs-- && !rnr_naks(to))
		h->now = xt_engine_run(h->engine, h->now);
}

/* A peer waits some time for a receive before it sends an RNR NAK. */
static void test_sends_wait(void)
{
	struct h_qp q[2];
	struct harness *h = begin_sends(q, 5);
	uint64_t begin = h->now;
	unsigned i;

	run_until_nak(&q[0], &q[1], 3);
	for (i = 5; i < 7; i++)
		h_post_recv(&q[1], 100 + i, BASE + TARGET + i * 1000, 1000, key);
	xt_engine_run(h->engine, h->now);
	TAP_OK(executed(h, 7) && !rnr_naks(&q[1]) && h->now - begin < 50000,
	       "receives that are posted soon are filled soon, without an RNR NAK");
	begin = h->now;
	run_until_nak(&q[0], &q[1], 20);
	TAP_OK(rnr_naks(&q[1]) == 1 && h->now - begin >= 250000,
	       "an RNR NAK is sent if no receive is posted for 250 us");
	h_post_recv(&q[1], 107, BASE + TARGET + 7000, 1000, key);
	run_until_idle(&q[0]);
	TAP_OK(receives(h, 107, 0, 507) && xt_qp_info(q[0].qp)->state == XR_QPS_ERR,
	       "without a receive after the last retry the QP is in ERR");
	end(q, 2);
}

/* The CQ has room for some completions of the receives only. */
static void test_sends_overrun(void)
{
	struct h_qp q[2];
	struct harness *h = begin(q, 2, 4);
	unsigned i, done = 0;
	struct xr_cqe cqe;

	connect(&q[0], q[1].qpn, 5, 9);
	connect(&q[1], q[0].qpn, 9, 5);
	for (i = 0; i < SENDS; i++) {
		h_post_recv(&q[1], i, BASE + TARGET, 1000, key);
		post(&q[0], i, XR_WR_SEND, 0, 0, 10)->flags = 0;
	}
	run_until_idle(&q[0]);
	while (h_poll(h, &cqe))
		done += cqe.is_recv && cqe.wr_id == done && !cqe.status;
	TAP_OK(done == 4 && h->events[IBV_EVENT_CQ_ERR] == 1 &&
		       xt_qp_info(q[0].qp)->state == XR_QPS_ERR &&
		       xt_qp_info(q[1].qp)->state == XR_QPS_ERR,
	       "SENDs that overrun the CQ of the receives: both QPs are in ERR");
	TAP_OK(q[0].sq->consumer == SENDS && q[1].rq->consumer == SENDS,
	       "both queues are consumed completely");
	end(q, 2);
}

/* One event for each arming, also if several completions are added together */
static void test_sends_armed(void)
{
	struct h_qp q[2];
	struct harness *h = begin_sends(q, SENDS);

	h->cq_ring->word = XR_ARM_ANY;
	run_until_idle(&q[0]);
	TAP_OK(h->cq_events == 1 && !h->cq_ring->word && executed(h, SENDS),
	       "SENDs raise one event of an armed CQ");
	end(q, 2);

	h = begin_sends(q, SENDS);
	h->cq_ring->word = XR_ARM_SOLICITED;
	sent(&q[0], 7)->flags |= XR_SEND_SOLICITED;
	run_until_idle(&q[0]);
	TAP_OK(h->cq_events == 1 && executed(h, SENDS), "... and for one that is solicited");
	end(q, 2);

	h = begin_sends(q, SENDS);
	h->cq_ring->word = XR_ARM_SOLICITED;
	h->arm_again = XR_ARM_ANY;
	sent(&q[0], SENDS - 1)->flags = XR_SEND_SOLICITED;
	run_until_idle(&q[0]);
	TAP_OK(h->cq_events == 2 && !h->cq_ring->word,
	       "a CQ that is armed behind the last completion raises an event for it");
	end(q, 2);
}

/* The receiving QP stays in RTR, as that of a program that only receives. */
static void test_sends_to_rtr(void)
{
	struct h_qp q[2];
	struct harness *h = begin(q, 2, H_CQE);
	unsigned i;

	connect(&q[0], q[1].qpn, 5, 9);
	connect_up_to(&q[1], XR_QPS_RTR, q[0].qpn, 9, 5);
	TAP_OK(!xt_loopback_sends_possible(q[0].qp, q[1].qp),
	       "the first SEND to a QP in RTR is executed alone");
	memset(memory + TARGET, 0, SENDS * 1000);
	for (i = 0; i < SENDS; i++) {
		h_post_recv(&q[1], 100 + i, BASE + TARGET + i * 1000, 1000, key);
		post(&q[0], i, XR_WR_SEND, i * 100, 0, 500 + i);
		if (!i)
			run_until_idle(&q[0]);
	}
	TAP_OK(xt_loopback_sends_possible(q[0].qp, q[1].qp), "... those behind it together");
	run_until_idle(&q[0]);
	TAP_OK(executed(h, SENDS) && h->events[IBV_EVENT_COMM_EST] == 1,
	       "SENDs to a QP in RTR raise one event");
	end(q, 2);
}

int main(void)
{
	test_self();
	test_self_refused();
	test_mismatch();
	test_overrun();
	test_corrupt_rings();
	test_bad_entries();
	test_too_long();
	test_sends();
	test_unusual_sends();
	test_failing_sends();
	test_sends_wait();
	test_sends_overrun();
	test_sends_armed();
	test_sends_to_rtr();
	return tap_end();
}
