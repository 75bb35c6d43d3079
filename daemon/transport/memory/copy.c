// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Payload from and to memory. Keys are checked at each access, even if the same work request was
 * checked before: a region may be deregistered at any time.
 */
#include <errno.h>

#include "copy.h"
#include "daemon/transport/engine.h"
#include "guard.h"
#include "put.h"
#include "reads.h"
#include "daemon/transport/wire/packet.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/rings.h"
#include "daemon/transport/queue/sq.h"

static void set_lkey_error(struct xt_wc_error *error, enum xr_reason why)
{
	error->status = IBV_WC_LOC_PROT_ERR;
	error->verr = XR_VERR_LKEY | why << 8;
}

static void set_memory_error(struct xt_wc_error *error)
{
	error->status = IBV_WC_LOC_PROT_ERR;
	error->verr = XR_VERR_MEMORY;
}

/* ---- keys ------------------------------------------------------------------------- */

/* Bytes of one SGE */
struct memory_run {
	const struct xr_sge *sge;
	uint32_t off, len;
};

/* The reserved L_Key stands for all memory of the client, in every PD (IBTA 10.6.3). */
static enum xr_reason check_reserved(const struct xt_qp *qp, uint64_t addr, uint32_t len,
				     struct xt_mem_at *at)
{
	struct xt_mem *all = NULL;

	if (qp->reserved_lkey_mem)
		all = __atomic_load_n(qp->reserved_lkey_mem, __ATOMIC_ACQUIRE);
	at->mem = len ? all : NULL;
	at->off = addr;
	if (!len)
		return XR_OK;
	if (!all)
		return XR_KEY_INDEX;
	return addr <= all->length && len <= all->length - addr ? XR_OK : XR_KEY_RANGE;
}

static bool check_lkey(const struct xt_sgl *l, const struct memory_run *r, uint32_t access,
		       struct xt_mem_at *at, struct xt_wc_error *error)
{
	const struct xr_key_use use = {
		.key = r->sge->lkey,
		.pd = l->pd,
		.qpn = l->qp->info.qpn,
		.access = access,
		.va = r->sge->addr + r->off,
		.len = r->len,
	};
	enum xr_reason why;

	/* an address that wraps around is out of range of every region */
	if (use.va < r->sge->addr)
		why = XR_KEY_RANGE;
	else if (use.key == XR_RESERVED_LKEY)
		why = check_reserved(l->qp, use.va, r->len, at);
	else
		why = xt_keys_check(l->qp->engine->shared->keys, &use, &at->mem, &at->off);
	if (why == XR_OK)
		return true;
	xt_keys_note(l->qp->engine->shared->keys, &use, why, l->qp->engine->now);
	set_lkey_error(error, why);
	return false;
}

bool xt_check_sgl(const struct xt_sgl *l, uint32_t access, struct xt_wc_error *error)
{
	struct memory_run whole = { .sge = l->sge };
	struct xt_mem_at at;

	for (; whole.sge < l->sge + l->n; whole.sge++) {
		whole.len = whole.sge->length;
		if (!check_lkey(l, &whole, access, &at, error))
			return false;
	}
	return true;
}

bool xt_map(const struct xt_qp *qp, const struct xr_sge *sge, uint32_t access, struct xt_span *out)
{
	const struct xr_key_use use = {
		.key = sge->lkey,
		.pd = qp->info.pd,
		.qpn = qp->info.qpn,
		.access = access,
		.whole = true,
	};
	const struct xt_mem_seg *seg = NULL;
	const struct xt_key *k;
	uint64_t at, before;

	if (sge->lkey == XR_RESERVED_LKEY)
		return false;
	k = xt_keys_by_index(qp->engine->shared->keys, XR_KEY_INDEX(sge->lkey));
	if (!k || xr_key_check(&k->entry, &use) != XR_OK || !xr_key_covers(&k->entry, sge->addr, 1))
		return false;
	at = k->base + (sge->addr - k->entry.va);
	if (k->mem)
		seg = xt_mem_seg_at(k->mem, at);
	if (!seg || !seg->ptr || (access && !seg->writable))
		return false;
	before = at - seg->off < sge->addr - k->entry.va ? at - seg->off : sge->addr - k->entry.va;
	out->lkey = sge->lkey;
	out->addr = sge->addr - before;
	out->ptr = seg->ptr + (at - seg->off) - before;
	out->len = seg->len - (at - seg->off) + before;
	if (out->len > k->entry.length - (out->addr - k->entry.va))
		out->len = k->entry.length - (out->addr - k->entry.va);
	return true;
}

/* ---- walking an SGL ---------------------------------------------------------------- */

struct copy_walk {
	const struct xr_sge *sge;
	uint32_t off; /* in sge */
};

static struct copy_walk walk_to(const struct xt_sgl *l, uint64_t off)
{
	const struct xr_sge *sge = l->sge, *end = l->sge + l->n;

	for (; sge < end && off >= sge->length; sge++)
		off -= sge->length;
	return (struct copy_walk){ sge, (uint32_t)off };
}

/*
 * Returns the run at the walk's position, at most max bytes, and moves behind it. An SGE may be
 * empty.
 */
static struct memory_run walk_run(struct copy_walk *w, uint32_t max)
{
	uint32_t left = w->sge->length - w->off;
	struct memory_run r = { w->sge, w->off, left < max ? left : max };

	w->off += r.len;
	if (w->off == w->sge->length) {
		w->sge++;
		w->off = 0;
	}
	return r;
}

/* ---- payload of packets ---------------------------------------------------------------- */

static void add_bytes(struct xt_payload *out, const uint8_t *p, uint32_t len)
{
	out->seg[out->n].data = (uint8_t *)p;
	out->seg[out->n++].len = len;
	out->len += len;
}

static uint8_t *inline_data(struct xt_qp *qp, uint32_t index)
{
	return xt_ring_entry(qp->sq_ring, index, qp->sq_depth, qp->sq_stride) +
	       sizeof(struct xr_send_wqe);
}

static int gather_unmapped(const struct xt_fetch *f, const struct xt_mem_at *at, uint32_t len,
			   struct xt_payload *out)
{
	uint8_t *p;
	int err;

	if (out->len + len > sizeof(f->reads->qp->engine->bounce))
		return -EINPROGRESS; /* of a large frame: packets are sent instead */
	xt_reads_fetch(f->reads, f->item, f->psn, at->off + f->rest);
	p = xt_reads_peek(f->reads, at->mem, at->off, len);
	out->passing = true;
	if (!p) {
		/* the bounce buffer holds a whole payload; each part has its own offset in it */
		p = f->reads->qp->engine->bounce + out->len;
		err = xt_mem_read(f->reads, at->mem, at->off, p, len);
		if (err)
			return err;
	}
	add_bytes(out, p, len);
	return 0;
}

int xt_gather_mem(const struct xt_fetch *f, const struct xt_mem_at *at, uint32_t len,
		  struct xt_payload *out)
{
	uint8_t *p = xt_mem_ptr(at->mem, at->off, len);

	if (!p)
		return gather_unmapped(f, at, len, out);
	if (xt_mem_probe(at->mem, p, len))
		return -EFAULT;
	add_bytes(out, p, len);
	return 0;
}

bool xt_fetch_sge(struct xt_qp *qp, uint32_t item, const struct xr_sge *sge)
{
	struct xt_sgl l = { .qp = qp, .pd = qp->info.pd, .n = 1, .sge = sge };
	struct memory_run whole = { .sge = sge, .len = sge->length };
	struct xt_wc_error error;
	struct xt_mem_at at;

	return check_lkey(&l, &whole, 0, &at, &error) &&
	       xt_mem_fetch(&qp->accesses.reads[XT_READS_SEND_AHEAD], item, at.mem, at.off,
			    sge->length);
}

bool xt_gather(struct xt_qp *qp, uint32_t index, uint32_t off, uint32_t len, struct xt_payload *out,
	       struct xt_wc_error *error)
{
	const uint32_t psn = xt_swqe(qp, index)->psn + (off >> qp->mtu_shift);
	struct xt_fetch f = { &qp->accesses.reads[XT_READS_SEND], index, psn, 0 };
	struct xt_sgl l = xt_swqe_sgl(qp, index);
	bool waiting = false;
	struct xt_mem_at at;
	struct copy_walk w;
	struct memory_run r;
	int err;

	out->n = 0;
	out->len = 0;
	out->passing = false;
	if (!len)
		return true;
	if (xt_swqe(qp, index)->flags & XR_SEND_INLINE) {
		out->passing = true;
		add_bytes(out, inline_data(qp, index) + off, len);
		return true;
	}
	for (w = walk_to(&l, off); len; len -= r.len) {
		r = walk_run(&w, len);
		if (!r.len)
			continue;
		if (!check_lkey(&l, &r, 0, &at, error))
			return false;
		f.rest = r.sge->length - r.off;
		err = xt_gather_mem(&f, &at, r.len, out);
		if (err && err != -EINPROGRESS) {
			set_memory_error(error);
			return false;
		}
		waiting |= err;
	}
	return !waiting;
}

bool xt_wqe_is_mapped(struct xt_qp *qp, uint32_t index)
{
	const struct xt_swqe *wqe = xt_swqe(qp, index);
	struct xt_sgl l = xt_swqe_sgl(qp, index);
	struct xt_wc_error error;
	struct xt_mem_at at;
	struct memory_run whole;

	if (wqe->flags & XR_SEND_INLINE)
		return true;
	for (whole.sge = l.sge, whole.off = 0; whole.sge < l.sge + l.n; whole.sge++) {
		whole.len = whole.sge->length;
		if (whole.len && (!check_lkey(&l, &whole, 0, &at, &error) ||
				  !xt_mem_ptr(at.mem, at.off, whole.len)))
			return false;
	}
	return true;
}

/* ---- into memory ---------------------------------------------------------------------- */

static enum xt_side copy_failed(enum xt_side side, struct xt_wc_error *error)
{
	set_memory_error(error);
	return side;
}

static enum xt_side put_from_segs(struct xt_put *put, const struct xt_mem_at *to,
				  const struct xt_seg *seg, uint64_t skip, uint32_t len,
				  struct xt_wc_error *error)
{
	int err = xt_mem_write_segs(put, to, seg, skip, len);

	if (!err)
		return XT_SIDE_NONE;
	return copy_failed(err == XT_PUT_ABSENT ? XT_SIDE_SOURCE : XT_SIDE_TARGET, error);
}

static enum xt_side put_from_mem(struct xt_put *put, const struct xt_mem_at *to,
				 const struct xt_mem_at *from, uint32_t len,
				 struct xt_wc_error *error)
{
	bool src_failed;

	if (!xt_mem_copy(put, to, from, len, &src_failed))
		return XT_SIDE_NONE;
	return copy_failed(src_failed ? XT_SIDE_SOURCE : XT_SIDE_TARGET, error);
}

static enum xt_side put_from_wqe(struct xt_mem_at to, const struct xt_source *src, uint64_t off,
				 uint32_t len, struct xt_wc_error *error)
{
	const struct xt_swqe *wqe = xt_swqe(src->qp, src->index);
	struct xt_sgl l = xt_swqe_sgl(src->qp, src->index);
	enum xt_side side;
	struct xt_mem_at from;
	struct xt_seg data;
	struct copy_walk w;
	struct memory_run r;

	if (wqe->flags & XR_SEND_INLINE) {
		data = (struct xt_seg){ inline_data(src->qp, src->index), wqe->length };
		return put_from_segs(src->put, &to, &data, off, len, error);
	}
	for (w = walk_to(&l, off); len; len -= r.len, to.off += r.len) {
		r = walk_run(&w, len);
		if (!r.len)
			continue;
		if (!check_lkey(&l, &r, 0, &from, error))
			return XT_SIDE_SOURCE;
		side = put_from_mem(src->put, &to, &from, r.len, error);
		if (side != XT_SIDE_NONE)
			return side;
	}
	return XT_SIDE_NONE;
}

/* Like xt_store(), from another offset of the source. */
static enum xt_side put_from(const struct xt_mem_at *to, const struct xt_source *src, uint64_t off,
			     uint32_t len, struct xt_wc_error *error)
{
	if (src->placed)
		return XT_SIDE_NONE;
	if (src->seg)
		return put_from_segs(src->put, to, src->seg, off, len, error);
	if (src->mem)
		return put_from_mem(src->put, to, &(struct xt_mem_at){ src->mem, off }, len, error);
	return put_from_wqe(*to, src, off, len, error);
}

/* The put may wait for some bytes. */
static enum xt_side result(const struct xt_put *put, enum xt_side side)
{
	return side == XT_SIDE_NONE && put->waits ? XT_SIDE_WAIT : side;
}

enum xt_side xt_store(const struct xt_mem_at *to, const struct xt_source *src, uint32_t len,
		      struct xt_wc_error *error)
{
	src->put->last = src->last;
	return result(src->put, put_from(to, src, src->off, len, error));
}

enum xt_side xt_scatter(const struct xt_sgl *to, uint64_t off, const struct xt_source *src,
			uint32_t len, struct xt_wc_error *error)
{
	enum xt_side side = XT_SIDE_NONE;
	uint64_t from = src->off;
	struct xt_mem_at at;
	struct copy_walk w;
	struct memory_run r;

	if (!len)
		return XT_SIDE_NONE;
	for (w = walk_to(to, off); len && side == XT_SIDE_NONE; len -= r.len, from += r.len) {
		r = walk_run(&w, len);
		if (!r.len)
			continue;
		if (!check_lkey(to, &r, XR_ACCESS_LOCAL_WRITE, &at, error))
			return XT_SIDE_TARGET;
		src->put->last = src->last && r.len == len;
		side = put_from(&at, src, from, r.len, error);
	}
	return result(src->put, side);
}

bool xt_scatter_mapped(const struct xt_sgl *to, uint64_t off, const struct xt_rx *rx)
{
	uint32_t from = rx->frame->meta.payload_off, len = rx->len;
	struct xt_wc_error error;
	struct xt_mem_at at;
	struct copy_walk w;
	struct memory_run r;

	for (w = walk_to(to, off); len; len -= r.len, from += r.len) {
		r = walk_run(&w, len);
		if (r.len && (!check_lkey(to, &r, XR_ACCESS_LOCAL_WRITE, &at, &error) ||
			      !xt_mem_place(&at, rx->frame->seg, from, r.len)))
			return false;
	}
	return true;
}
