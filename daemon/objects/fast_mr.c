// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Regions for fast registration, and integrity regions. They are created empty, with lists that the
 * client fills and to which work requests refer.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/clients/request.h"
#include "daemon/io/tables.h"
#include "daemon/memory/proc.h"
#include "daemon/memory/region.h"
#include "daemon/transport/memory/integrity.h"
#include "mr.h"
#include "objects.h"
#include "pd.h"

/*
 * Makes the memory of a region: all of the process's memory, of which work requests select pages.
 */
static int objects_fast_memory(struct xd_client *c, struct xd_mr *mr, uint32_t max_pages)
{
	struct xd_bytes bytes = {
		.memory = max_pages * sizeof(struct xt_mem_seg) +
			  max_pages / 2 * sizeof(struct xt_mem_piece),
	};
	int err = xd_user_charge(c, bytes);
	struct xt_mem_seg *seg;

	if (err)
		return err;
	mr->charged = bytes;
	seg = calloc(1, bytes.memory); /* the pieces are behind the segments */
	err = seg ? xd_mem_on_demand(xd_client_proc(c), 0, 0, true, &mr->mem) : -ENOMEM;
	if (err) {
		free(seg);
		return err;
	}
	free(mr->mem->xt.seg);
	mr->mem->xt.seg = seg;
	mr->mem->xt.nseg = 0;
	return xd_shm_alloc(c, (uint64_t)XR_FAST_LISTS * max_pages * sizeof(uint64_t), &mr->lists);
}

/* Makes the memory of an integrity region, which is that of other regions. */
static int fast_mr_integrity_memory(struct xd_client *c, struct xd_mr *mr, uint32_t max_pieces)
{
	struct xd_bytes bytes = {
		.memory = sizeof(struct xt_integrity) +
			  max_pieces * sizeof(struct xt_integrity_piece),
	};
	int err = xd_user_charge(c, bytes);
	struct xt_integrity *in;

	if (err)
		return err;
	mr->charged = bytes;
	mr->mem = calloc(1, sizeof(*mr->mem));
	in = calloc(1, bytes.memory); /* the pieces are behind it */
	if (!mr->mem || !in) {
		free(in);
		return -ENOMEM;
	}
	mr->mem->xt.ops = &xd_integrity_ops;
	mr->mem->proc = xd_proc_get(xd_client_proc(c));
	mr->mem->xt.integrity = in;
	err = xd_shm_alloc(c,
			   sizeof(struct xr_integrity) +
				   (uint64_t)XR_FAST_LISTS * xr_integrity_stride(max_pieces),
			   &mr->lists);
	in->keys = c->dev->shared.keys;
	in->shared = mr->lists.ptr;
	in->max_pieces = max_pieces;
	in->piece = (struct xt_integrity_piece *)(in + 1);
	return err;
}

static void set_fast(struct xd_mr *mr, uint32_t max_pages)
{
	mr->key->pages = mr->lists.ptr;
	mr->key->max_pages = max_pages;
	mr->key->piece = (struct xt_mem_piece *)(mr->mem->xt.seg + max_pages);
}

/* Sets *value before the key is published: a program that guesses it can change it from then on. */
static int new_key(struct xd_client *c, struct xd_mr *mr, uint8_t flags, uint32_t room,
		   uint32_t *value)
{
	struct xt_keys *keys = c->dev->shared.keys;
	struct xt_key *key = xt_keys_reserve(keys);
	int err;

	if (!key)
		return -ENOMEM;
	mr->key = key;
	key->entry.pd = mr->pd->id->number;
	key->entry.type = XR_KEY_MR;
	key->entry.flags = flags;
	key->mem = &mr->mem->xt;
	key->owner = &mr->obj;
	if (flags & XR_KEYF_FAST)
		set_fast(mr, room);
	*value = xt_key_value(key);
	err = xd_tables_set_key(c->dev->tables, key->index, &key->entry);
	if (!err)
		xt_keys_publish(keys, key);
	return err;
}

/* Frees a region whose creation failed. */
static void fast_mr_discard(struct xd_client *c, struct xd_mr *mr)
{
	xt_keys_release(c->dev->shared.keys, mr->key);
	xd_shm_free(c, &mr->lists);
	xd_object_del(&mr->obj);
	xd_mem_free(mr->mem);
	xd_user_uncharge(c, mr->charged);
	free(mr);
}

/* room: pages or pieces of a list */
static int fast_mr_new_region(struct xd_client *c, struct xd_pd *pd, uint8_t flags, uint32_t room,
			      struct xd_reply *rep)
{
	struct xr_alloc_fast_mr_rep *r;
	struct xd_mr *mr;
	uint32_t value = 0;
	int err;

	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->pd = pd;
	err = xd_object_add(c, &mr->obj, XD_MR);
	if (!err)
		err = flags & XR_KEYF_FAST ? objects_fast_memory(c, mr, room)
					   : fast_mr_integrity_memory(c, mr, room);
	if (!err)
		err = new_key(c, mr, flags, room, &value);
	if (err) {
		fast_mr_discard(c, mr);
		return err;
	}
	pd->obj.refs++;
	r = XD_REPLY(rep, xr_alloc_fast_mr_rep);
	r->handle = mr->obj.handle;
	r->key = value;
	xd_shm_ref(&mr->lists, &r->lists, rep);
	return 0;
}

int xd_do_alloc_fast_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_alloc_fast_mr_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);

	if (!pd)
		return -ENOENT;
	if (!q->max_pages || q->max_pages > XR_FAST_MAX_PAGES)
		return xd_refuse(c, -EINVAL, "max_pages %u, 1 to %u", q->max_pages,
				 XR_FAST_MAX_PAGES);
	return fast_mr_new_region(c, pd, XR_KEYF_FAST, q->max_pages, rep);
}

int xd_do_alloc_integrity_mr(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_alloc_integrity_mr_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->pd);

	if (!pd)
		return -ENOENT;
	if (!q->max_pieces || q->max_pieces > XR_INTEGRITY_MAX_PIECES)
		return xd_refuse(c, -EINVAL, "max_pieces %u, 1 to %u", q->max_pieces,
				 XR_INTEGRITY_MAX_PIECES);
	return fast_mr_new_region(c, pd, XR_KEYF_INTEGRITY, q->max_pieces, rep);
}
