// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Direct verbs, <infiniband/xrocedv.h>: waiting until all completions of a QP have been polled. The
 * program polls; the library sees by its index of a queue which entries were polled.
 */
#include <time.h>

#include <infiniband/xrocedv.h>

#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/dv/common.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/cq_members.h"
#include "provider/verbs/post.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"

#define NAP_NS 50000 /* between looks while other threads poll, or the CQ is empty */

#define DRAIN "xrocedv_drain_sq, _rq, _qp"

enum drain_queue { SEND = 1, RECV = 2 };
static const char *const queue_names[] = {
	[SEND] = "send queue",
	[RECV] = "receive queue",
	[SEND | RECV] = "send and receive queues",
};

struct drain {
	struct xp_qp *qp;
	const struct xrocedv_drain_attr *attr;
	uint64_t end;		     /* time of the time-out */
	unsigned int posted;	     /* queues that have a marker */
	unsigned int left;	     /* queues that are not drained yet */
	uint32_t send_end, recv_end; /* index behind the marker */
};

/* ---- markers --------------------------------------------------------------------- */

/* Returns true if an entry was posted: the queue had room. */
static bool mark_send(struct drain *d)
{
	struct xp_qp *qp = d->qp;
	bool room;

	xp_lock(&qp->sq_lock);
	room = xp_ring_room(&qp->sq);
	if (room) {
		/* It is flushed, so that its operation does not matter. */
		xp_wqe_init(xp_ring_next(&qp->sq), d->attr->send_wr_id, XR_WR_SEND,
			    XR_SEND_SIGNALED);
		xp_ring_push(&qp->sq, d->attr->send_wr_id);
		xp_ring_publish(&qp->sq);
		d->send_end = qp->sq.head;
	}
	xp_unlock(&qp->sq_lock);
	return room;
}

static bool mark_recv(struct drain *d)
{
	const struct ibv_recv_wr wr = { .wr_id = d->attr->recv_wr_id };
	struct xp_qp *qp = d->qp;
	bool room;

	xp_lock(&qp->rq_lock);
	room = xp_ring_room(&qp->rq);
	if (room) {
		xp_fill_recv(xp_ring_next(&qp->rq), 0, &wr);
		xp_ring_push(&qp->rq, wr.wr_id);
		xp_ring_publish(&qp->rq);
		d->recv_end = qp->rq.head;
	}
	xp_unlock(&qp->rq_lock);
	return room;
}

/* Posts the markers for which there is room. With an SRQ there is none. */
static void post_markers(struct drain *d)
{
	unsigned int before = d->posted;

	if (d->left & ~d->posted & SEND && mark_send(d))
		d->posted |= SEND;
	if (d->left & ~d->posted & RECV && !d->qp->ibqp.srq && mark_recv(d))
		d->posted |= RECV;
	if (d->posted != before)
		xp_ring_doorbell(d->qp);
}

/* ---- progress -------------------------------------------------------------------- */

static bool passed(const struct xp_ring *r, uint32_t end)
{
	return (int32_t)(__atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) - end) >= 0;
}

/* The daemon had written all completions of the QP before it confirmed the state ERR. */
static bool recv_drained(const struct drain *d)
{
	const struct ibv_qp *ibqp = &d->qp->ibqp;

	if (ibqp->srq)
		return !xp_cq_holds_recv(xp_cq(ibqp->recv_cq), ibqp->qp_num);
	return d->posted & RECV && passed(&d->qp->rq, d->recv_end);
}

static void drain_look(struct drain *d)
{
	post_markers(d);
	if (d->left & SEND && d->posted & SEND && passed(&d->qp->sq, d->send_end))
		d->left &= ~(unsigned int)SEND;
	if (d->left & RECV && recv_drained(d))
		d->left &= ~(unsigned int)RECV;
}

/* Has the program poll the CQs that matter. Returns the completions polled or a negative errno. */
static int poll_cqs(const struct drain *d)
{
	struct ibv_cq *send = d->qp->ibqp.send_cq, *recv = d->qp->ibqp.recv_cq;
	int got = 0, more = 0;

	if (!d->attr->poll)
		return 0;
	if (d->left & SEND)
		got = d->attr->poll(send, d->attr->arg);
	if (got >= 0 && d->left & RECV && (recv != send || !(d->left & SEND)))
		more = d->attr->poll(recv, d->attr->arg);
	if (got < 0 || more < 0)
		return got < 0 ? got : more;
	return got + more;
}

static int wait_until_drained(struct drain *d)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	int got;

	for (;;) {
		drain_look(d);
		if (!d->left)
			return 0;
		got = poll_cqs(d);
		if (got < 0)
			return -got;
		if (got)
			continue;
		drain_look(d);
		if (d->left && xp_clock() >= d->end)
			return -xp_refuse(DRAIN, ETIMEDOUT,
					  "timeout_ms %d: completions of the %s were not polled",
					  d->attr->timeout_ms, queue_names[d->left]);
		if (d->left)
			nanosleep(&nap, NULL);
		xp_check_health(d->qp->ctx);
	}
}

/* ---- functions of the API ---------------------------------------------------------- */

/* If the daemon is gone, polling returns flushed completions just as in state ERR. */
static int to_error(struct ibv_qp *ibqp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err = xp_modify_qp(ibqp, &attr, IBV_QP_STATE);

	return err && xp_health(xp_qp(ibqp)->ctx) == XP_GONE ? 0 : err;
}

static unsigned int queues_of(const struct xp_qp *qp)
{
	unsigned int queues = 0;

	if (qp->ibqp.send_cq && qp->sq.limit)
		queues |= SEND;
	if (qp->ibqp.recv_cq && (qp->ibqp.srq || qp->rq.limit))
		queues |= RECV;
	return queues;
}

static int dv_drain(struct ibv_qp *ibqp, const struct xrocedv_drain_attr *attr, unsigned int queues)
{
	struct drain d = { .qp = xp_qp(ibqp), .attr = attr, .end = UINT64_MAX };
	int err;

	if (!xp_is_ours(ibqp->context))
		return -xp_refuse_foreign(DRAIN);
	if (xp_health(xp_qp(ibqp)->ctx) == XP_FORKED)
		return -xp_refuse_forked(DRAIN);
	if (attr->timeout_ms >= 0)
		d.end = xp_clock() + (uint64_t)attr->timeout_ms * XP_NS_PER_MS;
	err = to_error(ibqp);
	if (err)
		return err;
	d.left = queues & queues_of(d.qp);
	return wait_until_drained(&d);
}

XP_PUBLIC int xrocedv_drain_sq(struct ibv_qp *qp, const struct xrocedv_drain_attr *attr)
{
	return dv_drain(qp, attr, SEND);
}

XP_PUBLIC int xrocedv_drain_rq(struct ibv_qp *qp, const struct xrocedv_drain_attr *attr)
{
	return dv_drain(qp, attr, RECV);
}

XP_PUBLIC int xrocedv_drain_qp(struct ibv_qp *qp, const struct xrocedv_drain_attr *attr)
{
	return dv_drain(qp, attr, SEND | RECV);
}
