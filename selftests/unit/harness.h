/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An engine without a network. Frames that the engine sends are recorded in a list; a test passes
 * frames to receive to h_receive(). All QPs share one CQ; each QP has its own rings.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/gid.h>

#include "daemon/transport/wire/icrc.h"
#include "selftests/lib/parse.h"

#define H_FRAMES 512
#define H_DEPTH 64
#define H_SGE 4
#define H_INLINE 64
#define H_CQE 256

struct h_frame {
	uint32_t len, packets; /* packets: of a large frame, whose headers are in data */
	uint8_t data[XT_MAX_FRAME];
};

struct harness {
	struct xt_shared shared;
	struct xt_engine *engine;
	struct xt_ahs *ahs;
	struct xr_psn_entry psns[64];
	struct xt_cq cq;
	struct xr_queue *cq_ring;
	uint32_t cq_consumer;
	struct h_frame sent[H_FRAMES];
	unsigned sent_count;
	uint32_t large;	  /* packets of a large frame that the peer has room for; 1: never any */
	bool large_fails; /* none is sent */
	uint8_t large_payload[XT_LARGE_PACKETS * 4096]; /* of the last one */
	unsigned pushed;     /* frames that were put before the last tx_push */
	unsigned events[32]; /* asynchronous events, by type */
	unsigned cq_events;
	uint32_t arm_again;	     /* XR_ARM_*: the program arms the CQ with the next event */
	struct xt_srq *srq;	     /* for QPs created from now on; NULL: none */
	struct xt_mem *reserved_mem; /* memory of the reserved L_Key; NULL: not granted */
	unsigned cq_errors, states;
	struct xt_failure failure; /* of the QP whose state the engine has changed last */
	struct xt_inject refusal;  /* of the next request with XT_INJECT_ASK */
	unsigned asked;
	unsigned keys_changed, quiesced;
	bool lock_busy; /* no other engine can be locked */
	unsigned locks; /* attempts */
	uint64_t now;
};

struct h_qp {
	struct harness *h;
	struct xt_qp *qp;
	struct xr_queue *sq, *rq;
	uint32_t qpn;
};

static bool h_tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	struct harness *h = ctx;

	if (h->sent_count == H_FRAMES)
		return false;
	frame->seg[0] = (struct xt_seg){ h->sent[h->sent_count].data, len };
	frame->nseg = 1;
	return true;
}

static void h_tx_put(void *ctx, struct xt_frame *frame)
{
	struct harness *h = ctx;

	h->sent[h->sent_count].packets = 1;
	h->sent[h->sent_count++].len = frame->len;
}

static uint32_t h_large_packets(void *ctx, const struct xt_path *path, uint32_t dqpn, uint32_t want)
{
	struct harness *h = ctx;

	return want < h->large ? want : h->large;
}

static bool h_send_large(void *ctx, const struct xt_frame *frame)
{
	struct harness *h = ctx;
	struct h_frame *sent = &h->sent[h->sent_count];
	uint8_t *p = h->large_payload;

	if (h->large_fails)
		return false;
	h->sent_count++;
	sent->packets = frame->packets;
	sent->len = frame->len;
	memcpy(sent->data, frame->seg[0].data, frame->seg[0].len);
	for (uint32_t i = 0; i < frame->n_payload; p += frame->payload[i++].len)
		memcpy(p, frame->payload[i].data, frame->payload[i].len);
	return true;
}

static void h_tx_push(void *ctx)
{
	struct harness *h = ctx;

	h->pushed = h->sent_count;
}

static void h_cq_event(void *ctx, struct xt_cq *cq)
{
	struct harness *h = ctx;

	h->cq_events++;
	h->cq_ring->word |= h->arm_again;
	h->arm_again = 0;
}

static void h_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct harness *h = ctx;

	h->events[type % 32]++;
	h->cq_errors += cq != NULL;
}

static void h_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	((struct harness *)ctx)->events[type % 32]++;
}

static void h_qp_state(void *ctx, struct xt_qp *qp)
{
	struct harness *h = ctx;
	struct xt_qp_stats stats;

	xt_qp_stats(qp, &stats);
	h->failure = stats.failure;
	h->states++;
}

static struct xt_inject h_refusal(void *ctx, const struct xt_frame *frame)
{
	struct harness *h = ctx;
	struct xt_inject refusal = h->refusal;

	h->refusal = (struct xt_inject){ XT_INJECT_NONE, 0 };
	h->asked++;
	return refusal;
}

static void h_key_changed(void *ctx, const struct xt_key *key)
{
	((struct harness *)ctx)->keys_changed++;
}

static void h_quiesce_keys(void *ctx)
{
	((struct harness *)ctx)->quiesced++;
}

static bool h_engine_lock(void *ctx, struct xt_engine *other)
{
	struct harness *h = ctx;

	h->locks++;
	return !h->lock_busy;
}

static void h_engine_unlock(void *ctx, struct xt_engine *other)
{
}

static struct xr_queue *h_queue(uint32_t depth, uint32_t stride)
{
	return calloc(1, sizeof(struct xr_queue) + (size_t)depth * stride);
}

/* Another engine with the same tables */
__attribute__((unused)) static struct xt_engine *h_engine(struct harness *h)
{
	static const struct xt_ops ops = {
		.tx_get = h_tx_get,
		.tx_put = h_tx_put,
		.tx_push = h_tx_push,
		.large_packets = h_large_packets,
		.send_large = h_send_large,
		.cq_event = h_cq_event,
		.async_event = h_async_event,
		.srq_event = h_srq_event,
		.qp_state = h_qp_state,
		.refusal = h_refusal,
		.key_changed = h_key_changed,
		.quiesce_keys = h_quiesce_keys,
		.engine_lock = h_engine_lock,
		.engine_unlock = h_engine_unlock,
	};
	struct xt_tuning tuning = XT_TUNING_DEFAULT;
	struct xt_engine *e = xt_engine_new(&ops, h, &h->shared);

	tuning.first_window = tuning.short_window = tuning.window;
	xt_engine_tune(e, &tuning);
	return e;
}

__attribute__((unused)) static struct harness *h_new(uint32_t cq_depth)
{
	struct harness *h = calloc(1, sizeof(*h));

	h->shared.keys = xt_keys_new(1024, 7);
	h->shared.qps = xt_numbers_new(32, 7);
	h->engine = h_engine(h);
	h->large = 1;
	h->ahs = xt_ahs_new();
	h->shared.groups = xt_groups_new();
	h->cq_ring = h_queue(cq_depth, sizeof(struct xr_cqe));
	xt_cq_init(&h->cq, h->cq_ring, cq_depth);
	return h;
}

__attribute__((unused)) static void h_free(struct harness *h)
{
	xt_engine_free(h->engine);
	xt_ahs_free(h->ahs);
	xt_groups_free(h->shared.groups);
	xt_keys_free(h->shared.keys);
	xt_numbers_free(h->shared.qps);
	free(h->cq_ring);
	free(h);
}

__attribute__((unused)) static int h_create_type(struct harness *h, struct h_qp *q, uint32_t type)
{
	struct xt_qp_init init = {
		.type = type,
		.pd = 1,
		.ahs = h->ahs,
		.send_cq = &h->cq,
		.recv_cq = &h->cq,
		.sq_depth = H_DEPTH,
		.rq_depth = H_DEPTH,
		.sq_stride = xr_send_stride(H_SGE, H_INLINE),
		.rq_stride = xr_recv_stride(H_SGE),
		.max_send_sge = H_SGE,
		.max_recv_sge = H_SGE,
		.max_inline = H_INLINE,
		.srq = h->srq,
		.psns = h->psns,
		.reserved_lkey_mem = &h->reserved_mem,
		.owner = q,
	};
	int err;

	q->h = h;
	q->sq = init.sq = h_queue(H_DEPTH, init.sq_stride);
	q->rq = init.rq = h->srq ? NULL : h_queue(H_DEPTH, init.rq_stride);
	err = xt_qp_create(h->engine, &init, &q->qp);
	if (!err)
		q->qpn = xt_qp_info(q->qp)->qpn;
	return err;
}

__attribute__((unused)) static int h_create(struct harness *h, struct h_qp *q)
{
	return h_create_type(h, q, XR_QPT_RC);
}

__attribute__((unused)) static void h_destroy(struct h_qp *q)
{
	xt_qp_destroy(q->qp);
	free(q->sq);
	free(q->rq);
}

/* Fills @a for a transition to state @to. Returns the mask that RC requires (IBTA table 91). */
__attribute__((unused)) static uint32_t h_attr(uint32_t to, struct xr_qp_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->qp_state = to;
	a->cur_qp_state = XR_QPS_RTR;
	a->path_mtu = IBV_MTU_1024;
	a->path_mig_state = IBV_MIG_MIGRATED;
	a->port_num = 1;
	a->qp_access_flags = XR_ACCESS_REMOTE;
	a->max_rd_atomic = a->max_dest_rd_atomic = 4;
	a->min_rnr_timer = 12;
	a->timeout = 14;
	a->retry_cnt = a->rnr_retry = 7;
	a->ah.is_global = 1;
	a->ah.port_num = 1;
	a->ah.hop_limit = 64;
	switch (to) {
	case XR_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	case XR_QPS_RTR:
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case XR_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return IBV_QP_STATE;
	}
}

/* An IPv4 path. Addresses are in host byte order; 0 means 10.0.0.1 (local) or 10.0.0.2 (peer). */
__attribute__((unused)) static struct xt_path h_path(uint32_t local_ip, uint32_t peer_ip)
{
	struct xt_path p = { .ip_version = 4, .hop_limit = 64 };

	local_ip = htobe32(local_ip ? local_ip : 0x0a000001);
	peer_ip = htobe32(peer_ip ? peer_ip : 0x0a000002);
	xr_gid_set_ipv4(&p.sgid, local_ip);
	xr_gid_set_ipv4(&p.dgid, peer_ip);
	return p;
}

__attribute__((unused)) static int h_modify(struct h_qp *q, uint32_t to)
{
	struct xt_path path = h_path(0, 0);
	struct xr_qp_attr attr;
	uint32_t mask = h_attr(to, &attr);

	/* SQD to RTS requires no attributes. */
	if (to == XR_QPS_RTS && xt_qp_info(q->qp)->state == XR_QPS_SQD)
		mask = IBV_QP_STATE;
	return xt_qp_modify(q->qp, &attr, mask, &path, 4096, q->h->now);
}

__attribute__((unused)) static bool h_poll(struct harness *h, struct xr_cqe *cqe)
{
	if (h->cq_ring->producer == h->cq_consumer)
		return false;
	memcpy(cqe, (struct xr_cqe *)(h->cq_ring + 1) + (h->cq_consumer++ & (h->cq.depth - 1)),
	       sizeof(*cqe));
	h->cq_ring->consumer = h->cq_consumer;
	return true;
}

__attribute__((unused)) static void h_post_to(struct xr_queue *rq, uint32_t depth, uint64_t wr_id,
					      uint64_t addr, uint32_t len, uint32_t lkey)
{
	uint32_t stride = xr_recv_stride(H_SGE), i = rq->producer & (depth - 1);
	struct xr_recv_wqe *w = (void *)((uint8_t *)(rq + 1) + i * stride);

	*w = (struct xr_recv_wqe){ .wr_id = wr_id, .num_sge = 1 };
	*(struct xr_sge *)(w + 1) = (struct xr_sge){ addr, len, lkey };
	rq->producer++;
}

__attribute__((unused)) static void h_post_recv(struct h_qp *q, uint64_t wr_id, uint64_t addr,
						uint32_t len, uint32_t lkey)
{
	h_post_to(q->rq, H_DEPTH, wr_id, addr, len, lkey);
}

/* Posts a signalled send WR with one SGE, or with none if @len is 0. */
__attribute__((unused)) static struct xr_send_wqe *h_post_send(struct h_qp *q, uint64_t wr_id,
							       uint8_t opcode, uint64_t addr,
							       uint32_t len, uint32_t lkey)
{
	uint32_t stride = xr_send_stride(H_SGE, H_INLINE), i = q->sq->producer & (H_DEPTH - 1);
	struct xr_send_wqe *w = (void *)((uint8_t *)(q->sq + 1) + i * stride);

	*w = (struct xr_send_wqe){ .wr_id = wr_id, .opcode = opcode, .flags = XR_SEND_SIGNALED };
	w->num_sge = len ? 1 : 0;
	*(struct xr_sge *)(w + 1) = (struct xr_sge){ addr, len, lkey };
	q->sq->producer++;
	return w;
}

/* A region backed by memory of the test program. */
struct h_mr {
	struct xt_key *key;
	struct xt_mem mem;
	struct xt_mem_seg seg;
};

__attribute__((unused)) static uint32_t h_reg(struct harness *h, struct h_mr *mr, void *p,
					      uint64_t len, uint64_t iova)
{
	mr->seg = (struct xt_mem_seg){ .len = len, .ptr = p, .addr = iova, .writable = true };
	mr->mem = (struct xt_mem){ .length = len, .nseg = 1, .seg = &mr->seg };
	mr->key = xt_keys_alloc(h->shared.keys);
	mr->key->mem = &mr->mem;
	mr->key->entry.va = iova;
	mr->key->entry.length = len;
	mr->key->entry.pd = 1;
	mr->key->entry.access = XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE;
	mr->key->entry.state = XR_KEY_VALID;
	mr->key->entry.type = XR_KEY_MR;
	return xt_key_value(mr->key);
}

/* Receives one frame, then runs the engine once. Advances the time by 1 us. */
__attribute__((unused)) static void h_receive(struct harness *h, uint8_t *data, uint32_t len)
{
	struct xt_frame f = { .seg[0] = { data, len }, .nseg = 1, .len = len };

	h->now += 1000;
	if (parse_frame(&f) == XR_OK)
		xt_engine_rx(h->engine, &f, 1, h->now);
	xt_engine_run(h->engine, h->now);
}

#endif /* HARNESS_H */
