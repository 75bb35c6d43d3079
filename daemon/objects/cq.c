// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion channels and completion queues. */
#include <errno.h>
#include <stdlib.h>

#include <xroce/bits.h>

#include "daemon/base/loop.h"
#include "objects.h"

/* ---- channels ---------------------------------------------------------------------- */

int xd_do_create_channel(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_channel *ch = calloc(1, sizeof(*ch));
	int err, read_end;

	if (!ch)
		return -ENOMEM;
	if (!xd_fds_take(&c->server->fds, 1)) {
		free(ch);
		return -EMFILE;
	}
	err = xd_object_add(c, &ch->obj, XD_CHANNEL);
	if (!err)
		err = xd_pipe_open(c->server, &ch->pipe, XD_RECORD_COMPLETION, &read_end);
	if (err) {
		xd_fds_put(&c->server->fds, 1);
		xd_object_del(&ch->obj);
		free(ch);
		return err;
	}
	XD_REPLY(rep, xr_handle_rep)->handle = ch->obj.handle;
	xd_reply_fd(rep, read_end, false);
	return 0;
}

int xd_do_destroy_channel(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_channel *ch = xd_object_get(c, XD_CHANNEL, q->handle);

	if (!ch)
		return -ENOENT;
	if (ch->obj.refs)
		return -EBUSY;
	xd_channel_free(ch);
	return 0;
}

void xd_channel_free(struct xd_channel *ch)
{
	xd_pipe_close(&ch->pipe);
	xd_fds_put(&ch->obj.client->server->fds, 1);
	xd_object_del(&ch->obj);
	free(ch);
}

/* ---- completion queues --------------------------------------------------------------- */

static int alloc_ring(struct xd_client *c, uint32_t wanted, struct xd_piece *ring, uint32_t *depth)
{
	int err;

	if (!wanted || wanted > XR_MAX_CQE)
		return -EINVAL;
	*depth = xr_pow2_roundup(wanted);
	err = xd_shm_alloc(c, sizeof(struct xr_queue) + (uint64_t)*depth * sizeof(struct xr_cqe),
			   ring);
	if (!err)
		xd_queue_init(ring->ptr, *depth, sizeof(struct xr_cqe));
	return err;
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
	cq->worker = XD_NOBODY;
	cq->channel = ch;
	cq->completions.cookie = cq->async.cookie = q->cookie;
	cq->async.pipe = &c->events;
	if (ch) {
		cq->completions.pipe = &ch->pipe;
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
		return -EOPNOTSUPP;
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

/* In all: every other client waits meanwhile. */
#define CATCH_UP_VISITS 64
#define CATCH_UP_LOOKS 64

/*
 * Work that was posted before the request counts: what of it needs no answer is complete, as if the
 * worker had been there at once; that of the client's first queue pairs, however many it has. World stopped.
 */
static void catch_up(const struct xd_cq *cq)
{
	const struct xd_table *qps = &cq->obj.client->table[XD_QP];
	uint32_t h = 0, visits = CATCH_UP_VISITS, looks = CATCH_UP_LOOKS;
	uint64_t now = xd_now();
	struct xd_qp *qp;

	while (visits && looks-- && (qp = xd_table_next(qps, &h)))
		if (qp->send_cq == cq)
			visits = xt_qp_catch_up(qp->xt, now, visits);
}

/* To copy what was not polled may take half a second for the largest. */
struct resize_job {
	struct xd_client_job job;
	struct xt_cq_move move;
	uint32_t cq; /* handle */
	struct xd_piece ring;
};

/* So many entries are copied at once. */
#define MOVE_AT_ONCE 4096

static void resize_run(struct xd_client_job *job)
{
	xt_cq_move_copy(&container_of(job, struct resize_job, job)->move);
}

static void change_ring(struct xd_client *c, struct xd_cq *cq, struct resize_job *j)
{
	xd_shm_free(c, &cq->ring);
	cq->ring = j->ring;
	cq->depth = j->move.depth;
}

static void resize_done(struct xd_client_job *job)
{
	struct resize_job *j = container_of(job, struct resize_job, job);
	struct xd_client *c = job->client;
	struct xd_reply *rep = xd_reply_get(c);
	struct xd_cq *cq;
	int err;

	/* its CQ is gone, and its rings go with it */
	if (c->ending) {
		free(j);
		return;
	}
	cq = xd_object_get(c, XD_CQ, j->cq);
	xd_workers_pause(c->dev->workers);
	err = xt_cq_move_end(&cq->xt, &j->move);
	xd_workers_resume(c->dev->workers);
	if (err == -EAGAIN) {
		xd_client_add_job(c, job);
		return;
	}
	if (err) {
		xd_shm_free(c, &j->ring);
	} else {
		change_ring(c, cq, j);
		reply_cq(cq, rep);
	}
	free(j);
	xd_reply_send(c, err, rep);
}

static int begin_resize(struct xd_client *c, struct xd_cq *cq, uint32_t depth, struct resize_job *j)
{
	int err;

	xd_workers_pause(c->dev->workers);
	if (depth < cq->depth)
		catch_up(cq);
	err = xt_cq_move_begin(&cq->xt, j->ring.ptr, depth, &j->move);
	xd_workers_resume(c->dev->workers);
	return err;
}

int xd_do_resize_cq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_resize_cq_req *q = req->body;
	struct xd_cq *cq = xd_object_get(c, XD_CQ, q->handle);
	struct resize_job *j;
	uint32_t depth;
	int err;

	if (!cq)
		return -ENOENT;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->job = (struct xd_client_job){ .run = resize_run, .done = resize_done };
	j->cq = q->handle;
	err = alloc_ring(c, q->depth, &j->ring, &depth);
	if (!err)
		err = begin_resize(c, cq, depth, j);
	if (err) {
		xd_shm_free(c, &j->ring);
		free(j);
		return err;
	}
	if (j->move.end - j->move.first <= MOVE_AT_ONCE)
		xd_client_do_job(c, &j->job);
	else
		xd_client_add_job(c, &j->job);
	return XD_LATER;
}

int xd_do_destroy_cq(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_cq *cq = xd_object_get(c, XD_CQ, q->handle);
	struct xr_destroy_rep *r;

	if (!cq)
		return -ENOENT;
	if (cq->obj.refs)
		return -EBUSY;
	r = XD_REPLY(rep, xr_destroy_rep);
	r->comp_events = xd_event_end(&cq->completions);
	r->async_events = xd_event_end(&cq->async);
	xd_cq_free(cq);
	return 0;
}

void xd_cq_free(struct xd_cq *cq)
{
	xd_event_end(&cq->completions);
	xd_event_end(&cq->async);
	if (cq->channel)
		cq->channel->obj.refs--;
	xd_shm_free(cq->obj.client, &cq->ring);
	xd_object_del(&cq->obj);
	free(cq);
}
