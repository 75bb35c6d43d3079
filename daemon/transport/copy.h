/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Payload from and to memory, with its keys checked. Lengths and offsets are bytes. */
#ifndef XT_COPY_H
#define XT_COPY_H

#include "qp.h"
#include "sq.h"

/* A position in a region */
struct xt_mem_at {
	struct xt_mem *mem;
	uint64_t off;
};

/* A scatter/gather list whose L_Keys are of one PD */
struct xt_sgl {
	struct xt_qp *qp; /* the QP that uses the keys */
	uint32_t pd;
	uint32_t n;
	const struct xr_sge *sge;
};

/*
 * Source of a copy, from offset @off on: a frame or buffer (@seg), a region (@mem), or the work
 * request @index of @qp (loopback). The first pointer that is set is used.
 */
struct xt_source {
	const struct xt_seg *seg;
	struct xt_mem *mem;
	struct xt_qp *qp;
	uint32_t index;
	uint64_t off;
};

/* The side that caused an error */
enum xt_side { XT_SIDE_NONE, XT_SIDE_SOURCE, XT_SIDE_TARGET };

/* The SGL of a send work request */
static inline struct xt_sgl xt_swqe_sgl(struct xt_qp *qp, uint32_t index)
{
	return (struct xt_sgl){
		.qp = qp,
		.pd = qp->info.pd,
		.n = xt_swqe(qp, index)->num_sge,
		.sge = xt_swqe_sge(qp, index),
	};
}

/* The SGL of the receive that was taken */
static inline struct xt_sgl xt_receive_sgl(struct xt_qp *qp)
{
	return (struct xt_sgl){
		.qp = qp,
		.pd = qp->rq.pd,
		.n = qp->rq.num_sge,
		.sge = qp->rq_sge,
	};
}

/* Checks all keys of an SGL for an access (XR_ACCESS_*). Returns false with *error set. */
bool xt_check_sgl(const struct xt_sgl *l, uint32_t access, struct xt_wc_error *error);
/* Collects bytes [off, off + len) of a send work request. Returns false with *error set. */
bool xt_gather(struct xt_qp *qp, uint32_t index, uint32_t off, uint32_t len, struct xt_payload *out,
	       struct xt_wc_error *error);
/*
 * Adds bytes of a region, through e->bounce if they are not mapped. Returns 0 or a negative errno.
 */
int xt_gather_mem(struct xt_engine *e, const struct xt_mem_at *at, uint32_t len,
		  struct xt_payload *out);
/* Copies len bytes to offset off of an SGL. Sets *error unless the result is XT_SIDE_NONE. */
enum xt_side xt_scatter(const struct xt_sgl *to, uint64_t off, const struct xt_source *src,
			uint32_t len, struct xt_wc_error *error);
/* As xt_scatter(), with a region as the target */
enum xt_side xt_put(const struct xt_mem_at *to, const struct xt_source *src, uint32_t len,
		    struct xt_wc_error *error);

#endif /* XT_COPY_H */
