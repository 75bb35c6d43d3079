// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/io/tables.h"
#include "daemon/transport/memory/usage.h"
#include "internal.h"
#include "memfd.h"

/* QPs in one call, and the time until the next ones follow */
#define AT_ONCE 16
#define GAP_NS 100000u

_Static_assert(sizeof(struct xt_counters) <= sizeof(((struct xr_view_sums *)0)->counter),
	       "room for the counters of the engine");
_Static_assert(sizeof(struct xt_qp_counters) <= sizeof(((struct xr_view_qp *)0)->counter),
	       "room for the counters of a QP");
_Static_assert(XR_REASON_COUNT <= XR_VIEW_REASONS, "room for all reasons");
_Static_assert(XT_RTT_BUCKETS == XR_VIEW_RTTS, "buckets of round-trip times");
_Static_assert(XT_USES == XR_VIEW_USES, "uses of a region");
_Static_assert(!XR_VIEW_QP && XR_VIEW_SRQ <= XR_VIEW_MW && XR_VIEW_CQ <= XR_VIEW_MW &&
		       XR_VIEW_MR <= XR_VIEW_MW,
	       "lists with counters are the first ones");

/* ---- records ------------------------------------------------------------------------------ */

/* Room for a record of any list */
union record {
	struct {
		__u32 seq, used;
	} head;
#define X(NAME, name, records) struct xr_view_##name name;
	XR_VIEW_LISTS(X)
#undef X
};

static const struct {
	size_t off, size;
} rooms[XR_VIEW_LIST_COUNT] = {
#define X(NAME, name, records)                                                                     \
	[XR_VIEW_##NAME] = { offsetof(struct xr_view_file, name), sizeof(struct xr_view_##name) },
	XR_VIEW_LISTS(X)
#undef X
};

/* Returns the index of a free record plus 1, 0: there is none. */
static uint32_t view_take(struct xp_view *view, enum xr_view_list list, struct xp_object *obj)
{
	struct xp_view_table *t = &view->table[list];
	__u32 *end = &view->v->head.end[list];
	uint32_t index;

	while (t->first < t->words && t->used[t->first] == UINT64_MAX)
		t->first++;
	if (t->first == t->words)
		return 0;
	index = t->first * 64 + (uint32_t)__builtin_ctzll(~t->used[t->first]);
	t->used[t->first] |= 1ull << index % 64;
	t->object[index] = obj;
	if (index >= *end)
		__atomic_store_n(end, index + 1, __ATOMIC_RELAXED);
	return index + 1;
}

static void view_give(struct xp_view *view, enum xr_view_list list, uint32_t index)
{
	struct xp_view_table *t = &view->table[list];
	__u32 *end = &view->v->head.end[list];

	t->used[index / 64] &= ~(1ull << index % 64);
	t->object[index] = NULL;
	if (index / 64 < t->first)
		t->first = index / 64;
	/* Records that are free again need not be read. */
	while (*end && !t->object[*end - 1])
		__atomic_store_n(end, *end - 1, __ATOMIC_RELAXED);
}

/* Stores a record whose first member is the sequence word. */
static void view_store(void *to, const void *from, size_t size)
{
	__u32 *seq = to;

	__atomic_store_n(seq, *seq | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memcpy(seq + 1, (const __u32 *)from + 1, size - sizeof(*seq));
	__atomic_store_n(seq, *seq + 1, __ATOMIC_RELEASE);
}

static void store_record(struct xp_view *view, enum xr_view_list list, uint32_t index,
			 const union record *r)
{
	size_t size = rooms[list].size;

	view_store((char *)view->v + rooms[list].off + index * size, r, size);
}

/* ---- contents of records ------------------------------------------------------------------- */

static uint32_t view_handle_of(const struct xp_object *obj)
{
	return obj ? obj->handle : 0;
}

static uint32_t view_number_of(const struct xp_pd *pd)
{
	return pd ? pd->number : 0;
}

static void fill_failure(struct xr_view_failure *to, const struct xt_failure *f, uint32_t qpn)
{
	to->at = f->at;
	to->cause = f->cause;
	to->status = f->status;
	to->verr = f->verr;
	to->qpn = qpn;
}

static void fill_identity(struct xr_view_qp *r, const struct xp_qp_object *qp)
{
	r->qpn = qp->qpn;
	r->type = qp->type;
	r->pd = view_number_of(qp->pd);
	r->send_cq = view_handle_of(qp->send_cq ? &qp->send_cq->obj : NULL);
	r->recv_cq = view_handle_of(qp->recv_cq ? &qp->recv_cq->obj : NULL);
	r->srq = view_handle_of(qp->srq ? &qp->srq->obj : NULL);
	r->sq_depth = qp->max_send_wr;
	r->rq_depth = qp->max_recv_wr;
	r->created = qp->obj.created;
}

static void fill_attributes(struct xr_view_qp *r, const struct xt_qp *qp)
{
	const struct xt_path *path = xt_qp_path(qp);
	struct xr_qp_attr a;

	xt_qp_query(qp, &a);
	r->state = a.qp_state;
	r->dest_qpn = a.dest_qp_num;
	r->path_mtu = a.path_mtu;
	r->qkey = a.qkey;
	r->rate_limit = a.rate_limit;
	r->timeout = a.timeout;
	r->retry_cnt = a.retry_cnt;
	r->rnr_retry = a.rnr_retry;
	r->max_rd_atomic = a.max_rd_atomic;
	r->max_dest_rd_atomic = a.max_dest_rd_atomic;
	r->peer = path->dgid;
	r->local = path->loopback || path->self;
}

static void fill_stats(struct xr_view_qp *r, const struct xt_qp *qp)
{
	struct xt_traffic traffic = { 0 };
	struct xt_qp_stats s;

	xt_qp_stats(qp, &s);
	xt_qp_add_traffic(qp, &traffic);
	memcpy(r->counter, &s.counters, sizeof(s.counters));
	memcpy(r->rtt, s.rtt, sizeof(r->rtt));
	r->rtt_sum = traffic.rtt_sum;
	r->rtt_least = s.rtt_least;
	r->rtt_usual = s.rtt_usual;
	r->sq_psn = s.sq_psn;
	r->unacked_psn = s.unacked_psn;
	r->rq_psn = s.rq_psn;
	r->window = s.window;
	r->in_flight = s.in_flight;
	r->sq_posted = s.sq_posted;
	r->rq_posted = s.rq_posted;
	r->retries_left = s.retries_left;
	r->rnr_retries_left = s.rnr_retries_left;
	r->wait = s.wait;
	fill_failure(&r->failure, &s.failure, 0);
}

static void view_fill_qp(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_qp_object *qp = (const void *)obj;

	(void)h;
	fill_identity(&r->qp, qp);
	fill_attributes(&r->qp, qp->xt);
	fill_stats(&r->qp, qp->xt);
}

static void view_fill_srq(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_srq_object *srq = (const void *)obj;
	const struct xt_srq *xt = &srq->xt;
	const struct xt_failure failure = { .at = xt->error.at, .cause = (uint8_t)xt->error.cause };

	(void)h;
	r->srq = (struct xr_view_srq){
		.srq = obj->handle,
		.pd = view_number_of(srq->pd),
		.depth = xt->depth,
		.limit = xt->limit,
		.producer = __atomic_load_n(&xt->queue->producer, __ATOMIC_RELAXED),
		.consumer = xt->consumer,
		.qps = obj->refs,
		.number = xt->number,
		.xrcd = view_handle_of(srq->xrcd ? &srq->xrcd->obj : NULL),
		.cq = view_handle_of(srq->cq ? &srq->cq->obj : NULL),
		.dead = xt->dead,
		.created = obj->created,
		.receives = xt->taken,
		.missed = xt->missed,
	};
	fill_failure(&r->srq.failure, &failure, xt->error.qpn);
}

static void fill_cq(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_cq_object *cq = (const void *)obj;
	const struct xt_cq *xt = &cq->xt;

	(void)h;
	r->cq = (struct xr_view_cq){
		.cq = obj->handle,
		.depth = xt->depth,
		.producer = xt->producer,
		.consumer = __atomic_load_n(&xt->queue->consumer, __ATOMIC_RELAXED),
		.channel = view_handle_of(cq->channel ? &cq->channel->obj : NULL),
		.overrun = xt->overrun,
		.vector = cq->vector,
		.references = obj->refs,
		.event_count = xt->moderation.count,
		.event_period = (uint32_t)(xt->moderation.period / 1000),
		.created = obj->created,
		.completions = xt->completions,
		.errors = xt->errors,
		.lost = xt->lost,
		.events = xt->events,
	};
	fill_failure(&r->cq.failure, &xt->failure, xt->failed_qpn);
}

static void fill_refused(struct xr_view_refused *to, const struct xt_key *key)
{
	*to = (struct xr_view_refused){
		.at = key->refused.at,
		.count = key->refused.count,
		.qpn = key->refused.qpn,
		.why = key->refused.why,
	};
}

static enum xr_view_tier tier_of(const struct xp_mr_object *mr)
{
	if (mr->integrity)
		return XR_TIER_PIECES;
	if (mr->memory.is_null)
		return XR_TIER_NULL;
	return mr->memory.dm ? XR_TIER_DEVICE : XR_TIER_OWN;
}

static void fill_mr(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_mr_object *mr = (const void *)obj;
	const struct xr_key_entry *e = &mr->key->entry;

	(void)h;
	r->mr = (struct xr_view_mr){
		.key = xt_key_value(mr->key),
		.pd = e->pd,
		.access = e->access | (mr->access & XR_ACCESS_ON_DEMAND),
		.state = e->state,
		.created = obj->created,
		.addr = mr->addr,
		.iova = e->va,
		.length = e->length,
		.tier = tier_of(mr),
		.references = mr->key->windows,
	};
	fill_refused(&r->mr.refused, mr->key);
	for (uint32_t i = 0; i < XT_USES; i++) {
		r->mr.use[i].count = mr->key->usage.of[i].count;
		r->mr.use[i].bytes = mr->key->usage.of[i].bytes;
	}
}

static void fill_mw(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_mw_object *mw = (const void *)obj;
	const struct xr_key_entry *e = &mw->key->entry;
	const struct xt_key *region = mw->key->parent;

	r->mw = (struct xr_view_mw){
		.key = xt_key_value(mw->key),
		.pd = e->pd,
		.type = e->flags & XR_KEYF_TYPE_2 ? 2 : 1,
		.mr = region ? xt_key_value(region) : 0,
		.access = region ? e->access : 0,
		.qpn = e->qpn,
		.created = obj->created,
		.addr = region ? e->va : 0,
		.length = region ? e->length : 0,
	};
	fill_refused(&r->mw.refused, mw->key);
}

static void fill_ah(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_ah_object *ah = (const void *)obj;
	const struct xt_path *path = &ah->path;

	(void)h;
	r->ah = (struct xr_view_ah){
		.ah = obj->handle,
		.pd = view_number_of(ah->pd),
		.gid_index = ah->gid_index,
		.vlan = path->vlan,
		.hop_limit = path->hop_limit,
		.traffic_class = path->traffic_class,
		.flow_label = path->flow_label,
		.local = path->loopback || path->self,
		.created = obj->created,
		.peer = path->dgid,
	};
	memcpy(r->ah.mac, path->dmac, sizeof(r->ah.mac));
}

static void fill_member(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_member *m = (const void *)obj;

	(void)h;
	r->member.qpn = m->qp->qpn;
	r->member.created = m->qp->obj.created;
	r->member.group = m->gid;
}

static void fill_dm(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_dm_object *dm = (const void *)obj;

	(void)h;
	r->dm.dm = obj->handle;
	r->dm.mrs = obj->refs;
	r->dm.created = obj->created;
	r->dm.length = dm->length;
}

static void fill_xrcd(const struct xp_host *h, const struct xp_object *obj, union record *r)
{
	const struct xp_xrcd_object *xrcd = (const void *)obj;

	(void)h;
	r->xrcd.xrcd = obj->handle;
	r->xrcd.domain = xrcd->number;
	r->xrcd.created = obj->created;
}

/* ---- objects ------------------------------------------------------------------------------ */

/* fill NULL: objects of the kind are counted only */
static const struct {
	void (*fill)(const struct xp_host *h, const struct xp_object *obj, union record *r);
	enum xr_view_list list;
} kinds[XP_KINDS] = {
	[XP_KIND_QP] = { view_fill_qp, XR_VIEW_QP },
	[XP_KIND_SRQ] = { view_fill_srq, XR_VIEW_SRQ },
	[XP_KIND_CQ] = { fill_cq, XR_VIEW_CQ },
	[XP_KIND_MR] = { fill_mr, XR_VIEW_MR },
	[XP_KIND_MW] = { fill_mw, XR_VIEW_MW },
	[XP_KIND_AH] = { fill_ah, XR_VIEW_AH },
	[XP_KIND_MEMBER] = { fill_member, XR_VIEW_MEMBER },
	[XP_KIND_DM] = { fill_dm, XR_VIEW_DM },
	[XP_KIND_XRCD] = { fill_xrcd, XR_VIEW_XRCD },
};

static void store_object(struct xp_host *h, const struct xp_object *obj)
{
	union record r;

	memset(&r, 0, rooms[kinds[obj->kind].list].size);
	kinds[obj->kind].fill(h, obj, &r);
	r.head.used = 1;
	store_record(&h->view, kinds[obj->kind].list, obj->view - 1, &r);
}

static void note_change(struct xp_host *h, const struct xp_object *obj)
{
	struct xr_view *v = &h->view.v->head;

	if (obj->kind == XP_KIND_QP)
		__atomic_store_n(&v->changes, v->changes + 1, __ATOMIC_RELEASE);
}

void xp_view_change(struct xp_host *h, const struct xp_object *obj)
{
	if (!obj->view)
		return;
	store_object(h, obj);
	note_change(h, obj);
}

void xp_view_add(struct xp_host *h, struct xp_object *obj)
{
	if (!h->view.v)
		return;
	obj->created = h->now;
	obj->view = view_take(&h->view, kinds[obj->kind].list, obj);
	xp_view_change(h, obj);
}

void xp_view_remove(struct xp_host *h, struct xp_object *obj)
{
	static const union record none;
	enum xr_view_list list = kinds[obj->kind].list;

	if (obj->kind == XP_KIND_QP)
		xt_qp_add_traffic(((struct xp_qp_object *)obj)->xt, &h->view.ended);
	if (!obj->view)
		return;
	store_record(&h->view, list, obj->view - 1, &none);
	view_give(&h->view, list, obj->view - 1);
	obj->view = 0;
	note_change(h, obj);
}

void xp_view_key(struct xp_host *h, const struct xt_key *key)
{
	if (key->owner)
		xp_view_change(h, key->owner);
}

/* ---- counters ------------------------------------------------------------------------------ */

void xp_view_store_sums(struct xp_host *h)
{
	struct xr_view_sums s = { 0 };
	struct xd_socket_stats stats;

	if (!h->view.v)
		return;
	memcpy(s.counter, xt_engine_counters(h->engine), sizeof(struct xt_counters));
	for (uint32_t i = 0; i < XR_REASON_COUNT; i++)
		xd_tables_stat(h->tables, (enum xr_reason)i, &s.reason[i]);
	memcpy(s.ended.counter, &h->view.ended.counters, sizeof(h->view.ended.counters));
	memcpy(s.ended.rtt, h->view.ended.rtt, sizeof(s.ended.rtt));
	s.ended.rtt_sum = h->view.ended.rtt_sum;
	xd_socket_stats(h->socket, &stats);
	s.tx_refused = stats.tx_refused;
	s.tx_by_memory = stats.tx_by_memory;
	xp_faults_hits(h, &s);
	view_store(&h->view.v->head.sums, &s, sizeof(s));
}

/* The first lists have counters. Returns false when it has passed all their records. */
static bool store_objects(struct xp_host *h, struct xp_view *view)
{
	const struct xp_object *obj;

	for (uint32_t n = 0; n < AT_ONCE; n++) {
		while (view->next >= view->v->head.end[view->list]) {
			view->next = 0;
			if (++view->list > XR_VIEW_MW)
				return false;
		}
		obj = view->table[view->list].object[view->next++];
		if (obj)
			store_object(h, obj);
	}
	return true;
}

/* A pass stores the counters of all objects. Another one follows if there was traffic meanwhile. */
void xp_view_store(struct xp_host *h)
{
	const struct xt_counters *present = xt_engine_counters(h->engine);
	struct xp_view *view = &h->view;

	if (!view->list && !view->next) {
		view->counters = *present;
		xp_view_store_sums(h);
		xt_usage_settle(h->engine);
	}
	if (store_objects(h, view)) {
		view->due = h->now + GAP_NS;
		return;
	}
	view->list = XR_VIEW_QP;
	view->due = memcmp(&view->counters, present, sizeof(*present)) ? h->now + XP_VIEW_NS
								       : XT_NEVER;
}

/* ---- open and close ------------------------------------------------------------------------ */

/* Without room for the rings, captures do not see the context. */
int xp_view_new(void)
{
	int fd = xp_memfd_new("xroce-view", XR_VIEW_SIZE_RINGS);

	return fd == -EFBIG ? xp_memfd_new("xroce-view", XR_VIEW_SIZE) : fd;
}

static void use_places(struct xp_view *view)
{
	struct xp_view_places *p = view->places;

#define X(NAME, name, records)                                                                     \
	view->table[XR_VIEW_##NAME] = (struct xp_view_table){ .object = p->name,                   \
							      .used = p->name##_used,              \
							      .words = (records) / 64 };
	XR_VIEW_LISTS(X)
#undef X
}

void xp_view_open(struct xp_host *h, int fd)
{
	struct xp_view *view = &h->view;
	void *p = MAP_FAILED;

	view->due = XT_NEVER;
	if (fd < 0)
		return;
	view->places = calloc(1, sizeof(*view->places));
	if (view->places)
		p = mmap(NULL, XR_VIEW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return;
	use_places(view);
	view->v = p;
	view->v->head.layout = XR_VIEW_LAYOUT;
	view->v->head.captures = h->captures.rings != NULL;
	__atomic_store_n(&view->v->head.magic, XR_VIEW_MAGIC, __ATOMIC_RELEASE);
	h->objects.shown = view->v->head.objects;
}

void xp_view_close(struct xp_host *h)
{
	struct xp_view *view = &h->view;

	if (h->engine)
		xp_view_store_sums(h);
	h->objects.shown = NULL;
	if (view->v)
		munmap(view->v, XR_VIEW_SIZE);
	view->v = NULL;
	free(view->places);
}
