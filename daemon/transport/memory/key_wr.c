// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Work requests and packets that change keys: binding of windows, fast registration, invalidation.
 * IBTA 10.6.7 (windows), 10.6.3.2 and 10.6.5 (registration by work requests, invalidation),
 * 9.4.1.1.3 (SEND with Invalidate).
 *
 * Other engines may check the same keys at the same time. An engine claims a key before it changes
 * it: an atomic exchange of the state from VALID or FREE to INVALID, which succeeds in one engine
 * only. If the key was VALID, other engines may use it until xt_ops.quiesce_keys() returns. The PD,
 * type and flags of a key do not change as long as work requests can change the key.
 */
#include "ending.h"
#include "daemon/transport/engine.h"
#include "integrity.h"
#include "key_wr.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/sq.h"

/* Local access follows from the region and is ignored, but programs set the bit. */
#define WINDOW_ACCESS (XR_ACCESS_REMOTE | XR_ACCESS_ZERO_BASED | XR_ACCESS_LOCAL_WRITE)
#define FAST_ACCESS (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE | XR_ACCESS_MW_BIND)
#define INTEGRITY_ACCESS (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE)
#define WRITES (XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_ATOMIC)

static bool key_wr_claim(struct xt_key *key, uint8_t from)
{
	return __atomic_compare_exchange_n(&key->entry.state, &from, XR_KEY_INVALID, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static void key_wr_set_state(struct xt_key *key, uint8_t state)
{
	__atomic_store_n(&key->entry.state, state, __ATOMIC_RELEASE);
}

/* The control thread reads it for lists. */
static void set_variant(struct xr_key_entry *entry, uint32_t key)
{
	__atomic_store_n(&entry->variant, XR_KEY_VARIANT(key), __ATOMIC_RELAXED);
}

static void quiesce(struct xt_engine *e)
{
	if (e->ops->quiesce_keys)
		e->ops->quiesce_keys(e->ctx);
}

/*
 * Other engines may have used a key until now. Notes the accesses that its change must wait for,
 * those to its region.
 */
static void key_wr_end_use(struct xt_qp *qp, const struct xt_key *key, struct xt_ending_key *ending)
{
	struct xt_engine *e = qp->engine;

	quiesce(e);
	if (key->entry.type == XR_KEY_MW)
		key = key->parent;
	xt_ending_key_begin(ending, key);
}

static void key_wr_mirror(struct xt_engine *e, const struct xt_key *key)
{
	if (e->ops->key_changed)
		e->ops->key_changed(e->ctx, key);
}

/* ---- the windows of a QP ----------------------------------------------------------------- */

static void key_wr_list_add(struct xt_qp *qp, struct xt_key *key)
{
	key->prev = NULL;
	key->next = qp->windows;
	if (key->next)
		key->next->prev = key;
	qp->windows = key;
}

static void list_del(struct xt_shared *shared, struct xt_key *key)
{
	struct xt_qp *qp;

	if (key->next)
		key->next->prev = key->prev;
	if (key->prev) {
		key->prev->next = key->next;
	} else {
		qp = xt_qp_by_num(shared->qps, key->entry.qpn);
		if (qp)
			qp->windows = key->next;
	}
	key->next = key->prev = NULL;
}

/* Detaches a window from its region. The caller has claimed it, or no engine can reach it. */
static void key_wr_detach(struct xt_shared *shared, struct xt_key *window)
{
	if (!window->parent)
		return;
	if (window->entry.qpn)
		list_del(shared, window);
	__atomic_sub_fetch(&window->parent->windows, 1, __ATOMIC_SEQ_CST);
	window->parent = NULL;
	window->mem = NULL;
	window->base = 0;
	window->entry.qpn = 0;
	window->entry.va = window->entry.length = 0;
	window->entry.access = 0;
}

void xt_window_unbind(struct xt_shared *shared, struct xt_key *window)
{
	key_wr_detach(shared, window);
	key_wr_set_state(window, XR_KEY_FREE);
}

/*
 * Another engine claims a window that is bound to this QP only while it checks whether it may
 * invalidate it, which it may not.
 */
static void claim_bound(struct xt_key *window)
{
	while (!key_wr_claim(window, XR_KEY_VALID))
		__builtin_ia32_pause();
}

bool xt_qp_unbind(struct xt_qp *qp, uint32_t most)
{
	struct xt_shared *shared = qp->engine->shared;
	struct xt_key *window;

	for (; qp->windows && most; most--) {
		window = qp->windows;
		claim_bound(window);
		xt_window_unbind(shared, window);
		key_wr_mirror(qp->engine, window);
	}
	return qp->windows;
}

/* ---- invalidation -------------------------------------------------------------------------- */

/* Work requests cannot invalidate regions of ibv_reg_mr() and windows of type 1. */
static enum xr_reason may_invalidate(uint32_t pd, const struct xt_key *key, uint32_t value)
{
	if (key->entry.pd != pd)
		return XR_KEY_PD;
	if (!(key->entry.flags & (XR_KEYF_TYPE_2 | XR_KEYF_FAST | XR_KEYF_INTEGRITY)))
		return XR_KEY_ACCESS;
	return key->entry.variant == XR_KEY_VARIANT(value) ? XR_OK : XR_KEY_VARIANT;
}

/* Checks of a claimed key: this QP may invalidate it, and no window is bound to it. */
static enum xr_reason check_claimed(const struct xt_qp *qp, struct xt_key *key, uint32_t value,
				    bool remote)
{
	if (key->entry.variant != XR_KEY_VARIANT(value))
		return XR_KEY_VARIANT;
	if (key->entry.type == XR_KEY_MW)
		return key->entry.qpn == qp->info.qpn ? XR_OK : XR_KEY_STATE;
	if (remote && !(key->entry.access & XR_ACCESS_REMOTE))
		return XR_KEY_ACCESS;
	return __atomic_load_n(&key->windows, __ATOMIC_SEQ_CST) ? XR_KEY_STATE : XR_OK;
}

static enum xr_reason key_wr_invalidate(struct xt_qp *qp, uint32_t pd, uint32_t value, bool remote)
{
	struct xt_engine *e = qp->engine;
	struct xt_key *key = xt_keys_by_index(e->shared->keys, XR_KEY_INDEX(value));
	enum xr_reason why;

	if (!key)
		return XR_KEY_INDEX;
	why = may_invalidate(pd, key, value);
	if (why != XR_OK)
		return why;
	if (!key_wr_claim(key, XR_KEY_VALID)) {
		/* FREE: already invalidated; else another QP has claimed the key */
		return __atomic_load_n(&key->entry.state, __ATOMIC_RELAXED) == XR_KEY_FREE
			       ? XR_OK
			       : XR_KEY_STATE;
	}
	why = check_claimed(qp, key, value, remote);
	if (why != XR_OK) {
		key_wr_set_state(key, XR_KEY_VALID);
		return why;
	}
	key_wr_end_use(qp, key, &qp->ending.key[remote ? XT_RESPONDER : XT_REQUESTER]);
	if (key->entry.type == XR_KEY_MW)
		key_wr_detach(e->shared, key);
	key_wr_set_state(key, XR_KEY_FREE);
	key_wr_mirror(e, key);
	return XR_OK;
}

enum xr_reason xt_invalidate_remote(struct xt_qp *qp, uint32_t pd, uint32_t rkey)
{
	return key_wr_invalidate(qp, pd, rkey, true);
}

/* ---- binding ------------------------------------------------------------------------------- */

/* Checks the window and the fields of the work request. */
static enum xr_reason check_window(const struct xt_qp *qp, const struct xt_key *window,
				   const struct xt_swqe *w)
{
	bool type_2;

	if (!window || window->entry.type != XR_KEY_MW ||
	    XR_KEY_INDEX(w->bind.new_rkey) != window->index)
		return XR_KEY_INDEX;
	if (window->entry.pd != qp->info.pd)
		return XR_KEY_PD;
	type_2 = window->entry.flags & XR_KEYF_TYPE_2;
	if (w->bind.access & ~(uint32_t)WINDOW_ACCESS ||
	    (!type_2 && w->bind.access & XR_ACCESS_ZERO_BASED))
		return XR_KEY_ACCESS;
	return type_2 && !w->bind_len ? XR_KEY_RANGE : XR_OK;
}

/*
 * Takes the reference before checking that the key can be looked up, and its state. Deregistration
 * withdraws the key, and invalidation changes the state, before they check the references, so one
 * side always sees the other. The PD may have changed since find_parent() checked it.
 */
static enum xr_reason ref_parent(const struct xt_qp *qp, struct xt_key *parent,
				 const struct xt_swqe *w)
{
	const struct xr_key_entry *e = &parent->entry;
	uint64_t off;

	__atomic_add_fetch(&parent->windows, 1, __ATOMIC_SEQ_CST);
	if (xt_keys_by_index(qp->engine->shared->keys, parent->index) != parent)
		return XR_KEY_INDEX;
	if (__atomic_load_n(&e->state, __ATOMIC_SEQ_CST) != XR_KEY_VALID || !parent->mem)
		return XR_KEY_STATE;
	if (e->variant != XR_KEY_VARIANT(w->bind.mr_lkey))
		return XR_KEY_VARIANT;
	if (e->pd != qp->info.pd)
		return XR_KEY_PD;
	if (!(e->access & XR_ACCESS_MW_BIND) ||
	    (w->bind.access & WRITES && !(e->access & XR_ACCESS_LOCAL_WRITE)))
		return XR_KEY_ACCESS;
	off = w->remote_addr - e->va;
	return w->remote_addr >= e->va && off <= e->length && w->bind_len <= e->length - off
		       ? XR_OK
		       : XR_KEY_RANGE;
}

static enum xr_reason find_parent(struct xt_qp *qp, const struct xt_swqe *w, struct xt_key **out)
{
	struct xt_keys *keys = qp->engine->shared->keys;
	struct xt_key *parent;
	enum xr_reason why;

	*out = NULL;
	if (!w->bind_len)
		return XR_OK;
	parent = xt_keys_by_index(keys, XR_KEY_INDEX(w->bind.mr_lkey));
	if (!parent || parent->entry.type != XR_KEY_MR)
		return XR_KEY_INDEX;
	/* A reference makes invalidation by the region's owner fail, so other PDs get none. */
	if (parent->entry.pd != qp->info.pd)
		return XR_KEY_PD;
	why = ref_parent(qp, parent, w);
	if (why == XR_OK)
		*out = parent;
	else
		__atomic_sub_fetch(&parent->windows, 1, __ATOMIC_SEQ_CST);
	return why;
}

/* Binds a claimed window that is not bound; parent NULL: leaves it unbound, with the new key. */
static void key_wr_attach(struct xt_qp *qp, struct xt_key *window, struct xt_key *parent,
			  const struct xt_swqe *w)
{
	struct xr_key_entry *e = &window->entry;

	set_variant(e, w->bind.new_rkey);
	if (!parent)
		return;
	window->parent = parent;
	window->mem = parent->mem;
	window->base = parent->base + (w->remote_addr - parent->entry.va);
	e->va = w->bind.access & XR_ACCESS_ZERO_BASED ? 0 : w->remote_addr;
	e->length = w->bind_len;
	e->access = w->bind.access & XR_ACCESS_REMOTE;
	if (!(e->flags & XR_KEYF_TYPE_2))
		return;
	e->qpn = qp->info.qpn;
	key_wr_list_add(qp, window);
}

/* A window of type 1 may be bound again at any time; one of type 2 must be free. */
static bool claim_window(struct xt_key *window, bool *was_valid)
{
	*was_valid = !(window->entry.flags & XR_KEYF_TYPE_2) && key_wr_claim(window, XR_KEY_VALID);
	return *was_valid || key_wr_claim(window, XR_KEY_FREE);
}

static enum xr_reason bind(struct xt_qp *qp, const struct xt_swqe *w)
{
	struct xt_engine *e = qp->engine;
	struct xt_key *window = xt_keys_by_index(e->shared->keys, XR_KEY_INDEX(w->bind.mw_rkey));
	enum xr_reason why = check_window(qp, window, w);
	struct xt_key *parent;
	bool was_valid;

	if (why != XR_OK)
		return why;
	if (qp->no_windows || !claim_window(window, &was_valid))
		return XR_KEY_STATE;
	why = find_parent(qp, w, &parent);
	if (why != XR_OK) {
		key_wr_set_state(window, was_valid ? XR_KEY_VALID : XR_KEY_FREE);
		return why;
	}
	if (was_valid)
		key_wr_end_use(qp, window, &qp->ending.key[XT_REQUESTER]);
	key_wr_detach(e->shared, window);
	key_wr_attach(qp, window, parent, w);
	key_wr_set_state(window, parent ? XR_KEY_VALID : XR_KEY_FREE);
	key_wr_mirror(e, window);
	return XR_OK;
}

/* ---- fast registration ----------------------------------------------------------------------- */

static enum xr_reason check_list(const struct xt_key *key, const struct xt_swqe *w)
{
	uint64_t size = 1ull << (w->reg.page_shift & 63), off = w->remote_addr & (size - 1);
	bool pieces = w->reg.page_shift == XR_FAST_PIECES;

	if (w->reg.list >= XR_FAST_LISTS || !w->reg.pages ||
	    w->reg.pages > (pieces ? key->max_pages / 2 : key->max_pages))
		return XR_KEY_RANGE;
	if (!w->bind_len || w->remote_addr + w->bind_len < w->remote_addr)
		return XR_KEY_RANGE;
	if (pieces)
		return XR_OK;
	if (w->reg.page_shift < XR_FAST_SHIFT_MIN || w->reg.page_shift > XR_FAST_SHIFT_MAX)
		return XR_KEY_RANGE;
	return w->bind_len > w->reg.pages * size - off ? XR_KEY_RANGE : XR_OK;
}

/* Checks a registration against its key. flag: kind of the key; allowed: rights it may have */
static enum xr_reason check_reg(const struct xt_qp *qp, const struct xt_key *key,
				const struct xt_swqe *w, uint32_t flag, uint32_t allowed)
{
	if (!key || !(key->entry.flags & flag))
		return XR_KEY_INDEX;
	if (key->entry.pd != qp->info.pd)
		return XR_KEY_PD;
	if (w->reg.access & ~allowed ||
	    (w->reg.access & WRITES && !(w->reg.access & XR_ACCESS_LOCAL_WRITE)))
		return XR_KEY_ACCESS;
	return XR_OK;
}

static enum xr_reason check_fast(const struct xt_qp *qp, const struct xt_key *key,
				 const struct xt_swqe *w)
{
	enum xr_reason why = check_reg(qp, key, w, XR_KEYF_FAST, FAST_ACCESS);

	return why == XR_OK ? check_list(key, w) : why;
}

static void add_run(struct xt_mem *mem, uint64_t addr, uint64_t len)
{
	struct xt_mem_seg *last = mem->nseg ? &mem->seg[mem->nseg - 1] : NULL;

	if (last && last->addr + last->len == addr)
		last->len += len;
	else
		mem->seg[mem->nseg++] = (struct xt_mem_seg){
			.off = mem->length,
			.len = len,
			.addr = addr,
			.writable = true,
		};
	mem->length += len;
}

/* Returns false if the pieces are too short. */
static bool key_wr_add_piece(struct xt_mem *mem, struct xr_piece_group *group,
			     struct xt_mem_piece *piece, uint64_t addr, uint64_t len)
{
	enum xr_piece_place place = xr_piece_add(group, len);

	if (place == XR_PIECE_TOO_SHORT)
		return false;
	if (place != XR_PIECE_JOINS)
		mem->seg[mem->nseg++] = (struct xt_mem_seg){ .off = mem->length, .writable = true };
	mem->seg[mem->nseg - 1].len += len;
	mem->length += len;
	if (place == XR_PIECE_ALONE) {
		mem->seg[mem->nseg - 1].addr = addr;
		return true;
	}
	*piece = (struct xt_mem_piece){ addr, (uint32_t)len };
	if (place == XR_PIECE_FIRST)
		mem->seg[mem->nseg - 1].piece = piece;
	mem->seg[mem->nseg - 1].pieces++;
	return true;
}

/* The client can change the list at any time: each entry is read once. */
static bool lay_out_pieces(struct xt_key *key, const struct xt_swqe *w)
{
	const uint64_t *list = key->pages + (size_t)w->reg.list * key->max_pages;
	struct xr_piece_group group = { 0, 0 };
	uint64_t left = w->bind_len, addr, len;
	struct xt_mem *mem = key->mem;
	uint32_t i;

	mem->nseg = 0;
	mem->length = 0;
	for (i = 0; i < w->reg.pages && left; i++, left -= len) {
		addr = __atomic_load_n(&list[2 * i], __ATOMIC_RELAXED);
		len = __atomic_load_n(&list[2 * i + 1], __ATOMIC_RELAXED);
		if (!len || addr >= XR_PIECE_END || len > XR_PIECE_END - addr)
			return false;
		if (len > left)
			len = left;
		if (!key_wr_add_piece(mem, &group, &key->piece[i], addr, len))
			return false;
	}
	return !left;
}

/* The client can change the page list at any time: each entry is read once. */
static bool lay_out_pages(struct xt_key *key, const struct xt_swqe *w)
{
	const uint64_t *list = key->pages + (size_t)w->reg.list * key->max_pages;
	uint64_t size = 1ull << w->reg.page_shift, off = w->remote_addr & (size - 1);
	uint64_t left = w->bind_len, page, n;
	struct xt_mem *mem = key->mem;
	uint32_t i;

	mem->nseg = 0;
	mem->length = 0;
	for (i = 0; i < w->reg.pages && left; i++, left -= n, off = 0) {
		page = __atomic_load_n(&list[i], __ATOMIC_RELAXED);
		if (page & (size - 1) || page + size < page)
			return false;
		n = size - off < left ? size - off : left;
		add_run(mem, page + off, n);
	}
	return true;
}

static bool key_wr_lay_out(struct xt_key *key, const struct xt_swqe *w)
{
	return w->reg.page_shift == XR_FAST_PIECES ? lay_out_pieces(key, w) : lay_out_pages(key, w);
}

/* Ends a registration that has succeeded. */
static void make_valid(struct xt_engine *e, struct xt_key *key, const struct xt_swqe *w)
{
	key->entry.va = w->remote_addr;
	key->entry.length = w->bind_len;
	key->entry.access = w->reg.access;
	set_variant(&key->entry, w->reg.key);
	key_wr_set_state(key, XR_KEY_VALID);
	key_wr_mirror(e, key);
}

static enum xr_reason reg(struct xt_qp *qp, const struct xt_swqe *w)
{
	struct xt_engine *e = qp->engine;
	struct xt_key *key = xt_keys_by_index(e->shared->keys, XR_KEY_INDEX(w->reg.key));
	enum xr_reason why = check_fast(qp, key, w);

	if (why != XR_OK)
		return why;
	if (!key_wr_claim(key, XR_KEY_FREE))
		return XR_KEY_STATE;
	if (!key_wr_lay_out(key, w)) {
		key_wr_set_state(key, XR_KEY_FREE);
		return XR_KEY_RANGE;
	}
	make_valid(e, key, w);
	return XR_OK;
}

/* ---- integrity regions ---------------------------------------------------------------------- */

static enum xr_reason check_integrity(const struct xt_qp *qp, const struct xt_key *key,
				      const struct xt_swqe *w)
{
	enum xr_reason why = check_reg(qp, key, w, XR_KEYF_INTEGRITY, INTEGRITY_ACCESS);

	if (why != XR_OK)
		return why;
	return w->reg.list >= XR_FAST_LISTS || !w->bind_len ||
			       w->remote_addr + w->bind_len < w->remote_addr
		       ? XR_KEY_RANGE
		       : XR_OK;
}

/* The region belongs to the QP from then on: one engine at a time uses it (integrity.h). */
static enum xr_reason reg_integrity(struct xt_qp *qp, const struct xt_swqe *w)
{
	struct xt_engine *e = qp->engine;
	struct xt_key *key = xt_keys_by_index(e->shared->keys, XR_KEY_INDEX(w->reg.key));
	enum xr_reason why = check_integrity(qp, key, w);
	struct xt_integrity *in;

	if (why != XR_OK)
		return why;
	if (!key_wr_claim(key, XR_KEY_FREE))
		return XR_KEY_STATE;
	in = key->mem->integrity;
	if (!xt_integrity_load(in, w->reg.list, w->bind_len)) {
		key_wr_set_state(key, XR_KEY_FREE);
		return XR_KEY_RANGE;
	}
	in->pd = qp->info.pd;
	in->qpn = qp->info.qpn;
	__atomic_store_n(&qp->integrity, true, __ATOMIC_RELAXED);
	key->mem->length = w->bind_len;
	key->entry.qpn = qp->info.qpn;
	make_valid(e, key, w);
	return XR_OK;
}

/* ---- work requests --------------------------------------------------------------------------- */

static void copy_reg(struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	w->reg.key = wqe->reg.key;
	w->reg.access = wqe->reg.access;
	w->reg.pages = wqe->reg.pages;
	w->reg.list = wqe->reg.list;
	w->reg.page_shift = wqe->reg.page_shift;
	w->bind_len = wqe->bind_len;
}

static void copy_bind(struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	w->bind.mw_rkey = wqe->bind.mw_rkey;
	w->bind.new_rkey = wqe->bind.new_rkey;
	w->bind.mr_lkey = wqe->bind.mr_lkey;
	w->bind.access = wqe->bind.access;
	w->bind_len = wqe->bind_len;
}

void xt_key_wr_load(struct xt_swqe *w, const struct xr_send_wqe *wqe)
{
	if (wqe->opcode == XR_WR_BIND_MW)
		copy_bind(w, wqe);
	else if (wqe->opcode == XR_WR_REG_MR || wqe->opcode == XR_WR_REG_INTEGRITY)
		copy_reg(w, wqe);
}

/* IBTA 11.6.2: IBV_WC_MW_BIND_ERR is the error of all memory management operations. */
bool xt_key_wr_execute(struct xt_qp *qp, struct xt_swqe *w)
{
	enum xr_reason why;
	uint32_t verr;

	switch (w->opcode) {
	case XR_WR_BIND_MW:
		verr = XR_VERR_BIND;
		why = bind(qp, w);
		break;
	case XR_WR_REG_MR:
		verr = XR_VERR_REGISTER;
		why = reg(qp, w);
		break;
	case XR_WR_REG_INTEGRITY:
		verr = XR_VERR_REGISTER;
		why = reg_integrity(qp, w);
		break;
	default:
		verr = XR_VERR_INVALIDATE;
		why = key_wr_invalidate(qp, qp->info.pd, w->inv_rkey, false);
		break;
	}
	if (why == XR_OK)
		return true;
	w->error = (struct xt_wc_error){ IBV_WC_MW_BIND_ERR, verr | why << 8 };
	return false;
}
