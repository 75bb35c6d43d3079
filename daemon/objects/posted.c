// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "posted.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/loop.h"
#include "daemon/clients/request.h"
#include "drain.h"
#include "objects.h"
#include "qp.h"

/* Visits of a QP by the control thread; each sends up to 32 packets. The worker sends the rest. */
#define VISITS 2
/* QPs of a client that ends */
#define LAST_QPS 64

/* The client can write to these words, too, and so lose its own messages. */
static bool has_posted(const struct xd_qp *qp)
{
	const struct xr_queue *sq = qp->sq.ptr;

	return qp->xt && sq &&
	       __atomic_load_n(&sq->producer, __ATOMIC_ACQUIRE) !=
		       __atomic_load_n(&sq->consumer, __ATOMIC_RELAXED);
}

bool xd_qp_send_posted(struct xd_qp *qp, struct xt_send_mark *mark)
{
	struct xd_workers *ws = qp->obj.client->dev->workers;
	bool sends = has_posted(qp);
	int i;

	for (i = 0; sends && i < VISITS; i++) {
		xd_worker_pause(ws, qp->worker);
		xt_qp_catch_up(qp->xt, xd_now(), 1);
		if (!i)
			xt_qp_mark(qp->xt, mark);
		sends = xt_qp_sends(qp->xt, mark);
		xd_worker_flush(ws, qp->worker);
		xd_worker_resume(ws, qp->worker);
	}
	return sends;
}

void xd_qp_send_last(struct xd_client *c, struct xd_qp *qp)
{
	struct xt_send_mark mark;

	if (has_posted(qp) && (!c->ending || c->objects->last_qps++ < LAST_QPS))
		xd_qp_send_posted(qp, &mark);
}

/* ---- requests that wait --------------------------------------------------------------- */

struct posted_waiting {
	struct xd_client_job job;
	struct xt_send_mark mark;
	uint64_t until;
	uint32_t qp; /* handle */
	xd_posted_fn then;
	uint64_t request[];
};

static void wait_run(struct xd_client_job *job)
{
	const struct timespec pause = { .tv_nsec = XD_DRAIN_POLL_NS };

	(void)job;
	nanosleep(&pause, NULL);
}

static bool sends(const struct xd_qp *qp, const struct xt_send_mark *mark)
{
	struct xd_workers *ws = qp->obj.client->dev->workers;
	bool more;

	xd_worker_pause(ws, qp->worker);
	more = xt_qp_sends(qp->xt, mark);
	xd_worker_resume_no_wake(ws, qp->worker);
	return more;
}

static void wait_done(struct xd_client_job *job)
{
	struct posted_waiting *w = container_of(job, struct posted_waiting, job);
	struct xd_client *c = job->client;
	struct xd_reply *rep;
	int err;

	/* if the client is ending, its QPs are freed already */
	if (!c->ending && xd_now() < w->until && sends(xd_object_get(c, XD_QP, w->qp), &w->mark)) {
		xd_client_add_next_job(c, job);
		return;
	}
	if (!c->ending) {
		rep = xd_reply_start();
		err = w->then(c, w->request, rep);
		if (err != XD_LATER)
			xd_reply_send(c, err, rep);
	}
	free(w);
}

int xd_after_posted(struct xd_qp *qp, const void *request, size_t length, struct xd_reply *rep,
		    xd_posted_fn then)
{
	struct xd_client *c = qp->obj.client;
	struct xt_send_mark mark;
	struct posted_waiting *w = NULL;

	if (xd_qp_send_posted(qp, &mark))
		w = calloc(1, sizeof(*w) + length);
	if (!w) /* there is nothing to wait for, or no memory */
		return then(c, request, rep);
	w->job = (struct xd_client_job){ .run = wait_run, .done = wait_done };
	w->mark = mark;
	w->until = xd_now() + XD_DRAIN_WAIT_NS;
	w->qp = qp->obj.handle;
	w->then = then;
	memcpy(w->request, request, length);
	xd_client_add_job(c, &w->job);
	return XD_LATER;
}
