// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Turns of clients (flow.h): what each client sends in a number of rounds, and how the engine's
 * window is divided. Time does not pass, so all results are exact.
 */
#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "harness.h"
#include "selftests/lib/tap.h"

#define MAX_QPS 31
#define FIRST_QPN 0x100000 /* destination of QP i is FIRST_QPN + i */
#define MEMORY (1u << 20)
#define BASE 0x10000
#define MTU 1024
#define LONG_NS 1000000000 /* after which flows no longer compete */
#define HEADERS (14 + 20 + XR_UDP_HLEN + XR_BTH_HLEN)

struct client {
	struct xt_flow flow;
	unsigned first, n; /* QPs */
};

struct bench {
	struct harness *h;
	struct h_qp q[MAX_QPS];
	unsigned qps;
	uint64_t packets[MAX_QPS], bytes[MAX_QPS];
	struct h_mr mr;
	uint32_t key;
};

static uint8_t memory[MEMORY];

static void begin(struct bench *b)
{
	struct xt_tuning t = XT_TUNING_DEFAULT;

	memset(b, 0, sizeof(*b));
	b->h = h_new(4 * H_CQE);
	t.first_window = 0;
	t.uc_rate = 0; /* QPs that have no window and no rate send as fast as their turns allow */
	xt_engine_tune(b->h->engine, &t);
	b->key = h_reg(b->h, &b->mr, memory, MEMORY, BASE);
}

static void end(struct bench *b, struct client *c, unsigned clients)
{
	while (b->qps)
		h_destroy(&b->q[--b->qps]);
	for (unsigned i = 0; i < clients; i++)
		xt_flow_end(&c[i].flow);
	h_free(b->h);
}

static void add_client(struct bench *b, struct client *c, unsigned n, uint32_t type)
{
	struct xt_path path = h_path(0, 0);
	struct xr_qp_attr attr;
	uint32_t mask;

	xt_flow_init(&c->flow, b->h->engine);
	c->first = b->qps;
	c->n = n;
	for (unsigned i = 0; i < n; i++, b->qps++) {
		struct h_qp *q = &b->q[b->qps];

		h_create_type(b->h, q, type);
		xt_qp_set_flow(q->qp, &c->flow);
		for (uint32_t to = XR_QPS_INIT; to <= XR_QPS_RTS; to++) {
			mask = h_attr(to, &attr);
			attr.dest_qp_num = FIRST_QPN + b->qps;
			if (type == XR_QPT_UC)
				mask &= ~(uint32_t)(IBV_QP_MAX_DEST_RD_ATOMIC |
						    IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
						    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						    IBV_QP_MAX_QP_RD_ATOMIC);
			if (xt_qp_modify(q->qp, &attr, mask, &path, 4096, b->h->now))
				abort();
		}
	}
}

/* Fills the send queues of a client with WRITEs. */
static void post_all(struct bench *b, const struct client *c, uint32_t len)
{
	for (unsigned i = c->first; i < c->first + c->n; i++) {
		while (b->q[i].sq->producer - b->q[i].sq->consumer < H_DEPTH) {
			struct xr_send_wqe *w = h_post_send(&b->q[i], i, XR_WR_RDMA_WRITE, BASE,
							    len, b->key);

			w->flags = 0;
			w->remote_addr = BASE;
			w->rkey = 0x100;
		}
		xt_qp_doorbell(b->q[i].qp, b->h->now);
	}
}

/* Runs one round and counts what each QP sent. Returns the number of packets. */
static unsigned run_round(struct bench *b)
{
	unsigned n, total = 0;

	b->h->sent_count = 0;
	xt_engine_run(b->h->engine, b->h->now);
	for (n = 0; n < b->h->sent_count; n++, total++) {
		const uint8_t *bth = b->h->sent[n].data + HEADERS - XR_BTH_HLEN;
		uint32_t i = (bth[5] << 16 | bth[6] << 8 | bth[7]) - FIRST_QPN;

		b->packets[i]++;
		b->bytes[i] += b->h->sent[n].len;
	}
	b->h->sent_count = 0;
	return total;
}

static uint64_t cost_of(const struct bench *b, const struct client *c)
{
	uint64_t cost = 0;

	for (unsigned i = c->first; i < c->first + c->n; i++)
		cost += b->bytes[i] + b->packets[i] * XT_PACKET_COST;
	return cost;
}

/*
 * The difference between two clients that always have something to send: one turn, and the budget
 * of one QP beyond the turn.
 */
static bool equal(uint64_t a, uint64_t b)
{
	uint64_t excess = XT_QP_BUDGET * (XT_PACKET_COST + 4096ull);

	return (a > b ? a - b : b - a) <= XT_QUANTUM + excess;
}

static void test_shares(uint32_t many_len, unsigned few, uint32_t few_len, const char *name)
{
	struct client c[2];
	struct bench b;
	uint64_t a, v;

	begin(&b);
	add_client(&b, &c[0], 20, XR_QPT_UC);
	add_client(&b, &c[1], few, XR_QPT_UC);
	for (unsigned i = 0; i < 200; i++) {
		post_all(&b, &c[0], many_len);
		post_all(&b, &c[1], few_len);
		run_round(&b);
	}
	a = cost_of(&b, &c[0]);
	v = cost_of(&b, &c[1]);
	TAP_OK(v && equal(a, v), "%s (%.3f)", name, (double)v / (double)(a + v));
	end(&b, c, 2);
}

static void test_within_client(void)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct client c;
	struct bench b;

	begin(&b);
	add_client(&b, &c, 20, XR_QPT_UC);
	for (unsigned i = 0; i < 200; i++) {
		post_all(&b, &c, MEMORY);
		run_round(&b);
	}
	for (unsigned i = 0; i < c.n; i++) {
		least = b.packets[i] < least ? b.packets[i] : least;
		most = b.packets[i] > most ? b.packets[i] : most;
	}
	TAP_OK(least && most - least <= XT_QP_BUDGET, "the QPs of a client have equal shares");
	end(&b, &c, 1);
}

static void test_sparse(void)
{
	struct client c[2];
	unsigned late = 0;
	struct bench b;

	begin(&b);
	add_client(&b, &c[0], 30, XR_QPT_UC);
	add_client(&b, &c[1], 1, XR_QPT_UC);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t before = b.packets[c[1].first];

		post_all(&b, &c[0], MEMORY);
		run_round(&b);
		h_post_send(&b.q[c[1].first], 1, XR_WR_RDMA_WRITE, BASE, 8, b.key)->flags = 0;
		xt_qp_doorbell(b.q[c[1].first].qp, b.h->now);
		run_round(&b);
		late += b.packets[c[1].first] == before;
	}
	TAP_OK(!late,
	       "a small message is sent in the next round beside 30 busy QPs of another client");
	end(&b, c, 2);
}

static void test_alone(void)
{
	struct client c[2];
	unsigned packets = 0;
	struct bench b;

	begin(&b);
	add_client(&b, &c[0], 1, XR_QPT_UC);
	add_client(&b, &c[1], 1, XR_QPT_UC);
	post_all(&b, &c[1], 8);
	while (run_round(&b))
		;
	b.h->now += LONG_NS;
	for (unsigned i = 0; i < 10; i++) {
		post_all(&b, &c[0], MEMORY);
		packets += run_round(&b);
	}
	TAP_OK(packets >= 10 * 7 * XT_QP_BUDGET,
	       "a client whose neighbour is idle fills each round");
	end(&b, c, 2);
}

/* The peers never respond, so each QP stops at its limit. */
static void test_window(void)
{
	struct xt_tuning t = { .window = 128, .engine_window = 256, .read_packets = 64 };
	struct client c[2];
	unsigned sent = 0, n;
	struct bench b;

	begin(&b);
	xt_engine_tune(b.h->engine, &t);
	add_client(&b, &c[0], 20, XR_QPT_RC);
	add_client(&b, &c[1], 1, XR_QPT_RC);
	post_all(&b, &c[0], MEMORY);
	while ((n = run_round(&b)))
		sent += n;
	TAP_OK(sent == 256, "20 QPs have the engine's window and no more (%u)", sent);
	n = 0;
	for (unsigned i = 0; i < c[0].n; i++)
		n += b.packets[i] > 0;
	TAP_OK(n >= 2 + 64 / 8, "a quarter of it is for QPs that have little in flight (%u)", n);
	post_all(&b, &c[1], MEMORY);
	while (run_round(&b))
		;
	TAP_OK(b.packets[20] == 128, "a QP of another client has its whole window");
	end(&b, c, 2);
}

/* Sets the checksum of an IPv4 header, whose field is 0. */
static void set_checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = sum >> 8;
	ip[11] = sum;
}

static void put24(uint8_t *p, uint32_t value)
{
	p[0] = value >> 16;
	p[1] = value >> 8;
	p[2] = value;
}

/*
 * Receives a packet for a QP, with an extended header of n bytes, at most 16. headers: of a packet
 * that one of the QPs has sent
 */
static void receive(struct bench *b, unsigned qp, const uint8_t *headers, uint8_t opcode,
		    uint32_t psn, const void *ext, uint32_t n)
{
	uint8_t data[HEADERS + 16 + XR_ICRC_LEN] = { 0 };
	uint8_t *ip = data + 14, *udp = ip + 20, *bth = udp + XR_UDP_HLEN;
	uint32_t len = HEADERS + n + XR_ICRC_LEN;
	struct xt_frame f = { .seg[0] = { data, len }, .nseg = 1, .len = len };

	memcpy(data, headers, HEADERS);
	memcpy(ip + 12, headers + 14 + 16, 4);
	memcpy(ip + 16, headers + 14 + 12, 4);
	ip[2] = udp[4] = ip[10] = ip[11] = 0;
	ip[3] = (uint8_t)(len - 14);
	udp[5] = (uint8_t)(len - 34);
	bth[0] = opcode;
	put24(bth + 5, b->q[qp].qpn);
	put24(bth + 9, psn);
	memcpy(data + HEADERS, ext, n);
	set_checksum(ip);
	xt_icrc_seal(f.seg, 1, 14, HEADERS - XR_BTH_HLEN);
	if (parse_frame(&f) != XR_OK)
		abort();
	xt_engine_rx(b->h->engine, &f, 1, b->h->now);
}

/* A READ request of 1 MiB for QP 0 */
static void receive_read(struct bench *b, const uint8_t *headers, uint32_t psn)
{
	struct xr_reth reth = { htobe64(BASE), htobe32(b->key), htobe32(MEMORY) };

	receive(b, 0, headers, XR_OP_READ_REQUEST, psn, &reth, sizeof(reth));
}

static void test_responses(void)
{
	struct client c[2];
	uint8_t headers[HEADERS];
	struct bench b;
	uint64_t a, v;

	begin(&b);
	add_client(&b, &c[0], 1, XR_QPT_RC);
	add_client(&b, &c[1], 1, XR_QPT_UC);
	h_post_send(&b.q[0], 1, XR_WR_RDMA_WRITE, BASE, 8, b.key);
	xt_qp_doorbell(b.q[0].qp, b.h->now);
	run_round(&b);
	memcpy(headers, b.h->sent[0].data, HEADERS);
	for (uint32_t i = 0; i < 3; i++)
		receive_read(&b, headers, i * (MEMORY / MTU));
	for (unsigned i = 0; i < 80; i++) {
		post_all(&b, &c[1], MEMORY);
		run_round(&b);
	}
	a = cost_of(&b, &c[0]);
	v = cost_of(&b, &c[1]);
	TAP_OK(b.packets[0] > 1000 && equal(a, v),
	       "READ responses count for the client of the responder (%.3f)",
	       (double)v / (double)(a + v));
	end(&b, c, 2);
}

static bool response_due(const struct xt_qp *qp)
{
	return (int32_t)(qp->req.ackreq_psn - qp->req.unacked) >= 0;
}

/*
 * The first packet of each QP is acknowledged. Those behind it fill the window of the client, long
 * before a QP has sent so many that it requests an ACK anyway.
 */
static void test_acks_due(void)
{
	static const uint8_t aeth[4] = { XR_AETH_ACK | XR_AETH_CREDITS_INVALID };
	struct xt_tuning t = { .window = 128, .engine_window = 128, .read_packets = 64 };
	uint8_t headers[HEADERS];
	unsigned waiting = 0, due = 0;
	struct client c;
	struct bench b;

	begin(&b);
	xt_engine_tune(b.h->engine, &t);
	add_client(&b, &c, 20, XR_QPT_RC);
	for (unsigned i = 0; i < c.n; i++) {
		h_post_send(&b.q[i], 1, XR_WR_RDMA_WRITE, BASE, 8, b.key);
		xt_qp_doorbell(b.q[i].qp, b.h->now);
	}
	run_round(&b);
	memcpy(headers, b.h->sent[0].data, HEADERS);
	for (unsigned i = 0; i < c.n; i++)
		receive(&b, i, headers, XR_OP_ACK, 0, aeth, sizeof(aeth));
	post_all(&b, &c, MEMORY);
	while (run_round(&b))
		;
	for (unsigned i = 0; i < c.n; i++) {
		waiting += b.packets[i] > 1;
		due += b.packets[i] > 1 && response_due(b.q[i].qp);
	}
	TAP_OK(waiting > 2 && due == waiting,
	       "each QP with packets in a full window has requested an ACK (%u of %u)", due,
	       waiting);
	end(&b, &c, 1);
}

#define CQS 64

/* Adds a completion of a client's QP to each of some CQs, all armed. */
static void complete_all(struct client *c, struct xt_cq *cq)
{
	static const struct xr_cqe cqe = { .status = IBV_WC_SUCCESS };

	for (unsigned i = 0; i < CQS; i++) {
		xt_cq_init(&cq[i], h_queue(4, sizeof(cqe)), 4);
		cq[i].queue->word = XR_ARM_ANY;
		xt_cq_push(&c->flow, &cq[i], &cqe, false);
	}
}

static void free_all(struct xt_cq *cq)
{
	for (unsigned i = 0; i < CQS; i++)
		free(cq[i].queue);
}

static void test_events(void)
{
	struct xt_cq cq[CQS];
	struct client c[2];
	unsigned at_once, rounds = 0;
	struct bench b;

	begin(&b);
	add_client(&b, &c[0], 1, XR_QPT_UC);
	add_client(&b, &c[1], 1, XR_QPT_UC);
	while (run_round(&b))
		;
	complete_all(&c[0], cq);
	at_once = b.h->cq_events;
	TAP_OK(at_once && at_once <= XT_QUANTUM / XT_EVENT_COST + 1,
	       "a client raises a turn's worth of events at once (%u)", at_once);
	while (b.h->cq_events < CQS && rounds++ < 100) {
		post_all(&b, &c[1], MEMORY);
		run_round(&b);
	}
	TAP_OK(b.h->cq_events == CQS && equal(CQS * XT_EVENT_COST, cost_of(&b, &c[1])),
	       "and the others in its turns, beside a client that sends (%.3f)",
	       CQS * XT_EVENT_COST / (double)(CQS * XT_EVENT_COST + cost_of(&b, &c[1])));
	free_all(cq);
	end(&b, c, 2);
}

static void test_late_events(void)
{
	struct xt_cq cq[CQS];
	struct client c;
	unsigned at_once;
	struct bench b;

	begin(&b);
	add_client(&b, &c, 1, XR_QPT_UC);
	while (run_round(&b))
		;
	complete_all(&c, cq);
	at_once = b.h->cq_events;
	TAP_OK(xt_cq_waits_in(&cq[CQS - 1]) == b.h->engine && !xt_cq_waits_in(&cq[0]),
	       "an event waits in its engine");
	for (unsigned i = 0; i < CQS - 1; i++)
		xt_cq_drop_waiting(b.h->engine, &cq[i]);
	run_round(&b);
	TAP_OK(b.h->cq_events == at_once + 1, "events of CQs that are freed are not raised");
	free_all(cq);
	complete_all(&c, cq);
	while (b.h->cq_events < at_once + 1 + CQS &&
	       xt_engine_run(b.h->engine, b.h->now) <= b.h->now)
		;
	TAP_OK(b.h->cq_events == at_once + 1 + CQS, "a client alone raises all its events");
	free_all(cq);
	end(&b, &c, 1);
}

/* The first client sends alone, then beside a second one that sends a little. */
static void test_short_rounds(void)
{
	struct client c[2];
	unsigned alone, beside;
	struct bench b;

	begin(&b);
	add_client(&b, &c[0], 20, XR_QPT_UC);
	add_client(&b, &c[1], 1, XR_QPT_UC);
	while (run_round(&b))
		;
	b.h->now += LONG_NS;
	post_all(&b, &c[0], MEMORY);
	alone = run_round(&b);
	post_all(&b, &c[1], 8);
	run_round(&b);
	beside = run_round(&b);
	TAP_OK(beside && beside < alone / 2,
	       "rounds are short while clients compete (%u, alone %u)", beside, alone);
	end(&b, c, 2);
}

/* The peers of the first client never respond. */
static void test_small_windows(void)
{
	struct client c[2];
	struct bench b;

	begin(&b);
	add_client(&b, &c[0], 20, XR_QPT_RC);
	add_client(&b, &c[1], 1, XR_QPT_UC);
	post_all(&b, &c[0], MEMORY);
	post_all(&b, &c[1], 8);
	while (run_round(&b))
		;
	TAP_OK(c[0].flow.inflight > 256 / 2 && c[0].flow.inflight <= 256,
	       "and so are windows (%u packets)", c[0].flow.inflight);
	b.h->now += LONG_NS / 100;
	post_all(&b, &c[0], MEMORY);
	for (unsigned i = c[0].first; i < c[0].first + c[0].n; i++)
		xt_activate(b.q[i].qp);
	while (run_round(&b))
		;
	TAP_OK(c[0].flow.inflight > 1024, "10 ms later they grow again (%u packets)",
	       c[0].flow.inflight);
	end(&b, c, 2);
}

#define MS 1000000u
#define FIRST_PROBE_MS 8 /* after the first packet, as no round trip was measured */
#define TIMEOUT_MS 60	 /* just before the timeout of h_attr() */

/* Returns the number of probes that a client without responses sends. */
static uint64_t probes_of(unsigned qps)
{
	struct client c;
	uint64_t probes;
	struct bench b;

	begin(&b);
	add_client(&b, &c, qps, XR_QPT_RC);
	post_all(&b, &c, 8);
	for (unsigned ms = 0; ms < TIMEOUT_MS; ms++, b.h->now += MS) {
		while (run_round(&b))
			;
	}
	probes = xt_engine_counters(b.h->engine)->tx_probes;
	if (xt_engine_counters(b.h->engine)->timeouts)
		abort();
	end(&b, &c, 1);
	return probes;
}

static void test_probes(void)
{
	uint64_t one = probes_of(1), many = probes_of(30);

	TAP_OK(one == 6,
	       "a QP asks for an overdue response after 8, 16, 24, 32, 40 and 56 ms (%lu)", one);
	TAP_OK(many && many <= TIMEOUT_MS / FIRST_PROBE_MS,
	       "30 QPs of a client do so one after the other (%lu probes)", many);
}

static unsigned flushed(struct bench *b)
{
	struct xr_cqe cqe;
	unsigned n = 0;

	while (h_poll(b->h, &cqe))
		n += cqe.status == IBV_WC_WR_FLUSH_ERR;
	return n;
}

/* A client needs only one store to post a queue full of work requests in ERR. */
static void test_flush(void)
{
	struct client c;
	struct bench b;
	unsigned first;

	begin(&b);
	add_client(&b, &c, 1, XR_QPT_RC);
	h_modify(&b.q[0], XR_QPS_ERR);
	b.q[0].sq->producer += H_DEPTH;
	b.q[0].rq->producer += H_DEPTH;
	xt_qp_doorbell(b.q[0].qp, b.h->now);
	first = flushed(&b);
	TAP_OK(first && first < H_DEPTH, "a doorbell in ERR flushes a part of the queues (%u)",
	       first);
	run_round(&b);
	TAP_OK(first + flushed(&b) == 2 * H_DEPTH, "the QP flushes the rest in its turn");
	TAP_OK(xt_engine_run(b.h->engine, b.h->now) == XT_NEVER, "then it has nothing left to do");
	end(&b, &c, 1);
}

int main(void)
{
	test_shares(MEMORY, 1, MEMORY, "20 QPs of a client and one of another get a half each");
	test_shares(8, 1, MEMORY, "20 QPs with small messages and one with large ones do, too");
	test_shares(MEMORY, 8, 8, "8 QPs with small messages and 20 with large ones do, too");
	test_within_client();
	test_sparse();
	test_alone();
	test_window();
	test_responses();
	test_acks_due();
	test_events();
	test_late_events();
	test_short_rounds();
	test_small_windows();
	test_probes();
	test_flush();
	return tap_end();
}
