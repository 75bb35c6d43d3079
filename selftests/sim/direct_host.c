// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The daemon behind the provider: replaces provider/verbs/request.c and the event sockets. Each
 * request is answered at once, between two rounds of the engine, as the control thread does while
 * the worker is paused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/bits.h>

#include "direct.h"
#include "provider/verbs/child.h"
#include "provider/verbs/comp_channel.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_arm.h"
#include "provider/verbs/cq_pause.h"
#include "provider/verbs/event_socket.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/query.h"
#include "provider/verbs/request.h"
#include "queue.h"

static struct direct_host *host_of(struct xp_context *ctx)
{
	return (struct direct_host *)ctx;
}

static struct object *object_of(struct direct_host *host, uint32_t handle)
{
	return &host->object[handle - 1];
}

static struct object *new_object(struct direct_host *host, enum object_kind kind, uint32_t *handle)
{
	struct object *o = &host->object[host->objects++];

	CHECK(host->w, host->objects <= DIRECT_OBJECTS, "too many objects");
	o->kind = kind;
	*handle = host->objects;
	return o;
}

static void free_object(struct direct_host *host, struct object *o)
{
	if (o->qp)
		xt_qp_destroy(o->qp);
	if (o->key)
		xt_keys_release(host->w->h->shared.keys, o->key);
	free(o->queue[0]);
	free(o->queue[1]);
	free(o->lists);
	free(o->seg);
	free(o->piece);
	*o = (struct object){ 0 };
}

/* ---- requests ---------------------------------------------------------------------- */

/* Sets the piece that the reply describes. */
static void give(struct xp_piece *piece, struct xr_shm_ref *ref, void *ptr, uint64_t length)
{
	*ref = (struct xr_shm_ref){ .length = length };
	piece->ptr = ptr;
}

static struct xr_queue *give_queue(struct xp_piece *piece, struct xr_shm_ref *ref, uint32_t depth,
				   uint32_t stride)
{
	struct xr_queue *queue = depth ? queue_new(depth, stride) : NULL;

	give(piece, ref, queue, queue ? sizeof(*queue) + (uint64_t)depth * stride : 0);
	return queue;
}

static void create_cq(struct direct_host *host, const struct xr_create_cq_req *req,
		      struct xr_create_cq_rep *rep, struct xp_piece *piece)
{
	struct object *o = new_object(host, OBJECT_CQ, &rep->handle);

	rep->depth = xr_pow2_roundup(req->depth);
	o->queue[0] = give_queue(piece, &rep->ring, rep->depth, sizeof(struct xr_cqe));
	xt_cq_init(&o->cq, o->queue[0], rep->depth);
}

static void create_srq(struct direct_host *host, const struct xr_create_srq_req *req,
		       struct xr_create_srq_rep *rep, struct xp_piece *piece)
{
	struct object *o = new_object(host, OBJECT_SRQ, &rep->handle);

	rep->max_wr = xr_pow2_roundup(req->max_wr);
	rep->max_sge = req->max_sge;
	o->queue[0] = give_queue(piece, &rep->ring, rep->max_wr, xr_recv_stride(rep->max_sge));
	xt_srq_init(&o->srq, o->queue[0], rep->max_wr, rep->max_sge, req->pd);
}

static int create_qp(struct direct_host *host, const struct xr_create_qp_req *req,
		     struct xr_create_qp_rep *rep, struct xp_piece *piece)
{
	struct object *o = new_object(host, OBJECT_QP, &rep->handle);
	struct harness *h = host->w->h;
	struct xt_qp_init init = {
		.type = req->type,
		.pd = req->pd,
		.ahs = h->ahs,
		.send_cq = &object_of(host, req->send_cq)->cq,
		.recv_cq = &object_of(host, req->recv_cq)->cq,
		.sq_depth = xr_pow2_roundup(req->max_send_wr),
		.rq_depth = req->max_recv_wr ? xr_pow2_roundup(req->max_recv_wr) : 0,
		.sq_stride = xr_send_stride(req->max_send_sge, req->max_inline),
		.rq_stride = xr_recv_stride(req->max_recv_sge),
		.max_send_sge = req->max_send_sge,
		.max_recv_sge = req->max_recv_sge,
		.max_inline = req->max_inline,
		.sq_sig_all = req->sq_sig_all,
		.srq = req->srq ? &object_of(host, req->srq)->srq : NULL,
		.psns = h->psns,
		.reserved_lkey_mem = &h->reserved_mem,
		.owner = o,
	};
	int err;

	rep->max_send_wr = init.sq_depth;
	rep->max_recv_wr = init.rq_depth;
	rep->max_send_sge = init.max_send_sge;
	rep->max_recv_sge = init.max_recv_sge;
	rep->max_inline = init.max_inline;
	o->queue[0] = init.sq = give_queue(&piece[0], &rep->sq, init.sq_depth, init.sq_stride);
	o->queue[1] = init.rq = give_queue(&piece[1], &rep->rq, init.rq_depth, init.rq_stride);
	err = xt_qp_create(h->engine, &init, &o->qp);
	if (!err)
		rep->qpn = xt_qp_info(o->qp)->qpn;
	rep->slot = rep->handle;
	return err;
}

static int modify_qp(struct direct_host *host, const struct xr_modify_qp_req *req)
{
	struct xt_path path = { .ip_version = 4, .hop_limit = 64 };
	struct harness *h = host->w->h;

	xr_gid_set_ipv4(&path.sgid, htobe32(host->ip));
	path.dgid = req->attr.ah.dgid;
	path.loopback = !memcmp(&path.sgid, &path.dgid, sizeof(path.sgid));
	return xt_qp_modify(object_of(host, req->handle)->qp, &req->attr, req->attr_mask, &path,
			    4096, h->now);
}

/* ---- memory of regions for fast registration, accessed by address ------------------- */

static struct world *current_world;

static uint8_t *memory_at(uint64_t addr, size_t len)
{
	struct world *w = current_world;

	if (addr < DIRECT_BASE || addr + len > DIRECT_BASE + w->size)
		return NULL;
	return w->memory + (addr - DIRECT_BASE);
}

static int page_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		     size_t len)
{
	const uint8_t *p = memory_at(seg->addr + off, len);

	if (p)
		memcpy(dst, p, len);
	return p ? 0 : -1;
}

static int page_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		      const void *src, size_t len)
{
	uint8_t *p = memory_at(seg->addr + off, len);

	if (p)
		memcpy(p, src, len);
	return p ? 0 : -1;
}

static const struct xt_mem_ops page_ops = { .read = page_read, .write = page_write };

static void alloc_fast_mr(struct direct_host *host, const struct xr_alloc_fast_mr_req *req,
			  struct xr_alloc_fast_mr_rep *rep, struct xp_piece *piece)
{
	struct object *o = new_object(host, OBJECT_MR, &rep->handle);
	uint64_t length = XR_FAST_LISTS * sizeof(uint64_t) * req->max_pages;

	o->lists = calloc(1, length);
	o->seg = calloc(req->max_pages, sizeof(*o->seg));
	o->piece = calloc(req->max_pages, sizeof(*o->piece));
	o->mem = (struct xt_mem){ .ops = &page_ops, .seg = o->seg };
	o->key = xt_keys_alloc(host->w->h->shared.keys);
	o->key->entry.pd = req->pd;
	o->key->entry.type = XR_KEY_MR;
	o->key->entry.flags = XR_KEYF_FAST;
	o->key->mem = &o->mem;
	o->key->pages = o->lists;
	o->key->max_pages = req->max_pages;
	o->key->piece = o->piece;
	rep->key = xt_key_value(o->key);
	give(piece, &rep->lists, o->lists, length);
}

struct xt_key *host_key(struct direct_host *host, const struct ibv_mr *mr)
{
	return object_of(host, mr->handle)->key;
}

/* ---- functions of request.c --------------------------------------------------------- */

int xp_call_map(struct xp_context *ctx, struct xp_call *call, struct xp_piece *piece,
		unsigned int n)
{
	struct direct_host *host = host_of(ctx);

	memset(call->rep, 0, call->rep_len);
	switch (call->type) {
	case XR_MSG_ALLOC_PD:
		new_object(host, OBJECT_PD, &((struct xr_handle_rep *)call->rep)->handle);
		return 0;
	case XR_MSG_CREATE_CQ:
		create_cq(host, call->req, call->rep, piece);
		return 0;
	case XR_MSG_CREATE_SRQ:
		create_srq(host, call->req, call->rep, piece);
		return 0;
	case XR_MSG_CREATE_QP:
		return create_qp(host, call->req, call->rep, piece);
	case XR_MSG_MODIFY_QP:
		return modify_qp(host, call->req);
	case XR_MSG_ALLOC_FAST_MR:
		alloc_fast_mr(host, call->req, call->rep, piece);
		return 0;
	default:
		CHECK(host->w, false, "a request that the simulated daemon does not know");
		return -EPROTO;
	}
}

int xp_call(struct xp_context *ctx, struct xp_call *call)
{
	return xp_call_map(ctx, call, NULL, 0);
}

int xp_request(struct xp_context *ctx, uint32_t type, const void *req, size_t req_len, void *rep,
	       size_t rep_len)
{
	struct xp_call call = { .type = type, .req = req, .req_len = req_len };

	call.rep = rep;
	call.rep_len = rep_len;
	return xp_call(ctx, &call);
}

int xp_release(struct xp_context *ctx, uint32_t type, uint32_t handle, struct xr_destroy_rep *rep)
{
	free_object(host_of(ctx), object_of(host_of(ctx), handle));
	if (rep)
		*rep = (struct xr_destroy_rep){ 0 };
	return 0;
}

void xp_check_health(struct xp_context *ctx)
{
}

int xp_send_proc_files(struct ibv_pd *ibpd)
{
	return 0;
}

/* ---- parts of the provider that no direct verb of this test needs --------------------- */

ptrdiff_t xp_context_distance = offsetof(struct direct_host, ibctx);

struct ibv_context *xp_process_context(struct ibv_context *ibctx)
{
	return ibctx;
}

void xp_child_lock(void)
{
}

void xp_child_unlock(void)
{
}

int xp_find_gid(struct xp_context *ctx, const union ibv_gid *gid)
{
	return -ENODATA;
}

void xp_channel_join(struct xp_cq *cq, struct ibv_comp_channel *ibch)
{
}

void xp_channel_leave(struct xp_cq *cq)
{
}

void xp_event_forget(struct xp_event_socket *s, uint64_t cookie, uint32_t written,
		     const uint32_t *read)
{
}

/* Naps measure real time. */
struct xp_pause xp_pause_due(struct xp_cq *cq)
{
	return (struct xp_pause){ 0 };
}

void xp_poll_found(struct xp_cq *cq)
{
}

void xp_pause(struct xp_cq *cq, const struct xp_pause *p)
{
}

bool xp_few_cpus(void)
{
	return false;
}

/* ---- hosts ------------------------------------------------------------------------- */

void host_open(struct direct_host *host, struct world *w, uint32_t ip)
{
	struct xr_query_device_rep *attr = &host->ctx.attr;

	current_world = w;
	host->w = w;
	host->ip = ip;
	host->wake = -1;
	host->ctx.ibctx = host->ctx.shown = &host->ibctx;
	host->ctx.workers = 1;
	host->ctx.wake = &host->wake;
	host->ctx.doorbells = &host->doorbell;
	attr->max_qp_wr = attr->max_srq_wr = attr->max_cqe = 4096;
	attr->max_sge = attr->max_srq_sge = XR_MAX_SGE;
	attr->max_inline = H_INLINE;
	host->ibctx.ops.poll_cq = xp_poll_cq;
	host->ibctx.num_comp_vectors = 1;
}

void host_free_mr(struct ibv_mr *mr)
{
	xp_release(xp_ctx(mr->context), XR_MSG_DEREG_MR, mr->handle, NULL);
	free(mr);
}

void host_close(struct direct_host *host)
{
	for (unsigned i = 0; i < host->objects; i++)
		CHECK(host->w, host->object[i].kind == OBJECT_NONE, "an object was not destroyed");
}

void host_doorbells(struct direct_host *host)
{
	struct xr_doorbell *db = &host->doorbell;

	for (uint32_t slot = 1; slot <= host->objects; slot++) {
		uint64_t bit = 1ull << (slot % 64);

		if (db->bits2[slot / 64] & bit && object_of(host, slot)->qp)
			xt_qp_doorbell(object_of(host, slot)->qp, host->w->h->now);
		db->bits2[slot / 64] &= ~bit;
	}
}
