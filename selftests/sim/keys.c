// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory windows, fast registration and integrity regions under loss, duplication, reordering,
 * corruption and delay. A peer with a key accesses exactly the memory of the key. After the key is
 * invalidated, no packet that the peer sent before accesses that memory, however late the packet
 * arrives.
 *
 *     keys [-n RUNS] [-s SEED]
 *
 * One engine has both QPs of an RC connection. In one use of a grant the owner posts a bind or a
 * registration and a SEND that announces the key, at once; the peer uses the key and announces the
 * end by a SEND, with or without Invalidate; the owner invalidates the key if the peer did not, and
 * writes to its memory. Several grants are active at the same time. At the end the peer uses an
 * invalid key, which must be refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "daemon/transport/memory/integrity.h"
#include "lossy.h"
#include "rng.h"
#include "selftests/lib/signatures.h"
#include "selftests/lib/tap.h"
#include "selftests/unit/harness.h"

#define GRANTS 3
#define PAGE 4096u
#define PAGES 8 /* of each grant */
#define AREA (PAGES * PAGE)
#define MAX_PIECES 400 /* of each grant of kind PIECES */
#define OPS 6	       /* maximum per use of a grant */
#define USES 12	       /* of each grant */
#define RECVS 32
#define BASE 0x10000000ull

enum kind { TYPE_1, TYPE_2, ZERO_BASED, FAST, PIECES, INTEGRITY, KINDS };

#define SG 5 /* INTEGRITY: pieces */

/* Bits 15:8 of a wr_id; bits 23:16 are the grant, bits 7:0 the operation */
enum wr { WR_GRANT, WR_ANNOUNCE, WR_INV, WR_OP, WR_DONE, WR_INVALID, WR_RECV_OWNER, WR_RECV_PEER };
#define WR_ID(wr, grant, op) ((uint64_t)(grant) << 16 | (wr) << 8 | (op))

enum state {
	IDLE,
	GRANTED, /* not yet announced to the peer */
	USED,
	ENDING, /* the owner's invalidation is posted */
	ENDED,
	FINISHED,
};

struct op {
	bool read, bad;	   /* bad: INTEGRITY: a WRITE with a wrong bit in its first block */
	uint32_t off, len; /* relative to the grant */
};

/* An integrity region: blocks from the start of the area */
struct blocks {
	struct xr_signature memory, wire;
	uint32_t block, in_memory, on_wire, n;
	uint64_t first_bad; /* offset of the first wrong block that was written; UINT64_MAX: none */
	struct xt_integrity in;
	struct xt_integrity_piece piece[SG];
	union {
		struct xr_integrity shared;
		uint8_t room[1024];
	};
};

struct grant {
	enum kind kind;
	enum state state;
	struct xt_key *key;
	unsigned uses;
	uint32_t from, len;    /* relative to the area; FAST: to the first page of the list */
	uint32_t order[PAGES]; /* FAST: order of the pages in the list */
	uint64_t va;
	uint32_t rkey;
	struct op op[OPS];
	unsigned ops, completed;
	bool remote; /* invalidated by the peer's SEND with Invalidate */
	bool peer_done, owner_notified;
	/* FAST, PIECES */
	uint64_t lists[XR_FAST_LISTS * 2 * MAX_PIECES];
	struct xt_mem_seg seg[2 * MAX_PIECES];
	struct xt_mem_piece piece[MAX_PIECES];
	uint16_t map[AREA]; /* PIECES: offset in the area of each byte */
	struct xt_mem mem;
	struct blocks b; /* INTEGRITY */
};

struct world {
	struct rng rng;
	struct harness *h;
	struct h_qp owner, peer;
	struct h_mr mr;
	uint32_t lkey;
	bool local;
	struct lossy net;
	struct grant grant[GRANTS];
	unsigned grants;
	bool invalid_sent, invalid_refused;
	uint8_t memory[GRANTS][AREA], model[GRANTS][AREA]; /* the owner's, actual and expected */
	uint8_t bytes[GRANTS][AREA];			   /* the peer's */
	unsigned used;
	const char *wrong;
};

static uint64_t address(const struct world *w, const void *p)
{
	return BASE + (uint64_t)((const uint8_t *)p - &w->memory[0][0]);
}

static unsigned index_of(const struct world *w, const struct grant *g)
{
	return (unsigned)(g - w->grant);
}

/* ---- memory of fast regions, accessed by address as in the daemon -------- */

static uint8_t *memory_at(struct world *w, uint64_t addr, size_t len)
{
	if (addr < BASE || addr + len > BASE + sizeof(w->memory))
		return NULL;
	return &w->memory[0][0] + (addr - BASE);
}

static struct world *current_world;

static int page_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		     size_t len)
{
	const uint8_t *p = memory_at(current_world, seg->addr + off, len);

	if (p)
		memcpy(dst, p, len);
	return p ? 0 : -1;
}

static int page_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		      const void *src, size_t len)
{
	uint8_t *p = memory_at(current_world, seg->addr + off, len);

	if (p)
		memcpy(p, src, len);
	return p ? 0 : -1;
}

static const struct xt_mem_ops no_ops;
static const struct xt_mem_ops page_ops = { .read = page_read, .write = page_write };

/* Returns the offset in the area of byte @off of the grant. */
static uint32_t area_offset(const struct grant *g, uint32_t off)
{
	if (g->kind == PIECES)
		return g->map[off];
	off += g->from;
	return g->kind == FAST ? g->order[off / PAGE] * PAGE + off % PAGE : off;
}

/* Compares bytes of the stream with what the blocks in the area must be on the wire. */
static bool same_blocks(const struct blocks *b, const uint8_t area[AREA], uint32_t off,
			uint32_t len, const uint8_t *bytes)
{
	uint8_t stream[XR_INTEGRITY_MAX_BLOCK + XT_SIG_MAX];
	uint32_t k = off / b->on_wire, pos = off % b->on_wire, n;

	for (; len; len -= n, bytes += n, pos = 0, k++) {
		memcpy(stream, area + k * b->in_memory, b->block);
		ref_pi(&b->wire, k, stream, b->block, stream + b->block);
		n = b->on_wire - pos < len ? b->on_wire - pos : len;
		if (memcmp(stream + pos, bytes, n))
			return false;
	}
	return true;
}

/* Stores whole blocks of the stream in an area, with the PI of memory. */
static void store_blocks(const struct blocks *b, uint8_t area[AREA], uint32_t off, uint32_t len,
			 const uint8_t *bytes)
{
	uint32_t k = off / b->on_wire;

	for (; len; len -= b->on_wire, bytes += b->on_wire, k++) {
		uint8_t *at = area + k * b->in_memory;

		memcpy(at, bytes, b->block);
		ref_pi(&b->memory, k, at, b->block, at + b->block);
	}
}

static bool same(struct world *w, const struct grant *g, const uint8_t area[AREA], uint32_t off,
		 uint32_t len, const uint8_t *bytes)
{
	if (g->kind == INTEGRITY)
		return same_blocks(&g->b, area, off, len, bytes + off);
	for (uint32_t i = 0; i < len; i++)
		if (area[area_offset(g, off + i)] != bytes[off + i])
			return false;
	return true;
}

/* ---- one use of a grant -------------------------------------------------- */

static void shuffle_pages(struct world *w, struct grant *g)
{
	for (unsigned i = 0; i < PAGES; i++)
		g->order[i] = i;
	for (unsigned i = PAGES - 1; i; i--) {
		unsigned j = (unsigned)rng_below(&w->rng, i + 1);
		uint32_t page = g->order[i];

		g->order[i] = g->order[j];
		g->order[j] = page;
	}
}

/* WRITEs are of whole blocks, because the peer makes their PI; becomes a READ if there is none. */
static void plan_blocks(struct world *w, const struct blocks *b, struct op *op)
{
	uint32_t first = (op->off + b->on_wire - 1) / b->on_wire;
	uint32_t end = (op->off + op->len) / b->on_wire;

	op->read = first >= end;
	if (op->read)
		return;
	op->off = first * b->on_wire;
	op->len = (end - first) * b->on_wire;
	op->bad = rng_chance(&w->rng, 20);
}

static void plan_ops(struct world *w, struct grant *g)
{
	uint32_t slice;

	g->ops = 1 + (unsigned)rng_below(&w->rng, OPS);
	slice = g->len / g->ops;
	for (unsigned i = 0; i < g->ops; i++) {
		struct op *op = &g->op[i];

		op->read = rng_below(&w->rng, 2);
		op->off = i * slice + (uint32_t)rng_below(&w->rng, slice);
		op->len = 1 + (uint32_t)rng_below(&w->rng, (i + 1) * slice - op->off);
		op->bad = false;
		if (g->kind == INTEGRITY && !op->read)
			plan_blocks(w, &g->b, op);
	}
}

static struct xr_send_wqe *post_bind(struct world *w, struct grant *g)
{
	unsigned i = index_of(w, g);
	struct xr_send_wqe *wqe = h_post_send(&w->owner, WR_ID(WR_GRANT, i, 0), XR_WR_BIND_MW, 0, 0,
					      0);

	wqe->bind.mw_rkey = g->rkey;
	g->rkey = XR_KEY(g->key->index, g->rkey + 1);
	wqe->bind.new_rkey = g->rkey;
	wqe->bind.mr_lkey = w->lkey;
	wqe->bind.access = XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE |
			   (g->kind == ZERO_BASED ? XR_ACCESS_ZERO_BASED : 0);
	wqe->remote_addr = address(w, w->memory[i]) + g->from;
	wqe->bind_len = g->len;
	g->va = g->kind == ZERO_BASED ? 0 : wqe->remote_addr;
	return wqe;
}

static struct xr_send_wqe *post_reg(struct world *w, struct grant *g)
{
	unsigned i = index_of(w, g), list = g->uses % XR_FAST_LISTS;
	struct xr_send_wqe *wqe = h_post_send(&w->owner, WR_ID(WR_GRANT, i, 0), XR_WR_REG_MR, 0, 0,
					      0);

	shuffle_pages(w, g);
	for (unsigned p = 0; p < PAGES; p++)
		g->lists[list * 2 * MAX_PIECES + p] = address(w, w->memory[i]) + g->order[p] * PAGE;
	g->from %= PAGE;
	g->va = (rng_next(&w->rng) >> 8 & ~(uint64_t)(PAGE - 1)) + g->from;
	g->rkey = XR_KEY(g->key->index, g->rkey + 1);
	wqe->reg.key = g->rkey;
	wqe->reg.access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE;
	wqe->reg.pages = PAGES;
	wqe->reg.list = (uint8_t)list;
	wqe->reg.page_shift = XR_FAST_SHIFT_MIN;
	wqe->remote_addr = g->va;
	wqe->bind_len = g->len;
	return wqe;
}

/* Cuts the area into pieces, short and long ones, and shuffles them. Returns their number. */
static uint32_t cut(struct world *w, uint32_t at[MAX_PIECES], uint32_t len[MAX_PIECES])
{
	uint32_t n = 0, off = 0, longest = 16u << rng_below(&w->rng, 9), i, j, tmp;

	for (; off < AREA && n < MAX_PIECES; n++, off += len[n - 1]) {
		at[n] = off;
		len[n] = 8 + (uint32_t)rng_below(&w->rng, longest);
		if (len[n] > AREA - off)
			len[n] = AREA - off;
	}
	for (i = n - 1; i; i--) {
		j = (uint32_t)rng_below(&w->rng, i + 1);
		tmp = at[i], at[i] = at[j], at[j] = tmp;
		tmp = len[i], len[i] = len[j], len[j] = tmp;
	}
	return n;
}

static struct xr_send_wqe *post_pieces(struct world *w, struct grant *g)
{
	uint32_t at[MAX_PIECES], len[MAX_PIECES], n = cut(w, at, len), total = 0, i, j;
	unsigned list = g->uses % XR_FAST_LISTS, index = index_of(w, g);
	uint64_t *entry = g->lists + list * 2 * MAX_PIECES;
	struct xr_send_wqe *wqe = h_post_send(&w->owner, WR_ID(WR_GRANT, index, 0), XR_WR_REG_MR, 0,
					      0, 0);

	for (i = 0; i < n; i++) {
		*entry++ = address(w, w->memory[index]) + at[i];
		*entry++ = len[i];
		for (j = 0; j < len[i]; j++)
			g->map[total++] = (uint16_t)(at[i] + j);
	}
	if (g->len > total)
		g->len = total;
	g->va = rng_next(&w->rng) >> 8;
	g->rkey = XR_KEY(g->key->index, g->rkey + 1);
	wqe->reg.key = g->rkey;
	wqe->reg.access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE;
	wqe->reg.pages = n;
	wqe->reg.list = (uint8_t)list;
	wqe->reg.page_shift = XR_FAST_PIECES;
	wqe->remote_addr = g->va;
	wqe->bind_len = g->len;
	return wqe;
}

static struct xr_signature a_signature(struct world *w, uint8_t type)
{
	struct xr_signature s = { .type = type,
				  .check = type ? XR_SIG_CHECK_GUARD : 0,
				  .app_mask = 0xffff,
				  .ref_tag = (uint32_t)rng_next(&w->rng),
				  .seed = (uint16_t)rng_next(&w->rng) };

	if (type == XR_SIG_DIF_1 || type == XR_SIG_DIF_2)
		s.check |= XR_SIG_CHECK_REF_TAG | XR_SIG_CHECK_APP_TAG;
	s.app_tag = (uint16_t)rng_below(&w->rng, 0xffff);
	return s;
}

/* Cuts the blocks into pieces that are in the area as they are. */
static void cut_blocks(struct world *w, struct grant *g, struct xr_integrity_list *l)
{
	uint32_t left = g->b.n * g->b.in_memory, off = 0, len;

	for (l->data_pieces = 0; left; left -= len, off += len) {
		len = l->data_pieces + 1 == SG ? left : 1 + (uint32_t)rng_below(&w->rng, left);
		l->piece[l->data_pieces++] = (struct xr_sge){
			address(w, w->memory[index_of(w, g)]) + off, len, w->lkey
		};
	}
}

/* Memory has no PI, or other PI than the wire, which is made anew. */
static struct xr_send_wqe *post_integrity(struct world *w, struct grant *g)
{
	static const uint8_t types[] = { XR_SIG_DIF_1, XR_SIG_DIF_2, XR_SIG_DIF_3, XR_SIG_CRC32 };
	static const uint16_t sizes[] = { 512, 520, 4096, 4104 };
	unsigned list = g->uses % XR_FAST_LISTS, i = index_of(w, g);
	struct xr_send_wqe *wqe = h_post_send(&w->owner, WR_ID(WR_GRANT, i, 0), XR_WR_REG_INTEGRITY,
					      0, 0, 0);
	struct xr_integrity_list *l = xr_integrity_list(&g->b.shared, list, SG);
	struct blocks *b = &g->b;

	b->memory = a_signature(w, rng_below(&w->rng, 2) ? XR_SIG_CRC32C : XR_SIG_NONE);
	b->wire = a_signature(w, types[rng_below(&w->rng, 4)]);
	b->block = sizes[rng_below(&w->rng, 4)];
	b->in_memory = b->block + xr_signature_len(b->memory.type);
	b->on_wire = b->block + xr_signature_len(b->wire.type);
	b->n = 1 + (uint32_t)rng_below(&w->rng, 20 * 512 / b->block);
	b->first_bad = UINT64_MAX;
	for (uint32_t k = 0; k < b->n; k++) {
		uint8_t *at = w->memory[i] + k * b->in_memory;

		ref_pi(&b->memory, k, at, b->block, at + b->block);
	}
	memcpy(w->model[i], w->memory[i], AREA);
	*l = (struct xr_integrity_list){ .memory = b->memory, .wire = b->wire, .block = b->block };
	cut_blocks(w, g, l);
	g->from = 0;
	g->len = b->n * b->on_wire;
	g->va = rng_next(&w->rng) >> 8;
	g->rkey = XR_KEY(g->key->index, g->rkey + 1);
	wqe->reg.key = g->rkey;
	wqe->reg.access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE;
	wqe->reg.list = (uint8_t)list;
	wqe->remote_addr = g->va;
	wqe->bind_len = g->len;
	return wqe;
}

/* Makes the key valid and announces it; the peer uses it as soon as it gets the announcement. */
static void grant(struct world *w, struct grant *g)
{
	unsigned i = index_of(w, g);
	struct xr_send_wqe *wqe;

	g->from = (uint32_t)rng_below(&w->rng, AREA - OPS);
	g->len = OPS + (uint32_t)rng_below(&w->rng, AREA - g->from - OPS + 1);
	wqe = g->kind == FAST	     ? post_reg(w, g)
	      : g->kind == PIECES    ? post_pieces(w, g)
	      : g->kind == INTEGRITY ? post_integrity(w, g)
				     : post_bind(w, g);
	if (rng_below(&w->rng, 2))
		wqe->flags = 0;
	plan_ops(w, g);
	g->remote = (g->kind == TYPE_2 || g->kind >= ZERO_BASED) && rng_below(&w->rng, 2);
	g->completed = 0;
	g->peer_done = g->owner_notified = false;
	g->uses++;
	g->state = GRANTED;
	h_post_send(&w->owner, WR_ID(WR_ANNOUNCE, i, 0), XR_WR_SEND_WITH_IMM, 0, 0, 0)->imm_data =
		htobe32(i);
}

/* Makes the PI of what the peer writes, and a wrong bit. */
static void make_blocks(struct blocks *b, const struct op *op, uint8_t *bytes)
{
	for (uint32_t off = op->off; off < op->off + op->len; off += b->on_wire) {
		uint8_t *at = bytes + (off - op->off);

		ref_pi(&b->wire, off / b->on_wire, at, b->block, at + b->block);
	}
	if (!op->bad)
		return;
	bytes[op->off % b->block] ^= 1;
	if (b->first_bad == UINT64_MAX)
		b->first_bad = op->off;
}

static void use(struct world *w, struct grant *g)
{
	unsigned i = index_of(w, g), n;
	struct xr_send_wqe *wqe;

	for (n = 0; n < g->ops; n++) {
		const struct op *op = &g->op[n];
		uint8_t *bytes = w->bytes[i] + op->off;

		rng_bytes(&w->rng, bytes, op->len);
		if (g->kind == INTEGRITY && !op->read)
			make_blocks(&g->b, op, bytes);
		wqe = h_post_send(&w->peer, WR_ID(WR_OP, i, n),
				  op->read ? XR_WR_RDMA_READ : XR_WR_RDMA_WRITE, address(w, bytes),
				  op->len, w->lkey);
		wqe->remote_addr = g->va + op->off;
		wqe->rkey = g->rkey;
	}
	wqe = h_post_send(&w->peer, WR_ID(WR_DONE, i, 0),
			  g->remote ? XR_WR_SEND_WITH_INV : XR_WR_SEND_WITH_IMM, 0, 0, 0);
	/* A retransmitted READ request must still find the key valid. */
	wqe->flags |= XR_SEND_FENCE;
	if (g->remote)
		wqe->invalidate_rkey = g->rkey;
	else
		wqe->imm_data = htobe32(i);
	g->state = USED;
}

/* A type 1 window is invalidated by a bind of length 0. */
static void invalidate(struct world *w, struct grant *g)
{
	unsigned i = index_of(w, g);
	struct xr_send_wqe *wqe = h_post_send(&w->owner, WR_ID(WR_INV, i, 0),
					      g->kind == TYPE_1 ? XR_WR_BIND_MW : XR_WR_LOCAL_INV,
					      0, 0, 0);

	if (g->kind == TYPE_1) {
		wqe->bind.mw_rkey = g->rkey;
		wqe->bind.new_rkey = g->rkey = XR_KEY(g->key->index, g->rkey + 1);
	} else {
		wqe->invalidate_rkey = g->rkey;
	}
	g->state = ENDING;
}

/* The owner writes to the memory; the peer must not change it any more. */
static void take_back(struct world *w, struct grant *g)
{
	unsigned i = index_of(w, g);

	CHECK(w, g->key->entry.state == XR_KEY_FREE, "the key is not free");
	CHECK(w, !memcmp(w->memory[i], w->model[i], AREA), "the memory has unexpected contents");
	if (g->kind == INTEGRITY)
		CHECK(w,
		      g->b.first_bad == UINT64_MAX
			      ? !g->b.shared.kind
			      : g->b.shared.kind && g->b.shared.offset == g->b.first_bad,
		      "a wrong block was not recorded, or a right one was");
	rng_bytes(&w->rng, w->memory[i], AREA);
	memcpy(w->model[i], w->memory[i], AREA);
	w->used++;
	g->state = g->uses < USES ? IDLE : FINISHED;
}

static void advance(struct world *w, struct grant *g)
{
	if (g->state == USED && g->peer_done && g->owner_notified) {
		CHECK(w, g->completed == g->ops,
		      "the peer's last SEND completed before its RDMA operations");
		if (g->remote) {
			g->state = ENDED;
		} else {
			invalidate(w, g);
			/* Post the next grant right after the invalidation. */
			if (g->uses < USES && rng_below(&w->rng, 2))
				grant(w, g);
		}
	}
	if (g->state == ENDED)
		take_back(w, g);
	if (g->state == IDLE && rng_below(&w->rng, 2))
		grant(w, g);
}

/* ---- completions --------------------------------------------------------- */

static void op_done(struct world *w, struct grant *g, unsigned n)
{
	const struct op *op = &g->op[n];
	unsigned i = index_of(w, g);

	CHECK(w, n == g->completed++, "operations complete out of order");
	if (op->read) {
		CHECK(w, same(w, g, w->model[i], op->off, op->len, w->bytes[i]),
		      "a READ returned wrong data");
		return;
	}
	if (g->kind == INTEGRITY) {
		store_blocks(&g->b, w->model[i], op->off, op->len, w->bytes[i] + op->off);
		return;
	}
	CHECK(w, same(w, g, w->memory[i], op->off, op->len, w->bytes[i]), "a WRITE did not arrive");
	for (uint32_t k = 0; k < op->len; k++)
		w->model[i][area_offset(g, op->off + k)] = w->bytes[i][op->off + k];
}

static struct grant *by_rkey(struct world *w, uint32_t rkey)
{
	for (unsigned i = 0; i < w->grants; i++)
		if (w->grant[i].rkey == rkey)
			return &w->grant[i];
	return NULL;
}

static void owner_notified(struct world *w, const struct xr_cqe *cqe)
{
	bool inv = cqe->wc_flags & IBV_WC_WITH_INV;
	struct grant *g = inv				       ? by_rkey(w, cqe->invalidated_rkey)
			  : be32toh(cqe->imm_data) < w->grants ? &w->grant[be32toh(cqe->imm_data)]
							       : NULL;

	CHECK(w, g && g->state == USED && g->remote == inv && !g->owner_notified,
	      "the owner received an unexpected SEND");
	if (!g || w->wrong)
		return;
	CHECK(w, !inv || g->key->entry.state == XR_KEY_FREE,
	      "the key is not free after remote invalidation");
	g->owner_notified = true;
}

static void peer_notified(struct world *w, const struct xr_cqe *cqe)
{
	uint32_t i = be32toh(cqe->imm_data);

	CHECK(w, i < w->grants && w->grant[i].state == GRANTED,
	      "unexpected announcement of a grant");
	if (!w->wrong)
		use(w, &w->grant[i]);
}

static void failed(struct world *w, const struct xr_cqe *cqe, unsigned wr)
{
	bool lossy = lossy_loses(&w->net);

	if (wr != WR_INVALID) {
		/*
		 * The owner's receive of the refused SEND with Invalidate. The owner's own WRs may
		 * still be unacknowledged.
		 */
		CHECK(w,
		      w->invalid_sent &&
			      (cqe->status == IBV_WC_WR_FLUSH_ERR ||
			       (wr == WR_RECV_OWNER && cqe->status == IBV_WC_REM_INV_REQ_ERR)),
		      "a completion with an error");
		CHECK(w, wr != WR_OP && wr != WR_DONE, "an operation or SEND of the peer failed");
		return;
	}
	CHECK(w,
	      cqe->status == IBV_WC_REM_ACCESS_ERR ||
		      (lossy && cqe->status == IBV_WC_RETRY_EXC_ERR),
	      "an invalid request completed with the wrong status");
	w->invalid_refused = true;
}

static void completed(struct world *w, const struct xr_cqe *cqe)
{
	unsigned wr = cqe->wr_id >> 8 & 0xff, i = cqe->wr_id >> 16 & 0xff;
	struct grant *g = &w->grant[i];

	if (cqe->status != IBV_WC_SUCCESS) {
		failed(w, cqe, wr);
		return;
	}
	switch (wr) {
	case WR_OP:
		op_done(w, g, cqe->wr_id & 0xff);
		break;
	case WR_DONE:
		g->peer_done = true;
		break;
	case WR_INV:
		/* The next use may have started. */
		if (g->state == ENDING)
			g->state = ENDED;
		break;
	case WR_INVALID:
		CHECK(w, false, "an invalid request succeeded");
		break;
	case WR_RECV_OWNER:
		owner_notified(w, cqe);
		h_post_recv(&w->owner, cqe->wr_id, 0, 0, 0);
		break;
	case WR_RECV_PEER:
		peer_notified(w, cqe);
		h_post_recv(&w->peer, cqe->wr_id, 0, 0, 0);
		break;
	}
}

static void poll(void *arg)
{
	struct world *w = arg;
	struct xr_cqe cqe;

	while (!w->wrong && h_poll(w->h, &cqe))
		completed(w, &cqe);
}

/* ---- a run --------------------------------------------------------------- */

static void bring_up(struct world *w, struct h_qp *q, const struct h_qp *to, uint32_t from_ip,
		     uint32_t to_ip)
{
	struct xt_path path = h_path(from_ip, to_ip);
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	path.loopback = w->local;
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = to->qpn;
		attr.sq_psn = attr.rq_psn = 0xffffe0;
		attr.timeout = 8;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, w->h->now);
	}
	CHECK(w, !err, "modify to RTS failed");
}

static void add_grant(struct world *w)
{
	struct grant *g = &w->grant[w->grants++];

	g->kind = (enum kind)rng_below(&w->rng, KINDS);
	g->key = xt_keys_alloc(w->h->shared.keys);
	g->key->entry.pd = 1;
	g->rkey = xt_key_value(g->key);
	if (g->kind < FAST) {
		g->key->entry.type = XR_KEY_MW;
		g->key->entry.flags = g->kind == TYPE_1 ? 0 : XR_KEYF_TYPE_2;
		return;
	}
	if (g->kind == INTEGRITY) {
		g->b.in = (struct xt_integrity){ .keys = w->h->shared.keys,
						 .shared = &g->b.shared,
						 .max_pieces = SG,
						 .piece = g->b.piece };
		g->mem = (struct xt_mem){ .ops = &no_ops, .integrity = &g->b.in };
		g->key->entry.type = XR_KEY_MR;
		g->key->entry.flags = XR_KEYF_INTEGRITY;
		g->key->mem = &g->mem;
		return;
	}
	g->mem = (struct xt_mem){ .ops = &page_ops, .seg = g->seg };
	g->key->entry.type = XR_KEY_MR;
	g->key->entry.flags = XR_KEYF_FAST;
	g->key->mem = &g->mem;
	g->key->pages = g->lists;
	g->key->max_pages = 2 * MAX_PIECES;
	g->key->piece = g->piece;
}

static void plan(struct world *w)
{
	unsigned grants = 1 + (unsigned)rng_below(&w->rng, GRANTS), i;

	w->local = rng_chance(&w->rng, 15);
	lossy_plan(&w->net, &w->rng);
	bring_up(w, &w->owner, &w->peer, 0x0a000001, w->local ? 0x0a000001 : 0x0a000002);
	bring_up(w, &w->peer, &w->owner, w->local ? 0x0a000001 : 0x0a000002, 0x0a000001);
	while (grants--)
		add_grant(w);
	rng_bytes(&w->rng, w->memory, sizeof(w->memory));
	memcpy(w->model, w->memory, sizeof(w->memory));
	for (i = 0; i < RECVS; i++) {
		h_post_recv(&w->owner, WR_ID(WR_RECV_OWNER, 0, 0), 0, 0, 0);
		h_post_recv(&w->peer, WR_ID(WR_RECV_PEER, 0, 0), 0, 0, 0);
	}
}

static bool all_ended(const struct world *w)
{
	for (unsigned i = 0; i < w->grants; i++)
		if (w->grant[i].state != FINISHED)
			return false;
	return true;
}

/* The peer uses a key that is no longer valid, or invalidates a key that it may not invalidate. */
static void post_invalid(struct world *w)
{
	static const uint8_t opcodes[] = {
		XR_WR_RDMA_WRITE,
		XR_WR_RDMA_READ,
		XR_WR_SEND_WITH_INV,
	};
	struct grant *g = &w->grant[rng_below(&w->rng, w->grants)];
	unsigned i = index_of(w, g);
	uint8_t opcode = opcodes[rng_below(&w->rng, 3)];
	struct xr_send_wqe *wqe = h_post_send(&w->peer, WR_ID(WR_INVALID, i, 0), opcode,
					      address(w, w->bytes[i]),
					      opcode == XR_WR_SEND_WITH_INV ? 0 : g->len, w->lkey);

	if (opcode == XR_WR_SEND_WITH_INV) {
		wqe->invalidate_rkey = g->rkey - 1;
	} else {
		wqe->remote_addr = g->va;
		wqe->rkey = g->rkey;
	}
	w->invalid_sent = true;
}

static void step(struct world *w)
{
	uint64_t next;
	unsigned i;

	for (i = 0; i < w->grants && !w->invalid_sent; i++)
		advance(w, &w->grant[i]);
	if (all_ended(w) && !w->invalid_sent)
		post_invalid(w);
	xt_qp_doorbell(w->owner.qp, w->h->now);
	xt_qp_doorbell(w->peer.qp, w->h->now);
	next = xt_engine_run(w->h->engine, w->h->now);
	poll(w);
	lossy_collect(&w->net, &w->rng, w->h);
	if (w->net.pooled || next < w->h->now + 1000)
		next = w->h->now + 1000;
	w->h->now = next == XT_NEVER ? w->h->now + 1000 : next;
	lossy_deliver(&w->net, &w->rng, w->h, poll, w);
}

static bool run(uint64_t seed, unsigned *used)
{
	struct world *w = current_world = calloc(1, sizeof(*w));
	unsigned steps;
	bool ok;

	w->rng.state = seed;
	w->h = h_new(H_CQE);
	CHECK(w, !h_create(w->h, &w->owner) && !h_create(w->h, &w->peer),
	      "creating the QPs failed");
	w->lkey = h_reg(w->h, &w->mr, w->memory,
			sizeof(w->memory) + sizeof(w->model) + sizeof(w->bytes), BASE);
	w->mr.key->entry.access |= XR_ACCESS_MW_BIND;
	plan(w);
	for (steps = 0; !w->wrong && !(w->invalid_refused && !w->net.pooled) && steps < 200000;
	     steps++)
		step(w);
	CHECK(w, w->invalid_refused, "posted WRs do not complete");
	CHECK(w, !memcmp(w->memory, w->model, sizeof(w->memory)),
	      "wrong memory contents at the end");
	ok = !w->wrong;
	if (!ok)
		printf("# seed %llu: %s; replay: keys -n 1 -s %llu\n", (unsigned long long)seed,
		       w->wrong, (unsigned long long)seed);
	*used += w->used;
	lossy_free(&w->net);
	h_destroy(&w->owner);
	h_destroy(&w->peer);
	h_free(w->h);
	free(w);
	return ok;
}

int main(int argc, char **argv)
{
	unsigned runs = 300, i, used = 0, bad = 0;
	uint64_t seed = 1;
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
		bad += !run(seed + i, &used);
	TAP_OK(!bad, "seeds %llu to %llu: %u grants are used and invalidated",
	       (unsigned long long)seed, (unsigned long long)(seed + runs - 1), used);
	return tap_end();
}
