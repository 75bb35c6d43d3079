// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs, <infiniband/xrocedv.h>: fast registration. */
#include <stdlib.h>
#include <string.h>

#include <infiniband/xrocedv.h>

#include "provider/base/debug.h"
#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/dv/common.h"
#include "provider/dv/fast_mr.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/qp.h"
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
	struct xp_context *ctx = xp_own_pd(ibpd)->ctx;
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
	mr->ctx = ctx;
	mr->ibmr.context = ibpd->context;
	mr->ibmr.pd = ibpd;
	mr->ibmr.handle = rep.handle;
	mr->ibmr.lkey = mr->ibmr.rkey = rep.key;
	return 0;
}

static int fast_mr_alloc(struct ibv_pd *ibpd, struct xp_fast_mr *mr)
{
	struct xr_alloc_fast_mr_req req = { .pd = xp_own_pd(ibpd)->ibpd.handle,
					    .max_pages = mr->max_pages };
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
	const char *verb = "xrocedv_alloc_mr";
	struct xp_fast_mr *mr;
	int err;

	if (!xp_is_ours(pd->context))
		return xp_null(xp_refuse_foreign(verb));
	if (!max_pages || max_pages > XROCEDV_MAX_PAGES)
		return xp_null(xp_refuse(verb, EINVAL, "max_pages %u; 1 to %u", max_pages,
					 XROCEDV_MAX_PAGES));
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return xp_null(xp_refuse_memory(verb));
	mr->max_pages = max_pages;
	err = fast_mr_alloc(pd, mr);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	return &mr->base.ibmr;
}

/* ---- pages ----------------------------------------------------------------------- */

#define NOT_FAST "the region is not one of xrocedv_alloc_mr()"

/* Returns NULL if it is not a region for fast registration. */
static struct xp_fast_mr *fast_of(struct ibv_mr *ibmr)
{
	return xp_is_ours(ibmr->context) && xp_mr(ibmr)->fast ? xp_fast_mr(ibmr) : NULL;
}

/* Appends the pages of [addr, addr + len). Returns the bytes for which there was room. */
static uint64_t fast_mr_add_range(struct xp_page_list *l, uint64_t addr, uint64_t len)
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

int xp_refuse_page_size(const char *verb, uint64_t size)
{
	return xp_refuse(verb, EINVAL, "page_size %llu; a power of two from %u to %u",
			 (unsigned long long)size, XROCEDV_MIN_PAGE_SIZE, XROCEDV_MAX_PAGE_SIZE);
}

int xp_check_list(const char *verb, const struct xrocedv_sg *sg, int nents, uint64_t offset)
{
	int i;

	if (nents < 1)
		return xp_refuse(verb, EINVAL, "nents %d; 1 or more", nents);
	if (offset >= sg->length)
		return xp_refuse(verb, EINVAL, "sg_offset is not within the first element");
	for (i = 0; i < nents; i++)
		if (!sg[i].length || sg[i].addr + sg[i].length < sg[i].addr)
			return xp_refuse(verb, EINVAL,
					 "an element is empty, or exceeds the address space");
	return 0;
}

int xp_build_page_list(struct xp_page_list *l, const struct xrocedv_sg *sg, int nents,
		       uint64_t *sg_offset)
{
	uint64_t off = *sg_offset, done;
	int i;

	l->iova = sg->addr + off;
	*sg_offset = 0;
	for (i = 0; i < nents && can_follow(l, sg[i].addr + off); i++, off = 0) {
		done = fast_mr_add_range(l, sg[i].addr + off, sg[i].length - off);
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
static bool fast_mr_add_piece(struct xp_page_list *l, struct xr_piece_group *group, uint64_t addr,
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
		if (!fast_mr_add_piece(l, &group, sg[i].addr + off, sg[i].length - off))
			break;
	return i;
}

/* Returns 0 or refuses elements of any address and length. */
static int fast_mr_check_pieces(const char *verb, const struct xp_fast_mr *mr,
				const struct xrocedv_sg *sg, int nents)
{
	uint64_t at = sg->addr;
	int i;

	if (mr->max_pages < 2)
		return xp_refuse(verb, EINVAL, "XROCEDV_SG_GAPS needs max_pages of 2 or more");
	for (i = 0; i < nents; i++) {
		if (sg[i].addr >= XR_PIECE_END || sg[i].length > XR_PIECE_END - sg[i].addr ||
		    at + sg[i].length < at)
			return xp_refuse(verb, EINVAL,
					 "an element ends beyond address 2^52, or all of them "
					 "exceed the address space");
		at += sg[i].length;
	}
	return 0;
}

static int check_map(const char *verb, const struct xp_fast_mr *mr, const struct xrocedv_sg *sg,
		     int nents, uint64_t offset, uint32_t page_size)
{
	int err;

	if (!mr)
		return xp_refuse(verb, EINVAL, NOT_FAST);
	if (page_size != XROCEDV_SG_GAPS && !xp_fast_page_size_valid(page_size))
		return xp_refuse_page_size(verb, page_size);
	err = xp_check_list(verb, sg, nents, offset);
	if (!err && page_size == XROCEDV_SG_GAPS)
		err = fast_mr_check_pieces(verb, mr, sg, nents);
	return err;
}

XP_PUBLIC int xrocedv_map_mr_sg(struct ibv_mr *ibmr, const struct xrocedv_sg *sg, int nents,
				uint64_t *sg_offset, uint32_t page_size)
{
	struct xp_fast_mr *mr = fast_of(ibmr);
	uint64_t none = 0, *off = sg_offset ? sg_offset : &none;
	struct xp_page_list l = { .size = page_size };
	int mapped = check_map("xrocedv_map_mr_sg", mr, sg, nents, *off, page_size);

	if (mapped)
		return mapped;
	l.page = xp_fast_mr_next_list(mr);
	l.max = mr->max_pages;
	mapped = page_size == XROCEDV_SG_GAPS ? build_piece_list(&l, sg, nents, off)
					      : xp_build_page_list(&l, sg, nents, off);
	xp_fast_mr_set(mr, &l);
	return mapped;
}

/* ---- posting --------------------------------------------------------------------- */

#define REG_FLAGS (unsigned int)(IBV_SEND_SIGNALED | IBV_SEND_FENCE)

int xp_check_reg(const char *verb, const struct ibv_qp *ibqp, const struct ibv_mr *ibmr,
		 unsigned int send_flags)
{
	if (!xp_is_of(ibmr, xp_mr, xp_qp(ibqp)->ctx))
		return xp_refuse(verb, EINVAL, "region and QP are of different contexts");
	if (send_flags & ~REG_FLAGS)
		return xp_refuse(verb, EINVAL, "send_flags 0x%x, known 0x%x", send_flags,
				 REG_FLAGS);
	return 0;
}

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
	const char *verb = "xrocedv_post_reg_mr";
	struct xp_qp *qp = xp_qp(ibqp);
	struct xr_send_wqe *wqe;
	int err;

	if (!mr)
		return -xp_refuse(verb, EINVAL, NOT_FAST);
	err = xp_check_reg(verb, ibqp, ibmr, send_flags);
	if (err)
		return -err;
	if (!mr->pages)
		return -xp_refuse(verb, EINVAL, "no pages are set: xrocedv_map_mr_sg()");
	err = xp_post_begin(verb, ibqp, ibmr->pd, "region");
	if (err)
		return -err;
	wqe = xp_ring_next(&qp->sq);
	xp_wqe_init(wqe, wr_id, XR_WR_REG_MR, send_flags);
	xp_wqe_reg(wqe, mr, access);
	xp_post_end(qp, wr_id);
	return 0;
}
