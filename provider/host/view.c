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

/* ---- records ------------------------------------------------------------------------------ */

static int table_init(struct xp_view_table *t, uint32_t records)
{
	t->words = records / 64;
	t->used = calloc(t->words, sizeof(*t->used));
	return t->used ? 0 : -ENOMEM;
}

/* Returns the index of a free record plus 1, 0: there is none. */
static uint32_t take(struct xp_view_table *t, __u32 *count, __u32 *end)
{
	uint32_t index;

	while (t->first < t->words && t->used[t->first] == UINT64_MAX)
		t->first++;
	if (t->first == t->words)
		return 0;
	index = t->first * 64 + (uint32_t)__builtin_ctzll(~t->used[t->first]);
	t->used[t->first] |= 1ull << index % 64;
	__atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
	if (index >= *end)
		__atomic_store_n(end, index + 1, __ATOMIC_RELAXED);
	return index + 1;
}

static void give(struct xp_view_table *t, uint32_t index, __u32 *count, __u32 *end)
{
	t->used[index / 64] &= ~(1ull << index % 64);
	if (index / 64 < t->first)
		t->first = index / 64;
	__atomic_store_n(count, *count - 1, __ATOMIC_RELAXED);
	/* Records that are free again need not be read. */
	while (*end && !(t->used[(*end - 1) / 64] & 1ull << (*end - 1) % 64))
		__atomic_store_n(end, *end - 1, __ATOMIC_RELAXED);
}

/* Stores a record whose first member is the sequence word. */
static void store(void *to, const void *from, size_t size)
{
	__u32 *seq = to;

	__atomic_store_n(seq, *seq | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memcpy(seq + 1, (const __u32 *)from + 1, size - sizeof(*seq));
	__atomic_store_n(seq, *seq + 1, __ATOMIC_RELEASE);
}

static struct xr_view_qp *qp_at(struct xr_view *v, uint32_t index)
{
	return (struct xr_view_qp *)((char *)v + XR_VIEW_QPS_OFF) + index;
}

static struct xr_view_mr *mr_at(struct xr_view *v, uint32_t index)
{
	return (struct xr_view_mr *)((char *)v + XR_VIEW_MRS_OFF) + index;
}

static struct xr_view_cq *cq_at(struct xr_view *v, uint32_t index)
{
	return (struct xr_view_cq *)((char *)v + XR_VIEW_CQS_OFF) + index;
}

/* ---- queue pairs -------------------------------------------------------------------------- */

static uint32_t handle_of(const struct xp_object *obj)
{
	return obj ? obj->handle : 0;
}

static void fill_identity(struct xr_view_qp *r, const struct xp_qp_object *qp)
{
	r->used = 1;
	r->qpn = qp->qpn;
	r->type = qp->type;
	r->pd = qp->pd ? qp->pd->number : 0;
	r->send_cq = handle_of(qp->send_cq ? &qp->send_cq->obj : NULL);
	r->recv_cq = handle_of(qp->recv_cq ? &qp->recv_cq->obj : NULL);
	r->srq = handle_of(qp->srq ? &qp->srq->obj : NULL);
	r->sq_depth = qp->max_send_wr;
	r->rq_depth = qp->max_recv_wr;
	r->created = qp->created;
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
	r->failure_cause = s.failure.cause;
	r->failure_status = s.failure.status;
	r->failure_verr = s.failure.verr;
	r->failure_at = s.failure.at;
}

static void note_change(struct xp_host *h)
{
	struct xr_view *v = h->view.v;

	__atomic_store_n(&v->changes, v->changes + 1, __ATOMIC_RELEASE);
}

static void store_qp(struct xp_host *h, struct xp_qp_object *qp)
{
	struct xr_view_qp r = { 0 };

	fill_identity(&r, qp);
	fill_attributes(&r, qp->xt);
	fill_stats(&r, qp->xt);
	store(qp_at(h->view.v, qp->view - 1), &r, sizeof(r));
}

void xp_view_qp(struct xp_host *h, struct xp_qp_object *qp)
{
	if (!qp->view)
		return;
	store_qp(h, qp);
	note_change(h);
}

void xp_view_qp_new(struct xp_host *h, struct xp_qp_object *qp)
{
	struct xr_view *v = h->view.v;

	qp->view = v ? take(&h->view.qps, &v->qps, &v->qp_end) : 0;
	if (!qp->view)
		return;
	qp->created = h->now;
	h->view.qp[qp->view - 1] = qp;
	xp_view_qp(h, qp);
}

void xp_view_qp_end(struct xp_host *h, struct xp_qp_object *qp)
{
	static const struct xr_view_qp none;

	if (!qp->view)
		return;
	xt_qp_add_traffic(qp->xt, &h->view.ended);
	h->view.qp[qp->view - 1] = NULL;
	store(qp_at(h->view.v, qp->view - 1), &none, sizeof(none));
	give(&h->view.qps, qp->view - 1, &h->view.v->qps, &h->view.v->qp_end);
	qp->view = 0;
	note_change(h);
}

/* ---- regions and completion queues --------------------------------------------------------- */

void xp_view_mr(struct xp_host *h, struct xp_mr_object *mr)
{
	struct xr_view *v = h->view.v;
	const struct xr_key_entry *e = &mr->key->entry;
	struct xr_view_mr r = {
		.used = 1,
		.key = xt_key_value(mr->key),
		.pd = e->pd,
		.access = e->access,
		.state = e->state,
		.addr = mr->addr,
		.iova = e->va,
		.length = e->length,
		.null = mr->memory.is_null,
	};

	if (!v)
		return;
	if (!mr->view) {
		mr->view = take(&h->view.mrs, &v->mrs, &v->mr_end);
		mr->created = h->now;
	}
	r.created = mr->created;
	if (mr->view)
		store(mr_at(v, mr->view - 1), &r, sizeof(r));
	else
		__atomic_store_n(&v->skipped, v->skipped + 1, __ATOMIC_RELAXED);
}

void xp_view_key(struct xp_host *h, const struct xt_key *key)
{
	struct xp_mr_object *mr;

	if (key->entry.type != XR_KEY_MR || !key->mem)
		return;
	mr = (struct xp_mr_object *)((char *)key->mem - offsetof(struct xp_mr_object, mem));
	if (mr->view && mr->key == key)
		xp_view_mr(h, mr);
}

void xp_view_mr_end(struct xp_host *h, struct xp_mr_object *mr)
{
	static const struct xr_view_mr none;

	if (!mr->view)
		return;
	store(mr_at(h->view.v, mr->view - 1), &none, sizeof(none));
	give(&h->view.mrs, mr->view - 1, &h->view.v->mrs, &h->view.v->mr_end);
	mr->view = 0;
}

static void store_cq(struct xp_host *h, const struct xp_cq_object *cq)
{
	struct xr_view_cq r = {
		.used = 1,
		.cq = cq->obj.handle,
		.depth = cq->xt.depth,
		.producer = cq->xt.producer,
		.consumer = __atomic_load_n(&cq->xt.queue->consumer, __ATOMIC_RELAXED),
		.channel = handle_of(cq->channel ? &cq->channel->obj : NULL),
		.overrun = cq->xt.overrun,
		.completions = cq->xt.completions,
		.errors = cq->xt.errors,
		.created = cq->created,
	};

	if (cq->view)
		store(cq_at(h->view.v, cq->view - 1), &r, sizeof(r));
}

void xp_view_cq(struct xp_host *h, struct xp_cq_object *cq)
{
	struct xr_view *v = h->view.v;

	if (!v)
		return;
	if (!cq->view) {
		cq->view = take(&h->view.cqs, &v->cqs, &v->cq_end);
		cq->created = h->now;
	}
	store_cq(h, cq);
}

void xp_view_cq_end(struct xp_host *h, struct xp_cq_object *cq)
{
	static const struct xr_view_cq none;

	if (!cq->view)
		return;
	store(cq_at(h->view.v, cq->view - 1), &none, sizeof(none));
	give(&h->view.cqs, cq->view - 1, &h->view.v->cqs, &h->view.v->cq_end);
	cq->view = 0;
}

/* ---- counters ------------------------------------------------------------------------------ */

static void store_sums(struct xp_host *h)
{
	struct xr_view_sums s = { 0 };

	memcpy(s.counter, xt_engine_counters(h->engine), sizeof(struct xt_counters));
	for (uint32_t i = 0; i < XR_REASON_COUNT; i++)
		xd_tables_stat(h->tables, (enum xr_reason)i, &s.reason[i]);
	memcpy(s.ended.counter, &h->view.ended.counters, sizeof(h->view.ended.counters));
	memcpy(s.ended.rtt, h->view.ended.rtt, sizeof(s.ended.rtt));
	s.ended.rtt_sum = h->view.ended.rtt_sum;
	xp_faults_hits(h, &s);
	store(&h->view.v->sums, &s, sizeof(s));
}

/* Returns false when it has passed all records. */
static bool store_qps(struct xp_host *h, struct xp_view *view)
{
	struct xp_qp_object *qp;

	for (uint32_t n = 0; n < AT_ONCE; n++) {
		if (view->next >= view->v->qp_end)
			return false;
		qp = view->qp[view->next++];
		if (!qp)
			continue;
		store_qp(h, qp);
		if (qp->send_cq)
			store_cq(h, qp->send_cq);
		if (qp->recv_cq && qp->recv_cq != qp->send_cq)
			store_cq(h, qp->recv_cq);
	}
	return true;
}

/* A pass stores the counters of all QPs. Another one follows if there was traffic meanwhile. */
void xp_view_store(struct xp_host *h)
{
	const struct xt_counters *present = xt_engine_counters(h->engine);
	struct xp_view *view = &h->view;

	if (!view->next) {
		view->counters = *present;
		store_sums(h);
	}
	if (store_qps(h, view)) {
		view->due = h->now + GAP_NS;
		return;
	}
	view->next = 0;
	view->due = memcmp(&view->counters, present, sizeof(*present)) ? h->now + XP_VIEW_NS
								       : XT_NEVER;
}

/* ---- the end of the program ---------------------------------------------------------------- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct xp_host *hosts; /* that have a view */

void xp_view_opened(struct xp_host *h)
{
	if (!h->view.v)
		return;
	h->view.process = getpid();
	pthread_mutex_lock(&list_lock);
	h->view.next_host = hosts;
	hosts = h;
	pthread_mutex_unlock(&list_lock);
}

static void remove_from_list(const struct xp_host *h)
{
	struct xp_host **at;

	pthread_mutex_lock(&list_lock);
	for (at = &hosts; *at && *at != h; at = &(*at)->view.next_host)
		;
	if (*at)
		*at = h->view.next_host;
	pthread_mutex_unlock(&list_lock);
}

/*
 * Programs exit without closing their devices, some of them soon after they have sent. Other
 * threads may still run: what they hold is left as it is.
 */
__attribute__((destructor)) static void store_last(void)
{
	if (pthread_mutex_trylock(&list_lock))
		return;
	for (struct xp_host *h = hosts; h; h = h->view.next_host) {
		/* A child has a copy of what its parent had. */
		if (h->view.process != getpid() || pthread_mutex_trylock(&h->lock))
			continue;
		store_sums(h);
		pthread_mutex_unlock(&h->lock);
	}
	pthread_mutex_unlock(&list_lock);
}

/* ---- open and close ------------------------------------------------------------------------ */

/* Without room for the rings, captures do not see the context. */
int xp_view_new(void)
{
	int fd = xp_memfd_new("xroce-view", XR_VIEW_SIZE_RINGS);

	return fd == -EFBIG ? xp_memfd_new("xroce-view", XR_VIEW_SIZE) : fd;
}

void xp_view_open(struct xp_host *h, int fd)
{
	struct xp_view *view = &h->view;
	void *p = MAP_FAILED;

	view->due = XT_NEVER;
	if (fd < 0)
		return;
	if (!table_init(&view->qps, XR_VIEW_QPS) && !table_init(&view->mrs, XR_VIEW_MRS) &&
	    !table_init(&view->cqs, XR_VIEW_CQS))
		p = mmap(NULL, XR_VIEW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return;
	view->v = p;
	view->v->layout = XR_VIEW_LAYOUT;
	view->v->captures = h->captures.rings != NULL;
	__atomic_store_n(&view->v->magic, XR_VIEW_MAGIC, __ATOMIC_RELEASE);
}

void xp_view_close(struct xp_host *h)
{
	struct xp_view *view = &h->view;

	remove_from_list(h);
	if (view->v && h->engine)
		store_sums(h);
	if (view->v)
		munmap(view->v, XR_VIEW_SIZE);
	view->v = NULL;
	free(view->qps.used);
	free(view->mrs.used);
	free(view->cqs.used);
}
