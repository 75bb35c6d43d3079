/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Builds packets for one RC QP and checks the packets that it sends. */
#ifndef MADE_H
#define MADE_H

#include "harness.h"
#include "selftests/lib/ipv4.h"
#include "selftests/lib/tap.h"

#define BASE 0x200000
#define SIZE 65536
#define END (BASE + SIZE)
#define PSN 0xfffffe /* wraps soon */
#define MTU 1024
#define RD_ATOMIC 4

static uint8_t memory[SIZE];
static struct h_mr mr;
static uint32_t key;

/* Moves a QP from RESET to RTS. */
static void connect_qp(struct h_qp *q, uint32_t path_mtu)
{
	struct xt_path path = h_path(0, 0);
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = 0x123456;
		attr.rq_psn = attr.sq_psn = PSN;
		attr.max_rd_atomic = attr.max_dest_rd_atomic = RD_ATOMIC;
		attr.timeout = 10;
		attr.retry_cnt = 3;
		attr.rnr_retry = 2;
		attr.path_mtu = path_mtu;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, q->h->now);
	}
	if (err)
		TAP_OK(false, "connect: %d", err);
}

__attribute__((unused)) static struct harness *begin(struct h_qp *q)
{
	struct harness *h = h_new(H_CQE);
	int err = h_create(h, q);

	key = h_reg(h, &mr, memory, SIZE, BASE);
	if (err)
		TAP_OK(false, "create: %d", err);
	else
		connect_qp(q, IBV_MTU_1024);
	return h;
}

__attribute__((unused)) static void end(struct h_qp *q)
{
	struct harness *h = q->h;

	h_destroy(q);
	h_free(h);
}

/* ---- building packets ---------------------------------------------------- */

struct made {
	uint8_t opcode;
	int psn; /* relative to PSN */
	uint32_t payload;
	uint64_t va;
	uint32_t len; /* RETH */
	uint32_t feth;
	uint8_t syndrome;
	uint32_t msn;
	uint32_t key_xor;
	uint8_t fill; /* all bytes of the payload; 0: 0x77 */
};

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = v >> 8;
	p[1] = v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v);
}

static void put64(uint8_t *p, uint64_t v)
{
	put32(p, v >> 32);
	put32(p + 4, v);
}

static void put_ext(uint8_t *bth, const struct made *m)
{
	uint16_t flags = xr_opcodes[m->opcode].flags;
	uint8_t *p;

	if (flags & (XR_EXT_RETH | XR_EXT_ATOMICETH)) {
		p = bth + ext_off(flags, flags & XR_EXT_RETH ? XR_EXT_RETH : XR_EXT_ATOMICETH);
		put64(p, m->va);
		put32(p + 8, key ^ m->key_xor);
		if (flags & XR_EXT_RETH)
			put32(p + 12, m->len);
	}
	if (flags & XR_EXT_FETH)
		put32(bth + ext_off(flags, XR_EXT_FETH), m->feth);
	if (flags & XR_EXT_AETH)
		put32(bth + ext_off(flags, XR_EXT_AETH), (uint32_t)m->syndrome << 24 | m->msn);
}

#define S(op, ...)                                                                                 \
	{                                                                                          \
		.opcode = XR_OP_##op, __VA_ARGS__                                                  \
	}

struct packet {
	uint32_t len;
	uint8_t bytes[XT_MAX_FRAME + 16];
};

/* Builds an IPv4 packet from the QP's peer. */
static void make(const struct h_qp *q, const struct made *m, struct packet *packet)
{
	uint8_t *f = packet->bytes;
	uint32_t ext = xr_opcodes[m->opcode].ext_len, pad = -m->payload & 3;
	uint32_t len = 42 + XR_BTH_HLEN + ext + m->payload + pad + XR_ICRC_LEN;
	uint8_t *bth = f + 42;

	memset(packet, 0, sizeof(*packet));
	packet->len = len;
	put16(f + 12, 0x0800);
	f[14] = 0x45;
	put16(f + 16, len - 14);
	f[22] = 64;
	f[23] = 17;
	put32(f + 26, 0x0a000002);
	put32(f + 30, 0x0a000001);
	ipv4_seal(f + 14);
	put16(f + 36, XR_UDP_PORT);
	put16(f + 38, len - 34);
	bth[0] = m->opcode;
	bth[1] = XR_BTH_MIGREQ | pad << XR_BTH_PAD_SHIFT;
	put16(bth + 2, XR_DEFAULT_PKEY);
	put32(bth + 4, q->qpn);
	put32(bth + 8, ((PSN + m->psn) & XR_PSN_MASK) | XR_BTH_ACKREQ);
	put_ext(bth, m);
	memset(bth + XR_BTH_HLEN + ext, m->fill ? m->fill : 0x77, m->payload);
	xt_icrc_seal(&(struct xt_seg){ f, len }, 1, 14, 42);
}

__attribute__((unused)) static void receive(struct h_qp *q, const struct made *m)
{
	static struct packet p;

	make(q, m, &p);
	h_receive(q->h, p.bytes, p.len);
}

/* A READ response with data; the READs, from PSN 0 on, have so many packets each. */
__attribute__((unused)) static void receive_response(struct h_qp *q, int psn, int packets)
{
	bool last = psn % packets == packets - 1;
	const struct made m = {
		.opcode = last ? XR_OP_READ_RESP_LAST : XR_OP_READ_RESP_MIDDLE,
		.psn = psn,
		.payload = MTU,
		.syndrome = XR_AETH_ACK | XR_AETH_CREDITS_INVALID,
	};

	receive(q, &m);
}

/* Receives a packet without running the engine, so that no response is sent yet. */
__attribute__((unused)) static void receive_only(struct h_qp *q, const struct made *m)
{
	static struct packet p;
	struct xt_frame f = { .nseg = 1 };

	make(q, m, &p);
	f.seg[0] = (struct xt_seg){ p.bytes, p.len };
	f.len = p.len;
	if (parse_frame(&f) == XR_OK)
		xt_engine_rx(q->h->engine, &f, 1, q->h->now);
}

/* ---- checking sent packets ----------------------------------------------- */

static const uint8_t *sent_bth(struct harness *h, unsigned i)
{
	return h->sent[i].data + 42;
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

__attribute__((unused)) static int sent_psn(struct harness *h, unsigned i)
{
	return xr_psn_diff(be32(sent_bth(h, i) + 8) & XR_PSN_MASK, PSN);
}

/* True if exactly one packet was sent: an ACK or NAK with this syndrome (0: any ACK) and PSN. */
__attribute__((unused)) static bool sent_ack(struct harness *h, uint8_t syndrome, int psn)
{
	const uint8_t *bth = sent_bth(h, 0);
	bool ok = h->sent_count == 1 && bth[0] == XR_OP_ACK && sent_psn(h, 0) == psn;
	uint8_t got = bth[XR_BTH_HLEN];

	ok = ok && (syndrome ? got == syndrome : (got & XR_AETH_TYPE_MASK) == XR_AETH_ACK);
	if (!ok)
		printf("# %u packets, opcode %02x, syndrome %02x, psn %+d\n", h->sent_count, bth[0],
		       got, sent_psn(h, 0));
	h->sent_count = 0;
	return ok;
}

/* True if an ACK of all packets before this PSN was sent, and a NAK that asks for it. */
__attribute__((unused)) static bool sent_ack_and_nak(struct harness *h, int psn)
{
	bool ok = h->sent_count == 2 && sent_bth(h, 0)[0] == XR_OP_ACK &&
		  sent_bth(h, 1)[0] == XR_OP_ACK && sent_psn(h, 0) == psn - 1 &&
		  sent_psn(h, 1) == psn;

	ok = ok && (sent_bth(h, 0)[XR_BTH_HLEN] & XR_AETH_TYPE_MASK) == XR_AETH_ACK &&
	     sent_bth(h, 1)[XR_BTH_HLEN] == (XR_AETH_NAK | XR_NAK_PSN_SEQUENCE);
	if (!ok)
		printf("# %u packets, psn %+d\n", h->sent_count, sent_psn(h, 0));
	h->sent_count = 0;
	return ok;
}

#endif /* MADE_H */
