// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues. */
#include <errno.h>
#include <stdlib.h>

#include <xroce/bits.h>

#include "requests.h"

/* ---- create ------------------------------------------------------------------------------- */

static void init_events(struct xp_host *h, struct xp_cq_object *cq, uint64_t cookie)
{
	cq->completions.cookie = cookie;
	cq->async = (struct xp_event_source){ .fd = h->env.lent.events, .cookie = cookie };
}

static int cq_check(struct xp_host *h, const struct xr_create_cq_req *q)
{
	if (q->flags & ~(uint32_t)XR_CQF_IGNORE_OVERRUN)
		return xp_host_refuse(h, -EOPNOTSUPP, "flags 0x%x, supported 0x%x", q->flags,
				      XR_CQF_IGNORE_OVERRUN);
	if (q->vector >= h->env.vectors)
		return xp_host_refuse(h, -EINVAL, "comp_vector %u, the device has %u", q->vector,
				      h->env.vectors);
	if (!q->depth || q->depth > XR_MAX_CQE)
		return xp_host_refuse(h, -EINVAL, "cqe %u, limit %u", q->depth, XR_MAX_CQE);
	return 0;
}

static int join_channel(struct xp_host *h, struct xp_channel_object *ch)
{
	int err;

	xp_host_enter(h);
	err = xp_channel_add_cq(ch);
	xp_host_leave_quietly(h);
	return err;
}

int xp_do_create_cq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_create_cq_req *q = call->req;
	struct xp_channel_object *ch = xp_channel_of(h, q->channel);
	struct xr_create_cq_rep rep = { 0 };
	struct xp_cq_object *cq;
	int err = cq_check(h, q);

	if (err || (q->channel && !ch))
		return err ? err : -ENOENT;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->depth = xr_pow2_roundup(q->depth);
	cq->ring = xp_queue_new(cq->depth, sizeof(struct xr_cqe), &cq->ring_size);
	err = cq->ring ? xp_host_add(h, &cq->obj, XP_KIND_CQ) : -ENOMEM;
	if (!err && ch) {
		err = join_channel(h, ch);
		if (err)
			xp_host_del(h, &cq->obj);
	}
	if (err) {
		xp_shared_free(cq->ring, cq->ring_size);
		free(cq);
		return err;
	}
	cq->channel = ch;
	cq->vector = q->vector;
	init_events(h, cq, q->cookie);
	xt_cq_init(&cq->xt, cq->ring, cq->depth);
	cq->xt.ignore_overrun = q->flags & XR_CQF_IGNORE_OVERRUN;
	cq->xt.owner = cq;
	xp_host_enter(h);
	xp_view_add(h, &cq->obj);
	xp_host_leave_quietly(h);
	rep.handle = cq->obj.handle;
	rep.depth = cq->depth;
	rep.ring = xp_shared_ref(cq->ring, cq->ring_size);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

/* ---- change ------------------------------------------------------------------------------- */

/*
 * Work that was posted before, and needs no response, is executed first, so that its completions
 * count when the new size is checked.
 */
static int move_ring(struct xp_host *h, struct xp_cq_object *cq, struct xr_queue *ring,
		     uint32_t depth)
{
	struct xt_cq_move move;
	int err;

	xp_host_enter(h);
	if (depth < cq->depth)
		xp_host_round(h);
	err = xt_cq_move_begin(&cq->xt, ring, depth, &move);
	if (!err) {
		xt_cq_move_copy(&move);
		err = xt_cq_move_end(&cq->xt, &move);
	}
	xp_view_change(h, &cq->obj);
	xp_host_leave(h);
	return err;
}

int xp_do_resize_cq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_resize_cq_req *q = call->req;
	struct xp_cq_object *cq = xp_object_get(&h->objects, XP_KIND_CQ, q->handle);
	struct xr_resize_cq_rep rep = { 0 };
	struct xr_queue *ring;
	uint32_t depth;
	size_t size;
	int err;

	if (!cq)
		return -ENOENT;
	if (!q->depth || q->depth > XR_MAX_CQE)
		return xp_host_refuse(h, -EINVAL, "cqe %u, limit %u", q->depth, XR_MAX_CQE);
	depth = xr_pow2_roundup(q->depth);
	ring = xp_queue_new(depth, sizeof(struct xr_cqe), &size);
	if (!ring)
		return -ENOMEM;
	err = move_ring(h, cq, ring, depth);
	if (err) {
		xp_shared_free(ring, size);
		return xp_host_refuse(h, err, "more than %u completions have not been polled",
				      depth);
	}
	xp_shared_free(cq->ring, cq->ring_size);
	cq->ring = ring;
	cq->ring_size = size;
	cq->depth = depth;
	rep.handle = cq->obj.handle;
	rep.depth = depth;
	rep.ring = xp_shared_ref(ring, size);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_modify_cq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_modify_cq_req *q = call->req;
	struct xp_cq_object *cq = xp_object_get(&h->objects, XP_KIND_CQ, q->handle);
	int err = 0;

	if (!cq)
		return -ENOENT;
	if (q->count > XR_MAX_CQ_COUNT || q->period > XR_MAX_CQ_PERIOD)
		return xp_host_refuse(h, -EINVAL, "cq_count %u, limit %u; cq_period %u, limit %u",
				      q->count, XR_MAX_CQ_COUNT, q->period, XR_MAX_CQ_PERIOD);
	xp_host_enter(h);
	if (!cq->moderated)
		err = xt_cq_moderation_reserve(h->engine);
	if (!err) {
		cq->moderated = true;
		xt_cq_moderate_off(&cq->xt);
		xt_cq_raise_waiting(h->engine, &cq->xt);
		xt_cq_moderate(&cq->xt, q->count, q->period);
		xp_view_change(h, &cq->obj);
	}
	xp_host_leave(h);
	return err;
}

/* ---- destroy ------------------------------------------------------------------------------ */

/* Entered */
static void leave_channel(struct xp_host *h, struct xp_cq_object *cq)
{
	if (cq->channel)
		xp_channel_remove_cq(h, cq->channel, &cq->completions);
	cq->channel = NULL;
}

void xp_cq_forget(struct xp_host *h, uint32_t handle)
{
	struct xp_cq_object *cq = xp_object_get(&h->objects, XP_KIND_CQ, handle);

	if (!cq)
		return;
	xp_host_enter(h);
	leave_channel(h, cq);
	xp_host_leave_quietly(h);
}

int xp_do_destroy_cq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_cq_object *cq = xp_object_get(&h->objects, XP_KIND_CQ, q->handle);
	struct xr_destroy_rep rep;

	if (!cq)
		return -ENOENT;
	if (cq->obj.refs)
		return xp_host_refuse(h, -EBUSY, "the CQ is used by %u QPs and SRQs", cq->obj.refs);
	xp_host_enter(h);
	xp_view_remove(h, &cq->obj);
	xt_cq_drop_waiting(h->engine, &cq->xt);
	if (cq->moderated)
		xt_cq_moderation_release(h->engine);
	leave_channel(h, cq);
	rep.comp_events = 0; /* none is left */
	rep.async_events = xp_event_end(h, &cq->async);
	xp_host_leave_quietly(h);
	xp_host_del(h, &cq->obj);
	xp_shared_free(cq->ring, cq->ring_size);
	free(cq);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_check_cq(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_cq_object *cq = xp_object_get(&h->objects, XP_KIND_CQ, q->handle);

	if (!cq)
		return -ENOENT;
	xp_host_enter(h);
	xt_cq_check_armed(&h->flow, &cq->xt, h->now);
	xp_host_leave(h);
	return 0;
}
