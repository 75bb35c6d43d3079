/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tests of rdma_verify: every operation transfers data; every byte and every completion is checked.
 */
#include "rdma_verify.h"

#include <arpa/inet.h>
#include <inttypes.h>

/* Returns a message size, preferably close to a multiple of the path MTU. */
static uint32_t pick_size(struct verify *v, uint32_t max)
{
	uint32_t mtu = (uint32_t)v->mtu, n;

	switch (rnd(v) % 8) {
	case 0:
		n = (uint32_t)(rnd(v) % 16);
		break;
	case 1:
		n = mtu - 1 + (uint32_t)(rnd(v) % 3);
		break;
	case 2:
		n = (uint32_t)(rnd(v) % 40) * mtu;
		break;
	case 3:
		n = (uint32_t)(rnd(v) % 40) * mtu + 1;
		break;
	case 4:
		n = (uint32_t)(rnd(v) % max);
		break;
	default:
		n = (uint32_t)(rnd(v) % 65536);
		break;
	}
	return n > max ? max : n;
}

struct plan { /* of one transfer; equal on both sides */
	enum ibv_wr_opcode opcode;
	uint32_t len, sges, local, remote;
	uint64_t seed;
	uint32_t imm;
	bool is_inline, solicited;
};

static struct plan make_plan(struct verify *v, enum ibv_wr_opcode opcode)
{
	struct plan p = { .opcode = opcode };

	p.len = pick_size(v, v->size / 2 - 2 * GUARD);
	p.seed = rnd(v);
	p.imm = (uint32_t)rnd(v);
	p.sges = 1 + (uint32_t)(rnd(v) % MAX_SGE);
	p.is_inline = opcode != IBV_WR_RDMA_READ && p.len <= MAX_INLINE && rnd(v) % 2;
	p.local = GUARD + (uint32_t)(rnd(v) % GUARD);
	p.remote = GUARD + (uint32_t)(rnd(v) % GUARD);
	if (p.local + p.len > v->size - GUARD || p.remote + p.len > v->size - GUARD)
		p.local = p.remote = GUARD;
	return p;
}

/* Splits [at, at + len) into n SGEs, some of them empty. */
static int split(struct verify *v, struct ibv_sge *sge, uint32_t n, uint32_t at, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		uint32_t part = i + 1 == n ? len : len ? (uint32_t)(rnd(v) % (len + 1)) : 0;

		sge[i] = (struct ibv_sge){ (uintptr_t)v->buf + at, part, v->mr->lkey };
		at += part;
		len -= part;
	}
	return (int)n;
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

static bool active_transfer(struct verify *v, const struct plan *p)
{
	static const enum ibv_wc_opcode done[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	};
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr = { .wr_id = p->seed, .opcode = p->opcode, .sg_list = sge };
	struct ibv_wc wc;

	if (p->opcode != IBV_WR_RDMA_READ)
		fill_pattern(v->buf + p->local, p->len, (uint32_t)p->seed, 0);
	memcpy(v->want, v->buf, v->size);
	if (p->opcode == IBV_WR_RDMA_READ)
		fill_pattern(v->want + p->local, p->len, (uint32_t)p->seed, 0);
	wr.num_sge = split(v, sge, p->sges, p->local, p->len);
	wr.send_flags = IBV_SEND_SIGNALED | (p->is_inline ? (unsigned int)IBV_SEND_INLINE : 0);
	wr.imm_data = htonl(p->imm);
	wr.wr.rdma.remote_addr = v->peer.addr + p->remote;
	wr.wr.rdma.rkey = v->peer.rkey;
	if (!barrier(v) || !post(v, &wr) || !good_wc(v, &wc, done[p->opcode]))
		return false;
	if (wc.wr_id != p->seed)
		return fail(v, "completion has another wr_id");
	return same(v, "active side") && barrier(v);
}

static bool passive_transfer(struct verify *v, const struct plan *p)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_wc wc;
	bool takes_receive = is_send(p->opcode) || has_imm(p->opcode);

	if (p->opcode == IBV_WR_RDMA_READ)
		fill_pattern(v->buf + p->remote, p->len, (uint32_t)p->seed, 0);
	memcpy(v->want, v->buf, v->size);
	if (p->opcode != IBV_WR_RDMA_READ)
		fill_pattern(v->want + p->remote, p->len, (uint32_t)p->seed, 0);
	if (takes_receive && !post_recv(v, sge, split(v, sge, p->sges, p->remote, p->len), p->seed))
		return false;
	if (!barrier(v))
		return false;
	if (takes_receive) {
		if (!good_wc(v, &wc, is_send(p->opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM))
			return false;
		if (wc.byte_len != p->len)
			return fail(v, "byte_len is %u, not %u", wc.byte_len, p->len);
		if (has_imm(p->opcode) &&
		    (!(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data != htonl(p->imm)))
			return fail(v, "immediate data is wrong");
	}
	return barrier(v) && same(v, "passive side");
}

bool run_transfers(struct verify *v, enum ibv_wr_opcode opcode, uint32_t fixed_len)
{
	for (int i = 0; i < v->rounds; i++) {
		struct plan p = make_plan(v, opcode);
		uint64_t rng = v->rng; /* restored: the sides call rnd() differently */

		if (fixed_len != UINT32_MAX) {
			p.len = fixed_len;
			p.is_inline = p.is_inline && p.len <= MAX_INLINE;
		}
		if (!(v->host ? active_transfer(v, &p) : passive_transfer(v, &p)))
			return false;
		v->rng = rng;
	}
	return true;
}

void fill_buffer(struct verify *v)
{
	fill_pattern(v->buf, v->size, v->host ? 1 : 2, 0);
}

static bool data_test(struct verify *v, enum ibv_wr_opcode opcode, uint32_t fixed_len)
{
	fill_buffer(v);
	return connect_qp(v, ALL_ACCESS) && run_transfers(v, opcode, fixed_len);
}

static bool test_write(struct verify *v)
{
	return data_test(v, IBV_WR_RDMA_WRITE, UINT32_MAX);
}

static bool test_write_imm(struct verify *v)
{
	return data_test(v, IBV_WR_RDMA_WRITE_WITH_IMM, UINT32_MAX);
}

static bool test_send(struct verify *v)
{
	return data_test(v, IBV_WR_SEND, UINT32_MAX);
}

static bool test_send_imm(struct verify *v)
{
	return data_test(v, IBV_WR_SEND_WITH_IMM, UINT32_MAX);
}

static bool test_read(struct verify *v)
{
	return data_test(v, IBV_WR_RDMA_READ, UINT32_MAX);
}

static bool test_zero(struct verify *v)
{
	return data_test(v, IBV_WR_SEND, 0) && run_transfers(v, IBV_WR_RDMA_WRITE, 0) &&
	       run_transfers(v, IBV_WR_RDMA_READ, 0) &&
	       run_transfers(v, IBV_WR_RDMA_WRITE_WITH_IMM, 0);
}

static bool test_mixed(struct verify *v)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
						  IBV_WR_RDMA_WRITE_WITH_IMM };
	int rounds = v->rounds;
	bool ok = true;

	fill_buffer(v);
	if (!connect_qp(v, ALL_ACCESS))
		return false;
	v->rounds = 1;
	for (int i = 0; i < rounds && ok; i++)
		ok = run_transfers(v, ops[rnd(v) % 4], UINT32_MAX);
	v->rounds = rounds;
	return ok;
}

/* Posts a full send queue of work requests at once, unsignaled except the last one. */
static bool test_pipeline(struct verify *v)
{
	const uint32_t len = 3001;
	struct ibv_sge sge[DEPTH];
	struct ibv_send_wr wr[DEPTH];
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	memset(v->buf, 0, v->size);
	fill_pattern(v->host ? v->buf : v->want, DEPTH * len, 77, 0);
	if (!barrier(v))
		return false;
	for (uint32_t i = 0; v->host && i < DEPTH; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)v->buf + i * len, len, v->mr->lkey };
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < DEPTH ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i + 1 < DEPTH ? 0 : (unsigned int)IBV_SEND_SIGNALED,
			.wr.rdma = { v->peer.addr + i * len, v->peer.rkey },
		};
	}
	if (v->host && (!post(v, wr) || !good_wc(v, &wc, IBV_WC_RDMA_WRITE)))
		return false;
	if (!barrier(v))
		return false;
	if (!v->host && memcmp(v->buf, v->want, DEPTH * len))
		return fail(v, "data of %u queued WRITEs is wrong", DEPTH);
	return true;
}

static bool atomic(struct verify *v, enum ibv_wr_opcode opcode, uint64_t a, uint64_t b,
		   uint64_t *old)
{
	struct ibv_sge sge = { (uintptr_t)v->buf + GUARD, 8, v->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { v->peer.addr + 64, a, b, v->peer.rkey },
	};
	struct ibv_wc wc;

	if (!post(v, &wr) ||
	    !good_wc(v, &wc,
		     opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD))
		return false;
	memcpy(old, v->buf + GUARD, 8);
	return true;
}

static bool test_atomic(struct verify *v)
{
	uint64_t value = 1000, old = 0;

	memcpy(v->buf + 64, &value, 8);
	if (!connect_qp(v, ALL_ACCESS))
		return false;
	for (int i = 0; v->host && i < 5 * v->rounds; i++) {
		uint64_t add = rnd(v);

		if (!atomic(v, IBV_WR_ATOMIC_FETCH_AND_ADD, add, 0, &old))
			return false;
		if (old != value)
			return fail(v, "fetch and add returned %" PRIu64 ", not %" PRIu64, old,
				    value);
		value += add;
		if (!atomic(v, IBV_WR_ATOMIC_CMP_AND_SWP, i % 2 ? value : value + 1, 42, &old))
			return false;
		if (old != value)
			return fail(v, "compare and swap returned the wrong value");
		if (i % 2)
			value = 42;
	}
	v->me.addr = value; /* expected in the memory of the passive side */
	if (!xfer(v, &v->peer, &v->me, sizeof(v->me)))
		return false;
	if (!v->host && memcmp(v->buf + 64, &v->peer.addr, 8))
		return fail(v, "the value in memory is wrong after the atomics");
	return true;
}

/*
 * Each power of two up to the whole region, by the operations in turn, then the whole region by
 * each operation. For small messages, only the memory near them is compared.
 */
static bool test_sizes(struct verify *v)
{
	uint32_t whole = v->size;
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						  IBV_WR_RDMA_READ };
	uint32_t len = 1;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	fill_buffer(v);
	for (uint32_t i = 0; i < 26; i++) {
		struct plan p = {
			.opcode = ops[i % 3], .len = len, .sges = 1 + i % MAX_SGE, .seed = 1000 + i
		};
		uint64_t rng = v->rng;
		bool ok;

		v->size = len < MIN_SIZE ? MIN_SIZE : whole;
		ok = v->host ? active_transfer(v, &p) : passive_transfer(v, &p);
		v->size = whole;
		if (!ok)
			return false;
		v->rng = rng;
		if (len < whole)
			len *= 2;
	}
	return true;
}

const struct test verify_data[] = {
	{ "write", test_write, "RDMA WRITE transfers data" },
	{ "write-imm", test_write_imm, "RDMA WRITE with immediate transfers data" },
	{ "send", test_send, "SEND transfers data" },
	{ "send-imm", test_send_imm, "SEND with immediate transfers data" },
	{ "read", test_read, "RDMA READ transfers data" },
	{ "zero", test_zero, "operations of 0 bytes complete" },
	{ "mixed", test_mixed, "mixed operations transfer data" },
	{ "pipeline", test_pipeline, "a full queue of unsignaled WRITEs transfers data" },
	{ "atomic", test_atomic, "fetch and add, compare and swap change memory" },
	{ "sizes", test_sizes, "messages from 1 byte to the whole region arrive" },
	{ 0 },
};
