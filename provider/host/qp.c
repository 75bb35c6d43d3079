// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs: create, modify, query, destroy. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xroce/bits.h>

#include "daemon/io/tables.h"
#include "publish.h"
#include "requests.h"

/*
 * A QP that leaves RTS, or is destroyed, sends what was posted before, as hardware does when its
 * doorbell rings. Its window may be closed: it waits for its peer this long at most.
 */
#define POSTED_NS 50000000u

/* ---- create ------------------------------------------------------------------------------- */

static int qp_check_caps(struct xp_host *h, const struct xr_create_qp_req *q)
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

	if (q->type == XR_QPT_GSI)
		return xp_host_refuse(h, -EOPNOTSUPP,
				      "QP 1 is the daemon's; with XROCE_PATH=daemon it is lent");
	if (q->type != XR_QPT_RC && q->type != XR_QPT_UC && q->type != XR_QPT_UD &&
	    q->type != XR_QPT_XRC_SEND && q->type != XR_QPT_XRC_RECV)
		return xp_host_refuse(h, -EOPNOTSUPP, "qp_type %u; RC, UC, UD or XRC", q->type);
	if (q->type == XR_QPT_XRC_RECV)
		return 0;
	for (uint32_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
		if (caps[i].value > caps[i].max)
			return xp_host_refuse(h, -EINVAL, "%s %u, limit %u", caps[i].name,
					      caps[i].value, caps[i].max);
	return 0;
}

/* Rounds up: depths to powers of two, max_inline to what the stride holds. */
static void qp_set_caps(struct xp_qp_object *qp, const struct xr_create_qp_req *q)
{
	uint32_t room;

	if (qp->type == XR_QPT_XRC_RECV)
		return;
	qp->max_send_wr = xr_pow2_roundup(q->max_send_wr);
	qp->max_send_sge = q->max_send_sge ? q->max_send_sge : 1;
	if (!qp->srq && qp->type != XR_QPT_XRC_SEND) {
		qp->max_recv_wr = q->max_recv_wr ? xr_pow2_roundup(q->max_recv_wr) : 0;
		qp->max_recv_sge = q->max_recv_sge ? q->max_recv_sge : 1;
	}
	room = xr_send_stride(qp->max_send_sge, q->max_inline) - sizeof(struct xr_send_wqe);
	qp->max_inline = room < XR_MAX_INLINE ? room : XR_MAX_INLINE;
}

static int qp_alloc_queues(struct xp_qp_object *qp)
{
	if (qp->type == XR_QPT_XRC_RECV)
		return 0;
	qp->sq = xp_queue_new(qp->max_send_wr, xr_send_stride(qp->max_send_sge, qp->max_inline),
			      &qp->sq_size);
	if (qp->max_recv_wr)
		qp->rq = xp_queue_new(qp->max_recv_wr, xr_recv_stride(qp->max_recv_sge),
				      &qp->rq_size);
	return qp->sq && (qp->rq || !qp->max_recv_wr) ? 0 : -ENOMEM;
}

/* Entered. Returns false if all slots are in use. */
static bool find_slot(struct xp_host *h, uint32_t *slot)
{
	for (uint32_t i = 0; i < XP_HOST_QPS; i++) {
		*slot = (h->next_slot + i) % XP_HOST_QPS;
		if (!h->qp_of_slot[*slot]) {
			h->next_slot = *slot + 1;
			return true;
		}
	}
	return false;
}

/* n: 1 or -1. Entered, as others see how many QPs use a queue. */
static void qp_count_parents(struct xp_host *h, const struct xp_qp_object *qp, uint32_t n)
{
	if (qp->pd)
		qp->pd->obj.refs += n;
	if (qp->send_cq)
		qp->send_cq->obj.refs += n;
	if (qp->recv_cq)
		qp->recv_cq->obj.refs += n;
	if (qp->srq)
		qp->srq->obj.refs += n;
	if (qp->xrcd)
		qp->xrcd->obj.refs += n;
	if (qp->send_cq)
		xp_view_change(h, &qp->send_cq->obj);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		xp_view_change(h, &qp->recv_cq->obj);
	if (qp->srq)
		xp_view_change(h, &qp->srq->obj);
}

static int qp_create_in_engine(struct xp_host *h, struct xp_qp_object *qp)
{
	const struct xt_qp_init init = {
		.type = qp->type,
		.pd = qp->pd ? qp->pd->number : 0,
		.xrcd = qp->xrcd ? qp->xrcd->number : 0,
		.send_cq = qp->send_cq ? &qp->send_cq->xt : NULL,
		.recv_cq = qp->recv_cq ? &qp->recv_cq->xt : NULL,
		.srq = qp->srq ? &qp->srq->xt : NULL,
		.sq = qp->sq,
		.rq = qp->rq,
		.sq_depth = qp->max_send_wr,
		.rq_depth = qp->max_recv_wr,
		.sq_stride = xr_send_stride(qp->max_send_sge, qp->max_inline),
		.rq_stride = xr_recv_stride(qp->max_recv_sge),
		.max_send_sge = qp->max_send_sge,
		.max_recv_sge = qp->max_recv_sge,
		.max_inline = qp->max_inline,
		.sq_sig_all = qp->sq_sig_all,
		.ahs = h->ahs,
		.psns = h->tables->psns,
		.reserved_lkey_mem = &h->reserved_lkey_mem,
		.owner = qp,
		.flow = &h->flow,
	};
	int err;

	xp_host_enter(h);
	err = find_slot(h, &qp->slot) ? xt_qp_create(h->engine, &init, &qp->xt) : -ENOMEM;
	if (!err) {
		h->qp_of_slot[qp->slot] = qp->xt;
		qp->qpn = xt_qp_info(qp->xt)->qpn;
		xp_view_add(h, &qp->obj);
		qp_count_parents(h, qp, 1);
	}
	xp_host_leave_quietly(h);
	return err;
}

static int find_target_parent(struct xp_host *h, struct xp_qp_object *qp,
			      const struct xr_create_qp_req *q)
{
	qp->xrcd = xp_object_get(&h->objects, XP_KIND_XRCD, q->xrcd);
	return qp->xrcd ? 0 : xp_host_refuse(h, -ENOENT, "the context has no such XRC domain");
}

static int qp_find_parents(struct xp_host *h, struct xp_qp_object *qp,
			   const struct xr_create_qp_req *q)
{
	if (q->type == XR_QPT_XRC_RECV)
		return find_target_parent(h, qp, q);
	qp->pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);
	qp->send_cq = xp_object_get(&h->objects, XP_KIND_CQ, q->send_cq);
	qp->recv_cq = xp_object_get(&h->objects, XP_KIND_CQ, q->recv_cq);
	qp->srq = xp_object_get(&h->objects, XP_KIND_SRQ, q->srq);
	if (!qp->pd || !qp->send_cq || (q->srq && !qp->srq) ||
	    (!qp->recv_cq && (q->recv_cq || q->type != XR_QPT_XRC_SEND)))
		return xp_host_refuse(h, -ENOENT, "the context has no such PD, CQ or SRQ");
	/* An XRC initiator receives nothing, and an XRC SRQ is for target QPs. */
	if (qp->srq && (q->type == XR_QPT_XRC_SEND || qp->srq->xrcd))
		return xp_host_refuse(h, -EINVAL,
				      "an XRC SRQ is for XRC target QPs, an initiator has none");
	return 0;
}

static void host_free_qp(struct xp_qp_object *qp)
{
	xp_shared_free(qp->sq, qp->sq_size);
	xp_shared_free(qp->rq, qp->rq_size);
	free(qp);
}

static int host_build_qp(struct xp_host *h, struct xp_qp_object *qp,
			 const struct xr_create_qp_req *q)
{
	int err;

	qp->type = q->type;
	qp->sq_sig_all = q->sq_sig_all;
	qp->async = (struct xp_event_source){ .fd = h->env.lent.events, .cookie = q->cookie };
	qp_set_caps(qp, q);
	err = qp_alloc_queues(qp);
	if (!err)
		err = xp_host_add(h, &qp->obj, XP_KIND_QP);
	if (err)
		return err;
	err = qp_create_in_engine(h, qp);
	if (err)
		xp_host_del(h, &qp->obj);
	return err;
}

int xp_do_create_qp(struct xp_host *h, struct xp_call *call)
{
	const struct xr_create_qp_req *q = call->req;
	struct xr_create_qp_rep rep = { 0 };
	int err = qp_check_caps(h, q);
	struct xp_qp_object *qp;

	if (err)
		return err;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	err = qp_find_parents(h, qp, q);
	if (!err)
		err = host_build_qp(h, qp, q);
	if (err) {
		host_free_qp(qp);
		return err;
	}
	rep.handle = qp->obj.handle;
	rep.qpn = qp->qpn;
	rep.slot = qp->slot;
	rep.max_send_wr = qp->max_send_wr;
	rep.max_recv_wr = qp->max_recv_wr;
	rep.max_send_sge = qp->max_send_sge;
	rep.max_recv_sge = qp->max_recv_sge;
	rep.max_inline = qp->max_inline;
	rep.sq = xp_shared_ref(qp->sq, qp->sq_size);
	rep.rq = xp_shared_ref(qp->rq, qp->rq_size);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

/* ---- modify ------------------------------------------------------------------------------- */

/* Sends what was posted, while the QP need not wait for its peer. */
static void send_posted(struct xp_host *h, struct xp_qp_object *qp)
{
	uint64_t end = xp_host_clock() + POSTED_NS;
	struct xt_send_mark mark;

	xp_host_enter(h);
	xt_qp_doorbell(qp->xt, h->now);
	xp_host_round(h);
	xt_qp_mark(qp->xt, &mark);
	while (xt_qp_sends(qp->xt, &mark) && xp_host_clock() < end) {
		xp_host_leave(h);
		sched_yield();
		xp_host_enter(h);
		xp_host_round(h);
	}
	xp_host_leave(h);
}

/* The verdict on packets has the state of the QP. Entered. */
static int qp_mirror(struct xp_host *h, struct xp_qp_object *qp, struct xr_qp_entry *entry)
{
	xt_qp_entry(qp->xt, entry);
	if (entry->state == XR_QPS_RESET)
		return xd_tables_del_qp(h->tables, qp->qpn);
	return xd_tables_set_qp(h->tables, qp->qpn, entry);
}

/* The same for the verdict of the kernel */
static int qp_publish(struct xp_host *h, struct xp_qp_object *qp, const struct xr_qp_entry *entry)
{
	if (entry->state != XR_QPS_RESET)
		return xp_publish_qp(h, &qp->place, qp->qpn, entry, &qp->published);
	qp->published = (struct xr_qp_entry){ 0 };
	xp_unpublish_qp(h, &qp->place);
	return 0;
}

/* The verdict would drop the QP's packets, so move the QP to ERR. Entered. */
static void end_unknown(struct xp_host *h, struct xp_qp_object *qp)
{
	static const struct xr_qp_attr to_error = { .qp_state = XR_QPS_ERR };

	xt_qp_modify(qp->xt, &to_error, IBV_QP_STATE, NULL, 0, h->now);
}

static int qp_change(struct xp_host *h, struct xp_qp_object *qp, const struct xr_modify_qp_req *q,
		     const struct xt_path *path, uint32_t *state)
{
	struct xr_qp_entry entry;
	struct xt_why why = { "" };
	int err;

	xp_host_enter(h);
	err = xt_qp_modify(qp->xt, &q->attr, q->attr_mask, path, h->max_mtu, h->now);
	if (!err && q->attr_mask & IBV_QP_RATE_LIMIT)
		xt_qp_set_burst(qp->xt, q->max_burst);
	if (!err) {
		err = qp_mirror(h, qp, &entry);
		if (err)
			end_unknown(h, qp);
	} else if (xt_qp_modify_check(qp->xt, &q->attr, q->attr_mask, &why)) {
		xp_host_refuse(h, err, "%s", why.text);
	}
	*state = xt_qp_info(qp->xt)->state;
	xp_view_change(h, &qp->obj);
	xp_host_leave(h);
	if (err)
		return err;
	err = qp_publish(h, qp, &entry);
	if (!err)
		return 0;
	xp_host_enter(h);
	end_unknown(h, qp);
	*state = xt_qp_info(qp->xt)->state;
	xp_view_change(h, &qp->obj);
	xp_host_leave(h);
	return err;
}

/* Finds the path of a QP to its peer. A QP of the same context is reached without packets. */
static int qp_find_path(struct xp_host *h, struct xp_qp_object *qp,
			const struct xr_modify_qp_req *q, struct xt_path *path)
{
	struct xt_why why = { "" };
	bool local;
	int err;

	xp_host_enter(h);
	err = xt_qp_modify_check(qp->xt, &q->attr, q->attr_mask, &why);
	xp_host_leave_quietly(h);
	if (err)
		return xp_host_refuse(h, err, "%s", why.text);
	err = xp_path_resolve(h, &q->attr.ah, path, &local, &h->max_mtu);
	if (err)
		return err;
	if (q->attr_mask & IBV_QP_PATH_MTU && 128u << q->attr.path_mtu > h->max_mtu)
		return xp_host_refuse(h, -EINVAL, "path_mtu is %u bytes, the interface permits %u",
				      128u << q->attr.path_mtu, h->max_mtu);
	local = local && q->attr_mask & IBV_QP_DEST_QPN;
	path->loopback = local && xt_qp_by_num(h->shared.qps, q->attr.dest_qp_num);
	if (local && !path->loopback)
		xp_peer_find(h, q->attr.dest_qp_num);
	return 0;
}

int xp_do_modify_qp(struct xp_host *h, struct xp_call *call)
{
	struct xr_modify_qp_req req = { 0 };
	struct xr_modify_qp_rep rep = { 0 };
	struct xt_path path;
	struct xp_qp_object *qp;
	int err = 0;

	memcpy(&req, call->req, call->req_len < sizeof(req) ? call->req_len : sizeof(req));
	qp = xp_object_get(&h->objects, XP_KIND_QP, req.handle);
	if (!qp)
		return -ENOENT;
	if (req.attr_mask & IBV_QP_QKEY && req.attr.qkey & XR_QKEY_PRIVILEGED && geteuid())
		return xp_host_refuse(h, -EPERM, "qkey 0x%x: Q_Keys from 0x%x are for operators",
				      req.attr.qkey, XR_QKEY_PRIVILEGED);
	/* The limit of datagrams is that of the port now. */
	if (qp->type == XR_QPT_UD && req.attr_mask & IBV_QP_STATE &&
	    req.attr.qp_state == XR_QPS_RTR)
		err = xp_host_learn_port(h);
	if (err)
		return err;
	if (req.attr_mask & IBV_QP_AV)
		err = qp_find_path(h, qp, &req, &path);
	else if (req.attr_mask & IBV_QP_STATE && req.attr.qp_state != XR_QPS_RTS)
		send_posted(h, qp); /* the QP may leave RTS */
	if (!err)
		err = qp_change(h, qp, &req, req.attr_mask & IBV_QP_AV ? &path : NULL, &rep.state);
	if (!err)
		xp_reply(call, &rep, sizeof(rep));
	return err;
}

int xp_do_query_qp(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_qp_object *qp = xp_object_get(&h->objects, XP_KIND_QP, q->handle);
	struct xr_query_qp_rep rep = { 0 };

	if (!qp)
		return -ENOENT;
	xp_host_enter(h);
	xt_qp_query(qp->xt, &rep.attr);
	xp_host_leave_quietly(h);
	rep.max_send_wr = qp->max_send_wr;
	rep.max_recv_wr = qp->max_recv_wr;
	rep.max_send_sge = qp->max_send_sge;
	rep.max_recv_sge = qp->max_recv_sge;
	rep.max_inline = qp->max_inline;
	rep.sq_sig_all = qp->sq_sig_all;
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

/* ---- destroy ------------------------------------------------------------------------------ */

int xp_do_destroy_qp(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_qp_object *qp = xp_object_get(&h->objects, XP_KIND_QP, q->handle);
	struct xr_destroy_rep rep = { 0 };

	if (!qp)
		return -ENOENT;
	if (qp->attached)
		return xp_host_refuse(h, -EBUSY, "the QP is attached to %u multicast groups",
				      qp->attached);
	send_posted(h, qp);
	xp_host_enter(h);
	h->qp_of_slot[qp->slot] = NULL;
	xp_view_remove(h, &qp->obj);
	xt_qp_destroy(qp->xt);
	xd_tables_del_qp(h->tables, qp->qpn);
	rep.async_events = xp_event_end(h, &qp->async);
	qp_count_parents(h, qp, -1u);
	xp_host_leave(h);
	xp_unpublish_qp(h, &qp->place);
	xp_host_del(h, &qp->obj);
	host_free_qp(qp);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}
