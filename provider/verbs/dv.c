// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs, <infiniband/xrocedv.h>: queue pair 1, regions that work requests register. */
#include <stdlib.h>

#include <infiniband/xrocedv.h>

#include "provider/provider.h"

_Static_assert(XROCEDV_MAX_PAGES == XR_FAST_MAX_PAGES &&
		       XROCEDV_MIN_PAGE_SIZE == 1u << XR_FAST_SHIFT_MIN &&
		       XROCEDV_MAX_PAGE_SIZE == 1u << XR_FAST_SHIFT_MAX,
	       "limits of ring.h");

XP_PUBLIC bool xrocedv_is_supported(struct ibv_device *device)
{
	return xp_is_our_device(device);
}

/* ---- management ------------------------------------------------------------------ */

XP_PUBLIC struct ibv_qp *xrocedv_create_gsi_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return xp_is_ours(pd->context) ? xp_create_gsi_qp(pd, attr) : xp_null(EOPNOTSUPP);
}

/* ---- allocation ------------------------------------------------------------------ */

static int alloc(struct ibv_pd *ibpd, struct xp_fast_mr *mr)
{
	struct xr_alloc_fast_mr_req req = { .pd = ibpd->handle, .max_pages = mr->max_pages };
	struct xr_alloc_fast_mr_rep rep;
	struct xp_call call = {
		.type = XR_MSG_ALLOC_FAST_MR,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_piece piece = { .ref = &rep.lists };
	struct xp_context *ctx = xp_ctx(ibpd->context);
	int err = xp_send_proc_files(ibpd);

	if (!err)
		err = xp_call_map(ctx, &call, &piece, 1);
	if (err)
		return err;
	if (!piece.ptr || rep.lists.length / sizeof(uint64_t) / XR_FAST_LISTS < mr->max_pages) {
		xp_release(ctx, XR_MSG_DEREG_MR, rep.handle, NULL);
		return -EPROTO;
	}
	mr->lists = piece.ptr;
	mr->base.fast = mr->base.fixed = true;
	mr->base.ibmr.context = ibpd->context;
	mr->base.ibmr.pd = ibpd;
	mr->base.ibmr.handle = rep.handle;
	mr->base.ibmr.lkey = mr->base.ibmr.rkey = rep.key;
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

/* ---- the reserved L_Key ---------------------------------------------------------- */

XP_PUBLIC int xrocedv_reserved_lkey(struct ibv_pd *pd, uint32_t *lkey)
{
	struct xr_reserved_lkey_rep rep;
	struct xp_call call = {
		.type = XR_MSG_RESERVED_LKEY,
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	int err;

	if (!xp_is_ours(pd->context))
		return EOPNOTSUPP;
	err = xp_send_proc_files(pd);
	if (!err)
		err = xp_call(xp_ctx(pd->context), &call);
	if (!err)
		*lkey = rep.lkey;
	return -err;
}

/* ---- pages ----------------------------------------------------------------------- */

static struct xp_fast_mr *fast_of(struct ibv_mr *ibmr)
{
	return xp_is_ours(ibmr->context) && ((struct xp_mr *)ibmr)->fast ? xp_fast(ibmr) : NULL;
}

/* Bytes of [addr, addr + len) that found room */
static uint64_t add_range(struct xp_pages *b, uint64_t addr, uint64_t len)
{
	uint64_t at = addr, stop = addr + len, page;

	/* goes on in the page where the one before ended */
	if (b->pages && addr == b->end && addr & (b->size - 1))
		at = (addr + b->size - 1) & ~(b->size - 1);
	for (page = at & ~(b->size - 1); at < stop && b->pages < b->max; page += b->size) {
		b->page[b->pages++] = page;
		at = page + b->size;
	}
	if (at < stop)
		stop = at > addr ? at : addr;
	b->end = stop;
	b->length += stop - addr;
	return stop - addr;
}

/* Can it stand behind what is there? */
static bool continues(const struct xp_pages *b, uint64_t addr)
{
	return !b->pages || addr == b->end || !((addr | b->end) & (b->size - 1));
}

static bool sane(const struct xp_pages *b, const struct xrocedv_sg *sg, int nents, uint64_t offset)
{
	int i;

	if (b->size < XROCEDV_MIN_PAGE_SIZE || b->size > XROCEDV_MAX_PAGE_SIZE ||
	    b->size & (b->size - 1))
		return false;
	for (i = 0; i < nents; i++)
		if (!sg[i].length || sg[i].addr + sg[i].length < sg[i].addr)
			return false;
	return nents > 0 && offset < sg->length;
}

int xp_lay_pages(struct xp_pages *b, const struct xrocedv_sg *sg, int nents, uint64_t *sg_offset)
{
	uint64_t off = *sg_offset, done;
	int i;

	if (!sane(b, sg, nents, off))
		return -EINVAL;
	b->iova = sg->addr + off;
	*sg_offset = 0;
	for (i = 0; i < nents && continues(b, sg[i].addr + off); i++, off = 0) {
		done = add_range(b, sg[i].addr + off, sg[i].length - off);
		if (done == sg[i].length - off)
			continue;
		*sg_offset = off + done;
		break;
	}
	return i;
}

uint64_t *xp_fast_next_list(struct xp_fast_mr *mr)
{
	mr->list = (mr->list + 1) % XR_FAST_LISTS;
	return mr->lists + (size_t)mr->list * mr->max_pages;
}

void xp_fast_set(struct xp_fast_mr *mr, const struct xp_pages *b)
{
	mr->pages = b->pages;
	mr->page_shift = (uint32_t)__builtin_ctzll(b->size);
	mr->iova = b->iova;
	mr->base.ibmr.addr = (void *)(uintptr_t)b->iova;
	mr->base.ibmr.length = b->length;
}

XP_PUBLIC int xrocedv_map_mr_sg(struct ibv_mr *ibmr, const struct xrocedv_sg *sg, int nents,
				uint64_t *sg_offset, uint32_t page_size)
{
	struct xp_fast_mr *mr = fast_of(ibmr);
	uint64_t none = 0, *off = sg_offset ? sg_offset : &none;
	struct xp_pages b = { .size = page_size };
	int mapped;

	if (!mr || !sane(&b, sg, nents, *off))
		return -EINVAL;
	b.page = xp_fast_next_list(mr);
	b.max = mr->max_pages;
	mapped = xp_lay_pages(&b, sg, nents, off);
	xp_fast_set(mr, &b);
	return mapped;
}

/* ---- posting --------------------------------------------------------------------- */

static void fill(struct xr_send_wqe *wqe, const struct xp_fast_mr *mr, unsigned int access)
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
		fill(wqe, mr, access);
		xp_ring_push(&qp->sq, wr_id);
		xp_ring_publish(&qp->sq);
	}
	xp_unlock(&qp->sq_lock);
	if (!err)
		xp_ring_bell(qp);
	return err;
}
