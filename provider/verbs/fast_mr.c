// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs, <infiniband/xrocedv.h>: fast registration. */
#include <stdlib.h>
#include <string.h>

#include <infiniband/xrocedv.h>

#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/verbs/fast_mr.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/request.h"

_Static_assert(XROCEDV_MAX_PAGES == XR_FAST_MAX_PAGES &&
		       XROCEDV_MIN_PAGE_SIZE == 1u << XR_FAST_SHIFT_MIN &&
		       XROCEDV_MAX_PAGE_SIZE == 1u << XR_FAST_SHIFT_MAX,
	       "limits of <xroce/ring.h>");

/* ---- allocation ------------------------------------------------------------------ */

int xp_alloc_listed_mr(struct ibv_pd *ibpd, struct xp_mr *mr, struct xp_call *call, uint64_t least,
		       void **lists)
{
	struct xr_alloc_fast_mr_rep rep;
	struct xp_piece piece = { .ref = &rep.lists };
	struct xp_context *ctx = xp_ctx(ibpd->context);
	int err = xp_send_proc_files(ibpd);

	call->rep = &rep;
	call->rep_len = sizeof(rep);
	if (!err)
		err = xp_call_map(ctx, call, &piece, 1);
	if (err)
		return err;
	if (!piece.ptr || rep.lists.length < least) {
		xp_release(ctx, XR_MSG_DEREG_MR, rep.handle, NULL);
		return -EPROTO;
	}
	*lists = piece.ptr;
	mr->fixed = true;
	mr->ibmr.context = ibpd->context;
	mr->ibmr.pd = ibpd;
	mr->ibmr.handle = rep.handle;
	mr->ibmr.lkey = mr->ibmr.rkey = rep.key;
	return 0;
}

static int alloc(struct ibv_pd *ibpd, struct xp_fast_mr *mr)
{
	struct xr_alloc_fast_mr_req req = { .pd = ibpd->handle, .max_pages = mr->max_pages };
	struct xp_call call = {
		.type = XR_MSG_ALLOC_FAST_MR,
		.req = &req,
		.req_len = sizeof(req),
	};
	uint64_t least = XR_FAST_LISTS * sizeof(uint64_t) * mr->max_pages;
	void *lists;
	int err = xp_alloc_listed_mr(ibpd, &mr->base, &call, least, &lists);

	if (err)
		return err;
	mr->lists = lists;
	mr->base.fast = true;
	return 0;
}

XP_PUBLIC struct ibv_mr *xrocedv_alloc_mr(struct ibv_pd *pd, uint32_t max_pages)
{
	struct xp_fast_mr *mr;
	int err;

	if (!xp_is_ours(pd->context))
		return xp_null(EOPNOTSUPP);
	if (!max_pages || max_pages > XROCEDV_MAX_PAGES)
		return xp_null(EINVAL);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return xp_null(ENOMEM);
	mr->max_pages = max_pages;
	err = alloc(pd, mr);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	return &mr->base.ibmr;
}

/* ---- pages ----------------------------------------------------------------------- */

/* Returns NULL if it is not a region for fast registration. */
static struct xp_fast_mr *fast_of(struct ibv_mr *ibmr)
{
	return xp_is_ours(ibmr->context) && xp_mr(ibmr)->fast ? xp_fast_mr(ibmr) : NULL;
}

/* Appends the pages of [addr, addr + len). Returns the bytes for which there was room. */
static uint64_t add_range(struct xp_page_list *l, uint64_t addr, uint64_t len)
{
	uint64_t at = addr, stop = addr + len, page;

	/* Continues in the last page that was added. */
	if (l->pages && addr == l->end && addr & (l->size - 1))
		at = (addr + l->size - 1) & ~(l->size - 1);
	for (page = at & ~(l->size - 1); at < stop && l->pages < l->max; page += l->size) {
		l->page[l->pages++] = page;
		at = page + l->size;
	}
	if (at < stop)
		stop = at > addr ? at : addr;
	l->end = stop;
	l->length += stop - addr;
	return stop - addr;
}

/* Returns true if addr can follow what the list has, in one region. */
static bool can_follow(const struct xp_page_list *l, uint64_t addr)
{
	return !l->pages || addr == l->end || !((addr | l->end) & (l->size - 1));
}

static bool is_valid(const struct xp_page_list *l, const struct xrocedv_sg *sg, int nents,
		     uint64_t offset)
{
	int i;

	if (!xp_fast_page_size_valid(l->size))
		return false;
	for (i = 0; i < nents; i++)
		if (!sg[i].length || sg[i].addr + sg[i].length < sg[i].addr)
			return false;
	return nents > 0 && offset < sg->length;
}

int xp_build_page_list(struct xp_page_list *l, const struct xrocedv_sg *sg, int nents,
		       uint64_t *sg_offset)
{
	uint64_t off = *sg_offset, done;
	int i;

	if (!is_valid(l, sg, nents, off))
		return -EINVAL;
	l->iova = sg->addr + off;
	*sg_offset = 0;
	for (i = 0; i < nents && can_follow(l, sg[i].addr + off); i++, off = 0) {
		done = add_range(l, sg[i].addr + off, sg[i].length - off);
		if (done == sg[i].length - off)
			continue;
		*sg_offset = off + done;
		break;
	}
	return i;
}

uint64_t *xp_fast_mr_next_list(struct xp_fast_mr *mr)
{
	mr->list = (mr->list + 1) % XR_FAST_LISTS;
	return mr->lists + (size_t)mr->list * mr->max_pages;
}

void xp_fast_mr_set(struct xp_fast_mr *mr, const struct xp_page_list *l)
{
	mr->pages = l->pages;
	mr->page_shift = l->size ? (uint32_t)__builtin_ctzll(l->size) : XR_FAST_PIECES;
	mr->iova = l->iova;
	mr->base.ibmr.addr = (void *)(uintptr_t)l->iova;
	mr->base.ibmr.length = l->length;
}

/* Returns false if the element cannot follow: too many, or too short in a row. */
static bool add_piece(struct xp_page_list *l, struct xr_piece_group *group, uint64_t addr,
		      uint64_t len)
{
	if (2 * (l->pages + 1) > l->max || xr_piece_add(group, len) == XR_PIECE_TOO_SHORT)
		return false;
	l->page[2 * l->pages] = addr;
	l->page[2 * l->pages + 1] = len;
	l->pages++;
	l->length += len;
	return true;
}

/* As xp_build_page_list(), for elements of any address and length. */
static int build_piece_list(struct xp_page_list *l, const struct xrocedv_sg *sg, int nents,
			    uint64_t *sg_offset)
{
	struct xr_piece_group group = { 0, 0 };
	uint64_t off = *sg_offset;
	int i;

	l->iova = sg->addr + off;
	*sg_offset = 0;
	for (i = 0; i < nents; i++, off = 0)
		if (!add_piece(l, &group, sg[i].addr + off, sg[i].length - off))
			break;
	return i;
}

static bool pieces_valid(const struct xp_fast_mr *mr, const struct xrocedv_sg *sg, int nents,
			 uint64_t offset)
{
	uint64_t at;
	int i;

	if (mr->max_pages < 2 || nents < 1 || offset >= sg->length)
		return false;
	at = sg->addr;
	for (i = 0; i < nents; i++) {
		if (!sg[i].length || sg[i].addr >= XR_PIECE_END ||
		    sg[i].length > XR_PIECE_END - sg[i].addr || at + sg[i].length < at)
			return false;
		at += sg[i].length;
	}
	return true;
}

XP_PUBLIC int xrocedv_map_mr_sg(struct ibv_mr *ibmr, const struct xrocedv_sg *sg, int nents,
				uint64_t *sg_offset, uint32_t page_size)
{
	struct xp_fast_mr *mr = fast_of(ibmr);
	uint64_t none = 0, *off = sg_offset ? sg_offset : &none;
	struct xp_page_list l = { .size = page_size };
	int mapped;

	if (!mr || !(page_size == XROCEDV_SG_GAPS ? pieces_valid(mr, sg, nents, *off)
						  : is_valid(&l, sg, nents, *off)))
		return -EINVAL;
	l.page = xp_fast_mr_next_list(mr);
	l.max = mr->max_pages;
	mapped = page_size == XROCEDV_SG_GAPS ? build_piece_list(&l, sg, nents, off)
					      : xp_build_page_list(&l, sg, nents, off);
	xp_fast_mr_set(mr, &l);
	return mapped;
}

/* ---- posting --------------------------------------------------------------------- */

void xp_wqe_reg(struct xr_send_wqe *wqe, const struct xp_fast_mr *mr, unsigned int access)
{
	wqe->reg.key = mr->base.ibmr.rkey;
	wqe->reg.access = access;
	wqe->reg.pages = mr->pages;
	wqe->reg.list = (uint8_t)mr->list;
	wqe->reg.page_shift = (uint8_t)mr->page_shift;
	wqe->remote_addr = mr->iova;
	wqe->bind_len = mr->base.ibmr.length;
}

XP_PUBLIC int xrocedv_post_reg_mr(struct ibv_qp *ibqp, struct ibv_mr *ibmr, uint64_t wr_id,
				  unsigned int access, unsigned int send_flags)
{
	struct xp_fast_mr *mr = fast_of(ibmr);
	struct xp_qp *qp = xp_qp(ibqp);
	struct xr_send_wqe *wqe;
	int err = 0;

	if (!mr || ibqp->context != ibmr->context || !mr->pages ||
	    send_flags & ~(unsigned int)(IBV_SEND_SIGNALED | IBV_SEND_FENCE))
		return EINVAL;
	if (!xp_pd_same(ibqp->pd, ibmr->pd))
		return EPERM;
	if (xp_health(xp_ctx(ibqp->context)) == XP_FORKED)
		return EIO;
	xp_lock(&qp->sq_lock);
	if (!xp_can_send(ibqp->state)) {
		err = EINVAL;
	} else if (!xp_ring_room(&qp->sq)) {
		err = ENOMEM;
	} else {
		wqe = xp_ring_next(&qp->sq);
		xp_wqe_init(wqe, wr_id, XR_WR_REG_MR, send_flags);
		xp_wqe_reg(wqe, mr, access);
		xp_ring_push(&qp->sq, wr_id);
		xp_ring_publish(&qp->sq);
	}
	xp_unlock(&qp->sq_lock);
	if (!err)
		xp_ring_doorbell(qp);
	return err;
}
