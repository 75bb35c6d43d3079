// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fast registration by WRs and the reserved L_Key: checks and accessible memory */
#include "binding.h"
#include "selftests/lib/tap.h"

#define MAX_PAGES 4
#define PAGE 4096u

static uint64_t lists[XR_FAST_LISTS * MAX_PAGES];
static struct xt_mem_seg fast_seg[MAX_PAGES];
static struct xt_mem fast_mem;

/* Pages are accessed by their addresses, as in the daemon. */
static int page_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		     size_t len)
{
	if (seg->addr + off < BASE || seg->addr + off + len > BASE + SIZE)
		return -1;
	memcpy(dst, memory + (seg->addr + off - BASE), len);
	return 0;
}

static int page_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		      const void *src, size_t len)
{
	if (seg->addr + off < BASE || seg->addr + off + len > BASE + SIZE)
		return -1;
	memcpy(memory + (seg->addr + off - BASE), src, len);
	return 0;
}

static const struct xt_mem_ops page_ops = { .read = page_read, .write = page_write };

static struct xt_key *make_fast(struct world *w)
{
	struct xt_key *key = xt_keys_alloc(w->h->shared.keys);

	fast_mem = (struct xt_mem){ .ops = &page_ops, .seg = fast_seg };
	memset(lists, 0, sizeof(lists));
	key->entry.variant = 0;
	key->entry.pd = 1;
	key->entry.type = XR_KEY_MR;
	key->entry.flags = XR_KEYF_FAST;
	key->mem = &fast_mem;
	key->pages = lists;
	key->max_pages = MAX_PAGES;
	return key;
}

static struct xr_send_wqe *post_reg(struct world *w, uint64_t wr_id, const struct xt_key *key,
				    uint32_t variant, uint32_t list, uint64_t iova, uint64_t len)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[0], wr_id, XR_WR_REG_MR, 0, 0, 0);

	wqe->reg.key = XR_KEY(key->index, variant);
	wqe->reg.access = XR_ACCESS_LOCAL_WRITE | RW;
	wqe->reg.pages = MAX_PAGES;
	wqe->reg.list = list;
	wqe->reg.page_shift = XR_FAST_SHIFT_MIN;
	wqe->remote_addr = iova;
	wqe->bind_len = len;
	return wqe;
}

static void fill_list(unsigned list, const uint32_t pages[MAX_PAGES])
{
	for (unsigned i = 0; i < MAX_PAGES; i++)
		lists[list * MAX_PAGES + i] = BASE + pages[i] * PAGE;
}

#define IOVA 0x7000000123ull /* not page aligned */

static void test_register(void)
{
	static const struct row {
		const char *what;
		uint64_t iova, len;
		uint32_t pages, list, shift, access, pd, state, key_xor, misalign;
		enum xr_reason why;
	} rows[] = {
		{ "all pages", IOVA - 0x123, MAX_PAGES * PAGE, .why = 0 },
		{ "unaligned start", IOVA, MAX_PAGES * PAGE - 0x123, .why = 0 },
		{ "one byte", IOVA, 1, .pages = 1 },
		{ "second page list", IOVA, PAGE, .list = 1 },
		{ "one byte too long", IOVA, MAX_PAGES * PAGE - 0x122, .why = XR_KEY_RANGE },
		{ "no length", IOVA, 0, .why = XR_KEY_RANGE },
		{ "wraps around the address space", -4096ull, 4097, .why = XR_KEY_RANGE },
		{ "too many pages", IOVA, 1, .pages = MAX_PAGES + 1, .why = XR_KEY_RANGE },
		{ "nonexistent page list", IOVA, 1, .list = XR_FAST_LISTS, .why = XR_KEY_RANGE },
		{ "page size too small", IOVA, 1, .shift = 11, .why = XR_KEY_RANGE },
		{ "page shift too large", IOVA, 1, .shift = 200, .why = XR_KEY_RANGE },
		{ "unaligned page address", IOVA, PAGE, .misalign = 8, .why = XR_KEY_RANGE },
		{ "invalid access flag", IOVA, 1, .access = XR_ACCESS_ZERO_BASED,
		  .why = XR_KEY_ACCESS },
		{ "REMOTE_WRITE without LOCAL_WRITE", IOVA, 1, .access = XR_ACCESS_REMOTE_WRITE,
		  .why = XR_KEY_ACCESS },
		{ "another PD", IOVA, 1, .pd = 2, .why = XR_KEY_PD },
		{ "nonexistent key", IOVA, 1, .key_xor = 0x700, .why = XR_KEY_INDEX },
		{ "already registered", IOVA, 1, .state = XR_KEY_VALID, .why = XR_KEY_STATE },
		{ "being changed", IOVA, 1, .state = XR_KEY_INVALID, .why = XR_KEY_STATE },
	};
	static const uint32_t pages[MAX_PAGES] = { 6, 1, 2, 4 };

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct xr_cqe cqe = { 0 };
		struct xr_send_wqe *wqe;
		struct xt_key *key;
		struct world w;

		begin(&w);
		key = make_fast(&w);
		fill_list(r->list % XR_FAST_LISTS, pages);
		lists[1] += r->misalign;
		key->entry.state = r->state;
		if (r->pd)
			key->entry.pd = r->pd;
		wqe = post_reg(&w, 1, key, 0x77, r->list, r->iova, r->len);
		wqe->reg.key ^= r->key_xor;
		if (r->pages)
			wqe->reg.pages = r->pages;
		if (r->shift)
			wqe->reg.page_shift = r->shift;
		if (r->access)
			wqe->reg.access = r->access;
		run_until_idle(&w);
		status_of(&w, 1, &cqe);
		if (r->why)
			TAP_OK(cqe.status == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err == (XR_VERR_REGISTER | r->why << 8) &&
				       key->entry.state == r->state && !key->entry.variant,
			       "%s: refused to register: %s", path_name(), r->what);
		else
			TAP_OK(!cqe.status && cqe.opcode == IBV_WC_DRIVER1 &&
				       key->entry.state == XR_KEY_VALID &&
				       key->entry.variant == 0x77 && fast_mem.length == r->len &&
				       w.h->keys_changed == 1 && fast_mem.nseg <= 3,
			       "%s: register: %s", path_name(), r->what);
		end(&w);
	}
}

/* A WRITE is scattered over the pages in the order of the page list. */
static void test_register_use(void)
{
	static const uint32_t pages[MAX_PAGES] = { 6, 1, 2, 4 };
	const uint32_t len = 3 * PAGE, head = PAGE - 0x123;
	struct xt_key *key;
	struct world w;

	begin(&w);
	key = make_fast(&w);
	fill_list(0, pages);
	post_reg(&w, 1, key, 5, 0, IOVA, len);
	run_until_idle(&w);
	status_of(&w, 1, NULL);
	TAP_OK(!do_rdma(&w, XR_WR_RDMA_WRITE, IOVA, len, xt_key_value(key)) &&
		       !memcmp(memory + 6 * PAGE + 0x123, memory + 40000, head) &&
		       !memcmp(memory + PAGE, memory + 40000 + head, 2 * PAGE) &&
		       !memcmp(memory + 4 * PAGE, memory + 40000 + head + 2 * PAGE, 0x123),
	       "%s: a WRITE to a fast region is scattered over its pages", path_name());
	TAP_OK(do_rdma(&w, XR_WR_RDMA_WRITE, IOVA + 1, len, xt_key_value(key)) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "%s: a WRITE past the end of a fast region is refused", path_name());
	end(&w);

	begin(&w);
	key = make_fast(&w);
	lists[0] = 0x1000; /* not mapped */
	post_reg(&w, 1, key, 5, 0, 0x1000, PAGE)->reg.pages = 1;
	run_until_idle(&w);
	TAP_OK(!status_of(&w, 1, NULL) && do_rdma(&w, XR_WR_RDMA_READ, 0x1000, 8,
						  xt_key_value(key)) == IBV_WC_REM_OP_ERR,
	       "%s: an unmapped page of a fast region is a remote operational error", path_name());
	end(&w);
}

/*
 * Register, use, invalidate, register other pages under another variant: all posted at once.
 * Packets retransmitted after a loss still read the right memory, with or without a fence
 * (IBTA 10.6.5.1).
 */
static void test_register_pipeline(unsigned drop, bool fence)
{
	static const uint32_t pages[2][MAX_PAGES] = { { 6, 1, 2, 4 }, { 0, 3, 5, 7 } };
	struct xr_send_wqe *wqe;
	struct xt_key *key;
	struct world w;
	bool ok = true;
	unsigned i;

	begin(&w);
	key = make_fast(&w);
	for (i = 0; i < 2; i++) {
		fill_list(i, pages[i]);
		post_reg(&w, 3 * i, key, i + 1, i, IOVA, 2 * PAGE);
		/* WRITE from the fast region. */
		wqe = h_post_send(&w.q[0], 3 * i + 1, XR_WR_RDMA_WRITE, IOVA, 2 * PAGE,
				  XR_KEY(key->index, i + 1));
		wqe->remote_addr = BASE + 45000 + i * 10000;
		wqe->rkey = w.lkey;
		post_inv(&w, 0, 3 * i + 2, XR_WR_LOCAL_INV, XR_KEY(key->index, i + 1))->flags |=
			fence ? XR_SEND_FENCE : 0;
	}
	w.drop = drop;
	run_until_idle(&w);
	for (i = 0; i < 6; i++)
		ok &= !status_of(&w, i, NULL);
	TAP_OK(ok && key->entry.state == XR_KEY_FREE && key->entry.variant == 2 &&
		       !memcmp(memory + 45000, memory + 6 * PAGE + 0x123, PAGE - 0x123) &&
		       !memcmp(memory + 55000, memory + 0x123, PAGE - 0x123),
	       "%s: repeated registration in one queue%s, frame %u lost", path_name(),
	       fence ? ", fenced" : "", drop);
	end(&w);
}

/* ---- pieces without alignment ---------------------------------------------- */

#define PIECES 700

static uint64_t piece_lists[XR_FAST_LISTS * 2 * PIECES];
static struct xt_mem_seg piece_seg[2 * PIECES];
static struct xt_mem_piece pieces[PIECES];
static uint16_t piece_map[40000]; /* offset in memory of each byte of the region */

static struct xt_key *make_pieces(struct world *w)
{
	struct xt_key *key = make_fast(w);

	fast_mem.seg = piece_seg;
	memset(piece_lists, 0, sizeof(piece_lists));
	key->pages = piece_lists;
	key->max_pages = 2 * PIECES;
	key->piece = pieces;
	return key;
}

static struct xr_send_wqe *post_pieces(struct world *w, const struct xt_key *key, uint32_t n,
				       uint64_t len)
{
	struct xr_send_wqe *wqe = post_reg(w, 1, key, 0x77, 0, IOVA, len);

	wqe->reg.page_shift = XR_FAST_PIECES;
	wqe->reg.pages = n;
	return wqe;
}

static void test_pieces_register(void)
{
	static const struct {
		const char *what;
		uint32_t n, each;     /* pieces, and their length */
		uint64_t addr0, len0; /* of the first piece, if not 0 */
		uint64_t len;	      /* of the region; 0: of all pieces */
		uint32_t pages;	      /* if not 0: pieces in the work request */
		uint32_t segs;
		enum xr_reason why;
	} rows[] = {
		{ "one byte", 1, 1, .segs = 1 },
		{ "as many as fit", PIECES, 20, .segs = 7 },
		{ "groups of 256 of 4 bytes", 600, 4, .segs = 3 },
		{ "a group of 256 short ones, and no more", 256, 1, .segs = 1 },
		{ "pieces that no group can take", 3, 2049, .segs = 3 },
		{ "pieces that fill a group", 3, 2048, .segs = 3 },
		{ "the last one cut", 10, 100, .len = 950, .segs = 1 },
		{ "some not used", 10, 100, .len = 1, .segs = 1 },
		{ "257 short ones", 257, 3, .why = XR_KEY_RANGE },
		{ "one byte too long", 10, 100, .len = 1001, .why = XR_KEY_RANGE },
		{ "more than the list can hold", PIECES, 20, .pages = PIECES + 1,
		  .why = XR_KEY_RANGE },
		{ "2^31 pieces", PIECES, 20, .pages = 1u << 31, .why = XR_KEY_RANGE },
		{ "an empty one", 2, 0, .len = 1, .why = XR_KEY_RANGE },
		{ "an address beyond the limit", 1, 8, .addr0 = XR_PIECE_END, .len0 = 8,
		  .why = XR_KEY_RANGE },
		{ "an end beyond the limit", 1, 8, .addr0 = XR_PIECE_END - 8, .len0 = 9, .len = 8,
		  .why = XR_KEY_RANGE },
		{ "an end at the limit", 1, 8, .addr0 = XR_PIECE_END - 8, .len0 = 8, .segs = 1 },
		{ "one that wraps around", 1, 8, .addr0 = BASE, .len0 = UINT64_MAX, .len = 8,
		  .why = XR_KEY_RANGE },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t len = rows[i].len ? rows[i].len : (uint64_t)rows[i].n * rows[i].each;
		struct xr_cqe cqe = { 0 };
		struct xt_key *key;
		struct world w;

		begin(&w);
		key = make_pieces(&w);
		for (unsigned j = 0; j < rows[i].n; j++) {
			piece_lists[2 * j] = BASE + j * 3;
			piece_lists[2 * j + 1] = rows[i].each;
		}
		if (rows[i].addr0) {
			piece_lists[0] = rows[i].addr0;
			piece_lists[1] = rows[i].len0;
		}
		post_pieces(&w, key, rows[i].pages ? rows[i].pages : rows[i].n, len);
		run_until_idle(&w);
		status_of(&w, 1, &cqe);
		if (rows[i].why)
			TAP_OK(cqe.status == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err == (XR_VERR_REGISTER | rows[i].why << 8) &&
				       key->entry.state == XR_KEY_FREE,
			       "%s: pieces: refused: %s", path_name(), rows[i].what);
		else
			TAP_OK(!cqe.status && key->entry.state == XR_KEY_VALID &&
				       fast_mem.length == len && fast_mem.nseg == rows[i].segs,
			       "%s: pieces: %s: %u segments", path_name(), rows[i].what,
			       fast_mem.nseg);
		end(&w);
	}
}

/* Sets n pieces of mixed lengths below offset 40000 of memory, in no order. Returns their bytes. */
static uint32_t scatter_pieces(uint32_t n)
{
	static const uint8_t lengths[] = { 1, 77, 8, 3, 120, 16, 55, 9 };
	uint32_t total = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = i * 37 % n * 130 + i % 7, len = lengths[i % sizeof(lengths)];

		piece_lists[2 * i] = BASE + at;
		piece_lists[2 * i + 1] = len;
		for (uint32_t j = 0; j < len; j++)
			piece_map[total++] = (uint16_t)(at + j);
	}
	return total;
}

/* Compares bytes of the region with those of the peer. */
static bool pieces_have(uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (memory[piece_map[off + i]] != memory[40000 + i])
			return false;
	return true;
}

static void test_pieces_use(void)
{
	static const struct {
		uint32_t off, len;
	} rows[] = { { 0, 1 },	   { 0, 10000 }, { 1, 77 },	 { 1, 78 },
		     { 79, 5000 }, { 2047, 2 },	 { 2048, 4096 }, { 9990, 20 } };
	const uint32_t n = 300;
	uint8_t old[40000];
	struct xt_key *key;
	uint32_t total, wrong = 0;
	struct world w;

	begin(&w);
	key = make_pieces(&w);
	total = scatter_pieces(n);
	post_pieces(&w, key, n, total);
	run_until_idle(&w);
	TAP_OK(!status_of(&w, 1, NULL) && total > 10010, "%s: pieces: %u bytes in %u pieces",
	       path_name(), total, n);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t off = rows[i].off, len = rows[i].len;
		bool ok;

		memset(memory + 40000, (int)(i + 100), len);
		memcpy(old, memory, sizeof(old));
		ok = !do_rdma(&w, XR_WR_RDMA_WRITE, IOVA + off, len, xt_key_value(key)) &&
		     pieces_have(off, len);
		for (uint32_t j = 0; j < len; j++)
			old[piece_map[off + j]] = (uint8_t)(i + 100);
		wrong += memcmp(old, memory, sizeof(old)) != 0;
		for (uint32_t j = 0; j < len; j++)
			memory[piece_map[off + j]] = (uint8_t)(j * 7 + i);
		ok = ok && !do_rdma(&w, XR_WR_RDMA_READ, IOVA + off, len, xt_key_value(key)) &&
		     pieces_have(off, len);
		TAP_OK(ok, "%s: pieces: WRITE and READ of %u bytes at offset %u", path_name(), len,
		       off);
	}
	TAP_OK(!wrong, "%s: pieces: memory between the pieces is not changed", path_name());
	TAP_OK(do_rdma(&w, XR_WR_RDMA_READ, IOVA + total - 7, 8, xt_key_value(key)) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "%s: pieces: a READ past the end is refused", path_name());
	end(&w);
}

/* ---- the reserved L_Key -------------------------------------------------- */

static void test_reserved(void)
{
	static const struct row {
		const char *what;
		uint8_t opcode;	       /* of QP 0 */
		bool granted, receive; /* receive: used by the peer's receive */
		uint64_t addr;
		uint32_t len;
		int status;
		uint32_t verr;
	} rows[] = {
		{ "SEND", XR_WR_SEND, true, false, BASE + 3, 3000, 0, 0 },
		{ "WRITE", XR_WR_RDMA_WRITE, true, false, BASE + 3, 3000, 0, 0 },
		{ "READ", XR_WR_RDMA_READ, true, false, BASE + 3, 3000, 0, 0 },
		{ "receive", XR_WR_SEND, true, true, BASE + 30003, 3000, 0, 0 },
		{ "zero length", XR_WR_SEND, false, false, 0, 0, 0, 0 },
		{ "not granted", XR_WR_SEND, false, false, BASE, 8, IBV_WC_LOC_PROT_ERR,
		  XR_VERR_LKEY | XR_KEY_INDEX << 8 },
		{ "not granted, READ", XR_WR_RDMA_READ, false, false, BASE, 8, IBV_WC_LOC_PROT_ERR,
		  XR_VERR_LKEY | XR_KEY_INDEX << 8 },
		{ "not granted, receive", XR_WR_SEND, false, true, BASE, 8, IBV_WC_REM_OP_ERR, 0 },
		{ "unmapped address", XR_WR_SEND, true, false, BASE + SIZE, 8, IBV_WC_LOC_PROT_ERR,
		  XR_VERR_MEMORY },
		{ "wraps around the address space", XR_WR_SEND, true, false, -4ull, 8,
		  IBV_WC_LOC_PROT_ERR, XR_VERR_LKEY | XR_KEY_RANGE << 8 },
	};
	struct xt_mem_seg seg = { .len = UINT64_MAX, .writable = true };
	struct xt_mem all = { .ops = &page_ops, .length = UINT64_MAX, .nseg = 1, .seg = &seg };

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		uint32_t off = (uint32_t)(r->addr - BASE), lkey;
		struct xr_cqe cqe = { 0 };
		struct xr_send_wqe *wqe;
		struct world w;

		begin(&w);
		lkey = w.lkey;
		w.h->reserved_mem = r->granted ? &all : NULL;
		if (r->receive)
			h_post_recv(&w.q[1], 7, r->addr, r->len, XR_RESERVED_LKEY);
		else
			h_post_recv(&w.q[1], 7, BASE + 40000, 3000, lkey);
		wqe = h_post_send(&w.q[0], 9, r->opcode, r->receive ? BASE + 40000 : r->addr,
				  r->len, r->receive ? lkey : XR_RESERVED_LKEY);
		wqe->remote_addr = BASE + 40000;
		wqe->rkey = lkey;
		run_until_idle(&w);
		while (h_poll(w.h, &cqe) && cqe.wr_id != 9)
			;
		TAP_OK(cqe.wr_id == 9 && (int)cqe.status == r->status &&
			       (r->receive || cqe.vendor_err == r->verr) &&
			       (r->status || !r->len ||
				!memcmp(memory + off, memory + 40000, r->len)),
		       "%s: reserved L_Key: %s", path_name(), r->what);
		end(&w);
	}
}

/* The reserved L_Key is not an R_Key, and WRs cannot bind to it or invalidate it. */
static void test_reserved_elsewhere(void)
{
	struct xt_mem_seg seg = { .len = UINT64_MAX, .writable = true };
	struct xt_mem all = { .ops = &page_ops, .length = UINT64_MAX, .nseg = 1, .seg = &seg };
	struct xr_cqe cqe = { 0 };
	struct world w;
	unsigned i;

	for (i = 0; i < 4; i++) {
		begin(&w);
		w.h->reserved_mem = &all;
		make_window(&w, true);
		if (i < 2) {
			TAP_OK(do_rdma(&w, i ? XR_WR_RDMA_WRITE : XR_WR_RDMA_READ, BASE, 8,
				       XR_RESERVED_LKEY) == IBV_WC_REM_ACCESS_ERR,
			       "%s: reserved L_Key: refused as R_Key", path_name());
		} else {
			if (i == 2)
				post_bind(&w, 0, 9, 1, 0, 100, RW)->bind.mr_lkey = XR_RESERVED_LKEY;
			else
				post_inv(&w, 0, 9, XR_WR_LOCAL_INV, XR_RESERVED_LKEY);
			run_until_idle(&w);
			TAP_OK(status_of(&w, 9, &cqe) == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err >> 8 == XR_KEY_INDEX,
			       "%s: reserved L_Key: refused by %s", path_name(),
			       i == 2 ? "BIND_MW" : "LOCAL_INV");
		}
		end(&w);
	}
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		over_wire = i;
		test_register();
		test_register_use();
		test_pieces_register();
		test_pieces_use();
		for (unsigned drop = 0; drop <= 20 * over_wire; drop++) {
			test_register_pipeline(drop, true);
			test_register_pipeline(drop, false);
		}
		test_reserved();
		test_reserved_elsewhere();
	}
	return tap_end();
}
