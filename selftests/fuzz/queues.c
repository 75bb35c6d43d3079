// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QPs of all types, their SRQs, and work requests */
#include "world.h"

void *world_ring(uint32_t depth, uint32_t stride)
{
	size_t size = sizeof(struct xr_queue) + (size_t)depth * stride;
	void *ring = NULL;

	MUST(!posix_memalign(&ring, XR_CACHELINE, size));
	memset(ring, 0, size);
	return ring;
}

static const struct {
	uint32_t type;
	bool srq;
} kinds[KIND_COUNT] = {
	[KIND_RC] = { XR_QPT_RC, false },
	[KIND_UC] = { XR_QPT_UC, false },
	[KIND_UD] = { XR_QPT_UD, false },
	[KIND_XRC_SEND] = { XR_QPT_XRC_SEND, false },
	[KIND_XRC_RECV] = { XR_QPT_XRC_RECV, false },
	[KIND_RC_SRQ] = { XR_QPT_RC, true },
	[KIND_UC_SRQ] = { XR_QPT_UC, true },
	[KIND_UD_SRQ] = { XR_QPT_UD, true },
};

static void queue_open(struct queue *queue, uint32_t depth, uint32_t stride)
{
	memset(queue, 0, sizeof(*queue));
	queue->depth = depth;
	queue->stride = stride;
	queue->ring = world_ring(depth, stride);
	queue->entries = (uint8_t *)(queue->ring + 1);
}

const struct xr_addr fuzz_group = { .raw = { 0xff, 0x0e, [15] = 1 } };

/* ---- SRQs -------------------------------------------------------------------------- */

void srq_open(struct world *w, enum srq_id id)
{
	struct fuzz_srq *s = &w->srq[id];
	uint32_t slot;

	s->id = QP_COUNT + id;
	queue_open(&s->queue, RQ_DEPTH, xr_recv_stride(MAX_SGES));
	xt_srq_init(&s->xt, s->queue.ring, RQ_DEPTH, MAX_SGES, PD_CLIENT);
	s->xt.owner = s;
	if (id == SRQ_PLAIN)
		return;
	s->xt.cq = &w->cq[0].cq;
	s->xt.xrcd = id == SRQ_XRC ? FUZZ_DOMAIN : FUZZ_DOMAIN + 1;
	MUST(xt_numbers_add(w->shared.srqs, &s->xt, &slot, &s->xt.number));
}

/* Checks that all consumed receives have completed, except at most one for each QP that ended. */
void srq_close(struct world *w, enum srq_id id)
{
	struct fuzz_srq *s = &w->srq[id];
	uint32_t consumer = s->queue.ring->consumer, missing = 0, i;

	for (i = 0; w->honest && i != s->queue.posted; i++) {
		MUST(s->open[i] || i < consumer);
		missing += s->open[i] && i < consumer;
	}
	MUST(!w->honest || missing <= s->ended);
	free(s->queue.ring);
}

void srq_check_cqe(struct world *w, const struct xr_cqe *cqe)
{
	unsigned id = (unsigned)(cqe->wr_id >> 40) - QP_COUNT;
	uint32_t index = (uint32_t)cqe->wr_id;
	struct fuzz_srq *s = &w->srq[id];

	MUST(id < SRQ_COUNT && cqe->is_recv && index == cqe->wqe_index);
	MUST(index < s->queue.posted && s->open[index]);
	MUST(cqe->srqn == s->xt.number && id != SRQ_FOREIGN);
	s->open[index] = false;
}

/* Returns the SRQ of a QP, or NULL. For XRC targets: the SRQ that the peer should name. */
struct fuzz_srq *qp_srq(const struct fuzz_qp *q)
{
	if (q->kind == KIND_XRC_RECV)
		return &q->world->srq[SRQ_XRC];
	return kinds[q->kind].srq ? &q->world->srq[SRQ_PLAIN] : NULL;
}

static bool srq_may_post(const struct fuzz_srq *s)
{
	uint32_t consumer = __atomic_load_n(&s->queue.ring->consumer, __ATOMIC_ACQUIRE);

	return s->queue.posted < SRQ_POSTS && s->queue.posted - consumer < s->queue.depth;
}

/* ---- queue pairs ------------------------------------------------------------------ */

/* Queues of each kind of QP */
static void add_queues(struct fuzz_qp *q, struct xt_qp_init *init)
{
	if (init->type == XR_QPT_XRC_RECV) {
		init->pd = 0;
		init->xrcd = FUZZ_DOMAIN;
		return;
	}
	init->send_cq = q->cq;
	queue_open(&q->sq, init->sq_depth, init->sq_stride);
	init->sq = q->sq.ring;
	if (init->type == XR_QPT_XRC_SEND)
		return;
	init->recv_cq = q->cq;
	if (qp_srq(q)) {
		init->srq = &qp_srq(q)->xt;
		return;
	}
	queue_open(&q->rq, init->rq_depth, init->rq_stride);
	init->rq = q->rq.ring;
}

void qp_create(struct world *w, enum qp_id id)
{
	struct fuzz_qp *q = &w->qp[id];
	enum qp_kind kind = q->kind;
	struct xt_qp_init init = {
		.type = kinds[kind].type,
		.ahs = w->ahs,
		.pd = id >= QP_GOOD_A ? PD_GOOD : PD_CLIENT,
		.max_send_sge = MAX_SGES,
		.max_recv_sge = MAX_SGES,
		.max_inline = MAX_INLINE,
		.sq_depth = SQ_DEPTH,
		.rq_depth = RQ_DEPTH,
		.sq_stride = xr_send_stride(MAX_SGES, MAX_INLINE),
		.rq_stride = xr_recv_stride(MAX_SGES),
		.psns = w->psns,
		.owner = q,
	};

	memset(q, 0, sizeof(*q));
	q->world = w;
	q->id = id;
	q->kind = kind;
	q->type = init.type;
	q->cq = &w->cq[id >= QP_GOOD_A].cq;
	add_queues(q, &init);
	MUST(!xt_qp_create(w->engine, &init, &q->qp));
	MUST(xt_qp_info(xt_qp_by_num(w->shared.qps, xt_qp_info(q->qp)->qpn))->owner == q);
	if (q->type == XR_QPT_UD)
		MUST(!xt_group_attach(w->shared.groups, &fuzz_group, q->qp));
}

/* Counts QPs that end: a receive of the SRQ that they have consumed is not flushed. */
static void forget_receives(struct fuzz_qp *q)
{
	for (unsigned i = 0; i < SRQ_COUNT; i++)
		q->world->srq[i].ended++;
}

void qp_destroy(struct fuzz_qp *q)
{
	forget_receives(q);
	xt_group_detach(q->world->shared.groups, &fuzz_group, q->qp);
	xt_qp_destroy(q->qp);
	q->qp = NULL;
	free(q->sq.ring);
	free(q->rq.ring);
}

static const uint8_t peer_of[QP_COUNT] = {
	[QP_ALONE] = QP_ALONE, [QP_LEFT] = QP_RIGHT,	[QP_RIGHT] = QP_LEFT,	 [QP_NEAR] = QP_FAR,
	[QP_FAR] = QP_NEAR,    [QP_GOOD_A] = QP_GOOD_B, [QP_GOOD_B] = QP_GOOD_A,
};

static struct xr_addr addr_of(unsigned id, bool peer)
{
	struct xr_addr a = { .raw = { 0xfd } };
	bool second = id == QP_RIGHT || id == QP_GOOD_B || id == QP_FAR;

	if (id == QP_ALONE)
		a = (struct xr_addr){ .raw = { [10] = 0xff, [11] = 0xff, [12] = 10 } };
	a.raw[15] = 1 + (second != peer);
	return a;
}

static struct xt_path path_of(unsigned id)
{
	return (struct xt_path){
		.loopback = id == QP_NEAR || id == QP_FAR,
		.ip_version = id == QP_ALONE ? 4 : 6,
		.smac = { 2, 0, 0, 0, 0, 1 },
		.dmac = { 2, 0, 0, 0, 0, 2 },
		.vlan = id == QP_LEFT ? 5 : 0,
		.sgid = addr_of(id, false),
		.dgid = addr_of(id, true),
		.hop_limit = 64,
	};
}

void world_add_ahs(struct world *w)
{
	struct xt_path far = path_of(QP_LEFT), near = path_of(QP_NEAR), group = far;

	group.dgid = fuzz_group;
	w->ahs = xt_ahs_new();
	MUST(w->ahs && !xt_ahs_set(w->ahs, AH_FAR, PD_CLIENT, &far) &&
	     !xt_ahs_set(w->ahs, AH_NEAR, PD_CLIENT, &near) &&
	     !xt_ahs_set(w->ahs, AH_GROUP, PD_CLIENT, &group) &&
	     !xt_ahs_set(w->ahs, AH_OTHERS, PD_GOOD, &far));
}

/* Attributes that a type requires to enter a state */
static uint32_t required(uint32_t type, uint32_t state)
{
	static const uint32_t masks[][XR_QPS_ERR + 1] = {
		[XR_QPT_RC] = {
			[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			[XR_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER,
			[XR_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		},
		[XR_QPT_UC] = {
			[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			[XR_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN,
			[XR_QPS_RTS] = IBV_QP_SQ_PSN,
		},
		[XR_QPT_UD] = {
			[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
			[XR_QPS_RTS] = IBV_QP_SQ_PSN,
		},
		[XR_QPT_XRC_SEND] = {
			[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			[XR_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN,
			[XR_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		},
		[XR_QPT_XRC_RECV] = {
			[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			[XR_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER,
			[XR_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
		},
	};

	return masks[type][state];
}

int qp_to(struct fuzz_qp *q, uint32_t state)
{
	struct xt_path path = path_of(q->id);
	const struct fuzz_qp *peer = &q->world->qp[peer_of[q->id]];
	struct xr_qp_attr attr = {
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags = ACCESS_ALL,
		.path_mtu = q->id == QP_ALONE ? IBV_MTU_1024 : IBV_MTU_256,
		.rq_psn = ALONE_PEER_PSN,
		.sq_psn = ALONE_PEER_PSN,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.qkey = FUZZ_QKEY,
		.timeout = 8,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.ah = { .dgid = path.dgid, .hop_limit = 64, .is_global = 1, .port_num = 1 },
	};

	attr.dest_qp_num = q->id == QP_ALONE || !peer->qp ? ALONE_PEER_QPN
							  : xt_qp_info(peer->qp)->qpn;
	return xt_qp_modify(q->qp, &attr, IBV_QP_STATE | required(q->type, state), &path, 4096,
			    q->world->now);
}

void qp_bring_up(struct fuzz_qp *q, uint32_t state)
{
	world_poll(q->world);
	forget_receives(q);
	MUST(!qp_to(q, XR_QPS_RESET));
	q->sq.posted = q->sq.done = q->rq.posted = q->rq.done = 0;
	for (uint32_t s = XR_QPS_INIT; s <= state; s++)
		MUST(!qp_to(q, s));
}

/* Creates a QP again with another kind, with peer_too also its peer. */
void qp_remake(struct fuzz_qp *q, enum qp_kind kind, bool peer_too)
{
	struct fuzz_qp *peer = &q->world->qp[peer_of[q->id]];

	world_poll(q->world);
	qp_destroy(q);
	q->kind = kind;
	qp_create(q->world, q->id);
	if (!peer_too || peer == q)
		return;
	qp_destroy(peer);
	peer->kind = kind == KIND_XRC_SEND   ? KIND_XRC_RECV
		     : kind == KIND_XRC_RECV ? KIND_XRC_SEND
					     : kind;
	qp_create(q->world, peer->id);
	qp_bring_up(peer, XR_QPS_RTS);
}

/* ---- work ------------------------------------------------------------------------- */

bool qp_may_post(const struct queue *queue)
{
	uint32_t consumer;

	if (!queue->ring)
		return false;
	consumer = __atomic_load_n(&queue->ring->consumer, __ATOMIC_ACQUIRE);
	return queue->posted - queue->done < queue->depth &&
	       queue->posted - consumer < queue->depth;
}

static void post(struct fuzz_qp *q, struct queue *queue)
{
	queue->posted++;
	__atomic_store_n(&queue->ring->producer, queue->posted, __ATOMIC_RELEASE);
	xt_qp_doorbell(q->qp, q->world->now);
}

static uint8_t *next_entry(const struct queue *queue)
{
	return queue->entries + (size_t)(queue->posted & (queue->depth - 1)) * queue->stride;
}

void qp_post_send(struct fuzz_qp *q, const struct xr_send_wqe *wqe, const void *tail, size_t len)
{
	struct xr_send_wqe mine = *wqe;
	uint8_t *entry = next_entry(&q->sq);

	mine.wr_id = (uint64_t)q->id << 40 | q->sq.posted;
	q->sq.silent[q->sq.posted & (SQ_DEPTH - 1)] = !(wqe->flags & XR_SEND_SIGNALED);
	memcpy(entry, &mine, sizeof(mine));
	if (len)
		memcpy(entry + sizeof(mine), tail, len);
	post(q, &q->sq);
}

bool qp_may_post_recv(const struct fuzz_qp *q)
{
	const struct fuzz_srq *s = qp_srq(q);

	return s ? srq_may_post(s) : qp_may_post(&q->rq);
}

void qp_post_recv(struct fuzz_qp *q, uint32_t num_sge, const struct xr_sge *sge)
{
	struct fuzz_srq *s = qp_srq(q);
	struct queue *queue = s ? &s->queue : &q->rq;
	struct xr_recv_wqe wqe = {
		.wr_id = (uint64_t)(s ? s->id : q->id) << 40 | 1ull << 32 | queue->posted,
		.num_sge = num_sge,
	};
	uint8_t *entry;

	if (!queue->ring) /* XRC initiator: no receives */
		return;
	if (s && queue->posted < SRQ_POSTS)
		s->open[queue->posted] = true;
	entry = next_entry(queue);
	memcpy(entry, &wqe, sizeof(wqe));
	memcpy(entry + sizeof(wqe), sge, num_sge * sizeof(*sge));
	post(q, queue);
}

/* Sets the destination of a WR of UD or XRC, in most cases to one that exists. */
void qp_add_destination(const struct fuzz_qp *q, struct xr_send_wqe *wqe, uint8_t how)
{
	const struct world *w = q->world;
	const struct fuzz_qp *to = &w->qp[(how >> 3 & 7) % (QP_FAR + 1)];

	if (q->type == XR_QPT_XRC_SEND)
		wqe->xrc_srqn = how & 0x40 ? how
					   : w->srq[how & 0x80 ? SRQ_FOREIGN : SRQ_XRC].xt.number;
	if (q->type != XR_QPT_UD)
		return;
	wqe->ud.ah = how & 7;
	wqe->ud.remote_qpn = wqe->ud.ah == AH_GROUP ? XR_MULTICAST_QPN : xt_qp_info(to->qp)->qpn;
	wqe->ud.remote_qkey = how & 0x40 ? FUZZ_QKEY + 1 : how & 0x80 ? UINT32_MAX : FUZZ_QKEY;
}
