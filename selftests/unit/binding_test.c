// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * WRs and packets that change keys: binding and use of memory windows, local and remote
 * invalidation, ordering with other WRs. All tests run over the wire and by loopback.
 */
#include "binding.h"

#include <sys/mman.h>

#include "selftests/lib/tap.h"

/* ---- binding ------------------------------------------------------------- */

static const struct bind_row {
	const char *what;
	bool type_2;
	uint32_t from, len, access, remove_access; /* removed from the region */
	uint32_t lkey_xor, rkey_xor, window_xor, pd, state;
	enum xr_reason why;
} binds[] = {
	{ "type 1", false, FROM, LEN, RW, .why = 0 },
	{ "type 2", true, FROM, LEN, RW, .why = 0 },
	{ "whole region", true, 0, SIZE, XR_ACCESS_REMOTE, .why = 0 },
	{ "last byte of the region", true, SIZE - 1, 1, RW, .why = 0 },
	{ "zero-based", true, FROM, LEN, RW | XR_ACCESS_ZERO_BASED, .why = 0 },
	{ "local write access requested, too", false, FROM, LEN, RW | XR_ACCESS_LOCAL_WRITE,
	  .why = 0 },
	{ "READ access to a region without local write", true, FROM, LEN, XR_ACCESS_REMOTE_READ,
	  .remove_access = XR_ACCESS_LOCAL_WRITE },
	{ "zero-based, type 1", false, FROM, LEN, RW | XR_ACCESS_ZERO_BASED, .why = XR_KEY_ACCESS },
	{ "access flag invalid for windows", true, FROM, LEN, RW | XR_ACCESS_MW_BIND,
	  .why = XR_KEY_ACCESS },
	{ "no length, type 2", true, FROM, 0, RW, .why = XR_KEY_RANGE },
	{ "region without MW_BIND access", true, FROM, LEN, RW, .remove_access = XR_ACCESS_MW_BIND,
	  .why = XR_KEY_ACCESS },
	{ "WRITE access to a region without local write", true, FROM, LEN, RW,
	  .remove_access = XR_ACCESS_LOCAL_WRITE, .why = XR_KEY_ACCESS },
	{ "atomic access to a region without local write", true, FROM, LEN, XR_ACCESS_REMOTE_ATOMIC,
	  .remove_access = XR_ACCESS_LOCAL_WRITE, .why = XR_KEY_ACCESS },
	{ "one byte before the region", true, -1u, LEN, RW, .why = XR_KEY_RANGE },
	{ "one byte past the region", true, SIZE - LEN + 1, LEN, RW, .why = XR_KEY_RANGE },
	{ "wraps around the address space", true, FROM, -1u, RW, .why = XR_KEY_RANGE },
	{ "L_Key with another variant", true, FROM, LEN, RW, .lkey_xor = 1, .why = XR_KEY_VARIANT },
	{ "nonexistent region", true, FROM, LEN, RW, .lkey_xor = 0x700, .why = XR_KEY_INDEX },
	{ "nonexistent window", true, FROM, LEN, RW, .window_xor = 0x700, .why = XR_KEY_INDEX },
	{ "new R_Key of another window", true, FROM, LEN, RW, .rkey_xor = 0x700,
	  .why = XR_KEY_INDEX },
	{ "window of another PD", true, FROM, LEN, RW, .pd = 2, .why = XR_KEY_PD },
	{ "already bound, type 2", true, FROM, LEN, RW, .state = XR_KEY_VALID,
	  .why = XR_KEY_STATE },
	{ "being changed", true, FROM, LEN, RW, .state = XR_KEY_INVALID, .why = XR_KEY_STATE },
};

static void check_bind(const struct bind_row *r)
{
	struct xr_send_wqe *wqe;
	struct xr_cqe cqe = { 0 };
	struct world w;

	begin(&w);
	make_window(&w, r->type_2);
	w.mr.key->entry.access &= ~r->remove_access;
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
	run_until_idle(&w);
	status_of(&w, 1, &cqe);
	if (r->why)
		TAP_OK(cqe.status == IBV_WC_MW_BIND_ERR &&
			       cqe.vendor_err == (XR_VERR_BIND | r->why << 8) &&
			       status_of(&w, 2, NULL) == IBV_WC_WR_FLUSH_ERR &&
			       w.window->entry.state == r->state && !w.mr.key->windows &&
			       !w.window->entry.variant,
		       "%s: refused to bind: %s", path_name(), r->what);
	else
		TAP_OK(!cqe.status && cqe.opcode == IBV_WC_BIND_MW &&
			       w.window->entry.state == XR_KEY_VALID &&
			       w.window->entry.variant == 0x55 && w.mr.key->windows == 1 &&
			       w.h->keys_changed == 1 && !status_of(&w, 2, NULL),
		       "%s: bind: %s", path_name(), r->what);
	end(&w);
}

static void test_bind(void)
{
	for (size_t i = 0; i < sizeof(binds) / sizeof(binds[0]); i++)
		check_bind(&binds[i]);
}

#define PAGE 4096ul
#define FILLERS 800 /* the first ones fill what other tests have freed */

/* Protects the pages of a key that lies between FILLERS unused ones. */
static void protect(struct xt_key *key, int prot)
{
	uintptr_t first = (uintptr_t)key & ~(PAGE - 1), end = (uintptr_t)(key + 1);

	if (mprotect((void *)first, end - first, prot))
		TAP_OK(false, "mprotect");
}

/*
 * A reference to a region, even for a moment, can make an invalidation by its owner fail. The key
 * is read-only here: a reference would end the test with SIGSEGV.
 */
static void test_foreign_region(void)
{
	struct xt_key *foreign = NULL, *key;
	struct xr_send_wqe *wqe;
	struct xr_cqe cqe = { 0 };
	struct world w;
	unsigned i;

	begin(&w);
	make_window(&w, true);
	for (i = 0; i < FILLERS; i++) {
		key = xt_keys_alloc(w.h->shared.keys);
		if (i == FILLERS / 2)
			foreign = key;
	}
	foreign->entry = w.mr.key->entry;
	foreign->entry.pd = 2;
	foreign->mem = w.mr.key->mem;
	protect(foreign, PROT_READ);
	wqe = post_bind(&w, 0, 1, 0x55, FROM, LEN, RW);
	wqe->bind.mr_lkey = xt_key_value(foreign);
	run_until_idle(&w);
	protect(foreign, PROT_READ | PROT_WRITE);
	status_of(&w, 1, &cqe);
	TAP_OK(cqe.status == IBV_WC_MW_BIND_ERR &&
		       cqe.vendor_err == (XR_VERR_BIND | XR_KEY_PD << 8) &&
		       w.window->entry.state == XR_KEY_FREE,
	       "%s: a region of another PD is not referenced", path_name());
	end(&w);
}

/* ---- using a window ------------------------------------------------------ */

static void test_use(void)
{
	static const struct row {
		const char *what;
		bool type_2;
		uint32_t access;
		uint8_t opcode;
		uint32_t at, len; /* offset in the region; in the window if zero-based */
		uint32_t key_xor;
		bool refused;
	} rows[] = {
		{ "WRITE, type 1", false, RW, XR_WR_RDMA_WRITE, FROM, LEN, .refused = false },
		{ "WRITE, type 2", true, RW, XR_WR_RDMA_WRITE, FROM, LEN, .refused = false },
		{ "READ", true, RW, XR_WR_RDMA_READ, FROM, LEN, .refused = false },
		{ "WRITE of the last byte", true, RW, XR_WR_RDMA_WRITE, FROM + LEN - 1, 1,
		  .refused = false },
		{ "WRITE, zero-based", true, RW | XR_ACCESS_ZERO_BASED, XR_WR_RDMA_WRITE, 0, LEN,
		  .refused = false },
		{ "WRITE at an offset, zero-based", true, RW | XR_ACCESS_ZERO_BASED,
		  XR_WR_RDMA_WRITE, 77, LEN - 77, .refused = false },
		{ "one byte before the window", true, RW, XR_WR_RDMA_WRITE, FROM - 1, LEN,
		  .refused = true },
		{ "one byte past the window", true, RW, XR_WR_RDMA_WRITE, FROM + 1, LEN,
		  .refused = true },
		{ "READ one byte past the window, type 1", false, RW, XR_WR_RDMA_READ, FROM,
		  LEN + 1, .refused = true },
		{ "one byte past the window, zero-based", true, RW | XR_ACCESS_ZERO_BASED,
		  XR_WR_RDMA_WRITE, 1, LEN, .refused = true },
		{ "READ without READ access", true, XR_ACCESS_REMOTE_WRITE, XR_WR_RDMA_READ, FROM,
		  8, .refused = true },
		{ "WRITE without WRITE access", false, XR_ACCESS_REMOTE_READ, XR_WR_RDMA_WRITE,
		  FROM, 8, .refused = true },
		{ "R_Key from before the bind", true, RW, XR_WR_RDMA_WRITE, FROM, LEN,
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
			TAP_OK(status == IBV_WC_REM_ACCESS_ERR, "%s: window: refused: %s",
			       path_name(), r->what);
		else
			TAP_OK(!status && moved(zero ? FROM + r->at : r->at, r->len),
			       "%s: window: %s", path_name(), r->what);
		end(&w);
	}
}

/* A type 2 window is for its QP only; the key of a window is not an L_Key. */
static void test_owner(void)
{
	struct xr_send_wqe *wqe;
	struct world w;

	begin(&w);
	make_window(&w, true);
	do_bind(&w, 1, FROM, LEN, RW);
	w.window->entry.qpn = w.q[2].qpn;
	TAP_OK(do_rdma(&w, XR_WR_RDMA_WRITE, BASE + FROM, 8, xt_key_value(w.window)) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "%s: window: refused: bound to another QP", path_name());
	w.window->entry.qpn = w.q[0].qpn;
	end(&w);

	begin(&w);
	make_window(&w, false);
	do_bind(&w, 1, FROM, LEN, RW);
	wqe = post_rdma(&w, 0, 3, XR_WR_RDMA_WRITE, BASE, 8, w.lkey);
	((struct xr_sge *)(wqe + 1))->lkey = xt_key_value(w.window);
	run_until_idle(&w);
	TAP_OK(status_of(&w, 3, NULL) == IBV_WC_LOC_PROT_ERR,
	       "%s: window: refused: R_Key used as L_Key", path_name());
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
	TAP_OK(!status && w.mr.key->windows == 1 && w.h->quiesced == 1 &&
		       !do_rdma(&w, XR_WR_RDMA_WRITE, BASE + FROM + LEN, LEN,
				xt_key_value(w.window)) &&
		       moved(FROM + LEN, LEN),
	       "%s: a type 1 window is bound to another range", path_name());
	old = xt_key_value(w.window);
	post_bind(&w, 0, 7, 3, 0, 0, 0)->bind.mr_lkey = 0;
	run_until_idle(&w);
	TAP_OK(!status_of(&w, 7, NULL) && !w.mr.key->windows &&
		       w.window->entry.state == XR_KEY_FREE,
	       "%s: a bind of length 0 unbinds a type 1 window", path_name());
	TAP_OK(do_rdma(&w, XR_WR_RDMA_WRITE, BASE + FROM, 8, old) == IBV_WC_REM_ACCESS_ERR,
	       "%s: the old R_Key of an unbound window is refused", path_name());
	end(&w);
}

/* ---- invalidation -------------------------------------------------------- */

enum target { TYPE_1, TYPE_2, REGION, FAST };

static const struct invalidate_row {
	const char *what;
	enum target target;
	unsigned by; /* QP */
	bool remote;
	uint32_t key_xor, access, pd, windows;
	bool bound_elsewhere, free;
	enum xr_reason why;
} invalidations[] = {
	{ "type 2 window", TYPE_2, .by = 0 },
	{ "type 2 window, by SEND with Invalidate", TYPE_2, .remote = true },
	{ "free window", TYPE_2, .free = true },
	{ "free window, by SEND with Invalidate", TYPE_2, .remote = true, .free = true },
	{ "fast region", FAST, .by = 0 },
	{ "fast region, by SEND with Invalidate", FAST, .remote = true },
	{ "fast region, by another QP", FAST, .by = 2 },
	{ "free fast region", FAST, .free = true },
	{ "window of another QP", TYPE_2, .by = 2, .why = XR_KEY_STATE },
	{ "window of another QP, by SEND with Invalidate", TYPE_2, .remote = true,
	  .bound_elsewhere = true, .why = XR_KEY_STATE },
	{ "type 1 window", TYPE_1, .why = XR_KEY_ACCESS },
	{ "type 1 window, by SEND with Invalidate", TYPE_1, .remote = true, .why = XR_KEY_ACCESS },
	{ "region registered by a verb", REGION, .why = XR_KEY_ACCESS },
	{ "region registered by a verb, by SEND with Invalidate", REGION, .remote = true,
	  .why = XR_KEY_ACCESS },
	{ "stale key", TYPE_2, .key_xor = 1, .why = XR_KEY_VARIANT },
	{ "stale key, by SEND with Invalidate", TYPE_2, .key_xor = 1, .remote = true,
	  .why = XR_KEY_VARIANT },
	{ "stale key of a free window", TYPE_2, .key_xor = 1, .free = true, .why = XR_KEY_VARIANT },
	{ "nonexistent key", TYPE_2, .key_xor = 0x700, .why = XR_KEY_INDEX },
	{ "nonexistent key, by SEND with Invalidate", TYPE_2, .key_xor = 0x700, .remote = true,
	  .why = XR_KEY_INDEX },
	{ "fast region of another PD", FAST, .pd = 2, .why = XR_KEY_PD },
	{ "fast region without remote access, by SEND with Invalidate", FAST, .remote = true,
	  .access = XR_ACCESS_LOCAL_WRITE, .why = XR_KEY_ACCESS },
	{ "fast region with a bound window", FAST, .windows = 1, .why = XR_KEY_STATE },
};

static void check_invalidation(const struct invalidate_row *r)
{
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
	run_until_idle(&w);
	if (r->remote)
		status_of(&w, 8, &got);
	status = status_of(&w, 9, &cqe);
	if (r->why && r->remote)
		TAP_OK(status == IBV_WC_REM_ACCESS_ERR && got.status == IBV_WC_REM_INV_REQ_ERR &&
			       got.vendor_err == (XR_VERR_INVALIDATE | r->why << 8) &&
			       key->entry.state == XR_KEY_VALID,
		       "%s: refused to invalidate: %s", path_name(), r->what);
	else if (r->why)
		TAP_OK(status == IBV_WC_MW_BIND_ERR &&
			       cqe.vendor_err == (XR_VERR_INVALIDATE | r->why << 8) &&
			       key->entry.state == (r->free ? XR_KEY_FREE : XR_KEY_VALID),
		       "%s: refused to invalidate: %s", path_name(), r->what);
	else
		TAP_OK(!status && key->entry.state == XR_KEY_FREE &&
			       (r->free || w.h->quiesced == 1) &&
			       (r->remote ? got.invalidated_rkey == value &&
						    got.wc_flags == IBV_WC_WITH_INV
					  : cqe.opcode == IBV_WC_LOCAL_INV) &&
			       (r->target == FAST || !w.mr.key->windows),
		       "%s: invalidate: %s", path_name(), r->what);
	if (r->target == FAST)
		key->windows = 0;
	if (r->bound_elsewhere)
		key->entry.qpn = w.q[0].qpn;
	end(&w);
}

static void test_invalidate(void)
{
	for (size_t i = 0; i < sizeof(invalidations) / sizeof(invalidations[0]); i++)
		check_invalidation(&invalidations[i]);
}

/* A SEND with Invalidate of several packets frees the key only with its last one. */
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
	run_until_idle(&w);
	while (h_poll(w.h, &cqe))
		got[cqe.wr_id] = cqe;
	TAP_OK(!got[8].status && got[8].byte_len == 5000 && got[8].wc_flags == IBV_WC_WITH_INV &&
		       got[8].invalidated_rkey == xt_key_value(w.window) && moved(20000, 5000),
	       "%s: a SEND with Invalidate of several packets is received", path_name());
	TAP_OK(got[1].wr_id && got[2].wr_id && !got[1].status && !got[2].status &&
		       got[3].status == IBV_WC_REM_ACCESS_ERR,
	       "%s: a WRITE before SEND with Invalidate completes, one after it is refused",
	       path_name());
	end(&w);
}

/* A duplicate READ request whose key has been invalidated in the meantime is dropped. */
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
	run_until_idle(&w);
	TAP_OK(!status_of(&w, 1, NULL), "a READ through a window succeeds");
	post_inv(&w, 0, 2, XR_WR_LOCAL_INV, xt_key_value(w.window));
	run_until_idle(&w);
	TAP_OK(!status_of(&w, 2, NULL), "the window is invalidated");
	h_receive(w.h, late.data, late.len);
	TAP_OK(!w.h->sent_count && xt_qp_info(w.q[0].qp)->state == XR_QPS_RTS &&
		       xt_engine_counters(w.h->engine)->rx_duplicates == 1,
	       "a duplicate READ after the invalidation is dropped without an error");
	TAP_OK(do_rdma(&w, XR_WR_RDMA_READ, BASE + FROM, LEN, xt_key_value(w.window)) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "a new READ is refused");
	end(&w);
}

/* ---- ordering ------------------------------------------------------------ */

/* Bind, WRITE, invalidate and bind again, all posted at once. */
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
	/* After this loss, packets of WRs before executed binds are retransmitted. */
	w.drop = over_wire ? 5 : 0;
	run_until_idle(&w);
	for (i = 0; i < 18; i++)
		ok &= !status_of(&w, i, NULL);
	TAP_OK(ok && w.window->entry.state == XR_KEY_FREE && w.window->entry.variant == 6 &&
		       w.h->keys_changed == 12 && !w.mr.key->windows,
	       "%s: bind, WRITE and invalidate can be posted at once, repeatedly", path_name());
	end(&w);
}

/* LOCAL_INV waits for an earlier READ into the region, with or without a fence (IBTA 10.6.5.1). */
static void test_read_then_invalidate(void)
{
	for (int fence = 0; fence <= 1; fence++) {
		struct xr_send_wqe *wqe, *inv;
		struct world w;

		begin(&w);
		w.mr.key->entry.flags = XR_KEYF_FAST;
		wqe = h_post_send(&w.q[0], 1, XR_WR_RDMA_READ, BASE, 3000, w.lkey);
		wqe->remote_addr = BASE + 40000;
		/* The peer serves the READ through another key, which remains valid. */
		make_window(&w, false);
		w.window->entry = w.mr.key->entry;
		w.window->entry.flags = 0;
		w.window->entry.variant = 0;
		w.window->mem = w.mr.key->mem;
		wqe->rkey = xt_key_value(w.window);
		inv = post_inv(&w, 0, 2, XR_WR_LOCAL_INV, w.lkey);
		if (fence)
			inv->flags |= XR_SEND_FENCE;
		run_until_idle(&w);
		TAP_OK(!status_of(&w, 1, NULL) && !status_of(&w, 2, NULL) && moved(0, 3000) &&
			       w.mr.key->entry.state == XR_KEY_FREE,
		       "%s: READ completes before LOCAL_INV%s", path_name(),
		       fence ? " with a fence" : "");
		end(&w);
	}
}

/* ---- QP destruction ------------------------------------------------------ */

static void test_qp_unbind(void)
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
	/* Remove from the middle, the end and the front of the QP's list. */
	for (i = 1; i < 5; i += 2) {
		post_inv(&w, 0, 50, XR_WR_LOCAL_INV, xt_key_value(key[i]));
		run_until_idle(&w);
		freed += !status_of(&w, 50, NULL);
	}
	xt_window_unbind(&w.h->shared, key[4]);
	TAP_OK(freed == 2 && w.mr.key->windows == 2, "%s: windows are invalidated one by one",
	       path_name());
	for (i = 1; i < 5; i += 2) {
		w.window = key[i];
		do_bind(&w, 2, FROM, LEN, RW);
	}
	i = w.h->keys_changed;
	TAP_OK(w.mr.key->windows == 4 && xt_qp_unbind(w.q[0].qp, 2) && w.mr.key->windows == 2 &&
		       w.h->keys_changed == i + 2,
	       "%s: xt_qp_unbind() unbinds two windows and reports more", path_name());
	make_window(&w, true);
	xt_qp_refuse_windows(w.q[0].qp);
	TAP_OK(do_bind(&w, 1, FROM, LEN, RW) == IBV_WC_MW_BIND_ERR && w.mr.key->windows == 2,
	       "%s: while its windows are unbound, the QP binds no others", path_name());
	h_modify(&w.q[0], XR_QPS_ERR);
	TAP_OK(w.mr.key->windows == 2, "%s: a QP in ERR keeps its windows", path_name());
	h_modify(&w.q[0], XR_QPS_RESET);
	TAP_OK(w.mr.key->windows == 1 && key[0]->entry.state == XR_KEY_FREE &&
		       key[2]->entry.state == XR_KEY_VALID,
	       "%s: RESET frees type 2 windows only", path_name());
	xt_window_unbind(&w.h->shared, key[2]);
	TAP_OK(!w.mr.key->windows, "%s: no window is left after xt_window_unbind()", path_name());
	end(&w);
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		over_wire = i;
		test_bind();
		test_foreign_region();
		test_use();
		test_owner();
		test_rebind_type_1();
		test_invalidate();
		test_remote_order();
		test_pipeline();
		test_read_then_invalidate();
		test_qp_unbind();
		if (over_wire)
			test_late_read();
	}
	return tap_end();
}
