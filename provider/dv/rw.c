// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Direct verbs, <infiniband/xrocedv.h>: RW contexts. A transfer is planned as a list of WRs when
 * the context is created, and written to the send queue when it is posted.
 */
#include <stdlib.h>
#include <string.h>

#include <infiniband/xrocedv.h>
#include <xroce/wire.h>

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

_Static_assert(XROCEDV_RW_MAX_MESSAGE == XR_MAX_MSG_SIZE, "limit of <xroce/wire.h>");

#define CREATE "xrocedv_rw_create"
#define POST "xrocedv_rw_post"

enum rw_kind { DATA, REGISTER, INVALIDATE };

struct op {
	enum rw_kind kind;
	uint32_t first, nsge; /* DATA: SGEs */
	uint64_t remote;      /* DATA */
	struct ibv_mr *mr;    /* REGISTER, INVALIDATE */
};

struct xrocedv_rw {
	struct xp_qp *qp;
	uint8_t opcode; /* of DATA */
	uint32_t rkey;
	struct op *op;
	struct xr_sge *sge;
	uint32_t ops, sges;
	uint32_t room_ops, room_sges;
	uint32_t posted; /* operations */
};

/* ---- the plan -------------------------------------------------------------------- */

/* Appends to an array that grows. Returns NULL if out of memory. */
static void *rw_append(void **array, uint32_t *n, uint32_t *room, size_t size)
{
	uint32_t more = *room ? *room * 2 : 8;
	void *grown;

	if (*n == *room) {
		grown = reallocarray(*array, more, size);
		if (!grown)
			return NULL;
		*array = grown;
		*room = more;
	}
	return (char *)*array + size * (*n)++;
}

static struct op *add_op(struct xrocedv_rw *rw, enum rw_kind kind)
{
	struct op *op = rw_append((void **)&rw->op, &rw->ops, &rw->room_ops, sizeof(*op));

	if (op)
		*op = (struct op){ .kind = kind, .first = rw->sges };
	return op;
}

/* A position in the list of pieces, and in the remote buffer */
struct rw_cursor {
	const struct ibv_sge *sg, *end;
	uint64_t off; /* in *sg */
	uint64_t remote;
};

static void skip_used(struct rw_cursor *c)
{
	while (c->sg < c->end && c->off >= c->sg->length) {
		c->off -= c->sg->length;
		c->sg++;
	}
}

/* Adds a READ or WRITE of as much as one WR can transfer. */
static int add_data(struct xrocedv_rw *rw, struct rw_cursor *c)
{
	struct op *op = add_op(rw, DATA);
	uint64_t left = XR_MAX_MSG_SIZE, n;
	struct xr_sge *sge;

	if (!op)
		return -ENOMEM;
	op->remote = c->remote;
	for (; c->sg < c->end && left && op->nsge < rw->qp->max_send_sge; skip_used(c)) {
		sge = rw_append((void **)&rw->sge, &rw->sges, &rw->room_sges, sizeof(*sge));
		if (!sge)
			return -ENOMEM;
		n = c->sg->length - c->off < left ? c->sg->length - c->off : left;
		*sge = (struct xr_sge){ c->sg->addr + c->off, (uint32_t)n, c->sg->lkey };
		op->nsge++;
		c->off += n;
		c->remote += n;
		left -= n;
	}
	return 0;
}

static int plan_data(struct xrocedv_rw *rw, struct rw_cursor *c)
{
	int err = 0;

	skip_used(c);
	while (c->sg < c->end && !err)
		err = add_data(rw, c);
	return err;
}

static int add_key_op(struct xrocedv_rw *rw, enum rw_kind kind, struct ibv_mr *mr)
{
	struct op *op = add_op(rw, kind);

	if (!op)
		return -ENOMEM;
	op->mr = mr;
	return 0;
}

/* Registers as many pieces as the region can hold, transfers them, and invalidates the region. */
static int plan_region(struct xrocedv_rw *rw, struct ibv_mr *mr, uint32_t page_size,
		       struct xrocedv_sg *sg, struct rw_cursor *c)
{
	struct rw_cursor in = { .remote = c->remote };
	struct ibv_sge part; /* a region may have more bytes than a message */
	uint64_t off = c->off;
	int mapped = xrocedv_map_mr_sg(mr, sg, (int)(c->end - c->sg), &off, page_size), err;
	uint64_t at, left;

	if (mapped < 0)
		return mapped;
	if (!mr->length)
		return xp_refuse(CREATE, EINVAL, "a region has no room for a piece");
	c->sg += mapped;
	c->off = off;
	c->remote += mr->length;
	xrocedv_update_key(mr, (uint8_t)(mr->rkey + 1));
	err = add_key_op(rw, REGISTER, mr);
	at = (uintptr_t)mr->addr;
	for (left = mr->length; left && !err; left -= part.length, at += part.length) {
		part = (struct ibv_sge){
			.addr = at,
			.length = left < XR_MAX_MSG_SIZE ? (uint32_t)left : XR_MAX_MSG_SIZE,
			.lkey = mr->lkey,
		};
		in.sg = &part;
		in.end = &part + 1;
		in.off = 0;
		err = add_data(rw, &in);
	}
	return err ? err : add_key_op(rw, INVALIDATE, mr);
}

static int plan_regions(struct xrocedv_rw *rw, const struct xrocedv_rw_attr *attr,
			struct rw_cursor *c)
{
	struct xrocedv_sg *sg = calloc((size_t)attr->nents, sizeof(*sg));
	uint32_t i;
	int j, err = sg ? 0 : -ENOMEM;

	for (j = 0; j < attr->nents && !err; j++)
		sg[j] = (struct xrocedv_sg){ attr->sg[j].addr, attr->sg[j].length };
	skip_used(c);
	for (i = 0; i < attr->num_mr && c->sg < c->end && !err; i++)
		err = plan_region(rw, attr->mr[i], attr->page_size, sg + (c->sg - attr->sg), c);
	free(sg);
	if (!err && c->sg < c->end)
		err = xp_refuse(CREATE, ENOSPC, "%u regions cannot hold all of %d pieces",
				attr->num_mr, attr->nents);
	return err;
}

/* ---- create, destroy --------------------------------------------------------------- */

static int rw_refuse(const char *why)
{
	return xp_refuse(CREATE, EINVAL, "%s", why);
}

static int check_queue(const struct xp_qp *qp, const struct xrocedv_rw_attr *attr)
{
	bool write = attr->direction == XROCEDV_RW_WRITE;

	if (!write && attr->direction != XROCEDV_RW_READ)
		return xp_refuse(CREATE, EINVAL, "direction %d is not known", (int)attr->direction);
	if (qp->ibqp.qp_type != IBV_QPT_RC && (qp->ibqp.qp_type != IBV_QPT_UC || !write))
		return rw_refuse("the QP's type is not RC, nor UC for WRITEs");
	if (qp->sig_all)
		return rw_refuse("the QP has sq_sig_all: every WR would complete");
	if (!qp->max_send_sge || !qp->sq.limit)
		return rw_refuse("the QP's max_send_sge or max_send_wr is 0");
	return 0;
}

static int rw_check_pieces(const struct xrocedv_rw_attr *attr)
{
	uint64_t total = 0;
	int i;

	for (i = 0; i < attr->nents; i++) {
		if (!attr->sg[i].length || attr->sg[i].addr + attr->sg[i].length < attr->sg[i].addr)
			return rw_refuse("a piece is empty, or exceeds the address space");
		total += attr->sg[i].length;
	}
	if (attr->nents < 1)
		return xp_refuse(CREATE, EINVAL, "nents %d; 1 or more", attr->nents);
	if (attr->sg_offset >= total)
		return rw_refuse("sg_offset skips all pieces");
	if (attr->remote_addr + (total - attr->sg_offset) < attr->remote_addr)
		return rw_refuse("the remote memory exceeds the address space");
	return 0;
}

static int check_regions(const struct xp_qp *qp, const struct xrocedv_rw_attr *attr)
{
	uint32_t i, j;

	for (i = 0; i < attr->num_mr; i++) {
		struct ibv_mr *mr = attr->mr[i];

		if (!xp_is_of(mr, xp_mr, qp->ctx) || !xp_mr(mr)->fast)
			return rw_refuse("a region is of another context, or not one of "
					 "xrocedv_alloc_mr()");
		if (!xp_pd_same(qp->ibqp.pd, mr->pd))
			return xp_refuse_pd(CREATE, "region");
		for (j = 0; j < i; j++)
			if (attr->mr[j] == mr)
				return rw_refuse("mr has a region twice");
	}
	return 0;
}

static int plan(struct xrocedv_rw *rw, const struct xrocedv_rw_attr *attr)
{
	struct rw_cursor c = {
		.sg = attr->sg,
		.end = attr->sg + attr->nents,
		.off = attr->sg_offset,
		.remote = attr->remote_addr,
	};

	return attr->num_mr ? plan_regions(rw, attr, &c) : plan_data(rw, &c);
}

XP_PUBLIC struct xrocedv_rw *xrocedv_rw_create(struct ibv_qp *ibqp,
					       const struct xrocedv_rw_attr *attr)
{
	struct xp_qp *qp = xp_qp(ibqp);
	struct xrocedv_rw *rw;
	int err;

	if (!xp_is_ours(ibqp->context))
		return xp_null(xp_refuse_foreign(CREATE));
	err = check_queue(qp, attr);
	if (!err)
		err = rw_check_pieces(attr);
	if (!err)
		err = check_regions(qp, attr);
	if (err)
		return xp_null(err);
	rw = calloc(1, sizeof(*rw));
	if (!rw)
		return xp_null(xp_refuse_memory(CREATE));
	rw->qp = qp;
	rw->opcode = attr->direction == XROCEDV_RW_READ ? XR_WR_RDMA_READ : XR_WR_RDMA_WRITE;
	rw->rkey = attr->rkey;
	err = plan(rw, attr);
	if (!err)
		return rw;
	if (err == -ENOMEM)
		xp_refuse_memory(CREATE);
	xrocedv_rw_destroy(rw);
	return xp_null(err);
}

XP_PUBLIC void xrocedv_rw_destroy(struct xrocedv_rw *rw)
{
	free(rw->op);
	free(rw->sge);
	free(rw);
}

XP_PUBLIC uint32_t xrocedv_rw_wrs(const struct xrocedv_rw *rw)
{
	return rw->ops - rw->posted;
}

/* ---- posting --------------------------------------------------------------------- */

static void fill_op(const struct xrocedv_rw *rw, const struct op *op, struct xr_send_wqe *wqe)
{
	switch (op->kind) {
	case REGISTER:
		wqe->opcode = XR_WR_REG_MR;
		xp_wqe_reg(wqe, xp_fast_mr(op->mr),
			   rw->opcode == XR_WR_RDMA_READ ? XR_ACCESS_LOCAL_WRITE : 0);
		break;
	case INVALIDATE:
		wqe->opcode = XR_WR_LOCAL_INV;
		wqe->invalidate_rkey = op->mr->rkey;
		break;
	case DATA:
		wqe->opcode = rw->opcode;
		wqe->remote_addr = op->remote;
		wqe->rkey = rw->rkey;
		wqe->num_sge = (uint16_t)op->nsge;
		memcpy(wqe + 1, rw->sge + op->first, op->nsge * sizeof(struct xr_sge));
		break;
	}
}

/* Returns the number of operations to post now, or a negative errno. */
static int count_now(const struct xrocedv_rw *rw, uint32_t chained)
{
	uint32_t left = rw->ops - rw->posted, room = xp_ring_room(&rw->qp->sq);

	if (left + chained <= room)
		return (int)left;
	if (chained >= rw->qp->sq.limit)
		return xp_refuse(POST, EINVAL, "a chain of %u WRs, but max_send_wr is %u", chained,
				 rw->qp->sq.limit);
	/* A chain that fits into the queue is posted as a whole, when there is room. */
	if (left + chained <= rw->qp->sq.limit)
		return xp_refuse_full(POST, "max_send_wr", rw->qp->sq.limit);
	/* The chain follows the last operation in the same call. */
	if (room >= left)
		room = left - 1;
	return room ? (int)room : xp_refuse_full(POST, "max_send_wr", rw->qp->sq.limit);
}

static int stage_chain(struct xp_qp *qp, uint32_t at, const struct ibv_send_wr *wr)
{
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		err = xp_can_bind(wr)
			      ? xp_fill_send(qp, xp_ring_stage(&qp->sq, at++, wr->wr_id), wr)
			      : EINVAL;
		if (err)
			xp_explain_send(POST, qp, wr, err, IBV_MW_TYPE_2);
	}
	return err;
}

/* Needs the lock of the send queue. Returns 0, EINPROGRESS or another positive errno. */
static int post(struct xrocedv_rw *rw, uint64_t wr_id, const struct ibv_send_wr *chain)
{
	struct xp_qp *qp = rw->qp;
	const struct ibv_send_wr *wr;
	struct xr_send_wqe *wqe;
	uint32_t chained = 0, i;
	bool all;
	int n, err;

	for (wr = chain; wr; wr = wr->next)
		chained++;
	if (!xp_can_send(qp->ibqp.state))
		return -xp_refuse_post(POST, qp);
	n = count_now(rw, chained);
	if (n < 0)
		return -n;
	all = rw->posted + (uint32_t)n == rw->ops;
	for (i = 0; i < (uint32_t)n; i++) {
		wqe = xp_ring_stage(&qp->sq, i, wr_id);
		xp_wqe_init(wqe, wr_id, 0, 0);
		fill_op(rw, &rw->op[rw->posted + i], wqe);
		if (i + 1 == (uint32_t)n && (!all || !chain))
			wqe->flags = XR_SEND_SIGNALED;
	}
	err = all ? stage_chain(qp, i, chain) : 0;
	if (err)
		return err;
	xp_ring_push_staged(&qp->sq, i + (all ? chained : 0));
	xp_ring_publish(&qp->sq);
	rw->posted += (uint32_t)n;
	return all ? 0 : EINPROGRESS;
}

XP_PUBLIC int xrocedv_rw_post(struct xrocedv_rw *rw, uint64_t wr_id,
			      const struct ibv_send_wr *chain)
{
	struct xp_qp *qp = rw->qp;
	int err;

	if (xp_health(qp->ctx) == XP_FORKED)
		return -xp_refuse_forked(POST);
	if (rw->posted == rw->ops)
		return -xp_refuse(POST, EALREADY, "the context was posted before");
	xp_lock(&qp->sq_lock);
	err = post(rw, wr_id, chain);
	xp_unlock(&qp->sq_lock);
	if (!err || err == EINPROGRESS)
		xp_ring_doorbell(qp);
	return err;
}
