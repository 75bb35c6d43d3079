// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QPs: rings, states, connection setup. */
#include <errno.h>

#include "queue.h"
#include "ring.h"

#define NO_OPCODE 13 /* unused value of enum ibv_wr_opcode */

void ring_new(struct ring *r, uint32_t depth, uint32_t stride)
{
	r->depth = depth;
	r->stride = stride;
	r->producer = 0;
	r->queue = queue_new(depth, stride);
	memset(r->queue + 1, 0xee, (size_t)depth * stride);
}

/* Creates the queues of the QP's type. */
static void add_queues(struct sim_qp *q, struct xt_qp_init *init)
{
	if (q->type != XR_QPT_XRC_RECV) {
		init->send_cq = &q->scq->cq;
		ring_new(&q->sq, q->sq.depth, init->sq_stride);
		init->sq = q->sq.queue;
	}
	if (q->type == XR_QPT_UD)
		init->ahs = q->host->ahs;
	if (is_xrc(q))
		return;
	init->recv_cq = &q->rcq->cq;
	if (q->srq) {
		init->srq = &q->srq->xt;
	} else {
		ring_new(&q->rq, q->rq.depth, init->rq_stride);
		init->rq = q->rq.queue;
	}
}

/* The IPv4 and IPv6 addresses of the groups of the QP */
static unsigned groups_of(const struct sim_qp *q, struct xr_addr *gid)
{
	unsigned g, n = 0;

	for (g = 0; g < MAX_GROUPS; g++)
		if (q->groups & 1u << g) {
			group_gid(g, 4, &gid[n++]);
			group_gid(g, 6, &gid[n++]);
		}
	return n;
}

static void join(struct sim_qp *q)
{
	struct xt_groups *t = q->host->shared.groups;
	struct xr_addr gid[2 * MAX_GROUPS];
	unsigned n = groups_of(q, gid);

	while (n--) {
		CHECK(q->w, !xt_group_attach(t, &gid[n], q->qp),
		      "attach to multicast group failed");
		CHECK(q->w, xt_group_has(t, &gid[n], q->qp), "QP is not in its multicast group");
	}
}

static void leave(struct sim_qp *q)
{
	struct xt_groups *t = q->host->shared.groups;
	struct xr_addr gid[2 * MAX_GROUPS];
	unsigned n = groups_of(q, gid);

	while (n--) {
		xt_group_detach(t, &gid[n], q->qp);
		CHECK(q->w, !xt_group_has(t, &gid[n], q->qp),
		      "QP is still in a multicast group after detach");
	}
}

void qp_create(struct sim_qp *q)
{
	struct xt_qp_init init = {
		.type = q->type,
		.pd = q->type == XR_QPT_XRC_RECV ? 0 : q->pd,
		.xrcd = q->type == XR_QPT_XRC_RECV ? XRC_DOMAIN : 0,
		.sq_depth = q->sq.depth,
		.rq_depth = q->rq.depth,
		.sq_stride = xr_send_stride(q->max_send_sge, q->max_inline),
		.rq_stride = xr_recv_stride(q->max_recv_sge),
		.max_send_sge = q->max_send_sge,
		.max_recv_sge = q->max_recv_sge,
		.max_inline = q->max_inline,
		.sq_sig_all = q->sig_all,
		.psns = q->host->psns,
		.owner = q,
	};
	int err;

	add_queues(q, &init);
	err = xt_qp_create(q->engine->engine, &init, &q->qp);
	CHECK(q->w, !err, "xt_qp_create: %d", err);
	q->window = xt_keys_alloc(q->host->shared.keys);
	CHECK(q->w, q->window, "no key for a window");
	q->window->entry.pd = q->pd;
	q->window->entry.type = XR_KEY_MW;
	q->window->entry.flags = XR_KEYF_TYPE_2;
	q->qpn = xt_qp_info(q->qp)->qpn;
	join(q);
	TRACE(q->w,
	      "qp %u: number %06x on host %u engine %u, sq %u rq %u, sge %u/%u, inline %u, pd %u",
	      q->id, q->qpn, q->host->index, (unsigned)(q->engine - q->host->engine), q->sq.depth,
	      q->rq.depth, q->max_send_sge, q->max_recv_sge, q->max_inline, q->pd);
}

void qp_destroy(struct sim_qp *q)
{
	if (!q->qp)
		return;
	TRACE(q->w, "qp %u: destroyed", q->id);
	leave(q);
	xt_qp_destroy(q->qp);
	CHECK(q->w, q->window->entry.state == XR_KEY_FREE,
	      "qp %u: window is still bound after destroy", q->id);
	xt_keys_release(q->host->shared.keys, q->window);
	q->qp = NULL;
	free(q->sq.queue);
	free(q->rq.queue);
	q->sq.queue = q->rq.queue = NULL;
	/* a loopback peer that waited for memory of this QP may go on */
	engine_wake(q->engine, q->w->now);
}

struct sim_qp *qp_by_num(struct host *h, uint32_t qpn)
{
	struct xt_qp *qp = xt_qp_by_num(h->shared.qps, qpn);

	return qp ? xt_qp_info(qp)->owner : NULL;
}

/* ---- states -------------------------------------------------------------- */

static uint32_t mtu_code(uint32_t mtu)
{
	return __builtin_ctz(mtu) - 7; /* 256 is 1 */
}

void qp_set_path(struct sim_qp *q, int version, uint32_t flow_label, uint16_t vlan)
{
	struct xt_path *p = &q->path;

	*p = (struct xt_path){
		.loopback = q->conn->local,
		.ip_version = version,
		.vlan = vlan,
		.flow_label = flow_label,
		.hop_limit = 64,
		.traffic_class = flow_label & 1 ? flow_label & 0xff : 0,
	};
	host_mac(q->host, p->smac);
	host_mac(q->peer->host, p->dmac);
	host_gid(q->host, version, &p->sgid);
	host_gid(q->peer->host, version, &p->dgid);
}

static uint32_t fill_attr(const struct sim_qp *q, uint32_t state, struct xr_qp_attr *a)
{
	const struct conn *c = q->conn;

	memset(a, 0, sizeof(*a));
	a->qp_state = state;
	a->qkey = QKEY;
	switch (state) {
	case XR_QPS_INIT:
		a->port_num = 1;
		a->qp_access_flags = XR_ACCESS_REMOTE;
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	case XR_QPS_RTR:
		a->path_mtu = mtu_code(c->mtu);
		a->dest_qp_num = q->peer->qpn;
		a->rq_psn = q->peer->sq_psn;
		a->max_dest_rd_atomic = q->peer->rd_atomic;
		a->min_rnr_timer = c->rnr_timer;
		a->ah.dgid = q->path.dgid;
		a->ah.flow_label = q->path.flow_label;
		a->ah.hop_limit = q->path.hop_limit;
		a->ah.port_num = 1;
		a->ah.is_global = 1;
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case XR_QPS_RTS:
		if (q->drained || q->in_sqe) /* from SQD or SQE */
			return IBV_QP_STATE;
		a->sq_psn = q->sq_psn;
		a->timeout = c->timeout;
		a->retry_cnt = c->retry_cnt;
		a->rnr_retry = c->rnr_retry;
		a->max_rd_atomic = q->rd_atomic;
		a->rate_limit = q->rate;
		return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
		       (q->rate ? IBV_QP_RATE_LIMIT : 0);
	case XR_QPS_SQD:
		a->en_sqd_async_notify = 1;
		return IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;
	default:
		return IBV_QP_STATE;
	}
}

static bool ring_has_state(const struct ring *r, uint32_t state)
{
	return !r->queue || r->queue->word == state;
}

static bool ring_is_new(const struct ring *r)
{
	return !r->queue || (!r->queue->producer && !r->queue->consumer);
}

/* Removes attributes that the type does not have; RC has all. */
static uint32_t mask_for(uint32_t type, uint32_t mask)
{
	const uint32_t responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const uint32_t requester = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;

	switch (type) {
	case XR_QPT_UC:
		return mask & ~(responder | requester | IBV_QP_TIMEOUT);
	case XR_QPT_UD:
		if (mask & IBV_QP_ACCESS_FLAGS)
			mask ^= IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY;
		return mask & ~(responder | requester | IBV_QP_TIMEOUT | IBV_QP_AV |
				IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	case XR_QPT_XRC_SEND:
		return mask & ~(responder | IBV_QP_RATE_LIMIT);
	case XR_QPT_XRC_RECV:
		return mask & ~(requester | IBV_QP_RATE_LIMIT);
	default:
		return mask;
	}
}

void qp_modify(struct sim_qp *q, uint32_t state)
{
	struct xr_qp_attr attr;
	uint32_t mask = mask_for(q->type, fill_attr(q, state, &attr));
	int err;

	TRACE(q->w, "qp %u: modify to state %u", q->id, state);
	err = xt_qp_modify(q->qp, &attr, mask, mask & IBV_QP_AV ? &q->path : NULL, 4096, q->w->now);
	CHECK(q->w, !err, "qp %u: modify to state %u: %d", q->id, state, err);
	CHECK(q->w, xt_qp_info(q->qp)->state == state, "qp %u: state %u after modify to %u", q->id,
	      xt_qp_info(q->qp)->state, state);
	CHECK(q->w, ring_has_state(&q->sq, state) && ring_has_state(&q->rq, state),
	      "qp %u: the rings do not have state %u", q->id, state);
	if (state == XR_QPS_RESET) {
		CHECK(q->w, ring_is_new(&q->sq) && ring_is_new(&q->rq),
		      "qp %u: RESET did not clear the ring indices", q->id);
		q->sq.producer = q->rq.producer = 0;
		q->in_error = q->drained = q->quiet = q->in_sqe = false;
		q->async[IBV_EVENT_COMM_EST] = q->async[IBV_EVENT_QP_LAST_WQE_REACHED] = 0;
	}
	if (mask & IBV_QP_RATE_LIMIT) {
		xt_qp_set_burst(q->qp, q->burst);
		q->tokens_at = 0;
	}
	if (state == XR_QPS_RTS) {
		q->ready = true;
		q->drained = q->quiet = q->in_sqe = false;
	}
	if (state == XR_QPS_ERR) {
		q->in_error = true;
		q->in_sqe = false;
	}
	engine_wake(q->engine, q->w->now);
}

/*
 * Moves both QPs to RTS. Receives may be posted from INIT on. If one side is slow, the first
 * requests of its peer reach it in INIT (dropped) or RTR (it responds, but sends no requests).
 */
void conn_connect(struct conn *c)
{
	struct world *w = c->qp[0].w;
	struct sim_qp *a, *b;

	c->slow_side = rng_below(&w->sched, 2);
	b = &c->qp[c->slow_side];
	a = b->peer;
	a->ready = b->ready = false;
	qp_modify(a, XR_QPS_INIT);
	qp_modify(b, XR_QPS_INIT);
	if (!c->slow || rng_chance(&w->sched, 60))
		qp_modify(b, XR_QPS_RTR);
	qp_modify(a, XR_QPS_RTR);
	qp_modify(a, XR_QPS_RTS);
	c->ready_at = w->now + c->slow;
	if (!c->slow)
		conn_ready(c);
}

/* True if a request has completed that was sent to the peer, i.e. not a local operation. */
static bool reached_peer(const struct sim_qp *q)
{
	for (unsigned i = q->op_base; i != q->op_head; i++)
		if (!is_local_op(&q->ops[i]))
			return true;
	return false;
}

/* The slow side enters RTS. */
void conn_ready(struct conn *c)
{
	struct sim_qp *q = &c->qp[c->slow_side], *p = q->peer;

	c->ready_at = NEVER;
	if (!q->qp || q->in_error)
		return;
	if (xt_qp_info(q->qp)->state == XR_QPS_INIT)
		qp_modify(q, XR_QPS_RTR);
	else if (c->slow && p->qp && reached_peer(p) && !p->sq_error)
		CHECK(q->w, q->async[IBV_EVENT_COMM_EST],
		      "qp %u: no COMM_EST event after a request in RTR", q->id);
	qp_modify(q, XR_QPS_RTS);
	q->step = q->w->now;
}

/* ---- posting ------------------------------------------------------------- */

static void put_sge(struct host *h, struct xr_sge *out, const struct piece *p, unsigned broken)
{
	struct sim_mr *mr = &h->mr[p->mr];

	out->addr = mr_va(mr, p->off);
	out->length = p->len;
	out->lkey = mr->value;
	switch (broken) {
	case BREAK_LKEY:
	case BREAK_RECV_LKEY:
		out->lkey ^= 0x55;
		break;
	case BREAK_LKEY_RANGE:
		out->addr = mr->key->entry.va + mr->len - p->len + 1;
		break;
	default:
		break;
	}
}

void qp_post_send(struct sim_qp *q, const struct sim_op *op, uint64_t wr_id)
{
	struct xr_send_wqe *wqe = ring_entry(&q->sq, q->sq.producer);
	struct xr_sge *sge = (struct xr_sge *)(wqe + 1);
	unsigned broken = op->broken >= BREAK_LKEY ? op->broken : BREAK_NONE, i;

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr_id;
	wqe->opcode = op->broken == BREAK_OPCODE ? NO_OPCODE : op->opcode;
	wqe->flags = op->flags;
	wqe->imm_data = op->imm;
	wqe->rkey = op->rkey;
	wqe->remote_addr = op->raddr;
	if (op->srq)
		wqe->xrc_srqn = op->srq->xt.number ^ (op->broken == BREAK_SRQN ? 0x800000 : 0);
	if (q->type == XR_QPT_UD) {
		wqe->ud.ah = op->ah;
		wqe->ud.remote_qpn = op->remote_qpn;
		wqe->ud.remote_qkey = QKEY ^ (op->broken == BREAK_QKEY ? 4 : 0);
	}
	if (is_local_op(op)) {
		uint32_t key = xt_key_value(q->window);
		struct sim_mr *mr = &q->host->mr[q->pd - 1];

		if (op->opcode == XR_WR_LOCAL_INV)
			wqe->invalidate_rkey = key;
		else
			*wqe = (struct xr_send_wqe){
				.wr_id = wr_id,
				.opcode = op->opcode,
				.flags = op->flags,
				.bind = { key, key, mr->value, XR_ACCESS_REMOTE_READ },
				.remote_addr = mr_va(mr, mr->off),
				.bind_len = mr->len,
			};
	}
	if (op->counter) {
		wqe->atomic.compare_add = op->counter->swaps ? op->compare : op->operand;
		wqe->atomic.swap = op->operand;
	}
	if (op->opcode == XR_WR_FLUSH) {
		wqe->flush.length = op->broken ? op->len : SCRATCH_WORDS * 8;
		wqe->flush.type = XR_FLUSH_GLOBAL;
		wqe->flush.level = op->flush_mr ? XR_FLUSH_MR : XR_FLUSH_RANGE;
	}
	if (op->flags & XR_SEND_INLINE) {
		wqe->inline_len = op->len;
		memcpy(wqe + 1, op->data, op->len);
	} else {
		wqe->num_sge = op->broken == BREAK_SGE_COUNT ? q->max_send_sge + 1 : op->nsge;
		for (i = 0; i < op->nsge; i++)
			put_sge(q->host, &sge[i], &op->sge[i],
				i == op->nsge - 1u ? broken : BREAK_NONE);
	}
	ring_publish(&q->sq);
}

void ring_post_recv(struct host *h, struct ring *ring, const struct sim_recv *r, uint64_t wr_id)
{
	struct xr_recv_wqe *wqe = ring_entry(ring, ring->producer);
	struct xr_sge *sge = (struct xr_sge *)(wqe + 1);
	unsigned i;

	wqe->wr_id = wr_id;
	wqe->num_sge = r->nsge;
	wqe->reserved = 0;
	for (i = 0; i < r->nsge; i++)
		put_sge(h, &sge[i], &r->sge[i], r->broken);
	ring_publish(ring);
}
