// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "world.h"

#include "selftests/lib/parse.h"
#include "selftests/lib/resize.h"

#include <errno.h>

/* ---- memory ---------------------------------------------------------------------- */

static const struct {
	uint32_t size, access, pd;
	uint64_t va;
} regions[REG_TOTAL] = {
	[REG_ALL] = { 8192, ACCESS_ALL | XR_ACCESS_MW_BIND, PD_CLIENT, 0x10000 },
	[REG_PIECES] = { 4096, ACCESS_ALL | XR_ACCESS_MW_BIND, PD_CLIENT, 0xfffffffffffff000 },
	[REG_LOCAL] = { 2048, XR_ACCESS_LOCAL_WRITE, PD_CLIENT, 0x20000 },
	[REG_WRITE] = { 2048, XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE, PD_CLIENT, 0 },
	[REG_GOOD] = { 2048, ACCESS_ALL, PD_GOOD, 0x30000 },
	[REG_OTHER_PD] = { 2048, ACCESS_ALL | XR_ACCESS_MW_BIND, PD_OTHER, 0x10000 },
	[REG_STALE] = { 2048, ACCESS_ALL, PD_CLIENT, 0x10000 },
	[REG_INVALID] = { 2048, ACCESS_ALL, PD_CLIENT, 0x10000 },
	[REG_READ] = { 2048, XR_ACCESS_REMOTE_READ | XR_ACCESS_MW_BIND, PD_CLIENT, 0x40000 },
};

static void add_seg(struct region *r, uint64_t off, uint64_t len, bool mapped, bool writable)
{
	r->seg[r->mem.nseg++] = (struct xt_mem_seg){
		.off = off,
		.len = len,
		.ptr = mapped ? r->bytes + off : NULL,
		.addressed = mapped,
		.addr = (uintptr_t)(r->bytes + off),
		.writable = writable,
	};
}

/* Returns the value of a byte that must not change. Memory that peers may read is not secret. */
static uint8_t fixed_byte(const struct world *w, unsigned id, uint32_t i)
{
	return id == REG_READ ? (uint8_t)i : w->secret[i % sizeof(w->secret)];
}

static void region_open(struct world *w, unsigned id)
{
	struct region *r = &w->region[id];
	bool writable = regions[id].access & XR_ACCESS_LOCAL_WRITE;

	r->size = regions[id].size;
	r->va = regions[id].va;
	r->bytes = aligned_alloc(64, r->size);
	MUST(r->bytes);
	for (uint32_t i = 0; i < r->size; i++)
		r->bytes[i] = id < REG_SECRETS ? 0 : fixed_byte(w, id, i);
	r->mem = (struct xt_mem){ .ops = &tier_ops, .length = r->size, .seg = r->seg };
	if (id == REG_PIECES) {
		add_seg(r, 0, 1001, true, true);
		add_seg(r, 1001, 2000, false, true);
		add_seg(r, 3001, r->size - 3001, true, true);
	} else {
		add_seg(r, 0, r->size, true, writable);
	}
	r->live = xt_keys_alloc(w->keys);
	MUST(r->live);
	r->live->mem = &r->mem;
	r->live->entry.va = r->va;
	r->live->entry.length = r->size;
	r->live->entry.pd = regions[id].pd;
	r->live->entry.access = regions[id].access;
	r->live->entry.type = XR_KEY_MR;
	r->live->entry.state = id == REG_INVALID ? XR_KEY_INVALID : XR_KEY_VALID;
	r->key = xt_key_value(r->live);
	if (id == REG_STALE) {
		xt_keys_release(w->keys, r->live);
		r->live = NULL;
	}
}

void world_check(struct world *w)
{
	for (unsigned id = REG_SECRETS; id < REG_TOTAL; id++)
		for (uint32_t i = 0; i < w->region[id].size; i++)
			MUST(w->region[id].bytes[i] == fixed_byte(w, id, i));
}

static bool shows_secret(const struct world *w, const uint8_t *data, uint32_t len)
{
	return len >= sizeof(w->secret) && memmem(data, len, w->secret, sizeof(w->secret));
}

/* ---- frames ---------------------------------------------------------------------- */

static bool tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	struct world *w = ctx;
	uint32_t first = len < XT_MAX_HEADERS ? len : XT_MAX_HEADERS;

	MUST(len && len <= XT_MAX_FRAME);
	if (w->no_room)
		return false;
	frame->nseg = 0;
	frame->len = len;
	frame->seg[frame->nseg++] = (struct xt_seg){ malloc(first), first };
	if (len > first)
		frame->seg[frame->nseg++] = (struct xt_seg){ malloc(len - first), len - first };
	return true;
}

static void queue_frame(struct world *w, uint8_t *data, uint32_t len)
{
	if (w->queued == MAX_QUEUED)
		free(data);
	else
		w->queue[w->queued++] = (struct queued){ data, len };
}

static void tx_put(void *ctx, struct xt_frame *frame)
{
	struct world *w = ctx;
	uint8_t *data = malloc(frame->len);
	uint32_t off = 0;
	struct xt_frame flat = { .nseg = 1, .len = frame->len, .seg = { { data, frame->len } } };

	for (unsigned i = 0; i < frame->nseg; i++) {
		memcpy(data + off, frame->seg[i].data, frame->seg[i].len);
		off += frame->seg[i].len;
		free(frame->seg[i].data);
	}
	MUST(off == frame->len);
	MUST(parse_frame(&flat) == XR_OK);
	MUST(xt_icrc_ok(&flat));
	MUST(!shows_secret(w, data + flat.meta.payload_off, flat.meta.payload_len));
	queue_frame(w, data, frame->len);
}

uint8_t *world_take(struct world *w, uint32_t *len)
{
	uint8_t *data = w->queue[0].data;

	if (!w->queued)
		return NULL;
	*len = w->queue[0].len;
	memmove(w->queue, w->queue + 1, --w->queued * sizeof(w->queue[0]));
	return data;
}

/*
 * Receives a frame as a worker does. The parser stands for the XDP program, which sets the
 * metadata.
 */
void world_rx(struct world *w, const uint8_t *data, uint32_t len)
{
	world_rx_large(w, data, len, 1, 0);
}

void world_rx_large(struct world *w, const uint8_t *data, uint32_t len, uint32_t packets,
		    uint32_t payload)
{
	uint32_t first = len < XT_MAX_HEADERS ? len : XT_MAX_HEADERS;
	uint32_t more = (packets - 1) * payload;
	struct xt_frame frame = { .nseg = 1, .len = len };
	bool valid;

	frame.seg[0] = (struct xt_seg){ malloc(first), first };
	memcpy(frame.seg[0].data, data, first);
	if (len + more > first) {
		frame.nseg = 2;
		frame.seg[1] = (struct xt_seg){ calloc(1, len + more - first), len + more - first };
		memcpy(frame.seg[1].data, data + first, len - first);
	}
	valid = parse_frame(&frame) == XR_OK;
	if (packets > 1) {
		frame.packets = (uint8_t)packets;
		frame.unsealed = true;
		frame.len += more;
		frame.meta.payload_len += (uint16_t)more;
	}
	if (valid)
		xt_engine_rx(w->engine, &frame, 1, w->now);
	for (unsigned i = 0; i < frame.nseg; i++)
		free(frame.seg[i].data);
}

/* ---- completions ----------------------------------------------------------------- */

static struct fuzz_qp *qp_of(struct world *w, uint32_t qpn)
{
	for (unsigned i = 0; i < QP_COUNT; i++)
		if (w->qp[i].qp && xt_qp_info(w->qp[i].qp)->qpn == qpn)
			return &w->qp[i];
	return NULL;
}

/* Checks that entries complete in order and once, and that skipped entries are not signaled. */
static void check_order(struct queue *queue, uint32_t index)
{
	MUST(index - queue->done < queue->posted - queue->done);
	for (; queue->done != index; queue->done++)
		MUST(queue->silent[queue->done & (queue->depth - 1)]);
	queue->done++;
}

static void check_cqe(struct world *w, const struct xr_cqe *cqe)
{
	struct fuzz_qp *q = qp_of(w, cqe->qpn);
	struct queue *queue;

	MUST(cqe->status <= IBV_WC_TM_RNDV_INCOMPLETE);
	if (cqe->wr_id >> 40 >= QP_COUNT) {
		srq_check_cqe(w, cqe);
		return;
	}
	/* the QP has been destroyed; the provider would remove the completion */
	if (!q)
		return;
	queue = cqe->is_recv ? &q->rq : &q->sq;
	MUST(cqe->wr_id == ((uint64_t)q->id << 40 | (uint64_t)cqe->is_recv << 32 | cqe->wqe_index));
	check_order(queue, cqe->wqe_index);
	if (cqe->status == IBV_WC_SUCCESS && cqe->is_recv)
		MUST(cqe->byte_len <= MSG_LIMIT * MAX_SGES);
}

static void poll_cq(struct world *w, struct fuzz_cq *c, bool check)
{
	uint32_t producer = __atomic_load_n(&c->ring->producer, __ATOMIC_ACQUIRE);
	const struct xr_cqe *entries = (const struct xr_cqe *)(c->ring + 1);

	MUST(!check || producer - c->consumer <= c->depth);
	for (; check && c->consumer != producer; c->consumer++) {
		const struct xr_cqe *cqe = &entries[c->consumer & (c->depth - 1)];

		check_cqe(w, cqe);
		if (c == &w->cq[1] && cqe->status == IBV_WC_SUCCESS)
			w->good_ok++;
	}
	c->consumer = producer;
	__atomic_store_n(&c->ring->consumer, producer, __ATOMIC_RELEASE);
}

void world_poll(struct world *w)
{
	poll_cq(w, &w->cq[0], w->honest);
	poll_cq(w, &w->cq[1], true);
}

void world_resize(struct world *w, uint32_t depth)
{
	struct fuzz_cq *c = &w->cq[0];
	struct xr_queue *ring = world_ring(depth, sizeof(struct xr_cqe));

	if (cq_resize(&c->cq, ring, depth)) {
		MUST(!w->honest || c->cq.producer - c->consumer > depth);
		free(ring);
		return;
	}
	free(c->ring);
	c->ring = ring;
	c->depth = depth;
	c->consumer = 0;
}

static void on_cq_event(void *ctx, struct xt_cq *cq)
{
	struct world *w = ctx;

	MUST(cq == &w->cq[0].cq || cq == &w->cq[1].cq);
}

static void on_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct world *w = ctx;
	struct fuzz_qp *q = qp ? xt_qp_info(qp)->owner : NULL;

	MUST(!qp != !cq);
	MUST(!q || q->qp == qp);
	MUST(type <= IBV_EVENT_WQ_FATAL);
	if (w->honest || cq == &w->cq[1].cq)
		MUST(type != IBV_EVENT_CQ_ERR);
	/* inaccessible memory is fatal for the QP whose peer requested it */
	if ((w->honest && !w->took_memory) || (q && q->id >= QP_GOOD_A))
		MUST(type != IBV_EVENT_QP_FATAL);
}

static void on_qp_state(void *ctx, struct xt_qp *qp)
{
	struct fuzz_qp *q = xt_qp_info(qp)->owner;
	struct xr_qp_entry entry;

	MUST(q->world == ctx && q->qp == qp);
	xt_qp_entry(qp, &entry);
	MUST(entry.state == xt_qp_info(qp)->state);
}

static void on_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	struct world *w = ctx;
	struct fuzz_srq *s = srq->owner;

	MUST(&s->xt == srq);
	MUST(type == IBV_EVENT_SRQ_LIMIT_REACHED || (type == IBV_EVENT_SRQ_ERR && !w->honest));
}

static const struct xt_ops ops = {
	.srq_event = on_srq_event,
	.tx_get = tx_get,
	.tx_put = tx_put,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
	.qp_state = on_qp_state,
};

/* ---- world ------------------------------------------------------------------------- */

void world_run(struct world *w)
{
	for (int i = 0; i < 16; i++) {
		bool more = xt_engine_run(w->engine, w->now) <= w->now;

		if (!more && (w->slow || !w->io))
			break;
		if (!w->slow)
			world_finish(w, UINT32_MAX, false);
	}
}

void world_advance(struct world *w, uint64_t ns)
{
	w->now += ns;
	world_run(w);
}

/*
 * A new value in each run: libFuzzer copies values that it saw in comparisons into inputs, so a
 * constant secret could be sent legitimately.
 */
static void make_secret(struct world *w)
{
	static uint64_t state = 0x9e3779b97f4a7c15ull;
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	memcpy(w->secret, &z, sizeof(z));
}

void world_open(struct world *w, bool honest)
{
	memset(w, 0, sizeof(*w));
	w->honest = honest;
	w->now = 1000000000;
	make_secret(w);
	xt_mem_pool_init(&w->pool);
	w->keys = xt_keys_new(64, 1);
	w->shared = (struct xt_shared){
		.keys = w->keys,
		.qps = xt_numbers_new(MAX_QPS, 1),
		.srqs = xt_numbers_new(SRQ_COUNT, 1),
		.groups = xt_groups_new(),
	};
	w->engine = xt_engine_new(&ops, w, &w->shared);
	MUST(w->keys && w->shared.qps && w->shared.groups && w->engine);
	world_add_ahs(w);
	for (unsigned i = 0; i < REG_TOTAL; i++)
		region_open(w, i);
	world_add_changing(w);
	for (unsigned i = 0; i < 2; i++) {
		w->cq[i].depth = CQ_DEPTH;
		w->cq[i].ring = world_ring(CQ_DEPTH, sizeof(struct xr_cqe));
		xt_cq_init(&w->cq[i].cq, w->cq[i].ring, CQ_DEPTH);
	}
	for (unsigned i = 0; i < SRQ_COUNT; i++)
		srq_open(w, i);
	for (unsigned i = 0; i < QP_COUNT; i++)
		qp_create(w, i);
	for (unsigned i = 0; i < QP_COUNT; i++)
		qp_bring_up(&w->qp[i], XR_QPS_RTS);
}

/* Checks that all posted work has completed in ERR, and destroys the QP. */
static void end_qp(struct world *w, struct fuzz_qp *q)
{
	if (xt_qp_info(q->qp)->state != XR_QPS_RESET)
		MUST(!qp_to(q, XR_QPS_ERR));
	world_run(w);
	world_poll(w);
	if (w->honest || q->id >= QP_GOOD_A) {
		MUST(q->rq.done == q->rq.posted);
		for (; q->sq.done != q->sq.posted; q->sq.done++)
			MUST(q->sq.silent[q->sq.done & (SQ_DEPTH - 1)]);
	}
	qp_destroy(q);
}

void world_close(struct world *w)
{
	uint32_t len;
	uint8_t *data;

	w->no_room = false;
	for (unsigned i = 0; i < QP_COUNT; i++)
		if (w->qp[i].qp)
			end_qp(w, &w->qp[i]);
	MUST(!w->accesses);
	world_check(w);
	world_end_changing(w);
	xt_engine_free(w->engine);
	for (unsigned i = 0; i < SRQ_COUNT; i++)
		srq_close(w, i);
	xt_numbers_free(w->shared.qps);
	xt_numbers_free(w->shared.srqs);
	xt_groups_free(w->shared.groups);
	xt_ahs_free(w->ahs);
	for (unsigned i = 0; i < REG_TOTAL; i++) {
		xt_keys_release(w->keys, w->region[i].live);
		free(w->region[i].bytes);
	}
	xt_keys_free(w->keys);
	for (unsigned i = 0; i < 2; i++)
		free(w->cq[i].ring);
	while ((data = world_take(w, &len)))
		free(data);
}
