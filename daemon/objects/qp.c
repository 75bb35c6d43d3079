// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "qp.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/bits.h>

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/xdp.h"
#include "daemon/gsi/gsi.h"
#include "daemon/netdev/net.h"
#include "ah.h"
#include "cq.h"
#include "drain.h"
#include "objects.h"
#include "pd.h"
#include "port.h"
#include "resolve.h"
#include "ring.h"
#include "srq.h"
#include "xrc.h"

/* Limit for a QP in SQE whose client posts while it moves to RTS */
#define MODIFY_TURNS 1024
/* Visits of a QP that is destroyed with work posted; each sends up to 32 packets. */
#define LAST_VISITS 2

/* ---- create ---------------------------------------------------------------------- */

static int check_caps(struct xd_client *c, const struct xr_create_qp_req *q)
{
	const struct {
		const char *name;
		uint32_t value, max;
	} caps[] = {
		{ "max_send_wr", q->max_send_wr, XR_MAX_WR },
		{ "max_recv_wr", q->max_recv_wr, XR_MAX_WR },
		{ "max_send_sge", q->max_send_sge, XR_MAX_SGE },
		{ "max_recv_sge", q->max_recv_sge, XR_MAX_SGE },
		{ "max_inline_data", q->max_inline, XR_MAX_INLINE },
	};
	uint32_t i;

	if (q->type != XR_QPT_RC && q->type != XR_QPT_UC && q->type != XR_QPT_UD &&
	    q->type != XR_QPT_XRC_SEND && q->type != XR_QPT_GSI)
		return xd_refuse(c, -EOPNOTSUPP, "qp_type %u; RC, UC, UD or XRC", q->type);
	for (i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
		if (caps[i].value > caps[i].max)
			return xd_refuse(c, -EINVAL, "%s %u, limit %u", caps[i].name, caps[i].value,
					 caps[i].max);
	return 0;
}

/*
 * Rounds the requested capabilities up: depths to powers of two, max_inline to what the stride
 * holds.
 */
static void set_caps(struct xd_qp *qp, const struct xr_create_qp_req *q)
{
	uint32_t room;

	qp->max_send_wr = xr_pow2_roundup(q->max_send_wr);
	qp->max_send_sge = q->max_send_sge ? q->max_send_sge : 1;
	if (!qp->srq && q->type != XR_QPT_XRC_SEND) {
		qp->max_recv_wr = q->max_recv_wr ? xr_pow2_roundup(q->max_recv_wr) : 0;
		qp->max_recv_sge = q->max_recv_sge ? q->max_recv_sge : 1;
	}
	room = xr_send_stride(qp->max_send_sge, q->max_inline) - sizeof(struct xr_send_wqe);
	qp->max_inline = room < XR_MAX_INLINE ? room : XR_MAX_INLINE;
}

static uint32_t sq_stride(const struct xd_qp *qp)
{
	return xr_send_stride(qp->max_send_sge, qp->max_inline);
}

static int alloc_queues(struct xd_client *c, struct xd_qp *qp)
{
	int err = xd_ring_alloc(c, qp->max_send_wr, sq_stride(qp), &qp->sq);

	if (!err && qp->max_recv_wr)
		err = xd_ring_alloc(c, qp->max_recv_wr, xr_recv_stride(qp->max_recv_sge), &qp->rq);
	return err;
}

static void use_queues(struct xd_qp *qp)
{
	struct xd_cq *send = qp->send_cq, *recv = qp->recv_cq;

	send->xt.locked = xd_worker_share(&send->worker, qp->worker);
	if (recv)
		recv->xt.locked = xd_worker_share(&recv->worker, qp->worker);
	if (qp->srq)
		qp->srq->xt.locked = xd_worker_share(&qp->srq->worker, qp->worker);
}

static int add_to_engine(struct xd_client *c, struct xd_qp *qp, struct xt_qp *xt,
			 const struct xt_qp_init *init)
{
	int err;

	xd_workers_pause(c->dev->workers);
	err = xd_doorbell_set(c, qp->worker, qp->slot, xt);
	if (!err) {
		err = xt_qp_add(xt, init);
		if (err)
			xd_doorbell_clear(c, qp->worker, qp->slot);
		else
			use_queues(qp);
	}
	xd_workers_resume_no_wake(c->dev->workers);
	if (err) {
		xt_qp_free(xt);
		return err;
	}
	qp->xt = xt;
	qp->qpn = xt_qp_info(xt)->qpn;
	xd_program_of(c); /* allocates now, not in a pause of the worker */
	return 0;
}

static int create_in_engine(struct xd_client *c, struct xd_qp *qp)
{
	struct xt_qp_init init = {
		.type = qp->type,
		.pd = qp->pd->id->number,
		.send_cq = &qp->send_cq->xt,
		.recv_cq = qp->recv_cq ? &qp->recv_cq->xt : NULL,
		.srq = qp->srq ? &qp->srq->xt : NULL,
		.sq = qp->sq.ptr,
		.rq = qp->rq.ptr,
		.sq_depth = qp->max_send_wr,
		.rq_depth = qp->max_recv_wr,
		.sq_stride = sq_stride(qp),
		.rq_stride = xr_recv_stride(qp->max_recv_sge),
		.max_send_sge = qp->max_send_sge,
		.max_recv_sge = qp->max_recv_sge,
		.max_inline = qp->max_inline,
		.sq_sig_all = qp->sq_sig_all,
		.gsi = qp->gsi,
		.psns = xd_xdp_psns(c->dev->xdp),
		.reserved_lkey_mem = &c->objects->memory.xt,
		.owner = qp,
		.flow = xd_client_flow(c, qp->worker),
	};
	struct xt_qp *xt;
	int err;

	err = xd_object_charge(&qp->obj, xt_qp_bytes(&init));
	if (err)
		return err;
	if (init.type == XR_QPT_UD) {
		init.ahs = xd_client_ahs(c);
		if (!init.ahs)
			return -ENOMEM;
	}
	err = xd_doorbell_find(c, qp->worker, &qp->slot);
	if (err)
		return err;
	err = xt_qp_new(xd_worker_engine(c->dev->workers, qp->worker), &init, &xt);
	return err ? err : add_to_engine(c, qp, xt, &init);
}

static int find_parents(struct xd_client *c, struct xd_qp *qp, const struct xr_create_qp_req *q)
{
	qp->pd = xd_object_get(c, XD_PD, q->pd);
	qp->send_cq = xd_object_get(c, XD_CQ, q->send_cq);
	qp->recv_cq = xd_object_get(c, XD_CQ, q->recv_cq);
	qp->srq = xd_object_get(c, XD_SRQ, q->srq);
	if (!qp->pd || !qp->send_cq || (q->srq && !qp->srq) ||
	    (!qp->recv_cq && (q->recv_cq || q->type != XR_QPT_XRC_SEND)))
		return xd_refuse(c, -ENOENT, "the client has no such PD, CQ or SRQ");
	/* An XRC initiator receives nothing, and an XRC SRQ is for target QPs. */
	if (qp->srq && (q->type == XR_QPT_XRC_SEND || qp->srq->xrcd))
		return xd_refuse(c, -EINVAL,
				 "an XRC SRQ is for XRC target QPs, an initiator has none");
	return 0;
}

/* Takes QP 1 from the daemon; xd_qp_free() gives it back. */
static int borrow_gsi(struct xd_client *c, struct xd_qp *qp)
{
	int err = xd_gsi_lend(c->dev->gsi);

	if (!err && xt_qp_by_num(c->dev->shared.qps, XR_GSI_QPN))
		err = -EBUSY;
	if (err)
		xd_refuse(c, err, "QP 1 is used by another program or by rdma_cm ids");
	qp->gsi = !err;
	return err;
}

/* The worker that a completion vector names; otherwise workers take turns. */
static uint32_t choose_worker(struct xd_client *c, const struct xd_qp *qp)
{
	if (qp->recv_cq && qp->recv_cq->vector)
		return qp->recv_cq->vector;
	if (qp->send_cq->vector)
		return qp->send_cq->vector;
	return xd_objects_of(c)->next_worker++ % xd_workers_count(c->dev->workers);
}

static int build_qp(struct xd_client *c, struct xd_qp *qp, const struct xr_create_qp_req *q)
{
	int err = find_parents(c, qp, q);

	if (!err)
		err = xd_object_add(c, &qp->obj, XD_QP);
	if (err)
		return err;
	qp->pd->obj.refs++;
	qp->send_cq->obj.refs++;
	if (qp->recv_cq)
		qp->recv_cq->obj.refs++;
	if (qp->srq)
		qp->srq->obj.refs++;
	if (q->type == XR_QPT_GSI)
		err = borrow_gsi(c, qp);
	if (err)
		return err;
	qp->type = qp->gsi ? XR_QPT_UD : q->type;
	qp->sq_sig_all = !!q->sq_sig_all;
	qp->worker = choose_worker(c, qp);
	qp->async = (struct xd_event_source){ .socket = &c->events.async, .cookie = q->cookie };
	set_caps(qp, q);
	err = alloc_queues(c, qp);
	return err ? err : create_in_engine(c, qp);
}

void xd_qp_reply(const struct xd_qp *qp, struct xd_reply *rep)
{
	struct xr_create_qp_rep *r = XD_REPLY(rep, xr_create_qp_rep);

	r->handle = qp->obj.handle;
	r->qpn = qp->qpn;
	r->slot = qp->slot;
	r->worker = qp->worker;
	r->max_send_wr = qp->max_send_wr;
	r->max_recv_wr = qp->max_recv_wr;
	r->max_send_sge = qp->max_send_sge;
	r->max_recv_sge = qp->max_recv_sge;
	r->max_inline = qp->max_inline;
	xd_shm_ref(&qp->sq, &r->sq, rep);
	xd_shm_ref(&qp->rq, &r->rq, rep);
}

int xd_do_create_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_create_qp_req *q = req->body;
	struct xd_qp *qp;
	int err;

	if (q->type == XR_QPT_XRC_RECV)
		return xd_target_create(c, q, rep);
	err = check_caps(c, q);
	if (!err && q->type == XR_QPT_GSI)
		/* The owner of QP 1 acts for the host, as does that of a management Q_Key. */
		err = c->identity.is_operator ? 0 : xd_refuse(c, -EPERM, "QP 1 is for operators");
	if (err)
		return err;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	err = build_qp(c, qp, q);
	if (err) {
		xd_qp_free(qp);
		return err;
	}
	xd_qp_reply(qp, rep);
	xd_qp_publish_created(qp);
	return 0;
}

/* ---- modify ---------------------------------------------------------------------- */

/*
 * Updates XDP's entry before the worker can change the QP's state again. Worker paused. The entry
 * of a QP in RESET is deleted after the pause: no worker changes this state.
 */
static int mirror(struct xd_device *dev, struct xd_qp *qp)
{
	struct xr_qp_entry entry;

	if (xt_qp_info(qp->xt)->state == XR_QPS_RESET)
		return 0;
	xt_qp_entry(qp->xt, &entry);
	return xd_xdp_qp_set(dev->xdp, qp->qpn, &entry);
}

/*
 * Unbinding a window takes a system call, and a QP may have a million windows, so workers run in
 * between. The QP binds no windows meanwhile.
 */
static void unbind_windows(struct xd_client *c, struct xd_qp *qp)
{
	uint32_t windows = xd_object_count(c, XD_MW), turns = windows / XD_UNBIND_AT_ONCE;
	bool more = true;

	if (!windows)
		return;
	xd_worker_pause(c->dev->workers, qp->worker);
	xt_qp_refuse_windows(qp->xt);
	xd_worker_resume_no_wake(c->dev->workers, qp->worker);
	while (more && turns--) {
		xd_workers_pause(c->dev->workers);
		more = xt_qp_unbind(qp->xt, XD_UNBIND_AT_ONCE);
		xd_workers_resume_no_wake(c->dev->workers);
	}
}

/* Changes the QP in its engine. Its worker is paused. */
static int change(struct xd_device *dev, struct xd_qp *qp, const struct xr_modify_qp_req *q,
		  const struct xt_path *path)
{
	static const struct xr_qp_attr to_error = { .qp_state = XR_QPS_ERR };
	uint64_t now = xd_now();
	int err;

	err = xt_qp_modify(qp->xt, &q->attr, q->attr_mask, path, xd_port_mtu(dev), now);
	if (!err && q->attr_mask & IBV_QP_RATE_LIMIT)
		xt_qp_set_burst(qp->xt, q->max_burst);
	if (!err) {
		err = mirror(dev, qp);
		/* XDP would drop the QP's packets, so move the QP to ERR. */
		if (err)
			xt_qp_modify(qp->xt, &to_error, IBV_QP_STATE, NULL, 0, now);
	}
	return err;
}

/* Explains why the QP was not changed. */
static void explain_modify(struct xd_client *c, const struct xd_qp *qp,
			   const struct xr_modify_qp_req *q)
{
	struct xt_why why;
	int err;

	xd_worker_pause(c->dev->workers, qp->worker);
	err = xt_qp_modify_check(qp->xt, &q->attr, q->attr_mask, &why);
	xd_worker_resume_no_wake(c->dev->workers, qp->worker);
	if (err)
		xd_refuse(c, err, "%s", why.text);
}

/* Returns the QP to which a modified one is connected. */
static uint32_t dest_of(const struct xd_qp *qp, const struct xr_modify_qp_req *q)
{
	struct xd_workers *workers = qp->obj.client->dev->workers;
	struct xr_qp_attr attr;

	if (q->attr_mask & IBV_QP_DEST_QPN)
		return q->attr.dest_qp_num;
	xd_worker_pause(workers, qp->worker);
	xt_qp_query(qp->xt, &attr);
	xd_worker_resume_no_wake(workers, qp->worker);
	return attr.dest_qp_num;
}

static int modify_now(struct xd_client *c, const void *request, const struct xt_path *path,
		      struct xd_reply *rep)
{
	const struct xr_modify_qp_req *q = request;
	bool reset = q->attr_mask & IBV_QP_STATE && q->attr.qp_state == XR_QPS_RESET;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);
	struct xd_workers *workers = c->dev->workers;
	uint32_t state, turns = MODIFY_TURNS;
	struct xt_path used;
	int err;

	xd_qp_publish_changes(qp);
	if (path)
		used = xd_path_for_faults(c, path, dest_of(qp, q));

	err = xd_object_charge(&qp->obj, xt_qp_more_bytes(qp->xt, &q->attr, q->attr_mask));
	if (!err)
		err = xt_qp_prepare(qp->xt, &q->attr, q->attr_mask);
	if (err)
		return err;
	/* RESET unbinds windows, which other workers use. */
	if (reset) {
		unbind_windows(c, qp);
		xd_workers_pause(workers);
	}
	do {
		xd_worker_pause(workers, qp->worker);
		err = change(c->dev, qp, q, path ? &used : NULL);
		state = xt_qp_info(qp->xt)->state;
		/* Other QPs may wait for work that a QP in an error state gives up. */
		if (!err && state <= XR_QPS_RTS)
			xd_worker_resume_if_due(workers, qp->worker);
		else
			xd_worker_resume(workers, qp->worker);
	} while (err == -EAGAIN && turns--);
	if (err == -EAGAIN)
		xd_refuse(c, err, "work requests are posted all the time in SQE");
	else if (err)
		explain_modify(c, qp, q);
	if (reset)
		xd_workers_resume(workers);
	if (reset && !err)
		xd_xdp_qp_del(c->dev->xdp, qp->qpn);
	if (!err)
		XD_REPLY(rep, xr_modify_qp_rep)->state = state;
	xd_qp_publish_changes(qp);
	return err;
}

int xd_do_modify_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_modify_qp_req *q = req->body;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);
	struct xt_why why;
	int err;

	if (!qp)
		return -ENOENT;
	/* Such Q_Keys are for management, as in the kernel's verbs. */
	if (q->attr_mask & IBV_QP_QKEY && q->attr.qkey & XR_QKEY_PRIVILEGED &&
	    !c->identity.is_operator)
		return xd_refuse(c, -EPERM, "qkey 0x%x: Q_Keys from 0x%x are for operators",
				 q->attr.qkey, XR_QKEY_PRIVILEGED);
	if (q->attr_mask & IBV_QP_QKEY && qp->gsi && q->attr.qkey != XR_GSI_QKEY)
		return xd_refuse(c, -EINVAL, "qkey 0x%x, that of QP 1 is 0x%x", q->attr.qkey,
				 XR_GSI_QKEY);
	if (!(q->attr_mask & IBV_QP_AV))
		return modify_now(c, q, NULL, rep);
	xd_worker_pause(c->dev->workers, qp->worker);
	err = xt_qp_modify_check(qp->xt, &q->attr, q->attr_mask, &why);
	xd_worker_resume_no_wake(c->dev->workers, qp->worker);
	if (err)
		return xd_refuse(c, err, "%s", why.text);
	if (q->attr_mask & IBV_QP_PATH_MTU && 128u << q->attr.path_mtu > xd_port_mtu(c->dev))
		return xd_refuse(c, -EINVAL, "path_mtu is %u bytes, the interface permits %u",
				 128u << q->attr.path_mtu, xd_port_mtu(c->dev));
	return xd_after_resolve(c, &q->attr.ah, q, sizeof(*q), modify_now);
}

/* ---- the network changed --------------------------------------------------------- */

static void refreshed(void *arg, int err, const struct xt_path *path)
{
	struct xd_qp *qp = arg;
	struct xd_device *dev = qp->obj.client->dev;
	const struct xt_path *old;
	struct xr_qp_attr attr;
	struct xt_path used;

	qp->resolve = NULL;
	/* If the next hop is not found, keep the old path: the transport retries. */
	if (err)
		return;
	xd_worker_pause(dev->workers, qp->worker);
	xt_qp_query(qp->xt, &attr);
	used = xd_path_for_faults(qp->obj.client, path, attr.dest_qp_num);
	old = xt_qp_path(qp->xt);
	/* Ignore the path if the GID index now has another address. */
	if (!memcmp(&old->sgid, &used.sgid, sizeof(used.sgid)) && memcmp(old, &used, sizeof(used)))
		xt_qp_set_path(qp->xt, &used);
	xd_worker_resume(dev->workers, qp->worker);
}

void xd_qp_refresh_path(struct xd_qp *qp)
{
	struct xd_device *dev = qp->obj.client->dev;
	struct xd_resolve *resolve;
	struct xr_qp_attr attr;

	xd_worker_pause(dev->workers, qp->worker);
	xt_qp_query(qp->xt, &attr);
	if (qp->type == XR_QPT_UD && attr.qp_state >= XR_QPS_INIT)
		xt_qp_set_mtu(qp->xt, xd_port_mtu(dev));
	xd_worker_resume(dev->workers, qp->worker);
	/* Datagrams use the paths of address handles. */
	if (qp->type == XR_QPT_UD || attr.qp_state < XR_QPS_RTR || attr.qp_state > XR_QPS_SQE)
		return;
	if (qp->resolve)
		xd_net_resolve_cancel(qp->resolve);
	qp->resolve = NULL;
	resolve = xd_net_resolve(dev->net, &attr.ah, refreshed, qp);
	if (resolve)
		qp->resolve = resolve;
}

/* ---- query and destroy ----------------------------------------------------------- */

int xd_do_query_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);
	struct xr_query_qp_rep *r;

	if (!qp)
		return -ENOENT;
	r = XD_REPLY(rep, xr_query_qp_rep);
	xd_worker_pause(c->dev->workers, qp->worker);
	xt_qp_query(qp->xt, &r->attr);
	xd_worker_resume_no_wake(c->dev->workers, qp->worker);
	r->max_send_wr = qp->max_send_wr;
	r->max_recv_wr = qp->max_recv_wr;
	r->max_send_sge = qp->max_send_sge;
	r->max_recv_sge = qp->max_recv_sge;
	r->max_inline = qp->max_inline;
	r->sq_sig_all = qp->sq_sig_all;
	return 0;
}

/*
 * Sends messages that were posted just before the QP is destroyed. Hardware fetches work requests
 * immediately, so programs that need no response, like ofi_rxd of libfabric with its last ACK, rely
 * on that.
 */
static void send_last(struct xd_client *c, struct xd_qp *qp)
{
	int i;

	for (i = 0; i < LAST_VISITS && xd_qp_unreliable(qp); i++) {
		xd_workers_pause(c->dev->workers);
		xt_qp_catch_up(qp->xt, xd_now(), 1);
		xd_workers_resume(c->dev->workers);
	}
}

/* Destroys the engine's QP. No events are raised for it afterwards. */
static void destroy_in_engine(struct xd_client *c, struct xd_qp *qp)
{
	if (!qp->xt)
		return;
	xd_qp_publish_destroyed(qp);
	xd_mcast_leave(qp);
	if (qp->resolve)
		xd_net_resolve_cancel(qp->resolve);
	if (qp->target) {
		xd_target_leave(qp);
		return;
	}
	unbind_windows(c, qp);
	send_last(c, qp);
	xd_workers_pause(c->dev->workers);
	xd_doorbell_clear(c, qp->worker, qp->slot);
	xt_qp_remove(qp->xt);
	xd_workers_resume(c->dev->workers);
	xd_qp_retire(qp);
	xd_qp_log_failure(qp);
	xt_qp_free(qp->xt);
	qp->xt = NULL;
	/* The QPN cannot be in use again: only the control thread allocates QPNs. */
	xd_xdp_qp_del(c->dev->xdp, qp->qpn);
}

static void destroy(struct xd_client *c, struct xd_qp *qp, struct xd_reply *rep)
{
	struct xr_destroy_rep *r;

	destroy_in_engine(c, qp);
	r = XD_REPLY(rep, xr_destroy_rep);
	r->async_events = xd_event_end(&qp->async);
	xd_qp_free(qp);
}

struct destroy_job {
	struct xd_drain drain;
	uint32_t qp; /* handle */
};

static void drained(struct xd_client_job *job)
{
	struct destroy_job *j = container_of(job, struct destroy_job, drain.job);
	struct xd_client *c = job->client;
	struct xd_reply *rep;

	/* if the client is ending, its QPs are freed already */
	if (!c->ending) {
		rep = xd_reply_start();
		destroy(c, xd_object_get(c, XD_QP, j->qp), rep);
		xd_reply_send(c, 0, rep);
	}
	free(j);
}

/* Returns false if the QP has nothing to send, or without memory: it can be destroyed now. */
static bool drain_first(struct xd_client *c, const struct xd_qp *qp)
{
	struct destroy_job *j = calloc(1, sizeof(*j));

	if (!j)
		return false;
	j->drain.job = (struct xd_client_job){ .run = xd_drain_run, .done = drained };
	j->qp = qp->obj.handle;
	xd_drain_add(&j->drain, qp);
	if (!j->drain.n) {
		free(j);
		return false;
	}
	xd_client_add_job(c, &j->drain.job);
	return true;
}

int xd_do_destroy_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);

	if (!qp)
		return -ENOENT;
	if (qp->attached)
		return xd_refuse(c, -EBUSY, "the QP is attached to %u multicast groups",
				 qp->attached);
	if (qp->xt && xd_qp_unreliable(qp)) {
		send_last(c, qp);
		if (drain_first(c, qp))
			return XD_LATER;
	}
	destroy(c, qp, rep);
	return 0;
}

void xd_qp_free(struct xd_qp *qp)
{
	struct xd_client *c = qp->obj.client;

	if (c) {
		destroy_in_engine(c, qp);
		if (qp->gsi)
			xd_gsi_take_back(c->dev->gsi);
		xd_event_end(&qp->async);
		xd_shm_free(c, &qp->sq);
		xd_shm_free(c, &qp->rq);
		if (qp->pd)
			qp->pd->obj.refs--;
		if (qp->send_cq)
			qp->send_cq->obj.refs--;
		if (qp->recv_cq)
			qp->recv_cq->obj.refs--;
		if (qp->xrcd)
			qp->xrcd->obj.refs--;
		if (qp->srq)
			qp->srq->obj.refs--;
		xd_object_del(&qp->obj);
	}
	free(qp);
}

static void free_qp(struct xd_object *obj)
{
	xd_qp_free(container_of(obj, struct xd_qp, obj));
}

const struct xd_kind_ops xd_qp_ops = {
	.name = "qps",
	.list = XR_SHOW_QPS,
	.show = xd_qp_show,
	.detail_list = XR_SHOW_QP_DETAILS,
	.show_detail = xd_qp_show_detail,
	.free = free_qp,
	.client_limit = offsetof(struct xd_options, client_max_qp),
	.user_limit = offsetof(struct xd_options, user_max_qp),
	.device_limit = offsetof(struct xd_options, max_qp),
	.bytes = sizeof(struct xd_qp),
};
