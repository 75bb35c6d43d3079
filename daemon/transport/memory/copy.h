/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Payload from and to memory, with its keys checked. Lengths and offsets are bytes. */
#ifndef XT_COPY_H
#define XT_COPY_H

#include "daemon/transport/qp.h"
#include "daemon/transport/queue/sq.h"

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
	struct xt_put *put; /* with which they are copied */
	bool last;	    /* a message ends with the bytes that are copied */
	bool placed;	    /* they are in their place already: only keys are checked */
};

/* The side that caused an error; XT_SIDE_WAIT: the put waits, and nothing is copied now */
enum xt_side { XT_SIDE_NONE, XT_SIDE_SOURCE, XT_SIDE_TARGET, XT_SIDE_WAIT };

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

/* Checks all keys of an SGL for an access (XR_ACCESS_*). Returns false with *error set. */
bool xt_check_sgl(const struct xt_sgl *l, uint32_t access, struct xt_wc_error *error);
/* Bytes that a key names and that are mapped: those at addresses [addr, addr + len) */
struct xt_span {
	uint32_t lkey; /* 0: none */
	uint64_t addr, len;
	uint8_t *ptr;
};
/*
 * Sets *out to the span that contains the first byte of an SGE of the QP's own PD. It is valid
 * until the engine does something else. Returns false if the key does not permit the access, or if
 * the byte is not mapped.
 */
bool xt_map(const struct xt_qp *qp, const struct xr_sge *sge, uint32_t access, struct xt_span *out);
/*
 * Starts to read the bytes of an SGE of a later work request (item), unless they are mapped.
 * Returns false if its key is invalid, or if there is no staging memory to spare.
 */
bool xt_fetch_sge(struct xt_qp *qp, uint32_t item, const struct xr_sge *sge);
/*
 * Collects bytes [off, off + len) of a send work request. Returns false with *error set; if its
 * status is 0, memory has to be waited for.
 */
bool xt_gather(struct xt_qp *qp, uint32_t index, uint32_t off, uint32_t len, struct xt_payload *out,
	       struct xt_wc_error *error);
/* Bytes to be read: those of a packet of a work request or READ (@item) */
struct xt_fetch {
	struct xt_reads *reads;
	uint32_t item, psn;
	uint64_t rest; /* bytes of the region that later packets need, from the first byte on */
};
/*
 * Adds bytes of a region, through the engine's bounce buffer if they are not mapped. Returns 0 or a
 * negative errno, -EINPROGRESS if they are not there yet, or if the payload is that of a large
 * frame, which does not fit the buffer.
 */
int xt_gather_mem(const struct xt_fetch *f, const struct xt_mem_at *at, uint32_t len,
		  struct xt_payload *out);
/* Returns true if all bytes of a send work request are mapped, or it has inline data. */
bool xt_wqe_is_mapped(struct xt_qp *qp, uint32_t index);
/*
 * Copies len bytes to offset off of an SGL. Sets *error unless the result is XT_SIDE_NONE or
 * XT_SIDE_WAIT.
 */
enum xt_side xt_scatter(const struct xt_sgl *to, uint64_t off, const struct xt_source *src,
			uint32_t len, struct xt_wc_error *error);
/*
 * Copies the payload of a packet to offset off of an SGL if all of it goes to mapped memory that
 * the keys permit to write. Otherwise returns false, and a part of it may have been copied.
 */
bool xt_scatter_mapped(const struct xt_sgl *to, uint64_t off, const struct xt_rx *rx);
/* As xt_scatter(), with a region as the target */
enum xt_side xt_store(const struct xt_mem_at *to, const struct xt_source *src, uint32_t len,
		      struct xt_wc_error *error);

#endif /* XT_COPY_H */
