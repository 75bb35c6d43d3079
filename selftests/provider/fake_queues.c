// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fake daemon: CQs, QPs, SRQs, XRC. */
#include "fake_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct xr_queue *new_queue(struct client *c, uint32_t depth, uint32_t stride,
				  struct xr_shm_ref *ref)
{
	struct xr_queue *q;

	*ref = carve(c, sizeof(*q) + (uint64_t)depth * stride, (void **)&q);
	*q = (struct xr_queue){
		.magic = XR_QUEUE_MAGIC, .depth = depth, .stride = stride, .entries_off = sizeof(*q)
	};
	return q;
}

static uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

void create_cq(struct client *c, const struct message *m)
{
	const struct xr_create_cq_req *req = (const void *)m->body;
	struct xr_create_cq_rep rep = { .depth = power_of_two(req->depth) };
	struct object *o;

	rep.handle = new_object(c, CQ);
	o = &objects[rep.handle];
	o->depth = rep.depth;
	o->channel = req->channel;
	o->cq_flags = req->flags;
	o->cookie = req->cookie;
	o->ring = new_queue(c, rep.depth, sizeof(struct xr_cqe), &rep.ring);
	reply(c, m, 0, &rep, sizeof(rep));
}

static struct xr_cqe *cqe_at(struct xr_queue *q, uint32_t i)
{
	return (struct xr_cqe *)((uint8_t *)q + q->entries_off) + (i & (q->depth - 1));
}

void resize_cq(struct client *c, const struct message *m)
{
	const struct xr_resize_cq_req *req = (const void *)m->body;
	struct xr_create_cq_rep rep = { .handle = req->handle, .depth = power_of_two(req->depth) };
	struct object *o = object(c, CQ, req->handle);
	struct xr_queue *old, *q;
	uint32_t i, n;

	if (!o || o->producer - o->ring->consumer > rep.depth) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	old = o->ring;
	q = new_queue(c, rep.depth, sizeof(struct xr_cqe), &rep.ring);
	n = o->producer - old->consumer;
	for (i = 0; i < n; i++)
		*cqe_at(q, i) = *cqe_at(old, old->consumer + i);
	q->word = old->word;
	q->producer = o->producer = n;
	o->ring = q;
	o->depth = rep.depth;
	reply(c, m, 0, &rep, sizeof(rep));
}

void modify_cq(struct client *c, const struct message *m)
{
	const struct xr_modify_cq_req *req = (const void *)m->body;
	struct object *o = object(c, CQ, req->handle);

	if (o) {
		o->moderate_count = req->count;
		o->moderate_period = req->period;
	}
	reply(c, m, o ? 0 : -ENOENT, NULL, 0);
}

static void raise_event(struct object *cq)
{
	__atomic_store_n(&cq->ring->word, 0, __ATOMIC_SEQ_CST);
	if (write(objects[cq->channel].pipe, &cq->cookie, 8) == 8)
		cq->comp_written++;
}

void check_cq(struct client *c, const struct message *m)
{
	const struct xr_handle_req *req = (const void *)m->body;
	struct object *o = object(c, CQ, req->handle);

	if (o && o->ring->word && o->producer != o->ring->consumer)
		raise_event(o);
	reply(c, m, o ? 0 : -ENOENT, NULL, 0);
}

/* Returns the XRC domain of the one file that is supported, or NULL if it is not open. */
static struct object *file_domain(void)
{
	uint32_t i;

	for (i = 1; i < MAX_OBJECTS; i++)
		if (objects[i].kind == XRCD && objects[i].of_file)
			return &objects[i];
	return NULL;
}

static int xrcd_error(uint32_t flags, bool has_fd, bool there)
{
	if (!(flags & XR_XRCDF_FD) != !has_fd)
		return -EINVAL;
	if (has_fd && !there && !(flags & XR_XRCDF_CREAT))
		return -EAGAIN;
	return has_fd && there && flags & XR_XRCDF_EXCL ? -EINVAL : 0;
}

void open_xrcd(struct client *c, const struct message *m)
{
	const struct xr_open_xrcd_req *req = (const void *)m->body;
	struct object *there = file_domain();
	struct xr_handle_rep rep = { 0 };
	int err = xrcd_error(req->flags, m->nfds, there);

	if (!err) {
		rep.handle = new_object(c, XRCD);
		objects[rep.handle].of_file = m->nfds;
		objects[rep.handle].domain = m->nfds && there ? there->domain : rep.handle;
	}
	reply(c, m, err, &rep, sizeof(rep));
}

/* Returns 0 if there is no such handle. */
static uint32_t domain_of(struct client *c, uint32_t xrcd)
{
	struct object *o = object(c, XRCD, xrcd);

	return o ? o->domain : 0;
}

static bool is_xrc(uint32_t type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* XRC initiators have no receive CQ; targets have only an XRC domain. */
static bool qp_fits(struct client *c, const struct xr_create_qp_req *req)
{
	if (req->type == IBV_QPT_XRC_RECV)
		return domain_of(c, req->xrcd) && !req->pd && !req->send_cq && !req->recv_cq &&
		       !req->srq;
	if (!object(c, PD, req->pd) || !object(c, CQ, req->send_cq) || req->xrcd)
		return false;
	return req->type == IBV_QPT_XRC_SEND ? !req->recv_cq && !req->srq
					     : object(c, CQ, req->recv_cq) != NULL;
}

void create_qp(struct client *c, const struct message *m)
{
	const struct xr_create_qp_req *req = (const void *)m->body;
	struct xr_create_qp_rep rep = {
		.max_send_wr = req->max_send_wr,
		.max_recv_wr = req->max_recv_wr,
		.max_send_sge = req->max_send_sge,
		.max_recv_sge = req->max_recv_sge,
		.max_inline = (req->max_inline + 15) & ~15u, /* rounded up, as the daemon does */
	};
	struct object *o;

	if (!qp_fits(c, req)) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	rep.handle = rep.qpn = new_object(c, QP);
	rep.slot = rep.handle * 61; /* uses all three levels of the doorbell bitmap */
	o = &objects[rep.handle];
	o->init = *req;
	o->init.max_inline = rep.max_inline;
	o->cookie = req->cookie;
	o->send_cq = req->send_cq;
	o->recv_cq = req->recv_cq;
	o->domain = domain_of(c, req->xrcd);
	o->slot = rep.slot;
	o->sq_stride = xr_send_stride(req->max_send_sge, rep.max_inline);
	o->rq_stride = xr_recv_stride(req->max_recv_sge);
	o->sq_depth = power_of_two(req->max_send_wr);
	o->rq_depth = power_of_two(req->max_recv_wr);
	if (req->type != IBV_QPT_XRC_RECV)
		o->sq = new_queue(c, o->sq_depth, o->sq_stride, &rep.sq);
	if (!req->srq && !is_xrc(req->type))
		o->rq = new_queue(c, o->rq_depth, o->rq_stride, &rep.rq);
	reply(c, m, 0, &rep, sizeof(rep));
}

void create_srq(struct client *c, const struct message *m)
{
	const struct xr_create_srq_req *req = (const void *)m->body;
	struct xr_create_srq_rep rep = {
		.handle = new_object(c, SRQ),
		.max_wr = power_of_two(req->max_wr),
		.max_sge = req->max_sge,
	};
	struct object *o = &objects[rep.handle];

	/* An XRC SRQ has a CQ, and a number that differs from its handle. */
	if (req->xrcd && (!domain_of(c, req->xrcd) || !object(c, CQ, req->cq))) {
		free_object(o);
		reply(c, m, -ENOENT, NULL, 0);
		return;
	}
	o->domain = domain_of(c, req->xrcd);
	o->recv_cq = req->cq;
	o->number = rep.number = req->xrcd ? rep.handle + FAKE_SRQN : 0;
	o->cookie = req->cookie;
	o->rq_depth = rep.max_wr;
	o->rq_stride = xr_recv_stride(req->max_sge);
	o->rq = new_queue(c, o->rq_depth, o->rq_stride, &rep.ring);
	reply(c, m, 0, &rep, sizeof(rep));
}

static uint8_t *rq_entry(const struct object *o, const struct xr_queue *q, uint32_t i)
{
	return (uint8_t *)(q + 1) + (size_t)(i & (q->depth - 1)) * o->rq_stride;
}

static void resize_srq(struct client *c, struct object *o, uint32_t max_wr,
		       struct xr_modify_srq_rep *rep)
{
	struct xr_queue *old = o->rq, *q;
	uint32_t i, n = old->producer - o->rq_done;

	q = new_queue(c, max_wr, o->rq_stride, &rep->ring);
	for (i = 0; i < n; i++)
		memcpy(rq_entry(o, q, i), rq_entry(o, old, o->rq_done + i), o->rq_stride);
	q->producer = n;
	o->rq = q;
	o->rq_depth = max_wr;
	o->rq_done = 0;
}

void modify_srq(struct client *c, const struct message *m)
{
	const struct xr_modify_srq_req *req = (const void *)m->body;
	struct object *o = object(c, SRQ, req->handle);
	struct xr_modify_srq_rep rep = { .max_wr = power_of_two(req->max_wr) };

	if (!o || (req->mask & IBV_SRQ_MAX_WR && o->rq->producer - o->rq_done > rep.max_wr)) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	if (req->mask & IBV_SRQ_MAX_WR)
		resize_srq(c, o, rep.max_wr, &rep);
	if (req->mask & IBV_SRQ_LIMIT)
		o->limit = req->limit;
	reply(c, m, 0, &rep, sizeof(rep));
}

void query_srq(struct client *c, const struct message *m)
{
	const struct xr_handle_req *req = (const void *)m->body;
	struct object *o = object(c, SRQ, req->handle);
	struct xr_query_srq_rep rep = { 0 };

	if (o) {
		rep.max_wr = o->rq_depth;
		rep.max_sge = o->rq_stride / sizeof(struct xr_sge) - 1;
		rep.limit = o->limit;
	}
	reply(c, m, o ? 0 : -EINVAL, &rep, sizeof(rep));
}

static void store_state(struct object *o)
{
	struct xr_queue *queue[] = { o->sq, o->rq };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (!queue[i])
			continue;
		queue[i]->word = o->state;
		if (o->state == IBV_QPS_RESET)
			queue[i]->producer = queue[i]->consumer = 0;
	}
	if (o->state == IBV_QPS_RESET)
		o->sq_done = o->rq_done = 0;
}

void modify_qp(struct client *c, const struct message *m)
{
	const struct xr_modify_qp_req *req = (const void *)m->body;
	struct object *o = object(c, QP, req->handle);
	struct xr_modify_qp_rep rep = { 0 };

	if (!o) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	if (req->attr_mask & IBV_QP_AV && req->attr.ah.hop_limit == FAKE_REFUSED_HOP) {
		reply(c, m, -EHOSTUNREACH, NULL, 0);
		return;
	}
	if (req->attr_mask & IBV_QP_STATE) {
		o->state = req->attr.qp_state;
		store_state(o);
	}
	o->attr = req->attr;
	o->burst = req->max_burst;
	rep.state = o->state;
	reply(c, m, 0, &rep, sizeof(rep));
}

void query_qp(struct client *c, const struct message *m)
{
	const struct xr_handle_req *req = (const void *)m->body;
	struct object *o = object(c, QP, req->handle);
	struct xr_query_qp_rep rep = { 0 };

	if (o) {
		rep.attr = o->attr;
		rep.attr.qp_state = o->state;
		rep.max_send_wr = o->init.max_send_wr;
		rep.max_recv_wr = o->init.max_recv_wr;
		rep.max_send_sge = o->init.max_send_sge;
		rep.max_recv_sge = o->init.max_recv_sge;
		rep.max_inline = o->init.max_inline;
		rep.sq_sig_all = o->init.sq_sig_all;
	}
	reply(c, m, o ? 0 : -EINVAL, &rep, sizeof(rep));
}

void open_qp(struct client *c, const struct message *m)
{
	const struct xr_open_qp_req *req = (const void *)m->body;
	struct object *o = req->qpn < MAX_OBJECTS ? &objects[req->qpn] : NULL;
	struct xr_open_qp_rep rep = { .qpn = req->qpn };

	if (!o || o->kind != QP || !o->domain || o->domain != domain_of(c, req->xrcd)) {
		reply(c, m, -EINVAL, NULL, 0);
		return;
	}
	rep.handle = new_object(c, QP);
	objects[rep.handle].cookie = req->cookie;
	objects[rep.handle].state = o->state;
	reply(c, m, 0, &rep, sizeof(rep));
}

/* ---- multicast ---------------------------------------------------------------------- */

void attach_mcast(struct client *c, const struct message *m)
{
	const struct xr_mcast_req *req = (const void *)m->body;
	struct object *o = object(c, QP, req->qp);
	int err = o && o->init.type == IBV_QPT_UD && req->gid.raw[0] == 0xff ? 0 : -EINVAL;

	if (!err) {
		o->groups++;
		o->group = req->gid;
	}
	reply(c, m, err, NULL, 0);
}

void detach_mcast(struct client *c, const struct message *m)
{
	const struct xr_mcast_req *req = (const void *)m->body;
	struct object *o = object(c, QP, req->qp);
	int err = o && o->groups && !memcmp(&o->group, &req->gid, sizeof(o->group)) ? 0 : -EINVAL;

	if (!err)
		o->groups--;
	reply(c, m, err, NULL, 0);
}

/* ---- completions ------------------------------------------------------------------ */

/* @from: the QP, or its SRQ. */
static uint32_t complete(struct object *qp, struct object *from, struct object *cq, bool recv,
			 uint32_t status, bool solicited)
{
	struct xr_queue *q = recv ? from->rq : qp->sq;
	uint32_t *done = recv ? &from->rq_done : &qp->sq_done;
	uint32_t depth = recv ? from->rq_depth : qp->sq_depth;
	uint32_t stride = recv ? from->rq_stride : qp->sq_stride, word;
	uint8_t *entry = (uint8_t *)(q + 1) + (size_t)(*done & (depth - 1)) * stride;
	struct timespec ts;
	struct xr_cqe cqe = { .status = status,
			      .qpn = qp - objects,
			      .wqe_index = *done,
			      .is_recv = recv,
			      .opcode = recv ? IBV_WC_RECV : IBV_WC_SEND,
			      .srqn = from->number };

	if (__atomic_load_n(&q->producer, __ATOMIC_ACQUIRE) == *done)
		return 0;
	memcpy(&cqe.wr_id, entry, sizeof(cqe.wr_id));
	if (status) {
		cqe.vendor_err = FAKE_VENDOR_ERR;
	} else if (recv) {
		cqe.byte_len = FAKE_RECEIVED_LENGTH;
		cqe.imm_data = FAKE_RECEIVED(1);
		cqe.src_qpn = FAKE_RECEIVED(2);
		cqe.pkey_index = FAKE_RECEIVED(3);
		cqe.sl = FAKE_RECEIVED(4);
		cqe.wc_flags = IBV_WC_WITH_IMM;
	}
	clock_gettime(CLOCK_MONOTONIC, &ts);
	cqe.timestamp = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	__atomic_store_n(&q->consumer, ++*done, __ATOMIC_RELEASE);
	*cqe_at(cq->ring, cq->producer) = cqe;
	__atomic_store_n(&cq->ring->producer, ++cq->producer, __ATOMIC_SEQ_CST);
	word = __atomic_load_n(&cq->ring->word, __ATOMIC_SEQ_CST);
	if (cq->channel && (word & XR_ARM_ANY || (word && (solicited || status))))
		raise_event(cq);
	return 1;
}

uint32_t complete_one(struct object *qp, bool recv, uint32_t status, bool solicited)
{
	struct object *from = recv && qp->init.srq ? &objects[qp->init.srq] : qp;
	struct object *cq = &objects[recv ? qp->recv_cq : qp->send_cq];

	return complete(qp, from, cq, recv, status, solicited);
}

uint32_t complete_xrc(struct object *target, struct object *srq, uint32_t status)
{
	return complete(target, srq, &objects[srq->recv_cq], true, status, false);
}
