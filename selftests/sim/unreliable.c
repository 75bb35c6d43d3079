// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * UC and UD under loss, duplication, reordering and corruption: what arrives is whole and was sent,
 * nothing else is written, and without faults all of it arrives, in order.
 *
 *     unreliable [-n RUNS] [-s SEED]
 *
 * One engine holds both ends of each flow; what it sends goes through a pool in which the faults
 * happen. A message begins with its number, the rest follows from that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rng.h"
#include "selftests/lib/tap.h"
#include "selftests/unit/harness.h"

#define FLOWS 4
#define SLOTS 16
#define LONGEST 8192
#define ROOM 6000		/* bytes of payload that a receive takes */
#define CANARY 64
#define SLOT (XR_GRH_LEN + LONGEST + CANARY)
#define MESSAGES 60
#define POOL 2048
#define BASE 0x10000000ull
#define QKEY 0x2468ace
#define FILL 0xa5

struct flow {
	uint32_t type, mtu;
	bool local;
	struct h_qp a, b;
	unsigned posted, sent;		/* messages; completed ones */
	unsigned recvs, received, next;	/* receives posted; completed; least number in order */
	bool hopeless[MESSAGES];	/* must not arrive */
	uint8_t kind[MESSAGES];
	uint32_t length[MESSAGES];
};

struct world {
	uint64_t seed;
	struct rng rng;
	struct harness *h;
	struct h_mr mr;
	uint32_t key;
	struct flow flow[FLOWS];
	unsigned flows;
	unsigned drop, dup, corrupt, shuffle;	/* percent */
	bool starve;			/* receives are not always there */
	struct h_frame *pool[POOL];
	unsigned pooled;
	/* of each flow: what is sent, what is received into, what is written to */
	uint8_t memory[FLOWS][3][SLOTS][SLOT];
	unsigned arrived, total;
	const char *wrong;
};

#define CHECK(w, cond, what)                                                                       \
	do {                                                                                       \
		if (!(cond) && !(w)->wrong)                                                        \
			(w)->wrong = what;                                                         \
	} while (0)

static uint64_t address(const struct world *w, const uint8_t *p)
{
	return BASE + (uint64_t)(p - &w->memory[0][0][0][0]);
}

/* ---- messages ------------------------------------------------------------------- */

static void pattern(uint8_t *p, uint32_t len, unsigned flow, unsigned number)
{
	uint32_t x = flow * 7919 + number * 104729 + 1, i;

	memcpy(p, &number, sizeof(number));
	for (i = sizeof(number); i < len; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = x >> 24;
	}
}

static bool is_pattern(const uint8_t *p, uint32_t len, unsigned flow, unsigned number)
{
	static uint8_t want[LONGEST];

	pattern(want, len, flow, number);
	return !memcmp(p, want, len);
}

static uint8_t kind_of(struct world *w, const struct flow *f)
{
	static const uint8_t kinds[] = {
		XR_WR_SEND, XR_WR_SEND_WITH_IMM, XR_WR_RDMA_WRITE_WITH_IMM, XR_WR_RDMA_WRITE,
	};

	return kinds[rng_below(&w->rng, f->type == XR_QPT_UC ? 4 : 2)];
}

static void post_message(struct world *w, unsigned i)
{
	struct flow *f = &w->flow[i];
	unsigned n = f->posted++;
	uint32_t longest = f->type == XR_QPT_UD ? f->mtu : LONGEST;
	uint32_t len = 4 + (uint32_t)rng_below(&w->rng, longest - 3);
	uint8_t *from = w->memory[i][0][n % SLOTS];
	struct xr_send_wqe *wqe;

	f->kind[n] = kind_of(w, f);
	f->length[n] = len;
	pattern(from, len, i, n);
	wqe = h_post_send(&f->a, n, f->kind[n], address(w, from), len, w->key);
	wqe->wr_id |= (uint64_t)i << 32;
	wqe->imm_data = htobe32(n);
	if (f->type == XR_QPT_UD) {
		wqe->ud.ah = i + 1;
		wqe->ud.remote_qpn = f->b.qpn;
		f->hopeless[n] = !rng_below(&w->rng, 8);
		wqe->ud.remote_qkey = QKEY ^ (f->hopeless[n] ? 5 : 0);
	} else if (f->kind[n] == XR_WR_RDMA_WRITE || f->kind[n] == XR_WR_RDMA_WRITE_WITH_IMM) {
		wqe->remote_addr = address(w, w->memory[i][2][n % SLOTS]);
		f->hopeless[n] = !rng_below(&w->rng, 8);
		wqe->rkey = w->key ^ (f->hopeless[n] ? 1 : 0);
	} else {
		f->hopeless[n] = len > ROOM;
	}
}

static void post_receives(struct world *w, unsigned i)
{
	struct flow *f = &w->flow[i];
	uint32_t room = f->type == XR_QPT_UD ? XR_GRH_LEN + f->mtu : ROOM;
	uint8_t *to;

	while (f->recvs - f->received < SLOTS && !(w->starve && rng_below(&w->rng, 2))) {
		to = w->memory[i][1][f->recvs % SLOTS];
		memset(to, FILL, SLOT);
		h_post_recv(&f->b, (uint64_t)i << 32 | 1ull << 31 | f->recvs, address(w, to), room,
			    w->key);
		f->recvs++;
	}
}

/* ---- completions ------------------------------------------------------------------ */

static void check_canary(struct world *w, const uint8_t *slot, uint32_t room)
{
	uint32_t i;

	for (i = room; i < SLOT; i++)
		CHECK(w, slot[i] == FILL, "bytes behind the receive were written");
}

static void check_arrival(struct world *w, unsigned i, unsigned n, const struct xr_cqe *cqe)
{
	struct flow *f = &w->flow[i];
	bool imm = f->kind[n] != XR_WR_SEND;

	CHECK(w, !f->hopeless[n], "a message arrived that must not");
	CHECK(w, !!(cqe->wc_flags & IBV_WC_WITH_IMM) == imm, "immediate data or none");
	CHECK(w, !imm || cqe->imm_data == htobe32(n), "immediate data");
	CHECK(w, cqe->src_qpn == f->a.qpn, "the sender's number");
	if (!w->dup && !w->shuffle) {
		CHECK(w, n >= f->next, "out of order");
		f->next = n + 1;
	}
	w->arrived++;
}

static void received(struct world *w, unsigned i, const struct xr_cqe *cqe)
{
	struct flow *f = &w->flow[i];
	const uint8_t *slot = w->memory[i][1][f->received++ % SLOTS];
	uint32_t grh = f->type == XR_QPT_UD ? XR_GRH_LEN : 0, len = cqe->byte_len - grh;
	unsigned n;

	check_canary(w, slot, f->type == XR_QPT_UD ? XR_GRH_LEN + f->mtu : ROOM);
	if (cqe->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		n = be32toh(cqe->imm_data);
		slot = w->memory[i][2][n % SLOTS];
	} else {
		slot += grh;
		memcpy(&n, slot, sizeof(n));
	}
	CHECK(w, n < f->posted && len == f->length[n], "no such message, or of that length");
	if (w->wrong)
		return;
	CHECK(w, is_pattern(slot, len, i, n), "the message is corrupt");
	CHECK(w, !grh || slot[-20] == 0x45, "no IPv4 header before the datagram");
	check_arrival(w, i, n, cqe);
}

static void poll(struct world *w)
{
	struct xr_cqe cqe;
	unsigned i;

	while (h_poll(w->h, &cqe)) {
		i = cqe.wr_id >> 32;
		CHECK(w, cqe.status == IBV_WC_SUCCESS, "a completion with an error");
		if (cqe.is_recv)
			received(w, i, &cqe);
		else
			CHECK(w, (uint32_t)cqe.wr_id == w->flow[i].sent++,
			      "sends complete out of order");
	}
}

/* ---- the network ------------------------------------------------------------------ */

static void to_pool(struct world *w, const struct h_frame *frame)
{
	struct h_frame *f;

	if (w->pooled == POOL)
		return;
	f = malloc(sizeof(*f));
	*f = *frame;
	/* behind the Ethernet header, which the ICRC does not cover */
	if (rng_below(&w->rng, 100) < w->corrupt)
		f->data[14 + rng_below(&w->rng, f->len - 14)] ^= 1 << rng_below(&w->rng, 8);
	w->pool[w->pooled++] = f;
}

static void collect(struct world *w)
{
	unsigned i, copies;

	for (i = 0; i < w->h->sent_count; i++) {
		copies = rng_below(&w->rng, 100) >= w->drop;
		copies += rng_below(&w->rng, 100) < w->dup;
		while (copies--)
			to_pool(w, &w->h->sent[i]);
	}
	w->h->sent_count = 0;
}

static void deliver(struct world *w)
{
	struct h_frame *f;
	unsigned i, j;

	for (i = 0; i < w->pooled; i++) {
		if (rng_below(&w->rng, 100) < w->shuffle) {
			j = i + (unsigned)rng_below(&w->rng, w->pooled - i);
			f = w->pool[i];
			w->pool[i] = w->pool[j];
			w->pool[j] = f;
		}
		h_receive(w->h, w->pool[i]->data, w->pool[i]->len);
		free(w->pool[i]);
		poll(w);
	}
	w->pooled = 0;
}

/* ---- a run -------------------------------------------------------------------------- */

static int bring_up(struct world *w, struct flow *f, struct h_qp *q, bool sender)
{
	static const uint32_t masks[2][4] = {
		{ 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, IBV_QP_SQ_PSN },
		{ 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN },
	};
	struct xt_path path = sender ? h_path(0x0a000001, 0x0a000002) :
				       h_path(0x0a000002, 0x0a000001);
	struct xr_qp_attr attr;
	uint32_t state;
	int err = 0;

	path.local = f->local;
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		h_attr(state, &attr);
		attr.path_mtu = (uint32_t)__builtin_ctz(f->mtu) - 7;
		attr.dest_qp_num = sender ? f->b.qpn : f->a.qpn;
		attr.sq_psn = attr.rq_psn = 0xfffff0;
		attr.qkey = QKEY;
		err = xt_qp_modify(q->qp, &attr,
				   IBV_QP_STATE | masks[f->type == XR_QPT_UD][state], &path,
				   f->mtu, w->h->now);
	}
	return err;
}

static void add_flow(struct world *w)
{
	struct xt_path path = h_path(0x0a000001, 0x0a000002);
	unsigned i = w->flows++;
	struct flow *f = &w->flow[i];

	f->type = rng_below(&w->rng, 2) ? XR_QPT_UC : XR_QPT_UD;
	f->mtu = 256u << rng_below(&w->rng, 5);
	path.local = f->local = !rng_below(&w->rng, 4);
	CHECK(w, !h_create_type(w->h, &f->a, f->type) && !h_create_type(w->h, &f->b, f->type),
	      "create");
	xt_ahs_set(w->h->ahs, i + 1, 1, &path);
	CHECK(w, !bring_up(w, f, &f->a, true) && !bring_up(w, f, &f->b, false), "bring up");
}

static void plan(struct world *w)
{
	bool faults = rng_below(&w->rng, 4);
	unsigned flows = 1 + (unsigned)rng_below(&w->rng, FLOWS);

	if (faults) {
		w->drop = (unsigned)rng_below(&w->rng, 20);
		w->dup = rng_below(&w->rng, 2) ? (unsigned)rng_below(&w->rng, 20) : 0;
		w->shuffle = rng_below(&w->rng, 2) ? (unsigned)rng_below(&w->rng, 20) : 0;
		w->corrupt = (unsigned)rng_below(&w->rng, 5);
		w->starve = !rng_below(&w->rng, 3);
	}
	while (flows--)
		add_flow(w);
}

static void turn(struct world *w)
{
	unsigned i, n;

	for (i = 0; i < w->flows; i++) {
		struct flow *f = &w->flow[i];

		post_receives(w, i);
		for (n = rng_below(&w->rng, 5); n && f->posted < MESSAGES &&
		     f->posted - f->sent < SLOTS; n--)
			post_message(w, i);
		xt_qp_doorbell(f->a.qp, w->h->now);
	}
	w->h->now += 1000;
	xt_engine_run(w->h->engine, w->h->now);
	poll(w);
	collect(w);
	deliver(w);
}

static bool busy(const struct world *w)
{
	unsigned i;

	for (i = 0; i < w->flows; i++)
		if (w->flow[i].sent < MESSAGES)
			return true;
	return false;
}

static void check_end(struct world *w)
{
	unsigned i, n, wanted = 0;

	for (i = 0; i < w->flows; i++)
		for (n = 0; n < MESSAGES; n++)
			wanted += !w->flow[i].hopeless[n] &&
				  w->flow[i].kind[n] != XR_WR_RDMA_WRITE;
	CHECK(w, w->drop || w->dup || w->shuffle || w->corrupt || w->starve ||
	      w->arrived == wanted, "without faults all must arrive");
	w->total += wanted;
}

static bool run(uint64_t seed, unsigned *arrived)
{
	struct world *w = calloc(1, sizeof(*w));
	unsigned i, turns;
	bool ok;

	w->seed = seed;
	w->rng.state = seed;
	w->h = h_new(H_CQE);
	w->key = h_reg(w->h, &w->mr, w->memory, sizeof(w->memory), BASE);
	plan(w);
	for (turns = 0; !w->wrong && busy(w) && turns < 10000; turns++)
		turn(w);
	CHECK(w, !busy(w), "sends do not complete");
	check_end(w);
	ok = !w->wrong;
	if (!ok)
		printf("# seed %llu: %s; again: unreliable -n 1 -s %llu\n",
		       (unsigned long long)seed, w->wrong, (unsigned long long)seed);
	*arrived += w->arrived;
	while (w->pooled)
		free(w->pool[--w->pooled]);
	for (i = 0; i < w->flows; i++) {
		h_destroy(&w->flow[i].a);
		h_destroy(&w->flow[i].b);
	}
	h_free(w->h);
	free(w);
	return ok;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1;
	unsigned runs = 300, i, arrived = 0, bad = 0;
	int c;

	while ((c = getopt(argc, argv, "n:s:")) != -1) {
		if (c == 'n')
			runs = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	for (i = 0; i < runs; i++)
		bad += !run(seed + i, &arrived);
	TAP_OK(!bad, "seeds %llu to %llu: %u messages arrived", (unsigned long long)seed,
	       (unsigned long long)(seed + runs - 1), arrived);
	return tap_end();
}
