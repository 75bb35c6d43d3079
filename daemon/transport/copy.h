/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Payload from and to memory, with its keys checked. Lengths and offsets are bytes. */
#ifndef XT_COPY_H
#define XT_COPY_H

#include "qp.h"

/* Bytes to be placed in memory: of a frame or buffer, or (loopback) of a work request */
struct xt_source {
	const struct xt_seg *seg;
	struct xt_qp *qp; /* if seg is NULL: the work request of this QP at index */
	uint32_t index;
	uint64_t off;
};

/* Which side an error is on */
enum xt_side { XT_SIDE_NONE, XT_SIDE_SOURCE, XT_SIDE_TARGET };

/* Collects bytes [off, off + len) of a send work request. Returns false with *error set. */
bool xt_gather(struct xt_qp *qp, uint32_t index, uint32_t off, uint32_t len, struct xt_payload *out,
	       struct xt_wc_error *error);
/* Adds bytes of a region, through e->bounce if they are not mapped. Returns 0 or a negative errno. */
int xt_gather_mem(struct xt_engine *e, struct xt_mem *mem, uint64_t off, uint32_t len,
		  struct xt_payload *out);
/* Checks the keys of an SGL of the QP's PD. Returns false with *error set. */
bool xt_check_sges(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint32_t access,
		   struct xt_wc_error *error);
/* Places len bytes at offset off of an SGL. Sets *error if the result is not XT_SIDE_NONE. */
enum xt_side xt_scatter(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint64_t off,
			const struct xt_source *src, uint32_t len, struct xt_wc_error *error);
/* The same for the SGL of the receive that was taken */
enum xt_side xt_scatter_receive(struct xt_qp *qp, uint64_t off, const struct xt_source *src,
				uint32_t len, struct xt_wc_error *error);
/* The same for a region */
enum xt_side xt_put(struct xt_mem *mem, uint64_t off, const struct xt_source *src, uint32_t len,
		    struct xt_wc_error *error);
/* Copies from a region to an SGL: a READ over loopback. */
enum xt_side xt_scatter_mem(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint64_t off,
			    struct xt_mem *mem, uint64_t mem_off, uint32_t len,
			    struct xt_wc_error *error);

#endif /* XT_COPY_H */
