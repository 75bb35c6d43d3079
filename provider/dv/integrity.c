// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs, <infiniband/xrocedv.h>: integrity regions. */
#include <stdlib.h>

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

_Static_assert(XROCEDV_INTEGRITY_MAX_PIECES == XR_INTEGRITY_MAX_PIECES &&
		       XROCEDV_SIG_CRC32C == (int)XR_SIG_CRC32C &&
		       XROCEDV_SIG_CHECK_REF_TAG == XR_SIG_CHECK_REF_TAG &&
		       XROCEDV_INTEGRITY_SIGNATURE == (int)XR_INTEGRITY_SIGNATURE,
	       "values of <xroce/ring.h>");

struct integrity_mr {
	struct xp_mr base;	     /* first, for ibv_dereg_mr() */
	struct xr_integrity *shared; /* with the daemon */
	uint32_t max_pieces;
	uint32_t list; /* of the last registration */
};

#define NOT_INTEGRITY "the region is not one of xrocedv_alloc_integrity_mr()"

/* Returns NULL if it is not an integrity region. */
static struct integrity_mr *integrity_of(struct ibv_mr *ibmr)
{
	return xp_is_ours(ibmr->context) && xp_mr(ibmr)->integrity ? (struct integrity_mr *)ibmr
								   : NULL;
}

/* ---- allocation ------------------------------------------------------------------ */

static int integrity_alloc(struct ibv_pd *ibpd, struct integrity_mr *mr)
{
	struct xr_alloc_integrity_mr_req req = { .pd = xp_own_pd(ibpd)->ibpd.handle,
						 .max_pieces = mr->max_pieces };
	struct xp_call call = {
		.type = XR_MSG_ALLOC_INTEGRITY_MR,
		.req = &req,
		.req_len = sizeof(req),
	};
	uint64_t least = sizeof(struct xr_integrity) +
			 XR_FAST_LISTS * (uint64_t)xr_integrity_stride(mr->max_pieces);
	void *shared;
	int err = xp_alloc_listed_mr(ibpd, &mr->base, &call, least, &shared);

	if (err)
		return err;
	mr->shared = shared;
	mr->base.integrity = true;
	return 0;
}

XP_PUBLIC struct ibv_mr *xrocedv_alloc_integrity_mr(struct ibv_pd *pd, uint32_t max_pieces)
{
	const char *verb = "xrocedv_alloc_integrity_mr";
	struct integrity_mr *mr;
	int err;

	if (!xp_is_ours(pd->context))
		return xp_null(xp_refuse_foreign(verb));
	if (!max_pieces || max_pieces > XROCEDV_INTEGRITY_MAX_PIECES)
		return xp_null(xp_refuse(verb, EINVAL, "max_pieces %u; 1 to %u", max_pieces,
					 XROCEDV_INTEGRITY_MAX_PIECES));
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return xp_null(xp_refuse_memory(verb));
	mr->max_pieces = max_pieces;
	err = integrity_alloc(pd, mr);
	if (err) {
		free(mr);
		return xp_null(err);
	}
	return &mr->base.ibmr;
}

/* ---- registration ---------------------------------------------------------------- */

static struct xr_signature signature_of(const struct xrocedv_signature *s)
{
	return (struct xr_signature){
		.type = (uint8_t)s->type,
		.check = (uint8_t)s->check,
		.app_tag = s->app_tag,
		.app_mask = s->app_mask,
		.ref_tag = s->ref_tag,
		.seed = s->seed,
	};
}

static bool signature_valid(const struct xrocedv_signature *s)
{
	struct xr_signature sig = signature_of(s);

	return (uint32_t)s->type < XR_SIG_TYPES && s->check <= UINT8_MAX &&
	       xr_signature_valid(&sig);
}

#define POST "xrocedv_post_reg_integrity"

/* Returns false. */
static bool integrity_refuse(const char *why)
{
	xp_refuse(POST, EINVAL, "%s", why);
	return false;
}

/* Adds up pieces. Returns false if one of them is invalid. */
static bool add_up(const struct ibv_sge *sg, uint32_t n, uint64_t *total)
{
	for (*total = 0; n; n--, sg++) {
		if (!sg->length || sg->addr + sg->length < sg->addr || sg->lkey == XR_RESERVED_LKEY)
			return false;
		*total += sg->length;
	}
	return true;
}

/* Returns false, and refuses, if signatures, block size or number of pieces are invalid. */
static bool attr_valid(const struct integrity_mr *mr, const struct xrocedv_integrity_attr *a)
{
	if (!signature_valid(&a->memory) || !signature_valid(&a->wire))
		return integrity_refuse(
			"a signature has an unknown type, or a check that its type lacks");
	if (a->memory.type == XROCEDV_SIG_NONE && a->wire.type == XROCEDV_SIG_NONE)
		return integrity_refuse("neither memory nor wire has a signature");
	if (!xr_integrity_block_valid(a->block_size)) {
		xp_refuse(POST, EINVAL, "block_size %u; 512, 520, 4096 or 4104", a->block_size);
		return false;
	}
	if (!a->num_data || a->num_data > mr->max_pieces ||
	    a->num_pi > mr->max_pieces - a->num_data) {
		xp_refuse(POST, EINVAL,
			  "num_data %u and num_pi %u; at least 1, together at most "
			  "max_pieces %u",
			  a->num_data, a->num_pi, mr->max_pieces);
		return false;
	}
	if (a->num_pi && a->memory.type == XROCEDV_SIG_NONE)
		return integrity_refuse("pieces with PI, but memory has no signature");
	return true;
}

/* Returns the bytes of the stream, 0 if the attributes are invalid. */
static uint64_t stream_length(const struct integrity_mr *mr, const struct xrocedv_integrity_attr *a)
{
	uint32_t memory, unit;
	uint64_t data, pi, blocks, len;

	if (!attr_valid(mr, a))
		return 0;
	if (!add_up(a->data, a->num_data, &data) || !add_up(a->pi, a->num_pi, &pi))
		return integrity_refuse(
			"a piece is empty, exceeds the address space, or has the reserved "
			"L_Key");
	memory = xr_signature_len(a->memory.type);
	unit = a->block_size + (a->num_pi ? 0 : memory);
	blocks = data / unit;
	if (data % unit)
		return integrity_refuse("the pieces do not hold whole blocks");
	if (pi != (a->num_pi ? blocks * memory : 0))
		return integrity_refuse("the pieces do not hold the PI of all blocks");
	len = blocks * (a->block_size + xr_signature_len(a->wire.type));
	if (a->data->addr + len < a->data->addr)
		return integrity_refuse("the region exceeds the address space");
	return len;
}

static void integrity_set_list(struct integrity_mr *mr, const struct xrocedv_integrity_attr *a)
{
	struct xr_integrity_list *l;
	uint32_t i;

	mr->list = (mr->list + 1) % XR_FAST_LISTS;
	l = xr_integrity_list(mr->shared, mr->list, mr->max_pieces);
	l->memory = signature_of(&a->memory);
	l->wire = signature_of(&a->wire);
	l->block = a->block_size;
	l->data_pieces = a->num_data;
	l->pi_pieces = a->num_pi;
	for (i = 0; i < a->num_data + a->num_pi; i++) {
		const struct ibv_sge *sg = i < a->num_data ? &a->data[i] : &a->pi[i - a->num_data];

		l->piece[i] = (struct xr_sge){ sg->addr, sg->length, sg->lkey };
	}
}

static void integrity_fill(struct xp_qp *qp, struct integrity_mr *mr,
			   const struct xrocedv_integrity_attr *a, uint64_t len)
{
	struct xr_send_wqe *wqe = xp_ring_next(&qp->sq);

	integrity_set_list(mr, a);
	mr->base.ibmr.addr = (void *)(uintptr_t)a->data->addr;
	mr->base.ibmr.length = len;
	xp_wqe_init(wqe, a->wr_id, XR_WR_REG_INTEGRITY, a->send_flags);
	wqe->reg.key = mr->base.ibmr.rkey;
	wqe->reg.access = a->access;
	wqe->reg.list = (uint8_t)mr->list;
	wqe->remote_addr = a->data->addr;
	wqe->bind_len = len;
}

XP_PUBLIC int xrocedv_post_reg_integrity(struct ibv_qp *ibqp, struct ibv_mr *ibmr,
					 const struct xrocedv_integrity_attr *attr)
{
	struct integrity_mr *mr = integrity_of(ibmr);
	struct xp_qp *qp = xp_qp(ibqp);
	uint64_t len;
	int err;

	if (!mr)
		return -xp_refuse(POST, EINVAL, NOT_INTEGRITY);
	err = xp_check_reg(POST, ibqp, ibmr, attr->send_flags);
	if (err)
		return -err;
	len = stream_length(mr, attr);
	if (!len)
		return EINVAL;
	err = xp_post_begin(POST, ibqp, ibmr->pd, "region");
	if (err)
		return -err;
	integrity_fill(qp, mr, attr, len);
	xp_post_end(qp, attr->wr_id);
	return 0;
}

/* ---- errors ---------------------------------------------------------------------- */

XP_PUBLIC int xrocedv_check_integrity(struct ibv_mr *ibmr, struct xrocedv_integrity_error *error)
{
	const struct integrity_mr *mr = integrity_of(ibmr);
	uint32_t kind;

	if (!mr)
		return xp_refuse("xrocedv_check_integrity", EINVAL, NOT_INTEGRITY);
	kind = __atomic_load_n(&mr->shared->kind, __ATOMIC_ACQUIRE);
	if (kind == XR_INTEGRITY_OK)
		return 0;
	*error = (struct xrocedv_integrity_error){
		.kind = (enum xrocedv_integrity_kind)kind,
		.expected = mr->shared->expected,
		.actual = mr->shared->actual,
		.offset = mr->shared->offset,
	};
	return 1;
}
