// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Work requests and packets that change keys: windows bound, used and refused, invalidation from
 * either side, their order among other work requests. Everything runs over the wire and the
 * direct way.
 */
#include "harness.h"
#include "selftests/lib/tap.h"

#define BASE 0x300000
#define SIZE 65536
#define FROM 1000		/* the window that most tests bind: [FROM, FROM + LEN) */
#define LEN 2000
#define QPS 3

/* QP 0 owns the memory and binds; QP 1 is its peer; QP 2 is another one of the owner. */
struct world {
	struct harness *h;
	struct h_qp q[QPS];
	struct h_mr mr;
	struct xt_key *window;
	uint32_t lkey;
	unsigned drop;		/* this frame from now on is lost; 0: none */
};

static uint8_t memory[SIZE], before[SIZE];
static bool over_wire;

static const char *way(void)
{
	return over_wire ? "wire" : "direct way";
}

static void connect(struct world *w, unsigned i, unsigned to)
{
	uint32_t from_ip = 0x0a000001, to_ip = over_wire ? 0x0a000002 : from_ip, state, mask;
	struct h_qp *q = &w->q[i];
	struct xr_qp_attr attr;
	struct xt_path path;
	int err = 0;

	path = i == 1 ? h_path(to_ip, from_ip) : h_path(from_ip, to_ip);
	path.local = !over_wire;
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = w->q[to].qpn;
		attr.sq_psn = i == 1 ? 9 : 5;
		attr.rq_psn = i == 1 ? 5 : 9;
		attr.timeout = 8;
		attr.retry_cnt = 3;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, w->h->now);
	}
	if (err)
		TAP_OK(false, "connect: %d", err);
}

static void begin(struct world *w)
{
	unsigned i;

	memset(w, 0, sizeof(*w));
	w->h = h_new(H_CQE);
	w->lkey = h_reg(w->h, &w->mr, memory, SIZE, BASE);
	w->mr.key->entry.access |= XR_ACCESS_MW_BIND;
	for (i = 0; i < SIZE; i++)
		memory[i] = i * 7 + (i >> 8);
	for (i = 0; i < QPS; i++)
		h_create(w->h, &w->q[i]);
	connect(w, 0, 1);
	connect(w, 1, 0);
	connect(w, 2, 1);
}

static void end(struct world *w)
{
	unsigned i;

	for (i = 0; i < QPS; i++)
		h_destroy(&w->q[i]);
	h_free(w->h);
}

static void make_window(struct world *w, bool type_2)
{
	w->window = xt_keys_alloc(w->h->shared.keys);
	w->window->entry.pd = 1;
	w->window->entry.type = XR_KEY_MW;
	w->window->entry.flags = type_2 ? XR_KEYF_TYPE_2 : 0;
}

/* What was sent arrives, but for one frame that may be lost. */
static bool deliver(struct world *w)
{
	static struct h_frame frames[H_FRAMES];
	unsigned n = w->h->sent_count, i;

	memcpy(frames, w->h->sent, n * sizeof(frames[0]));
	w->h->sent_count = 0;
	for (i = 0; i < n; i++) {
		struct xt_frame f = { .seg[0] = { frames[i].data, frames[i].len }, .nseg = 1,
				      .len = frames[i].len };

		if (w->drop && !--w->drop)
			continue;
		if (xt_parse(&f) == XR_OK)
			xt_engine_rx(w->h->engine, &f, 1, w->h->now);
	}
	return n;
}

/* Runs until nothing is left to do. */
static void settle(struct world *w)
{
	uint64_t next;
	unsigned i;

	for (i = 0; i < QPS; i++)
		xt_qp_doorbell(w->q[i].qp, w->h->now);
	for (i = 0; i < 2000; i++) {
		next = xt_engine_run(w->h->engine, w->h->now);
		if (deliver(w))
			next = 0;
		else if (next == XT_NEVER)
			return;
		w->h->now = next > w->h->now ? next : w->h->now + 1000;
	}
}

static struct xr_send_wqe *post_bind(struct world *w, unsigned q, uint64_t wr_id, uint32_t variant,
				     uint64_t from, uint64_t len, uint32_t access)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[q], wr_id, XR_WR_BIND_MW, 0, 0, 0);

	wqe->bind.mw_rkey = xt_key_value(w->window);
	wqe->bind.new_rkey = XR_KEY(w->window->index, variant);
	wqe->bind.mr_lkey = w->lkey;
	wqe->bind.access = access;
	wqe->remote_addr = BASE + from;
	wqe->bind_len = len;
	return wqe;
}

static struct xr_send_wqe *post_rdma(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
				     uint64_t addr, uint32_t len, uint32_t rkey)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[q], wr_id, opcode, BASE + 40000, len, w->lkey);

	wqe->remote_addr = addr;
	wqe->rkey = rkey;
	return wqe;
}

static struct xr_send_wqe *post_inv(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
				    uint32_t rkey)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[q], wr_id, opcode, 0, 0, 0);

	wqe->invalidate_rkey = rkey;
	return wqe;
}

/* The next completion, by number; its status, or -1. */
static int status_of(struct world *w, uint64_t wr_id, struct xr_cqe *cqe)
{
	struct xr_cqe local;

	if (!cqe)
		cqe = &local;
	if (!h_poll(w->h, cqe))
		return -1;
	if (cqe->wr_id == wr_id)
		return (int)cqe->status;
	printf("# wr_id %llu status %u vendor_err %x\n", (unsigned long long)cqe->wr_id,
	       cqe->status, cqe->vendor_err);
	return -1;
}

static int do_bind(struct world *w, uint32_t variant, uint64_t from, uint64_t len, uint32_t access)
{
	post_bind(w, 0, 100, variant, from, len, access);
	settle(w);
	return status_of(w, 100, NULL);
}

static int do_rdma(struct world *w, uint8_t opcode, uint64_t addr, uint32_t len, uint32_t rkey)
{
	int status;

	memcpy(before, memory, SIZE);
	post_rdma(w, 1, 101, opcode, addr, len, rkey);
	settle(w);
	status = status_of(w, 101, NULL);
	if (status && memcmp(before, memory, SIZE))
		TAP_OK(false, "a request that is refused changes nothing");
	return status;
}

static bool moved(uint32_t off, uint32_t len)
{
	return !memcmp(memory + off, memory + 40000, len);
}

/* ---- binding that must be refused ---------------------------------------------------------------- */

#define RW (XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE)

static void test_bind(void)
{
	static const struct row {
		const char *what;
		bool type_2;
		uint32_t from, len, access, take_access;	/* from the region */
		uint32_t lkey_xor, rkey_xor, window_xor, pd, state;
		enum xr_reason why;
	} rows[] = {
		{ "type 1", false, FROM, LEN, RW, .why = 0 },
		{ "type 2", true, FROM, LEN, RW, .why = 0 },
		{ "all of the region", true, 0, SIZE, XR_ACCESS_REMOTE,
		  .why = 0 },
		{ "its last byte", true, SIZE - 1, 1, RW,
		  .why = 0 },
		{ "zero based", true, FROM, LEN, RW | XR_ACCESS_ZERO_BASED,
		  .why = 0 },
		{ "local access is named too", false, FROM, LEN, RW | XR_ACCESS_LOCAL_WRITE,
		  .why = 0 },
		{ "READ needs no local writing", true, FROM, LEN, XR_ACCESS_REMOTE_READ,
		  .take_access = XR_ACCESS_LOCAL_WRITE },
		{ "zero based, type 1", false, FROM, LEN, RW | XR_ACCESS_ZERO_BASED,
		  .why = XR_KEY_ACCESS },
		{ "access that windows do not have", true, FROM, LEN, RW | XR_ACCESS_MW_BIND,
		  .why = XR_KEY_ACCESS },
		{ "no length, type 2", true, FROM, 0, RW, .why = XR_KEY_RANGE },
		{ "region that may not be bound to", true, FROM, LEN, RW, .take_access = XR_ACCESS_MW_BIND,
		  .why = XR_KEY_ACCESS },
		{ "writing where the region is not written", true, FROM, LEN, RW,
		  .take_access = XR_ACCESS_LOCAL_WRITE, .why = XR_KEY_ACCESS },
		{ "atomics where the region is not written", true, FROM, LEN,
		  XR_ACCESS_REMOTE_ATOMIC, .take_access = XR_ACCESS_LOCAL_WRITE, .why = XR_KEY_ACCESS },
		{ "one byte below", true, -1u, LEN, RW, .why = XR_KEY_RANGE },
		{ "one byte above", true, SIZE - LEN + 1, LEN, RW, .why = XR_KEY_RANGE },
		{ "over the end of all addresses", true, FROM, -1u, RW, .why = XR_KEY_RANGE },
		{ "another variant of the region's key", true, FROM, LEN, RW, .lkey_xor = 1,
		  .why = XR_KEY_VARIANT },
		{ "region that is not", true, FROM, LEN, RW, .lkey_xor = 0x700, .why = XR_KEY_INDEX },
		{ "window that is not", true, FROM, LEN, RW, .window_xor = 0x700,
		  .why = XR_KEY_INDEX },
		{ "new key of another window", true, FROM, LEN, RW, .rkey_xor = 0x700,
		  .why = XR_KEY_INDEX },
		{ "window of another domain", true, FROM, LEN, RW, .pd = 2, .why = XR_KEY_PD },
		{ "bound already, type 2", true, FROM, LEN, RW, .state = XR_KEY_VALID,
		  .why = XR_KEY_STATE },
		{ "just being changed", true, FROM, LEN, RW, .state = XR_KEY_INVALID,
		  .why = XR_KEY_STATE },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct xr_send_wqe *wqe;
		struct xr_cqe cqe = { 0 };
		struct world w;

		begin(&w);
		make_window(&w, r->type_2);
		w.mr.key->entry.access &= ~r->take_access;
		w.window->entry.state = r->state;
		if (r->pd)
			w.window->entry.pd = r->pd;
		wqe = post_bind(&w, 0, 1, 0x55, r->from, r->len == -1u ? -2ull : r->len, r->access);
		if (r->from == -1u)
			wqe->remote_addr = BASE - 1;
		wqe->bind.mr_lkey ^= r->lkey_xor;
		wqe->bind.new_rkey ^= r->rkey_xor;
		wqe->bind.mw_rkey ^= r->window_xor;
		h_post_send(&w.q[0], 2, XR_WR_RDMA_WRITE, 0, 0, 0);
		settle(&w);
		status_of(&w, 1, &cqe);
		if (r->why)
			TAP_OK(cqe.status == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err == (XT_VERR_BIND | r->why << 8) &&
				       status_of(&w, 2, NULL) == IBV_WC_WR_FLUSH_ERR &&
				       w.window->entry.state == r->state && !w.mr.key->windows &&
				       !w.window->entry.variant,
			       "%s: refused to bind: %s", way(), r->what);
		else
			TAP_OK(!cqe.status && cqe.opcode == IBV_WC_BIND_MW &&
				       w.window->entry.state == XR_KEY_VALID &&
				       w.window->entry.variant == 0x55 && w.mr.key->windows == 1 &&
				       w.h->keys_changed == 1 && !status_of(&w, 2, NULL),
			       "%s: bind: %s", way(), r->what);
		end(&w);
	}
}

/* ---- using a window ------------------------------------------------------------------------------ */

static void test_use(void)
{
	static const struct row {
		const char *what;
		bool type_2;
		uint32_t access;
		uint8_t opcode;
		uint32_t at, len;	/* in the region, or the window where it is zero based */
		uint32_t key_xor;
		bool refused;
	} rows[] = {
		{ "WRITE, type 1", false, RW, XR_WR_RDMA_WRITE, FROM, LEN, .refused = false },
		{ "WRITE, type 2", true, RW, XR_WR_RDMA_WRITE, FROM, LEN, .refused = false },
		{ "READ", true, RW, XR_WR_RDMA_READ, FROM, LEN, .refused = false },
		{ "WRITE of the last byte", true, RW, XR_WR_RDMA_WRITE, FROM + LEN - 1, 1, .refused = false },
		{ "WRITE to a zero based one", true, RW | XR_ACCESS_ZERO_BASED, XR_WR_RDMA_WRITE, 0,
		  LEN, .refused = false },
		{ "WRITE inside a zero based one", true, RW | XR_ACCESS_ZERO_BASED,
		  XR_WR_RDMA_WRITE, 77, LEN - 77, .refused = false },
		{ "one byte below", true, RW, XR_WR_RDMA_WRITE, FROM - 1, LEN, .refused = true },
		{ "one byte above", true, RW, XR_WR_RDMA_WRITE, FROM + 1, LEN, .refused = true },
		{ "READ one byte above, type 1", false, RW, XR_WR_RDMA_READ, FROM, LEN + 1,
		  .refused = true },
		{ "one byte above a zero based one", true, RW | XR_ACCESS_ZERO_BASED,
		  XR_WR_RDMA_WRITE, 1, LEN, .refused = true },
		{ "READ of one to be written", true, XR_ACCESS_REMOTE_WRITE, XR_WR_RDMA_READ, FROM,
		  8, .refused = true },
		{ "WRITE to one to be read", false, XR_ACCESS_REMOTE_READ, XR_WR_RDMA_WRITE, FROM, 8,
		  .refused = true },
		{ "the key as it was before", true, RW, XR_WR_RDMA_WRITE, FROM, LEN,
		  .key_xor = 0x55, .refused = true },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		bool zero = r->access & XR_ACCESS_ZERO_BASED;
		struct world w;
		int status;

		begin(&w);
		make_window(&w, r->type_2);
		status = do_bind(&w, 0x55, FROM, LEN, r->access);
		if (!status)
			status = do_rdma(&w, r->opcode, r->at + (zero ? 0 : BASE), r->len,
					 xt_key_value(w.window) ^ r->key_xor);
		if (r->refused)
			TAP_OK(status == IBV_WC_REM_ACCESS_ERR, "%s: window: refused: %s", way(),
			       r->what);
		else
			TAP_OK(!status && moved(zero ? FROM + r->at : r->at, r->len),
			       "%s: window: %s", way(), r->what);
		end(&w);
	}
}

/* The window belongs to a QP, a window's key to peers. */
static void test_whose(void)
{
	struct xr_send_wqe *wqe;
	struct world w;

	begin(&w);
	make_window(&w, true);
	do_bind(&w, 1, FROM, LEN, RW);
	w.window->entry.qpn = w.q[2].qpn;
	TAP_OK(do_rdma(&w, XR_WR_RDMA_WRITE, BASE + FROM, 8, xt_key_value(w.window)) ==
		       IBV_WC_REM_ACCESS_ERR, "%s: window of another QP", way());
	w.window->entry.qpn = w.q[0].qpn;
	end(&w);

	begin(&w);
	make_window(&w, false);
	do_bind(&w, 1, FROM, LEN, RW);
	wqe = post_rdma(&w, 0, 3, XR_WR_RDMA_WRITE, BASE, 8, w.lkey);
	((struct xr_sge *)(wqe + 1))->lkey = xt_key_value(w.window);
	settle(&w);
	TAP_OK(status_of(&w, 3, NULL) == IBV_WC_LOC_PROT_ERR, "%s: window's key used locally",
	       way());
	end(&w);
}

static void test_rebind_type_1(void)
{
	struct world w;
	uint32_t old;
	int status;

	begin(&w);
	make_window(&w, false);
	do_bind(&w, 1, FROM, LEN, RW);
	status = do_bind(&w, 2, FROM + LEN, LEN, RW);
	TAP_OK(!status && w.mr.key->windows == 1 && w.h->settled == 1 &&
		       !do_rdma(&w, XR_WR_RDMA_WRITE, BASE + FROM + LEN, LEN,
				xt_key_value(w.window)) && moved(FROM + LEN, LEN),
	       "%s: a window of type 1 is bound elsewhere", way());
	old = xt_key_value(w.window);
	post_bind(&w, 0, 7, 3, 0, 0, 0)->bind.mr_lkey = 0;
	settle(&w);
	TAP_OK(!status_of(&w, 7, NULL) && !w.mr.key->windows &&
		       w.window->entry.state == XR_KEY_FREE,
	       "%s: length 0 unbinds it", way());
	TAP_OK(do_rdma(&w, XR_WR_RDMA_WRITE, BASE + FROM, 8, old) == IBV_WC_REM_ACCESS_ERR,
	       "%s: nothing is left of it", way());
	end(&w);
}

/* ---- invalidation ---------------------------------------------------------------------------------- */

enum target { TYPE_1, TYPE_2, REGION, FAST };

static void test_invalidate(void)
{
	static const struct row {
		const char *what;
		enum target target;
		unsigned by;		/* QP */
		bool remote;
		uint32_t key_xor, access, pd, windows;
		bool bound_elsewhere, free;
		enum xr_reason why;
	} rows[] = {
		{ "a window of type 2", TYPE_2, .by = 0 },
		{ "a window of type 2, by the peer", TYPE_2, .remote = true },
		{ "a window that is free", TYPE_2, .free = true },
		{ "a window that is free, by the peer", TYPE_2, .remote = true, .free = true },
		{ "a fast region", FAST, .by = 0 },
		{ "a fast region, by the peer", FAST, .remote = true },
		{ "a fast region by another QP", FAST, .by = 2 },
		{ "a fast region that is free", FAST, .free = true },
		{ "a window of another QP", TYPE_2, .by = 2, .why = XR_KEY_STATE },
		{ "a window of another QP, by the peer", TYPE_2, .remote = true,
		  .bound_elsewhere = true, .why = XR_KEY_STATE },
		{ "a window of type 1", TYPE_1, .why = XR_KEY_ACCESS },
		{ "a window of type 1, by the peer", TYPE_1, .remote = true,
		  .why = XR_KEY_ACCESS },
		{ "a region of a verb", REGION, .why = XR_KEY_ACCESS },
		{ "a region of a verb, by the peer", REGION, .remote = true,
		  .why = XR_KEY_ACCESS },
		{ "a stale key", TYPE_2, .key_xor = 1, .why = XR_KEY_VARIANT },
		{ "a stale key, by the peer", TYPE_2, .key_xor = 1, .remote = true,
		  .why = XR_KEY_VARIANT },
		{ "a stale key of a window that is free", TYPE_2, .key_xor = 1, .free = true,
		  .why = XR_KEY_VARIANT },
		{ "no key", TYPE_2, .key_xor = 0x700, .why = XR_KEY_INDEX },
		{ "no key, by the peer", TYPE_2, .key_xor = 0x700, .remote = true,
		  .why = XR_KEY_INDEX },
		{ "a fast region of another domain", FAST, .pd = 2, .why = XR_KEY_PD },
		{ "a fast region without remote access, by the peer", FAST, .remote = true,
		  .access = XR_ACCESS_LOCAL_WRITE, .why = XR_KEY_ACCESS },
		{ "a fast region that a window is bound to", FAST, .windows = 1,
		  .why = XR_KEY_STATE },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct xr_cqe cqe = { 0 }, got = { 0 };
		struct xt_key *key;
		struct world w;
		uint32_t value;
		int status;

		begin(&w);
		make_window(&w, r->target == TYPE_2);
		key = r->target <= TYPE_2 ? w.window : w.mr.key;
		if (r->target <= TYPE_2 && !r->free)
			do_bind(&w, 1, FROM, LEN, RW);
		if (r->target == FAST)
			key->entry.flags = XR_KEYF_FAST;
		if (r->free)
			key->entry.state = XR_KEY_FREE;
		if (r->access)
			key->entry.access = r->access;
		if (r->pd)
			key->entry.pd = r->pd;
		if (r->bound_elsewhere)
			key->entry.qpn = w.q[2].qpn;
		if (r->target == FAST)
			key->windows = r->windows;
		value = xt_key_value(key) ^ r->key_xor;
		if (r->remote) {
			h_post_recv(&w.q[0], 8, BASE, 0, w.lkey);
			post_inv(&w, 1, 9, XR_WR_SEND_WITH_INV, value);
		} else {
			post_inv(&w, r->by, 9, XR_WR_LOCAL_INV, value);
		}
		settle(&w);
		if (r->remote)
			status_of(&w, 8, &got);
		status = status_of(&w, 9, &cqe);
		if (r->why && r->remote)
			TAP_OK(status == IBV_WC_REM_ACCESS_ERR &&
				       got.status == IBV_WC_REM_INV_REQ_ERR &&
				       got.vendor_err == (XT_VERR_INVALIDATE | r->why << 8) &&
				       key->entry.state == XR_KEY_VALID,
			       "%s: refused to invalidate: %s", way(), r->what);
		else if (r->why)
			TAP_OK(status == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err == (XT_VERR_INVALIDATE | r->why << 8) &&
				       key->entry.state ==
					       (r->free ? XR_KEY_FREE : XR_KEY_VALID),
			       "%s: refused to invalidate: %s", way(), r->what);
		else
			TAP_OK(!status && key->entry.state == XR_KEY_FREE &&
				       (r->free || w.h->settled == 1) &&
				       (r->remote ? got.invalidated_rkey == value &&
							    got.wc_flags == IBV_WC_WITH_INV :
						    cqe.opcode == IBV_WC_LOCAL_INV) &&
				       (r->target == FAST || !w.mr.key->windows),
			       "%s: invalidate: %s", way(), r->what);
		if (r->target == FAST)
			key->windows = 0;
		if (r->bound_elsewhere)
			key->entry.qpn = w.q[0].qpn;
		end(&w);
	}
}

/* A long message whose key goes with its last packet, and what comes behind it */
static void test_remote_order(void)
{
	struct xr_cqe cqe, got[9] = { 0 };
	struct world w;

	begin(&w);
	make_window(&w, true);
	do_bind(&w, 1, FROM, LEN, RW);
	h_post_recv(&w.q[0], 8, BASE + 20000, 5000, w.lkey);
	post_rdma(&w, 1, 1, XR_WR_RDMA_WRITE, BASE + FROM, LEN, xt_key_value(w.window));
	h_post_send(&w.q[1], 2, XR_WR_SEND_WITH_INV, BASE + 40000, 5000, w.lkey)->invalidate_rkey =
		xt_key_value(w.window);
	post_rdma(&w, 1, 3, XR_WR_RDMA_WRITE, BASE + FROM, LEN, xt_key_value(w.window));
	if (over_wire)
		w.drop = 4;
	settle(&w);
	while (h_poll(w.h, &cqe))
		got[cqe.wr_id] = cqe;
	TAP_OK(!got[8].status && got[8].byte_len == 5000 && got[8].wc_flags == IBV_WC_WITH_INV &&
		       got[8].invalidated_rkey == xt_key_value(w.window) && moved(20000, 5000),
	       "%s: a long SEND with Invalidate", way());
	TAP_OK(got[1].wr_id && got[2].wr_id && !got[1].status && !got[2].status &&
		       got[3].status == IBV_WC_REM_ACCESS_ERR,
	       "%s: a WRITE before it is done, one behind it is refused", way());
	end(&w);
}

/* A copy of a READ that was answered comes when its key is gone by right: no answer, and no harm. */
static void test_late_read(void)
{
	static struct h_frame late;
	struct world w;

	begin(&w);
	make_window(&w, true);
	do_bind(&w, 1, FROM, LEN, RW);
	post_rdma(&w, 1, 1, XR_WR_RDMA_READ, BASE + FROM, LEN, xt_key_value(w.window));
	xt_qp_doorbell(w.q[1].qp, w.h->now);
	xt_engine_run(w.h->engine, w.h->now);
	late = w.h->sent[0];
	settle(&w);
	TAP_OK(!status_of(&w, 1, NULL), "a READ by a window");
	post_inv(&w, 0, 2, XR_WR_LOCAL_INV, xt_key_value(w.window));
	settle(&w);
	TAP_OK(!status_of(&w, 2, NULL), "the window is invalidated");
	h_receive(w.h, late.data, late.len);
	TAP_OK(!w.h->sent_count && xt_qp_info(w.q[0].qp)->state == XR_QPS_RTS &&
		       xt_engine_counters(w.h->engine)->rx_duplicates == 1,
	       "a late copy of the READ is not answered, and nobody is in error");
	TAP_OK(do_rdma(&w, XR_WR_RDMA_READ, BASE + FROM, LEN, xt_key_value(w.window)) ==
		       IBV_WC_REM_ACCESS_ERR, "a new READ is refused");
	end(&w);
}

/* ---- fast registration -------------------------------------------------------------------------------- */

#define MAX_PAGES 4
#define PAGE 4096u

static uint64_t lists[XR_FAST_LISTS * MAX_PAGES];
static struct xt_mem_seg fast_seg[MAX_PAGES];
static struct xt_mem fast_mem;

/* The owner's pages are found by their addresses, as the daemon finds them. */
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

static const struct xt_mem_ops page_ops = { page_read, page_write };

static struct xt_key *make_fast(struct world *w)
{
	struct xt_key *key = xt_keys_alloc(w->h->shared.keys);

	fast_mem = (struct xt_mem){ .ops = &page_ops, .seg = fast_seg };
	memset(lists, 0, sizeof(lists));
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

#define IOVA 0x7000000123ull	/* begins within a page */

static void test_register(void)
{
	static const struct row {
		const char *what;
		uint64_t iova, len;
		uint32_t pages, list, shift, access, pd, state, key_xor, misalign;
		enum xr_reason why;
	} rows[] = {
		{ "all pages", IOVA - 0x123, MAX_PAGES * PAGE, .why = 0 },
		{ "from within a page", IOVA, MAX_PAGES * PAGE - 0x123, .why = 0 },
		{ "one byte", IOVA, 1, .pages = 1 },
		{ "the other list", IOVA, PAGE, .list = 1 },
		{ "a byte too long", IOVA, MAX_PAGES * PAGE - 0x122, .why = XR_KEY_RANGE },
		{ "no length", IOVA, 0, .why = XR_KEY_RANGE },
		{ "over the end of all addresses", -4096ull, 4097, .why = XR_KEY_RANGE },
		{ "too many pages", IOVA, 1, .pages = MAX_PAGES + 1, .why = XR_KEY_RANGE },
		{ "no such list", IOVA, 1, .list = XR_FAST_LISTS, .why = XR_KEY_RANGE },
		{ "no such page size", IOVA, 1, .shift = 11, .why = XR_KEY_RANGE },
		{ "a page size that is no shift", IOVA, 1, .shift = 200, .why = XR_KEY_RANGE },
		{ "a page that begins elsewhere", IOVA, PAGE, .misalign = 8, .why = XR_KEY_RANGE },
		{ "access that there is not", IOVA, 1, .access = XR_ACCESS_ZERO_BASED,
		  .why = XR_KEY_ACCESS },
		{ "peers may write, the owner may not", IOVA, 1, .access = XR_ACCESS_REMOTE_WRITE,
		  .why = XR_KEY_ACCESS },
		{ "another domain", IOVA, 1, .pd = 2, .why = XR_KEY_PD },
		{ "no key", IOVA, 1, .key_xor = 0x700, .why = XR_KEY_INDEX },
		{ "registered already", IOVA, 1, .state = XR_KEY_VALID, .why = XR_KEY_STATE },
		{ "just being changed", IOVA, 1, .state = XR_KEY_INVALID, .why = XR_KEY_STATE },
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
		settle(&w);
		status_of(&w, 1, &cqe);
		if (r->why)
			TAP_OK(cqe.status == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err == (XT_VERR_REGISTER | r->why << 8) &&
				       key->entry.state == r->state && !key->entry.variant,
			       "%s: refused to register: %s", way(), r->what);
		else
			TAP_OK(!cqe.status && cqe.opcode == IBV_WC_DRIVER1 &&
				       key->entry.state == XR_KEY_VALID &&
				       key->entry.variant == 0x77 && fast_mem.length == r->len &&
				       w.h->keys_changed == 1 && fast_mem.nseg <= 3,
			       "%s: register: %s", way(), r->what);
		end(&w);
	}
}

/* The peer's bytes land in the pages of the list, in its order. */
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
	settle(&w);
	status_of(&w, 1, NULL);
	TAP_OK(!do_rdma(&w, XR_WR_RDMA_WRITE, IOVA, len, xt_key_value(key)) &&
		       !memcmp(memory + 6 * PAGE + 0x123, memory + 40000, head) &&
		       !memcmp(memory + PAGE, memory + 40000 + head, 2 * PAGE) &&
		       !memcmp(memory + 4 * PAGE, memory + 40000 + head + 2 * PAGE, 0x123),
	       "%s: a WRITE to a fast region is scattered over its pages", way());
	TAP_OK(do_rdma(&w, XR_WR_RDMA_WRITE, IOVA + 1, len, xt_key_value(key)) ==
		       IBV_WC_REM_ACCESS_ERR, "%s: not beyond its end", way());
	end(&w);

	begin(&w);
	key = make_fast(&w);
	lists[0] = 0x1000;	/* nothing is there */
	post_reg(&w, 1, key, 5, 0, 0x1000, PAGE)->reg.pages = 1;
	settle(&w);
	TAP_OK(!status_of(&w, 1, NULL) &&
		       do_rdma(&w, XR_WR_RDMA_READ, 0x1000, 8, xt_key_value(key)) ==
			       IBV_WC_REM_OP_ERR,
	       "%s: pages that are not there are the owner's fault", way());
	end(&w);
}

/* Registered, used, invalidated, registered elsewhere under another variant: posted at once */
static void test_register_pipeline(void)
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
		/* what it names is sent from there */
		wqe = h_post_send(&w.q[0], 3 * i + 1, XR_WR_RDMA_WRITE, IOVA, 2 * PAGE,
				  XR_KEY(key->index, i + 1));
		wqe->remote_addr = BASE + 45000 + i * 10000;
		wqe->rkey = w.lkey;
		post_inv(&w, 0, 3 * i + 2, XR_WR_LOCAL_INV, XR_KEY(key->index, i + 1))->flags |=
			XR_SEND_FENCE;
	}
	settle(&w);
	for (i = 0; i < 6; i++)
		ok &= !status_of(&w, i, NULL);
	TAP_OK(ok && key->entry.state == XR_KEY_FREE && key->entry.variant == 2 &&
		       !memcmp(memory + 45000, memory + 6 * PAGE + 0x123, PAGE - 0x123) &&
		       !memcmp(memory + 55000, memory + 0x123, PAGE - 0x123),
	       "%s: registering again and again in one queue", way());
	end(&w);
}

/* ---- the reserved L_Key ------------------------------------------------------------------------------- */

static void test_reserved(void)
{
	static const struct row {
		const char *what;
		uint8_t opcode;		/* by QP 0 */
		bool granted, receive;	/* it is the peer's receive that names it */
		uint64_t addr;
		uint32_t len;
		int status;
		uint32_t verr;
	} rows[] = {
		{ "SEND", XR_WR_SEND, true, false, BASE + 3, 3000, 0, 0 },
		{ "WRITE", XR_WR_RDMA_WRITE, true, false, BASE + 3, 3000, 0, 0 },
		{ "READ", XR_WR_RDMA_READ, true, false, BASE + 3, 3000, 0, 0 },
		{ "receive", XR_WR_SEND, true, true, BASE + 30003, 3000, 0, 0 },
		{ "all zero bytes", XR_WR_SEND, false, false, 0, 0, 0, 0 },
		{ "not granted", XR_WR_SEND, false, false, BASE, 8, IBV_WC_LOC_PROT_ERR,
		  XT_VERR_LKEY | XR_KEY_INDEX << 8 },
		{ "not granted, READ", XR_WR_RDMA_READ, false, false, BASE, 8, IBV_WC_LOC_PROT_ERR,
		  XT_VERR_LKEY | XR_KEY_INDEX << 8 },
		{ "not granted, receive", XR_WR_SEND, false, true, BASE, 8, IBV_WC_REM_OP_ERR, 0 },
		{ "nothing there", XR_WR_SEND, true, false, BASE + SIZE, 8, IBV_WC_LOC_PROT_ERR,
		  XT_VERR_MEMORY },
		{ "over the end of all addresses", XR_WR_SEND, true, false, -4ull, 8,
		  IBV_WC_LOC_PROT_ERR, XT_VERR_LKEY | XR_KEY_RANGE << 8 },
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
		w.h->own = r->granted ? &all : NULL;
		if (r->receive)
			h_post_recv(&w.q[1], 7, r->addr, r->len, XR_RESERVED_LKEY);
		else
			h_post_recv(&w.q[1], 7, BASE + 40000, 3000, lkey);
		wqe = h_post_send(&w.q[0], 9, r->opcode, r->receive ? BASE + 40000 : r->addr,
				  r->len, r->receive ? lkey : XR_RESERVED_LKEY);
		wqe->remote_addr = BASE + 40000;
		wqe->rkey = lkey;
		settle(&w);
		while (h_poll(w.h, &cqe) && cqe.wr_id != 9)
			;
		TAP_OK(cqe.wr_id == 9 && (int)cqe.status == r->status &&
			       (r->receive || cqe.vendor_err == r->verr) &&
			       (r->status || !r->len || !memcmp(memory + off, memory + 40000, r->len)),
		       "%s: reserved L_Key: %s", way(), r->what);
		end(&w);
	}
}

/* It is no R_Key, and nothing that work requests could change. */
static void test_reserved_elsewhere(void)
{
	struct xt_mem_seg seg = { .len = UINT64_MAX, .writable = true };
	struct xt_mem all = { .ops = &page_ops, .length = UINT64_MAX, .nseg = 1, .seg = &seg };
	struct xr_cqe cqe = { 0 };
	struct world w;
	unsigned i;

	for (i = 0; i < 4; i++) {
		begin(&w);
		w.h->own = &all;
		make_window(&w, true);
		if (i < 2) {
			TAP_OK(do_rdma(&w, i ? XR_WR_RDMA_WRITE : XR_WR_RDMA_READ, BASE, 8,
				       XR_RESERVED_LKEY) == IBV_WC_REM_ACCESS_ERR,
			       "%s: reserved L_Key: a peer has no use of it", way());
		} else {
			if (i == 2)
				post_bind(&w, 0, 9, 1, 0, 100, RW)->bind.mr_lkey = XR_RESERVED_LKEY;
			else
				post_inv(&w, 0, 9, XR_WR_LOCAL_INV, XR_RESERVED_LKEY);
			settle(&w);
			TAP_OK(status_of(&w, 9, &cqe) == IBV_WC_MW_BIND_ERR &&
				       cqe.vendor_err >> 8 == XR_KEY_INDEX,
			       "%s: reserved L_Key: nothing to %s", way(), i == 2 ? "bind to" : "invalidate");
		}
		end(&w);
	}
}

/* ---- order -------------------------------------------------------------------------------------------- */

/* Bound, used by the peer's READ of what is sent, invalidated, bound again: all posted at once. */
static void test_pipeline(void)
{
	struct world w;
	bool ok = true;
	unsigned i;

	begin(&w);
	make_window(&w, true);
	for (i = 0; i < 6; i++) {
		post_bind(&w, 0, 3 * i, i + 1, FROM + i, LEN, RW);
		post_rdma(&w, 0, 3 * i + 1, XR_WR_RDMA_WRITE, BASE + 8 * i, 3000, w.lkey);
		post_inv(&w, 0, 3 * i + 2, XR_WR_LOCAL_INV, XR_KEY(w.window->index, i + 1));
	}
	/* a loss makes the requester go back behind what took effect already */
	w.drop = over_wire ? 5 : 0;
	settle(&w);
	for (i = 0; i < 18; i++)
		ok &= !status_of(&w, i, NULL);
	TAP_OK(ok && w.window->entry.state == XR_KEY_FREE && w.window->entry.variant == 6 &&
		       w.h->keys_changed == 12 && !w.mr.key->windows,
	       "%s: binding and invalidating again and again in one queue", way());
	end(&w);
}

/* A fence holds back what would take the memory of a READ away; without it, it is early. */
static void test_fence(void)
{
	for (int fence = 0; fence <= 1; fence++) {
		struct xr_send_wqe *wqe, *inv;
		struct world w;
		int status;

		begin(&w);
		w.mr.key->entry.flags = XR_KEYF_FAST;
		wqe = h_post_send(&w.q[0], 1, XR_WR_RDMA_READ, BASE, 3000, w.lkey);
		wqe->remote_addr = BASE + 40000;
		/* the peer reads through another key, which stays */
		make_window(&w, false);
		w.window->entry = w.mr.key->entry;
		w.window->entry.flags = 0;
		w.window->entry.variant = 0;
		w.window->mem = w.mr.key->mem;
		wqe->rkey = xt_key_value(w.window);
		inv = post_inv(&w, 0, 2, XR_WR_LOCAL_INV, w.lkey);
		if (fence)
			inv->flags |= XR_SEND_FENCE;
		settle(&w);
		status = status_of(&w, 1, NULL);
		if (fence || !over_wire)
			TAP_OK(!status && !status_of(&w, 2, NULL) && moved(0, 3000),
			       "%s: READ, then invalidated%s", way(), fence ? " with a fence" : "");
		else
			TAP_OK(status == IBV_WC_LOC_PROT_ERR &&
				       w.mr.key->entry.state == XR_KEY_FREE,
			       "%s: READ, then invalidated without a fence", way());
		end(&w);
	}
}

/* ---- the QP goes ---------------------------------------------------------------------------------------- */

static void test_qp_goes(void)
{
	struct xt_key *key[5];
	struct world w;
	unsigned i, freed = 0;

	begin(&w);
	for (i = 0; i < 5; i++) {
		make_window(&w, i != 2);
		key[i] = w.window;
		do_bind(&w, 1, FROM, LEN, RW);
	}
	/* from the middle, the end and the front of the QP's list */
	for (i = 1; i < 5; i += 2) {
		post_inv(&w, 0, 50, XR_WR_LOCAL_INV, xt_key_value(key[i]));
		settle(&w);
		freed += !status_of(&w, 50, NULL);
	}
	xt_window_unbind(&w.h->shared, key[4]);
	TAP_OK(freed == 2 && w.mr.key->windows == 2, "%s: windows go one by one", way());
	h_modify(&w.q[0], XR_QPS_ERR);
	TAP_OK(w.mr.key->windows == 2, "%s: a QP in ERR keeps its windows", way());
	h_modify(&w.q[0], XR_QPS_RESET);
	TAP_OK(w.mr.key->windows == 1 && key[0]->entry.state == XR_KEY_FREE &&
		       key[2]->entry.state == XR_KEY_VALID,
	       "%s: RESET frees those of type 2", way());
	xt_window_unbind(&w.h->shared, key[2]);
	TAP_OK(!w.mr.key->windows, "%s: all are gone", way());
	end(&w);
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		over_wire = i;
		test_bind();
		test_use();
		test_whose();
		test_rebind_type_1();
		test_invalidate();
		test_remote_order();
		test_register();
		test_register_use();
		test_register_pipeline();
		test_reserved();
		test_reserved_elsewhere();
		test_pipeline();
		test_fence();
		test_qp_goes();
		if (over_wire)
			test_late_read();
	}
	return tap_end();
}
