// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Payload from and to memory. Each use of a key is checked here, also when the
 * same work request was checked before: regions may go at any time.
 */
#include "copy.h"
#include "engine.h"
#include "packet.h"
#include "qp.h"
#include "rings.h"
#include "sq.h"

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

/* All that the client has, by address; IBTA 10.6.3: no PD check applies */
static enum xr_reason check_reserved(const struct xt_qp *qp, uint64_t addr, uint32_t len,
				     struct xt_mem **mem, uint64_t *mem_off)
{
	struct xt_mem *all = qp->reserved_lkey_mem ? *qp->reserved_lkey_mem : NULL;

	*mem = len ? all : NULL;
	*mem_off = addr;
	if (!len)
		return XR_OK;
	if (!all)
		return XR_KEY_INDEX;
	return addr <= all->length && len <= all->length - addr ? XR_OK : XR_KEY_RANGE;
}

static bool check_key_of(struct xt_qp *qp, uint32_t pd, const struct xr_sge *sge, uint32_t off,
			 uint32_t len, uint32_t access, struct xt_mem **mem, uint64_t *mem_off,
			 struct xt_wc_error *error)
{
	const struct xr_key_use use = {
		.key = sge->lkey,
		.pd = pd,
		.qpn = qp->info.qpn,
		.access = access,
		.va = sge->addr + off,
		.len = len,
	};
	enum xr_reason why;

	/* an address that wraps is out of range whatever the region */
	if (use.va < sge->addr)
		why = XR_KEY_RANGE;
	else if (sge->lkey == XR_RESERVED_LKEY)
		why = check_reserved(qp, use.va, len, mem, mem_off);
	else
		why = xt_keys_check(qp->engine->shared->keys, &use, mem, mem_off);
	if (why == XR_OK)
		return true;
	set_lkey_error(error, why);
	return false;
}

static bool check_lkey(struct xt_qp *qp, const struct xr_sge *sge, uint32_t off, uint32_t len,
		       uint32_t access, struct xt_mem **mem, uint64_t *mem_off,
		       struct xt_wc_error *error)
{
	return check_key_of(qp, qp->info.pd, sge, off, len, access, mem, mem_off, error);
}

bool xt_check_sges(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint32_t access,
		   struct xt_wc_error *error)
{
	struct xt_mem *mem;
	uint64_t off;

	for (; n; n--, sge++)
		if (!check_lkey(qp, sge, 0, sge->length, access, &mem, &off, error))
			return false;
	return true;
}

/* ---- walking an SGL ---------------------------------------------------------------- */

struct walk {
	const struct xr_sge *sge;
	uint32_t n;
	uint32_t off; /* in sge */
};

static void walk_to(struct walk *w, const struct xr_sge *sge, uint32_t n, uint64_t off)
{
	while (n && off >= sge->length) {
		off -= sge->length;
		sge++;
		n--;
	}
	*w = (struct walk){ sge, n, (uint32_t)off };
}

/* Length of the run at hand, at most max, 0 for an empty SGE; the walk moves on behind it. */
static uint32_t walk_run(struct walk *w, uint32_t max, const struct xr_sge **sge, uint32_t *off)
{
	uint32_t left = w->sge->length - w->off;
	uint32_t run = left < max ? left : max;

	*sge = w->sge;
	*off = w->off;
	w->off += run;
	if (w->off == w->sge->length) {
		w->sge++;
		w->n--;
		w->off = 0;
	}
	return run;
}

/* ---- payload of packets ---------------------------------------------------------------- */

static void add_piece(struct xt_payload *out, const uint8_t *p, uint32_t len)
{
	out->seg[out->n].data = (uint8_t *)p;
	out->seg[out->n++].len = len;
	out->len += len;
}

/* The bounce buffer holds a whole payload; a piece has the same place in both. */
int xt_gather_mem(struct xt_engine *e, struct xt_mem *mem, uint64_t off, uint32_t len,
		  struct xt_payload *out)
{
	uint8_t *p = xt_mem_ptr(mem, off, len);
	int err;

	if (!p) {
		p = e->bounce + out->len;
		err = xt_mem_read(mem, off, p, len);
		if (err)
			return err;
	}
	add_piece(out, p, len);
	return 0;
}

bool xt_gather(struct xt_qp *qp, uint32_t index, uint32_t off, uint32_t len, struct xt_payload *out,
	       struct xt_wc_error *error)
{
	const struct xt_swqe *wqe = xt_swqe(qp, index);
	const struct xr_sge *sge;
	struct xt_mem *mem;
	struct walk w;
	uint64_t mem_off;
	uint32_t run, sge_off;

	out->n = 0;
	out->len = 0;
	if (!len)
		return true;
	if (wqe->flags & XR_SEND_INLINE) {
		add_piece(out,
			  xt_ring_entry(qp->sq_ring, index, qp->sq_depth, qp->sq_stride) +
				  sizeof(struct xr_send_wqe) + off,
			  len);
		return true;
	}
	for (walk_to(&w, xt_swqe_sge(qp, index), wqe->num_sge, off); len; len -= run) {
		run = walk_run(&w, len, &sge, &sge_off);
		if (!run)
			continue;
		if (!check_lkey(qp, sge, sge_off, run, 0, &mem, &mem_off, error))
			return false;
		if (xt_gather_mem(qp->engine, mem, mem_off, run, out)) {
			set_memory_error(error);
			return false;
		}
	}
	return true;
}

/* ---- into memory ---------------------------------------------------------------------- */

static enum xt_side put_from_segs(struct xt_mem *mem, uint64_t off, const struct xt_seg *seg,
				  uint64_t skip, uint32_t len, struct xt_wc_error *error)
{
	uint32_t run;

	for (; len; seg++, skip = 0) {
		for (; skip >= seg->len; seg++)
			skip -= seg->len;
		run = seg->len - (uint32_t)skip < len ? seg->len - (uint32_t)skip : len;
		if (xt_mem_write(mem, off, seg->data + skip, run)) {
			set_memory_error(error);
			return XT_SIDE_TARGET;
		}
		off += run;
		len -= run;
	}
	return XT_SIDE_NONE;
}

static enum xt_side copy_mem(struct xt_mem *dst, uint64_t dst_off, struct xt_mem *src,
			     uint64_t src_off, uint32_t len, struct xt_wc_error *error)
{
	bool src_failed;

	if (!xt_mem_copy(dst, dst_off, src, src_off, len, &src_failed))
		return XT_SIDE_NONE;
	set_memory_error(error);
	return src_failed ? XT_SIDE_SOURCE : XT_SIDE_TARGET;
}

static enum xt_side put_from_wqe(struct xt_mem *mem, uint64_t off, const struct xt_source *src,
				 uint32_t len, struct xt_wc_error *error)
{
	const struct xt_swqe *wqe = xt_swqe(src->qp, src->index);
	const struct xr_sge *sge;
	struct xt_mem *from;
	struct xt_seg inline_data;
	enum xt_side side;
	struct walk w;
	uint64_t from_off;
	uint32_t run, sge_off;

	if (wqe->flags & XR_SEND_INLINE) {
		inline_data.data = xt_ring_entry(src->qp->sq_ring, src->index, src->qp->sq_depth,
						 src->qp->sq_stride) +
				   sizeof(struct xr_send_wqe);
		inline_data.len = wqe->length;
		return put_from_segs(mem, off, &inline_data, src->off, len, error);
	}
	walk_to(&w, xt_swqe_sge(src->qp, src->index), wqe->num_sge, src->off);
	for (; len; len -= run) {
		run = walk_run(&w, len, &sge, &sge_off);
		if (!run)
			continue;
		if (!check_lkey(src->qp, sge, sge_off, run, 0, &from, &from_off, error))
			return XT_SIDE_SOURCE;
		side = copy_mem(mem, off, from, from_off, run, error);
		if (side)
			return side;
		off += run;
	}
	return XT_SIDE_NONE;
}

enum xt_side xt_put(struct xt_mem *mem, uint64_t off, const struct xt_source *src, uint32_t len,
		    struct xt_wc_error *error)
{
	if (src->seg)
		return put_from_segs(mem, off, src->seg, src->off, len, error);
	return put_from_wqe(mem, off, src, len, error);
}

static enum xt_side scatter(struct xt_qp *qp, uint32_t pd, const struct xr_sge *sge, uint32_t n,
			    uint64_t off, const struct xt_source *src, uint32_t len,
			    struct xt_wc_error *error)
{
	struct xt_source from = *src;
	struct xt_mem *mem;
	enum xt_side side;
	struct walk w;
	uint64_t mem_off;
	uint32_t run, sge_off;

	if (!len)
		return XT_SIDE_NONE;
	for (walk_to(&w, sge, n, off); len; len -= run, from.off += run) {
		run = walk_run(&w, len, &sge, &sge_off);
		if (!run)
			continue;
		if (!check_key_of(qp, pd, sge, sge_off, run, XR_ACCESS_LOCAL_WRITE, &mem, &mem_off,
				  error))
			return XT_SIDE_TARGET;
		side = xt_put(mem, mem_off, &from, run, error);
		if (side)
			return side;
	}
	return XT_SIDE_NONE;
}

enum xt_side xt_scatter(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint64_t off,
			const struct xt_source *src, uint32_t len, struct xt_wc_error *error)
{
	return scatter(qp, qp->info.pd, sge, n, off, src, len, error);
}

enum xt_side xt_scatter_receive(struct xt_qp *qp, uint64_t off, const struct xt_source *src,
				uint32_t len, struct xt_wc_error *error)
{
	const struct xt_receive *rq = &qp->rq;

	return scatter(qp, rq->pd, qp->rq_sge, rq->num_sge, off, src, len, error);
}

enum xt_side xt_scatter_mem(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint64_t off,
			    struct xt_mem *mem, uint64_t mem_off, uint32_t len,
			    struct xt_wc_error *error)
{
	struct xt_mem *to;
	enum xt_side side;
	struct walk w;
	uint64_t to_off;
	uint32_t run, sge_off;

	if (!len)
		return XT_SIDE_NONE;
	for (walk_to(&w, sge, n, off); len; len -= run, mem_off += run) {
		run = walk_run(&w, len, &sge, &sge_off);
		if (!run)
			continue;
		if (!check_lkey(qp, sge, sge_off, run, XR_ACCESS_LOCAL_WRITE, &to, &to_off, error))
			return XT_SIDE_TARGET;
		side = copy_mem(to, to_off, mem, mem_off, run, error);
		if (side)
			return side;
	}
	return XT_SIDE_NONE;
}
