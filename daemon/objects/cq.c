// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cq.h"

#include <errno.h>
#include <stdlib.h>

#include <xroce/bits.h>
#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/grace.h"
#include "drain.h"
#include "objects.h"
#include "qp.h"
#include "queue_monitor.h"
#include "ring.h"

/* ---- channels ---------------------------------------------------------------------- */

int xd_do_create_channel(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_channel *ch = calloc(1, sizeof(*ch));
	int err, read_end;

	if (!ch)
		return -ENOMEM;
	err = xd_user_take_fds(c, 1);
	if (err) {
		free(ch);
		return err;
	}
	err = xd_object_add(c, &ch->obj, XD_CHANNEL);
	if (!err)
		err = xd_event_socket_open(c->clients, &ch->socket, XD_RECORD_COMPLETION,
					   &read_end);
	if (err) {
		xd_user_put_fds(c, 1);
		xd_object_del(&ch->obj);
		free(ch);
		return err;
	}
	XD_REPLY(rep, xr_handle_rep)->handle = ch->obj.handle;
	xd_reply_fd(rep, read_end, false);
	return 0;
}

static void cq_free_channel(struct xd_object *obj)
{
	struct xd_channel *ch = container_of(obj, struct xd_channel, obj);

	xd_event_socket_close(&ch->socket);
	xd_user_put_fds(obj->client, 1);
	xd_object_del(obj);
	free(ch);
}

int xd_do_destroy_channel(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_channel *ch = xd_object_get(c, XD_CHANNEL, q->handle);

	if (!ch)
		return -ENOENT;
	if (ch->obj.refs)
		return xd_refuse(c, -EBUSY, "the channel is used by %u CQs", ch->obj.refs);
	cq_free_channel(&ch->obj);
	return 0;
}

/* Channels have the limits of CQs. */
const struct xd_kind_ops xd_channel_ops = {
	.name = "channels",
	.free = cq_free_channel,
	.client_limit = offsetof(struct xd_options, client_max_cq),
	.user_limit = offsetof(struct xd_options, user_max_cq),
	.device_limit = offsetof(struct xd_options, max_cq),
	.bytes = sizeof(struct xd_channel),
};

/* ---- completion queues --------------------------------------------------------------- */

static int alloc_ring(struct xd_client *c, uint32_t wanted, struct xd_piece *ring, uint32_t *depth)
{
	if (!wanted || wanted > XR_MAX_CQE)
		return xd_refuse(c, -EINVAL, "cqe %u, limit %u", wanted, XR_MAX_CQE);
	*depth = xr_pow2_roundup(wanted);
	return xd_ring_alloc(c, *depth, sizeof(struct xr_cqe), ring);
}

static void reply_cq(const struct xd_cq *cq, struct xd_reply *rep)
{
	struct xr_create_cq_rep *r = XD_REPLY(rep, xr_create_cq_rep);

	r->handle = cq->obj.handle;
	r->depth = cq->depth;
	xd_shm_ref(&cq->ring, &r->ring, rep);
}

static void init_cq(struct xd_client *c, struct xd_cq *cq, const struct xr_create_cq_req *q,
		    struct xd_channel *ch)
{
	cq->worker = XD_WORKER_NONE;
	cq->vector = q->vector;
	cq->channel = ch;
	cq->completions.cookie = cq->async.cookie = q->cookie;
	cq->async.socket = &c->events.async;
	if (ch) {
		cq->completions.socket = &ch->socket;
		ch->obj.refs++;
	}
	xt_cq_init(&cq->xt, cq->ring.ptr, cq->depth);
	cq->xt.ignore_overrun = q->flags & XR_CQF_IGNORE_OVERRUN;
	cq->xt.owner = cq;
}

int xd_do_create_cq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_create_cq_req *q = req->body;
	struct xd_channel *ch = xd_object_get(c, XD_CHANNEL, q->channel);
	struct xd_cq *cq;
	int err;

	if (q->flags & ~(uint32_t)XR_CQF_IGNORE_OVERRUN)
		return xd_refuse(c, -EOPNOTSUPP, "flags 0x%x, supported 0x%x", q->flags,
				 XR_CQF_IGNORE_OVERRUN);
	if (q->vector >= xd_workers_count(c->dev->workers))
		return xd_refuse(c, -EINVAL, "comp_vector %u, the device has %u", q->vector,
				 xd_workers_count(c->dev->workers));
	if (q->channel && !ch)
		return -ENOENT;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	err = xd_object_add(c, &cq->obj, XD_CQ);
	if (!err)
		err = alloc_ring(c, q->depth, &cq->ring, &cq->depth);
	if (err) {
		xd_object_del(&cq->obj);
		free(cq);
		return err;
	}
	init_cq(c, cq, q, ch);
	reply_cq(cq, rep);
	return 0;
}

/*
 * Returns the worker that raises the event: the one that uses the CQ, or that of its vector if none
 * or several do. An event may wait in its engine, so the worker becomes a user of the CQ.
 */
static uint32_t worker_for_event(struct xd_cq *cq)
{
	if (cq->worker == XD_WORKER_NONE)
		cq->worker = cq->vector;
	return cq->worker == XD_WORKER_SEVERAL ? cq->vector : cq->worker;
}

/* A CQ of several workers has a lock, so the others go on. */
static void cq_check_armed(struct xd_client *c, struct xd_cq *cq)
{
	uint32_t worker = worker_for_event(cq);

	xd_worker_pause(c->dev->workers, worker);
	xt_cq_check_armed(xd_client_flow(c, worker), &cq->xt, xd_now());
	xd_worker_resume(c->dev->workers, worker);
}

/* Limits for all QPs together, because other clients wait meanwhile */
#define CATCH_UP_VISITS 64
#define CATCH_UP_LOOKS 64

/* Returns true if no work was left that could be executed. */
static bool cq_visit(const struct xd_client *c, const struct xd_qp *qp)
{
	uint32_t left;

	xd_worker_pause(c->dev->workers, qp->worker);
	left = xt_qp_catch_up(qp->xt, xd_now(), 1);
	xd_worker_resume(c->dev->workers, qp->worker);
	return left;
}

/*
 * Executes work that was posted before the request and needs no response, so that its completions
 * count when the new size is checked. Covers the client's first QPs only, so that the time is
 * bounded. Workers run between the visits.
 */
static void catch_up(const struct xd_cq *cq)
{
	const struct xd_client *c = cq->obj.client;
	uint32_t h = 0, visits = CATCH_UP_VISITS, looks = CATCH_UP_LOOKS;
	struct xd_qp *qp;

	while (looks-- && (qp = xd_object_next(c, XD_QP, &h)))
		while (visits && qp->send_cq == cq && !cq_visit(c, qp))
			visits--;
}

/* Copies unpolled entries, which takes up to half a second for the largest CQs. */
struct resize_job {
	struct xd_client_job job; /* copies the entries */
	struct xd_drain drain;	  /* before, if the CQ shrinks */
	uint32_t depth;
	struct xt_cq_move move;
	uint32_t cq; /* handle */
	struct xd_piece ring;
};

/* Up to this number, entries are copied in the control thread. */
#define MOVE_AT_ONCE 4096

static void resize_run(struct xd_client_job *job)
{
	xt_cq_move_copy(&container_of(job, struct resize_job, job)->move);
}

static void change_ring(struct xd_client *c, struct xd_cq *cq, struct resize_job *j)
{
	struct xd_workers *ws = c->dev->workers;

	/* workers may use the old ring in their rounds */
	xd_grace_synchronize(ws);
	cq_check_armed(c, cq);
	xd_shm_free(c, &cq->ring);
	cq->ring = j->ring;
	cq->depth = j->move.depth;
}

static int refuse_small(struct xd_client *c, int err, const struct resize_job *j)
{
	return xd_refuse(c, err, "more than %u completions have not been polled", j->depth);
}

static void resize_done(struct xd_client_job *job)
{
	struct resize_job *j = container_of(job, struct resize_job, job);
	struct xd_client *c = job->client;
	struct xd_reply *rep = xd_reply_start();
	struct xd_cq *cq;
	int err;

	/* The CQ was freed, and its rings are freed with the client. */
	if (c->ending) {
		free(j);
		return;
	}
	cq = xd_object_get(c, XD_CQ, j->cq);
	xd_queue_hold(c->dev->workers, cq->worker, &cq->xt.lock);
	err = xt_cq_move_end(&cq->xt, &j->move);
	xd_queue_release(c->dev->workers, cq->worker, &cq->xt.lock);
	if (err == -EAGAIN) {
		xd_client_add_job(c, job);
		return;
	}
	if (err) {
		refuse_small(c, err, j);
		xd_shm_free(c, &j->ring);
	} else {
		change_ring(c, cq, j);
		reply_cq(cq, rep);
	}
	free(j);
	xd_reply_send(c, err, rep);
}

/* Returns an error, upon which the caller frees the job. */
static int start_resize(struct xd_client *c, struct xd_cq *cq, struct resize_job *j)
{
	int err;

	xd_queue_hold(c->dev->workers, cq->worker, &cq->xt.lock);
	err = xt_cq_move_begin(&cq->xt, j->ring.ptr, j->depth, &j->move);
	xd_queue_release(c->dev->workers, cq->worker, &cq->xt.lock);
	if (err)
		return refuse_small(c, err, j);
	if (j->move.end - j->move.first <= MOVE_AT_ONCE)
		xd_client_do_job(c, &j->job);
	else
		xd_client_add_next_job(c, &j->job);
	return 0;
}

static void resize_drained(struct xd_client_job *job)
{
	struct resize_job *j = container_of(job, struct resize_job, drain.job);
	struct xd_client *c = job->client;
	int err;

	if (c->ending) {
		free(j);
		return;
	}
	err = start_resize(c, xd_object_get(c, XD_CQ, j->cq), j);
	if (!err)
		return;
	xd_shm_free(c, &j->ring);
	free(j);
	xd_reply_send(c, err, xd_reply_start());
}

/* Returns true if work was posted before the request that is not executed yet. */
static bool must_drain(const struct xd_client *c, const struct xd_cq *cq, struct resize_job *j)
{
	uint32_t h = 0, looks = CATCH_UP_LOOKS;
	struct xd_qp *qp;

	if (j->depth >= cq->depth)
		return false;
	catch_up(cq);
	while (looks-- && (qp = xd_object_next(c, XD_QP, &h)))
		if (qp->send_cq == cq && xd_qp_unreliable(qp))
			xd_drain_add(&j->drain, qp);
	return j->drain.n;
}

int xd_do_resize_cq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_resize_cq_req *q = req->body;
	struct xd_cq *cq = xd_object_get(c, XD_CQ, q->handle);
	struct resize_job *j;
	int err;

	if (!cq)
		return -ENOENT;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->job = (struct xd_client_job){ .run = resize_run, .done = resize_done };
	j->drain.job = (struct xd_client_job){ .run = xd_drain_run, .done = resize_drained };
	j->cq = q->handle;
	err = alloc_ring(c, q->depth, &j->ring, &j->depth);
	if (!err && must_drain(c, cq, j)) {
		xd_client_add_job(c, &j->drain.job);
		return XD_LATER;
	}
	if (!err)
		err = start_resize(c, cq, j);
	if (err) {
		xd_shm_free(c, &j->ring);
		free(j);
		return err;
	}
	return XD_LATER;
}

/* ---- events ------------------------------------------------------------------------ */

static void release_timers(struct xd_workers *workers, uint32_t n)
{
	while (n--)
		xt_cq_moderation_release(xd_worker_engine(workers, n));
}

/* Makes room for the CQ's timer in each engine. */
static int reserve_timers(struct xd_cq *cq)
{
	struct xd_workers *workers = cq->obj.client->dev->workers;
	uint32_t n = xd_workers_count(workers), i;
	int err = 0;

	if (cq->moderated)
		return 0;
	for (i = 0; !err && i < n; i++)
		err = xt_cq_moderation_reserve(xd_worker_engine(workers, i));
	if (err) {
		release_timers(workers, i - 1);
		return err;
	}
	/* last, because it is kept until the CQ is destroyed */
	err = xd_object_charge(&cq->obj, n * sizeof(struct xt_heap_entry));
	if (err)
		release_timers(workers, n);
	cq->moderated = !err;
	return err;
}

/*
 * Ends events that wait for the turn of the client or for the end of a period. Each engine has one
 * at most; a client that goes on can make others.
 */
static void end_waiting(struct xd_cq *cq, void (*end)(struct xt_engine *e, struct xt_cq *cq))
{
	struct xd_workers *workers = cq->obj.client->dev->workers;
	uint32_t left = xd_workers_count(workers) + 1;
	struct xt_engine *e;

	while (left-- && (e = xt_cq_waits_in(&cq->xt))) {
		xd_worker_pause(workers, xd_worker_of(e));
		end(e, &cq->xt);
		xd_worker_resume_no_wake(workers, xd_worker_of(e));
	}
}

int xd_do_modify_cq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_modify_cq_req *q = req->body;
	struct xd_cq *cq = xd_object_get(c, XD_CQ, q->handle);
	int err;

	if (!cq)
		return -ENOENT;
	if (q->count > XR_MAX_CQ_COUNT || q->period > XR_MAX_CQ_PERIOD)
		return xd_refuse(c, -EINVAL, "cq_count %u, limit %u; cq_period %u, limit %u",
				 q->count, XR_MAX_CQ_COUNT, q->period, XR_MAX_CQ_PERIOD);
	err = reserve_timers(cq);
	if (err)
		return err;
	xt_cq_moderate_off(&cq->xt);
	xd_grace_synchronize(c->dev->workers);
	end_waiting(cq, xt_cq_raise_waiting);
	xt_cq_moderate(&cq->xt, q->count, q->period);
	return 0;
}

int xd_do_check_cq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_cq *cq = xd_object_get(c, XD_CQ, q->handle);

	if (!cq)
		return -ENOENT;
	cq_check_armed(c, cq);
	return 0;
}

/* ---- destroy ----------------------------------------------------------------------- */

static void cq_end_events(struct xd_cq *cq)
{
	struct xd_workers *workers = cq->obj.client->dev->workers;

	end_waiting(cq, xt_cq_drop_waiting);
	if (cq->moderated)
		release_timers(workers, xd_workers_count(workers));
}

static void free_cq(struct xd_object *obj)
{
	struct xd_cq *cq = container_of(obj, struct xd_cq, obj);

	cq_end_events(cq);
	xd_cq_publish_error(cq);
	xd_event_end(&cq->completions);
	xd_event_end(&cq->async);
	if (cq->channel)
		cq->channel->obj.refs--;
	xd_shm_free(obj->client, &cq->ring);
	xd_object_del(obj);
	free(cq);
}

int xd_do_destroy_cq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_cq *cq = xd_object_get(c, XD_CQ, q->handle);
	struct xr_destroy_rep *r;

	if (!cq)
		return -ENOENT;
	if (cq->obj.refs)
		return xd_refuse(c, -EBUSY, "the CQ is used by %u QPs and SRQs", cq->obj.refs);
	r = XD_REPLY(rep, xr_destroy_rep);
	r->comp_events = xd_event_end(&cq->completions);
	r->async_events = xd_event_end(&cq->async);
	free_cq(&cq->obj);
	return 0;
}

static void show_cq(struct json *j, struct xd_object *obj)
{
	const struct xd_cq *cq = container_of(obj, struct xd_cq, obj);
	const struct xr_queue *queue = cq->ring.ptr;
	/* In this order: both move on meanwhile, and the difference is never negative. */
	uint32_t consumer = __atomic_load_n(&queue->consumer, __ATOMIC_ACQUIRE);
	uint32_t used = __atomic_load_n(&cq->xt.producer, __ATOMIC_RELAXED) - consumer;

	json_number(j, "cq", obj->handle);
	json_number(j, "client", obj->client->id);
	json_number(j, "depth", cq->depth);
	json_number(j, "used", used <= cq->depth ? used : cq->depth);
	json_boolean(j, "armed", __atomic_load_n(&queue->word, __ATOMIC_RELAXED));
	json_boolean(j, "overrun", cq->xt.overrun);
	json_number(j, "vector", cq->vector);
	json_text(j, "path", "daemon");
}

/* The record does not tell when the program arms the CQ. */
static void show_cq_view(struct json *j, const void *record, const struct xd_client *c, bool detail)
{
	const struct xr_view_cq *r = record;
	uint32_t used = r->producer - r->consumer;
	struct xt_failure failure;

	json_number(j, "cq", r->cq);
	json_number(j, "client", c->id);
	json_number(j, "depth", r->depth);
	json_number(j, "used", used <= r->depth ? used : r->depth);
	json_no_value(j, "armed");
	json_boolean(j, "overrun", r->overrun);
	json_number(j, "vector", r->vector);
	json_text(j, "path", "direct");
	if (!detail)
		return;
	json_number(j, "channel", r->channel);
	json_number(j, "references", r->references);
	json_number(j, "event_count", r->event_count);
	json_number(j, "event_period_us", r->event_period);
	json_number(j, "completions", r->completions);
	json_number(j, "completion_errors", r->errors);
	json_number(j, "completions_lost", r->lost);
	json_number(j, "events", r->events);
	xd_view_failure(&r->failure, &failure);
	xd_show_failure(j, &failure, r->failure.qpn);
}

static void show_cq_detail(struct json *j, struct xd_object *obj)
{
	struct xd_workers *workers = obj->client->dev->workers;
	struct xd_cq *cq = container_of(obj, struct xd_cq, obj);
	struct xt_cq xt;

	xd_queue_hold(workers, cq->worker, &cq->xt.lock);
	xt = cq->xt;
	xd_queue_release(workers, cq->worker, &cq->xt.lock);
	show_cq(j, obj);
	json_number(j, "channel", cq->channel ? cq->channel->obj.handle : 0);
	json_number(j, "references", obj->refs);
	json_number(j, "event_count", xt.moderation.count);
	json_number(j, "event_period_us", xt.moderation.period / 1000);
	json_number(j, "completions", xt.completions);
	json_number(j, "completion_errors", xt.errors);
	json_number(j, "completions_lost", xt.lost);
	json_number(j, "events", xt.events);
	xd_show_failure(j, &xt.failure, xt.failed_qpn);
}

const struct xd_kind_ops xd_cq_ops = {
	.name = "cqs",
	.list = XR_SHOW_CQS,
	.show = show_cq,
	.detail_list = XR_SHOW_CQ_DETAILS,
	.show_detail = show_cq_detail,
	.show_view = show_cq_view,
	.free = free_cq,
	.client_limit = offsetof(struct xd_options, client_max_cq),
	.user_limit = offsetof(struct xd_options, user_max_cq),
	.device_limit = offsetof(struct xd_options, max_cq),
	.bytes = sizeof(struct xd_cq),
};
