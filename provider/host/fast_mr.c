// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Regions for fast registration, and integrity regions. They are created empty, with lists that the
 * program fills and to which work requests refer.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/io/tables.h"
#include "daemon/transport/memory/integrity.h"
#include "mr.h"
#include "publish.h"

/* Work requests select pages or pieces of all memory of the program. */
static int host_fast_memory(struct xp_mr_object *mr, uint32_t max_pages)
{
	/* the pieces are behind the segments */
	mr->mem.seg = mr->own_seg = calloc(1, max_pages * sizeof(struct xt_mem_seg) +
						      max_pages / 2 * sizeof(struct xt_mem_piece));
	mr->shared_size = (size_t)XR_FAST_LISTS * max_pages * sizeof(uint64_t);
	mr->shared = xp_shared_alloc(mr->shared_size);
	return mr->own_seg && mr->shared ? 0 : -ENOMEM;
}

/* The memory of an integrity region is that of other regions. */
static int host_integrity_memory(struct xp_host *h, struct xp_mr_object *mr, uint32_t max_pieces)
{
	struct xt_integrity *in;

	/* the pieces are behind it */
	mr->integrity = in = calloc(1, sizeof(*in) + max_pieces * sizeof(in->piece[0]));
	mr->shared_size = sizeof(struct xr_integrity) +
			  (size_t)XR_FAST_LISTS * xr_integrity_stride(max_pieces);
	mr->shared = xp_shared_alloc(mr->shared_size);
	if (!in || !mr->shared)
		return -ENOMEM;
	in->keys = h->shared.keys;
	in->shared = mr->shared;
	in->max_pieces = max_pieces;
	in->piece = (struct xt_integrity_piece *)(in + 1);
	mr->mem.integrity = in;
	return 0;
}

static void fast_mr_set_key(struct xp_mr_object *mr, uint8_t flags, uint32_t room)
{
	mr->key->entry.pd = mr->pd->number;
	mr->key->entry.type = XR_KEY_MR;
	mr->key->entry.flags = flags;
	mr->key->mem = &mr->mem;
	if (!(flags & XR_KEYF_FAST))
		return;
	mr->key->pages = mr->shared;
	mr->key->max_pages = room;
	mr->key->piece = (struct xt_mem_piece *)(mr->mem.seg + room);
}

static int fast_mr_make_key(struct xp_host *h, struct xp_mr_object *mr, uint8_t flags,
			    uint32_t room, uint32_t *value)
{
	int err;

	xp_host_enter(h);
	err = xp_mr_new_key(h, mr);
	if (!err) {
		fast_mr_set_key(mr, flags, room);
		*value = xt_key_value(mr->key);
		err = xp_mr_mirror_key(h, mr);
	}
	xp_host_leave_quietly(h);
	if (err)
		return err;
	err = xp_publish_key(h, &mr->place, mr->key->index, &mr->key->entry, XR_KEYF_PROGRAM);
	if (err)
		xp_mr_end_key(h, mr);
	return err;
}

/* room: pages or pieces of a list */
static int host_new_region(struct xp_host *h, struct xp_pd *pd, uint8_t flags, uint32_t room,
			   struct xp_call *call)
{
	struct xp_mr_object *mr = calloc(1, sizeof(*mr));
	struct xr_alloc_fast_mr_rep rep = { 0 };
	int err;

	if (!mr)
		return -ENOMEM;
	mr->pd = pd;
	mr->mem.ops = &xp_local_ops;
	err = xp_host_add(h, &mr->obj, XP_KIND_MR);
	if (!err)
		err = flags & XR_KEYF_FAST ? host_fast_memory(mr, room)
					   : host_integrity_memory(h, mr, room);
	if (!err)
		err = fast_mr_make_key(h, mr, flags, room, &rep.key);
	if (err) {
		xp_host_del(h, &mr->obj);
		xp_mr_free(h, mr);
		return err;
	}
	pd->obj.refs++;
	rep.handle = mr->obj.handle;
	rep.lists = xp_shared_ref(mr->shared, mr->shared_size);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_alloc_fast_mr(struct xp_host *h, struct xp_call *call)
{
	const struct xr_alloc_fast_mr_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);

	if (!pd)
		return -ENOENT;
	if (!q->max_pages || q->max_pages > XR_FAST_MAX_PAGES)
		return xp_host_refuse(h, -EINVAL, "max_pages %u, 1 to %u", q->max_pages,
				      XR_FAST_MAX_PAGES);
	return host_new_region(h, pd, XR_KEYF_FAST, q->max_pages, call);
}

int xp_do_alloc_integrity_mr(struct xp_host *h, struct xp_call *call)
{
	const struct xr_alloc_integrity_mr_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);

	if (!pd)
		return -ENOENT;
	if (!q->max_pieces || q->max_pieces > XR_INTEGRITY_MAX_PIECES)
		return xp_host_refuse(h, -EINVAL, "max_pieces %u, 1 to %u", q->max_pieces,
				      XR_INTEGRITY_MAX_PIECES);
	return host_new_region(h, pd, XR_KEYF_INTEGRITY, q->max_pieces, call);
}
