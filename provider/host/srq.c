// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Shared receive queues. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include <xroce/bits.h>

#include "requests.h"

/* ---- create ------------------------------------------------------------------------------- */

/* n: 1 or -1 */
static void srq_count_parents(struct xp_host *h, const struct xp_srq_object *srq, uint32_t n)
{
	srq->pd->obj.refs += n;
	if (!srq->xrcd)
		return;
	srq->xrcd->obj.refs += n;
	xp_host_enter(h);
	srq->cq->obj.refs += n;
	xp_view_change(h, &srq->cq->obj);
	xp_host_leave_quietly(h);
}

/* An XRC SRQ has a number, by which requesters name it. */
static int host_give_number(struct xp_host *h, struct xp_srq_object *srq)
{
	uint32_t slot;
	bool given;

	if (!srq->xrcd)
		return 0;
	srq->xt.xrcd = srq->xrcd->number;
	srq->xt.cq = &srq->cq->xt;
	xp_host_enter(h);
	given = !xt_numbers_prepare(h->shared.srqs) &&
		xt_numbers_add(h->shared.srqs, &srq->xt, &slot, &srq->xt.number);
	xp_host_leave_quietly(h);
	return given ? 0 : -ENOMEM;
}

static int srq_build(struct xp_host *h, struct xp_srq_object *srq,
		     const struct xr_create_srq_req *q)
{
	uint32_t depth = xr_pow2_roundup(q->max_wr), max_sge = q->max_sge ? q->max_sge : 1;
	int err;

	srq->ring = xp_queue_new(depth, xr_recv_stride(max_sge), &srq->ring_size);
	err = srq->ring ? xp_host_add(h, &srq->obj, XP_KIND_SRQ) : -ENOMEM;
	if (err)
		return err;
	srq->async = (struct xp_event_source){ .fd = h->env.lent.events, .cookie = q->cookie };
	xt_srq_init(&srq->xt, srq->ring, depth, max_sge, srq->pd->number);
	srq->xt.owner = srq;
	err = host_give_number(h, srq);
	if (err)
		return err;
	xp_host_enter(h);
	xp_view_add(h, &srq->obj);
	xp_host_leave_quietly(h);
	return 0;
}

static void srq_discard(struct xp_host *h, struct xp_srq_object *srq)
{
	xp_host_del(h, &srq->obj);
	xp_shared_free(srq->ring, srq->ring_size);
	srq_count_parents(h, srq, -1u);
	free(srq);
}

int xp_do_create_srq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_create_srq_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);
	struct xp_xrcd_object *xrcd = xp_object_get(&h->objects, XP_KIND_XRCD, q->xrcd);
	struct xp_cq_object *cq = xp_object_get(&h->objects, XP_KIND_CQ, q->cq);
	struct xr_create_srq_rep rep = { 0 };
	struct xp_srq_object *srq;
	int err;

	if (!pd || (q->xrcd && (!xrcd || !cq)))
		return -ENOENT;
	if (!q->max_wr || q->max_wr > XR_MAX_WR || q->max_sge > XR_MAX_SGE)
		return xp_host_refuse(h, -EINVAL, "max_wr %u, 1 to %u; max_sge %u, at most %u",
				      q->max_wr, XR_MAX_WR, q->max_sge, XR_MAX_SGE);
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->pd = pd;
	srq->xrcd = xrcd;
	srq->cq = xrcd ? cq : NULL;
	srq_count_parents(h, srq, 1);
	err = srq_build(h, srq, q);
	if (err) {
		srq_discard(h, srq);
		return err;
	}
	rep.handle = srq->obj.handle;
	rep.max_wr = srq->xt.depth;
	rep.max_sge = srq->xt.max_sge;
	rep.number = srq->xt.number;
	rep.ring = xp_shared_ref(srq->ring, srq->ring_size);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

/* ---- modify and query --------------------------------------------------------------------- */

static int host_check_modify(struct xp_host *h, const struct xp_srq_object *srq,
			     const struct xr_modify_srq_req *q)
{
	uint32_t max_wr = srq->xt.depth;

	if (q->mask & ~(uint32_t)(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return xp_host_refuse(h, -EINVAL, "srq_attr_mask 0x%x", q->mask);
	if (q->mask & IBV_SRQ_MAX_WR) {
		if (!q->max_wr || q->max_wr > XR_MAX_WR)
			return xp_host_refuse(h, -EINVAL, "max_wr %u, 1 to %u", q->max_wr,
					      XR_MAX_WR);
		max_wr = xr_pow2_roundup(q->max_wr);
	}
	if (q->mask & IBV_SRQ_LIMIT && q->limit > max_wr)
		return xp_host_refuse(h, -EINVAL, "srq_limit %u, max_wr %u", q->limit, max_wr);
	return 0;
}

static int host_resize(struct xp_host *h, struct xp_srq_object *srq, uint32_t max_wr)
{
	struct xt_srq_move move;
	size_t size;
	struct xr_queue *ring = xp_queue_new(max_wr, xr_recv_stride(srq->xt.max_sge), &size);
	int err;

	if (!ring)
		return -ENOMEM;
	xp_host_enter(h);
	err = xt_srq_move_begin(&srq->xt, ring, max_wr, &move);
	if (!err) {
		xt_srq_move_copy(&srq->xt, &move);
		err = xt_srq_move_end(&srq->xt, &move);
	}
	xp_view_change(h, &srq->obj);
	xp_host_leave_quietly(h);
	if (err) {
		xp_shared_free(ring, size);
		return xp_host_refuse(h, err, "more than %u receives are posted", max_wr);
	}
	xp_shared_free(srq->ring, srq->ring_size);
	srq->ring = ring;
	srq->ring_size = size;
	return 0;
}

int xp_do_modify_srq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_modify_srq_req *q = call->req;
	struct xp_srq_object *srq = xp_object_get(&h->objects, XP_KIND_SRQ, q->handle);
	struct xr_modify_srq_rep rep = { 0 };
	int err;

	if (!srq)
		return -ENOENT;
	err = host_check_modify(h, srq, q);
	if (!err && q->mask & IBV_SRQ_MAX_WR)
		err = host_resize(h, srq, xr_pow2_roundup(q->max_wr));
	if (err)
		return err;
	if (q->mask & IBV_SRQ_LIMIT) {
		xp_host_enter(h);
		if (xt_srq_arm(&srq->xt, q->limit))
			xp_event_raise(h, &srq->async, IBV_EVENT_SRQ_LIMIT_REACHED);
		xp_view_change(h, &srq->obj);
		xp_host_leave_quietly(h);
	}
	rep.max_wr = srq->xt.depth;
	if (q->mask & IBV_SRQ_MAX_WR)
		rep.ring = xp_shared_ref(srq->ring, srq->ring_size);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_query_srq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_srq_object *srq = xp_object_get(&h->objects, XP_KIND_SRQ, q->handle);
	struct xr_query_srq_rep rep = { 0 };

	if (!srq)
		return -ENOENT;
	rep.max_wr = srq->xt.depth;
	rep.max_sge = srq->xt.max_sge;
	xp_host_enter(h);
	rep.limit = srq->xt.limit;
	xp_host_leave_quietly(h);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

/* ---- destroy ------------------------------------------------------------------------------ */

int xp_do_destroy_srq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_srq_object *srq = xp_object_get(&h->objects, XP_KIND_SRQ, q->handle);
	struct xr_destroy_rep rep = { 0 };

	if (!srq)
		return -ENOENT;
	if (srq->obj.refs)
		return xp_host_refuse(h, -EBUSY, "%u QPs use the SRQ", srq->obj.refs);
	xp_host_enter(h);
	xp_view_remove(h, &srq->obj);
	if (srq->xt.number)
		xt_numbers_del(h->shared.srqs, srq->xt.number);
	rep.async_events = xp_event_end(h, &srq->async);
	xp_host_leave_quietly(h);
	srq_discard(h, srq);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}
