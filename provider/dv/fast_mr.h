/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Regions for fast registration, <infiniband/xrocedv.h>. */
#ifndef XP_FAST_MR_H
#define XP_FAST_MR_H

#include <stdint.h>

#include <infiniband/xrocedv.h>
#include <xroce/bits.h>

#include "provider/control/connection.h"
#include "provider/verbs/mr.h"

struct xp_fast_mr {
	struct xp_mr base; /* first, for ibv_dereg_mr() */
	uint64_t *lists;   /* shared with the daemon: XR_FAST_LISTS lists of max_pages addresses */
	uint32_t max_pages;
	/* Pages of the next registration */
	uint32_t list;		    /* index */
	uint32_t pages, page_shift; /* 0 pages: not set yet */
	uint64_t iova;
};

/*
 * Allocates a region that work requests register, with lists in memory shared with the daemon.
 * call: type and request; the reply is struct xr_alloc_fast_mr_rep, with at least `least` bytes of
 * lists. Returns 0 or -errno.
 */
int xp_alloc_listed_mr(struct ibv_pd *ibpd, struct xp_mr *mr, struct xp_call *call, uint64_t least,
		       void **lists);

static inline struct xp_fast_mr *xp_fast_mr(struct ibv_mr *ibmr)
{
	return (struct xp_fast_mr *)ibmr;
}

/* A page list that is built from a scatter/gather list. The caller sets page, max and size. */
struct xp_page_list {
	uint64_t *page;
	uint32_t max;	/* room, in pages */
	uint64_t size;	/* of a page, in bytes; 0: a list of pieces (ring.h) */
	uint32_t pages; /* out: pages, or pieces */
	uint64_t iova, length;
	uint64_t end; /* out: address after the last byte that is mapped */
};

static inline bool xp_fast_page_size_valid(uint64_t size)
{
	return size >= XROCEDV_MIN_PAGE_SIZE && size <= XROCEDV_MAX_PAGE_SIZE && xr_is_pow2(size);
}

/* Refuse a page size, and the arguments of a registration. Return the negative errno, or 0. */
int xp_refuse_page_size(const char *verb, uint64_t size);
int xp_check_reg(const char *verb, const struct ibv_qp *ibqp, const struct ibv_mr *ibmr,
		 unsigned int send_flags);
/* Checks a list of elements, except their alignment. Returns 0 or -EINVAL, and then refuses. */
int xp_check_list(const char *verb, const struct xrocedv_sg *sg, int nents, uint64_t offset);

/*
 * Builds a page list as xrocedv_map_mr_sg() describes, from a list that was checked. off must not
 * be NULL. Returns the number of elements that are wholly in it.
 */
int xp_build_page_list(struct xp_page_list *l, const struct xrocedv_sg *sg, int nents,
		       uint64_t *off);

/*
 * Returns the region's list for the next registration. The other list may be in use by the
 * registration that was posted last.
 */
uint64_t *xp_fast_mr_next_list(struct xp_fast_mr *mr);

/* Sets the pages of the next registration. Their addresses must be in that list already. */
void xp_fast_mr_set(struct xp_fast_mr *mr, const struct xp_page_list *l);

/* Sets the fields of a registration of these pages. */
void xp_wqe_reg(struct xr_send_wqe *wqe, const struct xp_fast_mr *mr, unsigned int access);

#endif /* XP_FAST_MR_H */
