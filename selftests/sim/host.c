// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hosts: memory, keys, completion queues, engines and the rounds of their workers. */
#include <errno.h>
#include <stdio.h>

#include "sim.h"

#include "daemon/transport/engine.h"
#include "queue.h"
#include "selftests/lib/resize.h"

/* ---- memory -------------------------------------------------------------- */

/* Random window sizes, so that each of the windows limits some senders */
static void tune(struct world *w, struct sim_engine *e)
{
	struct rng *r = &w->rng;
	struct xt_tuning t = XT_TUNING_DEFAULT;

	if (e->udp)
		udp_tune(e, &t);
	if (rng_chance(r, 40)) {
		t.window = 32 << rng_below(r, 5);
		t.short_window = t.window << rng_below(r, 2);
		t.engine_window = t.window * rng_between(r, 1, 3);
		t.read_packets = 1 << rng_below(r, 6);
	}
	CHECK(w, !xt_engine_tune(e->engine, &t), "tuning refused");
}

/* Extends a segment to the end of a word, or of the region. */
static uint32_t to_word_end(const struct sim_mr *mr, uint32_t done, uint32_t len)
{
	uint32_t rest = -(mr->off + done + len) & 7, left = mr->len - done - len;

	return len + (rest < left ? rest : left);
}

/* Cuts a region into segments, some of which are not mapped. */
static void cut_segments(struct host *h, struct sim_mr *mr)
{
	struct rng *r = &h->w->rng;
	unsigned want = rng_chance(r, 50) ? 1 : rng_between(r, 1, MAX_SEGS);
	uint32_t done = 0, len;

	while (done < mr->len) {
		struct xt_mem_seg *seg = &mr->seg[mr->mem.nseg++];

		len = mr->len - done;
		if (mr->mem.nseg < want)
			len = rng_between(r, 1, len);
		/* tiers change at page boundaries, so an aligned word lies in one segment */
		if (mr->mem.ops->io_new)
			len = to_word_end(mr, done, len);
		seg->off = done;
		seg->len = len;
		seg->addr = (uintptr_t)h->mem + mr->off + done;
		seg->writable = true;
		if (!h->w->private_tier || rng_chance(r, 50))
			seg->ptr = h->mem + mr->off + done;
		/* the others cannot be reached by accesses */
		seg->addressed = seg->ptr && rng_chance(r, 75);
		done += len;
	}
}

/* Chooses a virtual address, also at both ends of the address space. */
static uint64_t choose_va(struct rng *r, uint32_t off, uint32_t len)
{
	uint64_t page_off = off & 4095;

	switch (rng_below(r, 4)) {
	case 0:
		return page_off;
	case 1: /* at the end of the address space, as far as alignment permits */
		return (UINT64_MAX - len + 1 - page_off) / 4096 * 4096 + page_off;
	default:
		return rng_next(r) >> 16 << 12 | page_off;
	}
}

struct sim_mr *host_add_mr(struct host *h, uint32_t off, uint32_t len, uint32_t pd, uint32_t access)
{
	struct sim_mr *mr = &h->mr[h->mrs++];

	mr->off = off;
	mr->len = len;
	mr->mem = (struct xt_mem){ .ops = memory_ops(h->w), .length = len, .seg = mr->seg };
	cut_segments(h, mr);
	mr->key = xt_keys_alloc(h->shared.keys);
	CHECK(h->w, mr->key, "no key");
	mr->key->entry.va = choose_va(&h->w->rng, off, len);
	mr->key->entry.length = len;
	mr->key->entry.pd = pd;
	mr->key->entry.access = access;
	mr->key->entry.type = XR_KEY_MR;
	mr->key->entry.state = XR_KEY_VALID;
	mr->key->mem = &mr->mem;
	mr->value = xt_key_value(mr->key);
	return mr;
}

void host_freeze(struct host *h, const struct sim_mr *mr)
{
	unsigned i;

	for (i = 0; i < h->claim_count; i++) {
		struct claim *c = &h->claims[i];

		if (c->off < mr->off || c->off >= mr->off + mr->len)
			continue;
		c->frozen = true;
		memcpy(h->shadow + c->off, h->mem + c->off, c->len);
	}
}

/* Called between two rounds, as in the daemon. */
void host_del_mr(struct host *h, struct sim_mr *mr)
{
	xt_keys_release(h->shared.keys, mr->key);
	mr->key = NULL;
	mr->ending = true;
	host_end_mrs(h);
}

/* The program may use the memory again, and the daemon frees the description of the region. */
void host_end_mrs(struct host *h)
{
	unsigned i;

	for (i = 0; i < h->mrs; i++) {
		struct sim_mr *mr = &h->mr[i];

		if (!mr->ending || memory_writing(h, mr))
			continue;
		mr->ending = false;
		host_freeze(h, mr);
		memset(mr->seg, 0xee, sizeof(mr->seg));
		mr->mem = (struct xt_mem){ .length = UINT64_MAX, .nseg = MAX_SEGS };
	}
}

uint64_t mr_va(const struct sim_mr *mr, uint32_t off)
{
	return mr->key ? mr->key->entry.va + (off - mr->off) : 0;
}

/* ---- address handles ----------------------------------------------------- */

#define PLACES (MAX_HOSTS + MAX_GROUPS)

static uint32_t handle(uint32_t pd, int version, unsigned place)
{
	return (2 * (pd - 1) + (version == 6)) * PLACES + place;
}

uint32_t host_ah(const struct sim_qp *q, unsigned place)
{
	return handle(q->pd, q->path.ip_version, place);
}

static void add_ah(struct host *h, uint32_t pd, int version, unsigned place)
{
	struct world *w = h->w;
	struct xt_path p = {
		.loopback = place == h->index,
		.ip_version = version,
		.vlan = rng_chance(&w->rng, 10) ? 100 : 0,
		.flow_label = rng_next(&w->rng) & 0xfffff,
		.hop_limit = 64,
	};

	host_mac(h, p.smac);
	host_gid(h, version, &p.sgid);
	if (place < MAX_HOSTS) {
		host_mac(&w->host[place], p.dmac);
		host_gid(&w->host[place], version, &p.dgid);
	} else {
		group_gid(place - MAX_HOSTS, version, &p.dgid);
		p.dmac[0] = 1;
	}
	CHECK(w, !xt_ahs_set(h->ahs, handle(pd, version, place), pd, &p), "no address handle");
}

void host_add_ahs(struct host *h)
{
	unsigned place;
	uint32_t pd;

	h->ahs = xt_ahs_new();
	for (place = 0; place < PLACES; place++) {
		if (place >= h->w->hosts && place < MAX_HOSTS)
			continue;
		for (pd = 1; pd <= 2; pd++) {
			add_ah(h, pd, 4, place);
			add_ah(h, pd, 6, place);
		}
	}
}

/* ---- claims -------------------------------------------------------------- */

static bool is_free(const struct host *h, uint32_t off, uint32_t len, bool exclusive)
{
	unsigned i;

	for (i = 0; i < h->claim_count; i++) {
		const struct claim *c = &h->claims[i];

		if (off < c->off + c->len && c->off < off + len && (exclusive || c->exclusive))
			return false;
	}
	return true;
}

static void add_claim(struct host *h, uint32_t off, uint32_t len, bool exclusive, const void *owner)
{
	if (!len)
		return;
	if (h->claim_count == h->claim_room) {
		h->claim_room = h->claim_room ? h->claim_room * 2 : 64;
		h->claims = realloc(h->claims, h->claim_room * sizeof(*h->claims));
	}
	h->claims[h->claim_count++] = (struct claim){
		.off = off,
		.len = len,
		.exclusive = exclusive,
		.owner = owner,
	};
}

static int choose_mr(struct host *h, int only_mr, uint32_t pd, uint32_t len, uint32_t access)
{
	unsigned i = only_mr >= 0 ? (unsigned)only_mr : rng_below(&h->w->sched, h->mrs);
	const struct sim_mr *mr = &h->mr[i];

	if (!mr->key || mr->len < len || mr->key->entry.pd != pd || access & ~mr->key->entry.access)
		return -1;
	if (mr->reserved && only_mr < 0)
		return -1;
	return i;
}

static uint32_t choose_off(struct rng *r, const struct sim_mr *mr, uint32_t len, uint32_t align)
{
	uint32_t room = mr->len - len, off = mr->off;

	if (rng_chance(r, 10))
		off += room;
	else if (!rng_chance(r, 10))
		off += rng_between(r, 0, room);
	while (align > 1 && mr_va(mr, off) % align && off > mr->off)
		off--;
	return off;
}

bool host_claim(struct host *h, int only_mr, uint32_t pd, uint32_t len, uint32_t access,
		bool exclusive, uint32_t align, const void *owner, struct piece *out)
{
	struct rng *r = &h->w->sched;
	unsigned try;

	for (try = 0; try < 24; try++) {
		int mr = choose_mr(h, only_mr, pd, len, access);
		uint32_t off;

		if (mr < 0)
			continue;
		off = choose_off(r, &h->mr[mr], len, align);
		if ((align > 1 && mr_va(&h->mr[mr], off) % align) ||
		    !is_free(h, off, len, exclusive))
			continue;
		add_claim(h, off, len, exclusive, owner);
		*out = (struct piece){ .mr = mr, .off = off, .len = len };
		return true;
	}
	return false;
}

bool host_claim_pieces(struct host *h, int only_mr, uint32_t pd, uint32_t len, unsigned n,
		       uint32_t access, bool exclusive, const void *owner, struct piece *out)
{
	struct rng *r = &h->w->sched;
	unsigned i;

	for (i = 0; i < n; i++) {
		uint32_t part = i + 1 == n	    ? len
				: rng_chance(r, 10) ? 0
						    : rng_below(r, 2 * (uint64_t)len / (n - i) + 1);

		if (part > len)
			part = len;
		if (!host_claim(h, only_mr, pd, part, access, exclusive, 1, owner, &out[i]))
			return false;
		len -= part;
	}
	return true;
}

void host_claim_too(struct host *h, const struct piece *p, const void *owner)
{
	add_claim(h, p->off, p->len, true, owner);
}

void host_release(struct host *h, const void *owner)
{
	unsigned i = 0;

	while (i < h->claim_count)
		if (h->claims[i].owner == owner && !h->claims[i].lost)
			h->claims[i] = h->claims[--h->claim_count];
		else
			i++;
}

/* Marks memory of a failed operation as undefined: packets in flight may still change it. */
void host_lose(struct host *h, const void *owner)
{
	unsigned i;

	for (i = 0; i < h->claim_count; i++)
		if (h->claims[i].owner == owner)
			h->claims[i].lost = true;
}

void host_fill(struct host *h, uint32_t off, const uint8_t *data, uint32_t len)
{
	memcpy(h->mem + off, data, len);
	memcpy(h->shadow + off, data, len);
}

/* ---- completion queues --------------------------------------------------- */

struct sim_cq *host_add_cq(struct host *h, uint32_t depth)
{
	struct sim_cq *cq = calloc(1, sizeof(*cq));

	cq->host = h;
	cq->depth = depth;
	cq->queue = queue_new(depth, sizeof(struct xr_cqe));
	xt_cq_init(&cq->cq, cq->queue, depth);
	cq->cq.owner = cq;
	cq->cq.locked = h->engines > 1;
	h->cq[h->cqs++] = cq;
	return cq;
}

void host_resize_cq(struct sim_cq *cq)
{
	struct world *w = cq->host->w;
	uint32_t depth = rng_chance(&w->sched, 50) ? cq->depth * 2 : cq->depth;
	struct xr_queue *queue = queue_new(depth, sizeof(struct xr_cqe));
	int err = cq_resize(&cq->cq, queue, depth);

	CHECK(w, !err, "resize of a CQ: %d", err);
	free(cq->queue);
	cq->queue = queue;
	cq->depth = depth;
	cq->seen -= cq->consumer;
	cq->consumer = 0;
}

void host_arm(struct sim_cq *cq)
{
	uint32_t bits = cq->solicited ? XR_ARM_SOLICITED : XR_ARM_SOLICITED | XR_ARM_ANY;

	__atomic_fetch_or(&cq->queue->word, bits, __ATOMIC_SEQ_CST);
}

void host_moderate(struct sim_cq *cq, uint32_t count, uint32_t period_us)
{
	for (unsigned i = 0; i < cq->host->engines; i++)
		CHECK(cq->host->w, !xt_cq_moderation_reserve(cq->host->engine[i].engine),
		      "no memory");
	xt_cq_moderate_off(&cq->cq);
	for (unsigned i = 0; i < cq->host->engines; i++)
		xt_cq_raise_waiting(cq->host->engine[i].engine, &cq->cq);
	xt_cq_moderate(&cq->cq, count, period_us);
}

/* ---- engines -----------------------------------------------------------------------------------
 */

static void on_cq_event(void *ctx, struct xt_cq *xcq)
{
	struct sim_cq *cq = xcq->owner;
	struct world *w = cq->host->w;

	CHECK(w, cq->events || cq->solicited, "event of a CQ that was not armed");
	CHECK(w, !cq->event, "second event of a CQ that was armed once");
	cq->event = true;
}

static void on_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct sim_engine *e = ctx;
	struct sim_qp *q;

	CHECK(e->w, !cq, "CQ error event: the CQs are large enough");
	q = xt_qp_info(qp)->owner;
	TRACE(e->w, "qp %u: event %s", q->id, ibv_event_type_str(type));
	CHECK(e->w, type < 32, "event of type %u", type);
	q->async[type]++;
	if (type == IBV_EVENT_SQ_DRAINED) {
		q->drained = true;
		q->quiet = true;
	}
}

static void on_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	struct sim_engine *e = ctx;

	CHECK(e->w, type == IBV_EVENT_SRQ_LIMIT_REACHED, "event %u of an SRQ", type);
	srq_limit_reached(srq->owner);
}

static void on_qp_state(void *ctx, struct xt_qp *qp)
{
	const struct xt_qp_info *info = xt_qp_info(qp);
	struct sim_qp *q = info->owner;

	TRACE(q->w, "qp %u: state %u by the engine", q->id, info->state);
	if (is_unreliable(q) && info->state == XR_QPS_SQE) {
		q->in_sqe = true;
		return;
	}
	CHECK(q->w, info->state == XR_QPS_ERR, "engine changed state to %u", info->state);
	q->in_error = true;
	q->conn->broken = q->conn->broken || q->conn->script == SCRIPT_BREAK;
}

static bool on_engine_lock(void *ctx, struct xt_engine *other)
{
	struct sim_engine *e = ctx, *o;
	struct host *h = e->host;

	o = h->engine[0].engine == other ? &h->engine[0] : &h->engine[1];
	CHECK(e->w, o->engine == other && o != e, "lock of an unknown engine");
	CHECK(e->w, !o->locked, "engine locked twice");
	if (rng_chance(&e->w->sched, 15))
		return false;
	o->locked = true;
	return true;
}

static void on_engine_unlock(void *ctx, struct xt_engine *other)
{
	struct sim_engine *e = ctx, *o;

	o = e->host->engine[0].engine == other ? &e->host->engine[0] : &e->host->engine[1];
	CHECK(e->w, o->locked, "unlock without lock");
	o->locked = false;
}

static void wake_engine(void *ctx, struct xt_engine *other)
{
	struct sim_engine *e = ctx;
	unsigned i;

	for (i = 0; i < e->host->engines; i++)
		if (e->host->engine[i].engine == other)
			engine_wake(&e->host->engine[i], e->w->now + 300);
}

/* Like the daemon's inbox, but the other engine gets the frame at once. */
static bool on_forward(void *ctx, struct xt_engine *other, const struct xt_frame *frame)
{
	struct sim_engine *e = ctx;
	struct xt_frame copy = *frame;

	CHECK(e->w, !e->locked, "frame forwarded by a locked engine");
	CHECK(e->w, !frame->forwarded, "frame forwarded twice");
	CHECK(e->w, xt_icrc_ok(frame), "frame with a wrong ICRC forwarded");
	copy.forwarded = true;
	e->w->forwarded += e->udp && frame->meta.qpn != XR_MULTICAST_QPN;
	if (world_is_lossy(e->w) && rng_chance(&e->w->sched, 3))
		return false; /* inbox full */
	xt_engine_rx(other, &copy, 1, e->w->now);
	wake_engine(ctx, other);
	return true;
}

static const struct xt_ops engine_ops = {
	.forward = on_forward,
	.wake = wake_engine,
	.tx_get = net_tx_get,
	.tx_put = net_tx_put,
	.large_packets = net_large_packets,
	.send_large = net_send_large,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
	.srq_event = on_srq_event,
	.qp_state = on_qp_state,
	.engine_lock = on_engine_lock,
	.engine_unlock = on_engine_unlock,
};

void engine_wake(struct sim_engine *e, uint64_t when)
{
	if (when < e->wake)
		e->wake = when;
}

void engine_ring(struct sim_qp *q)
{
	struct sim_engine *e = q->engine;

	if (!q->rung) {
		q->rung = true;
		e->rung[e->rung_count++] = q;
	}
	engine_wake(e, e->w->now + rng_below(&e->w->sched, 2 * USEC));
}

void engine_deliver(struct sim_engine *e, struct frame *f)
{
	f->next = NULL;
	*e->inbox_tail = f;
	e->inbox_tail = &f->next;
	e->inbox_len++;
	engine_wake(e, e->w->now + rng_below(&e->w->sched, 3 * USEC));
}

/* Splits a frame as AF_XDP does: all headers in the first segment, the rest at any place. */
static void split_frame(struct rng *r, struct frame *f, struct xt_frame *out)
{
	uint32_t first = f->len, at;

	*out = (struct xt_frame){
		.len = f->len,
		.meta = f->meta,
		.packets = (uint8_t)f->packets,
		.unsealed = f->packets > 1,
	};
	if (f->len > f->meta.payload_off && rng_chance(r, 30))
		first = rng_between(r, f->meta.payload_off, f->len);
	out->seg[out->nseg++] = (struct xt_seg){ f->data, first };
	for (at = first; at < f->len; at += out->seg[out->nseg++].len) {
		uint32_t len = f->len - at;

		if (out->nseg + 1 < XT_MAX_SEGS)
			len = rng_between(r, 1, len);
		out->seg[out->nseg] = (struct xt_seg){ f->data + at, len };
	}
}

static void receive_batch(struct sim_engine *e)
{
	struct xt_frame batch[32];
	struct frame *taken[32], *f;
	unsigned max = rng_between(&e->w->sched, 1, 32), n = 0, i;

	if (e->udp) {
		udp_receive(e, max);
		return;
	}
	while (n < max && (f = e->inbox)) {
		e->inbox = f->next;
		if (!e->inbox)
			e->inbox_tail = &e->inbox;
		e->inbox_len--;
		taken[n] = f;
		split_frame(&e->w->sched, f, &batch[n++]);
	}
	if (n)
		xt_engine_rx(e->engine, batch, n, e->w->now);
	for (i = 0; i < n; i++)
		free(taken[i]);
}

static uint64_t activity(const struct sim_engine *e)
{
	const struct xt_counters *c = xt_engine_counters(e->engine);

	return c->tx_packets + c->rx_packets + c->completions + c->loopback_operations +
	       c->timeouts;
}

/* Programs poll when their CQ has new entries, or after an event if they use events. */
static void wake_programs(struct host *h)
{
	struct world *w = h->w;
	unsigned i, k;

	for (i = 0; i < h->cqs; i++) {
		struct sim_cq *cq = h->cq[i];
		uint32_t producer = cq->queue->producer;

		if (cq->events ? !cq->event : producer == cq->seen)
			continue;
		cq->seen = producer;
		for (k = 0; k < 2 * w->conns; k++) {
			struct sim_qp *q = &w->conn[k / 2].qp[k % 2];
			uint64_t when = w->now + rng_below(&w->sched, 5 * USEC);

			if ((q->scq == cq || q->rcq == cq) && when < q->step)
				q->step = when;
		}
	}
}

/* Armed CQs are reported without a doorbell if the QP is gone or has no CQ. */
static void check_armed(struct sim_engine *e, const struct sim_qp *q)
{
	xt_cq_check_armed(&e->engine->flow, &q->scq->cq, e->engine->now);
	xt_cq_check_armed(&e->engine->flow, &q->rcq->cq, e->engine->now);
}

void engine_round(struct sim_engine *e)
{
	struct world *w = e->w;
	uint64_t before = activity(e), next;
	bool unsent;
	unsigned i;

	CHECK(w, !e->in_round && !e->locked, "round within a round");
	e->wake = NEVER;
	e->in_round = true;
	e->tx_room = w->tight_tx ? rng_between(&w->sched, 0, 12) : 512;
	for (i = 0; i < e->rung_count; i++) {
		e->rung[i]->rung = false;
		if (e->rung[i]->qp)
			xt_qp_doorbell(e->rung[i]->qp, w->now);
		if (!e->rung[i]->qp || e->rung[i]->type == XR_QPT_XRC_RECV)
			check_armed(e, e->rung[i]);
	}
	e->rung_count = 0;
	receive_batch(e);
	next = xt_engine_run(e->engine, w->now);
	e->in_round = false;
	unsent = e->udp && udp_flush(e, rng_chance(&w->sched, 50));
	for (i = 0; i < w->hosts; i++)
		wake_programs(&w->host[i]);

	e->idle_rounds = activity(e) == before && next <= w->now ? e->idle_rounds + 1 : 0;
	CHECK(w, e->idle_rounds < 20000, "engine requests 20000 rounds without progress");
	if (next <= w->now || e->inbox || unsent || (e->udp && udp_has_received(e)))
		next = w->now + rng_between(&w->sched, 100, 1000);
	else if (next != NEVER && rng_chance(&w->sched, 30))
		next += rng_below(&w->sched, 20 * USEC);
	engine_wake(e, next);
}

/* ---- hosts -------------------------------------------------------------------------------------
 */

void host_init(struct world *w, struct host *h, unsigned index, uint32_t size, unsigned engines)
{
	unsigned i;

	h->w = w;
	h->index = index;
	h->size = size;
	h->mem = aligned_alloc(4096, size);
	h->shadow = malloc(size);
	rng_bytes(&w->rng, h->mem, size);
	memcpy(h->shadow, h->mem, size);
	h->shared.keys = xt_keys_new(1000, rng_next(&w->rng));
	h->shared.qps = xt_numbers_new(4 * MAX_CONNS, rng_next(&w->rng));
	h->shared.groups = xt_groups_new();
	h->shared.srqs = xt_numbers_new(4 * MAX_SRQS, rng_next(&w->rng));
	h->srq = calloc(MAX_SRQS, sizeof(*h->srq));
	h->psns = calloc(4 * MAX_CONNS + 1, sizeof(*h->psns));
	h->engines = engines;
	for (i = 0; i < engines; i++) {
		struct sim_engine *e = &h->engine[i];

		e->w = w;
		e->host = h;
		e->wake = e->room_at = NEVER;
		xt_mem_pool_init(&e->pool);
		e->inbox_tail = &e->inbox;
		e->rung = calloc(2 * MAX_CONNS, sizeof(*e->rung));
		e->engine = xt_engine_new(&engine_ops, e, &h->shared);
		CHECK(w, e->engine, "no engine");
		if (h->sockets)
			udp_open(e);
		tune(w, e);
	}
}

void host_free(struct host *h)
{
	struct frame *f;
	unsigned i, k;

	for (i = 0; i < h->cqs; i++)
		for (k = 0; k < h->engines; k++)
			xt_cq_drop_waiting(h->engine[k].engine, &h->cq[i]->cq);
	for (i = 0; i < h->engines; i++) {
		while ((f = h->engine[i].inbox)) {
			h->engine[i].inbox = f->next;
			free(f);
		}
		if (h->sockets)
			udp_close(&h->engine[i]);
		xt_engine_free(h->engine[i].engine);
		free(h->engine[i].rung);
	}
	srq_free(h);
	free(h->srq);
	for (i = 0; i < h->cqs; i++) {
		free(h->cq[i]->queue);
		free(h->cq[i]);
	}
	for (i = 0; i < h->counters; i++)
		free(h->counter[i].result);
	CHECK(h->w, !h->shared.receivers.reliable && !h->shared.receivers.unreliable,
	      "QPs that are gone count as receivers");
	xt_keys_free(h->shared.keys);
	xt_numbers_free(h->shared.qps);
	xt_numbers_free(h->shared.srqs);
	xt_groups_free(h->shared.groups);
	xt_ahs_free(h->ahs);
	free(h->psns);
	free(h->claims);
	free(h->mem);
	free(h->shadow);
}
