// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Changes of queue pairs: MODIFY_QP, and new paths after the network changed. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/clients/request.h"
#include "daemon/clients/unload.h"
#include "daemon/io/tables.h"
#include "daemon/netdev/net.h"
#include "ending.h"
#include "objects.h"
#include "port.h"
#include "posted.h"
#include "qp.h"
#include "resolve.h"
#include "xrc_target.h"

/* Limit for a QP in SQE whose client posts while it moves to RTS */
#define MODIFY_TURNS 1024

/*
 * Updates XDP's entry before the worker can change the QP's state again. Worker paused. The entry
 * of a QP in RESET is deleted after the pause: no worker changes this state.
 */
static int qp_modify_mirror(struct xd_device *dev, struct xd_qp *qp)
{
	struct xr_qp_entry entry;

	if (xt_qp_info(qp->xt)->state == XR_QPS_RESET)
		return 0;
	xt_qp_entry(qp->xt, &entry);
	return xd_tables_set_qp(dev->tables, qp->qpn, &entry);
}

/* After RESET and ERR, peers and READs do not write to the program's memory any more. */
static bool ends_rights(const struct xr_modify_qp_req *q)
{
	return q->attr_mask & IBV_QP_STATE &&
	       (q->attr.qp_state == XR_QPS_RESET || q->attr.qp_state == XR_QPS_ERR);
}

/* Changes the QP in its engine. Its worker is paused. */
static int qp_modify_change(struct xd_device *dev, struct xd_qp *qp,
			    const struct xr_modify_qp_req *q, const struct xt_path *path)
{
	static const struct xr_qp_attr to_error = { .qp_state = XR_QPS_ERR };
	uint64_t now = xd_now();
	int err;

	err = xt_qp_modify(qp->xt, &q->attr, q->attr_mask, path, xd_port_mtu(dev), now);
	if (!err && q->attr_mask & IBV_QP_RATE_LIMIT)
		xt_qp_set_burst(qp->xt, q->max_burst);
	if (!err) {
		err = qp_modify_mirror(dev, qp);
		/* XDP would drop the QP's packets, so move the QP to ERR. */
		if (err)
			xt_qp_modify(qp->xt, &to_error, IBV_QP_STATE, NULL, 0, now);
	}
	qp->ending = !err && ends_rights(q) && xt_qp_ending(qp->xt);
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
static uint32_t qp_modify_dest_of(const struct xd_qp *qp, const struct xr_modify_qp_req *q)
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

/*
 * Changes the QP in its engine. While its program posts work requests, a QP in SQE may need several
 * attempts. *state: of the QP afterwards
 */
static int change_in_turns(struct xd_device *dev, struct xd_qp *qp,
			   const struct xr_modify_qp_req *q, const struct xt_path *path,
			   uint32_t *state)
{
	uint32_t turns = MODIFY_TURNS;
	int err;

	do {
		xd_worker_pause(dev->workers, qp->worker);
		err = qp_modify_change(dev, qp, q, path);
		*state = xt_qp_info(qp->xt)->state;
		/* Other QPs may wait for work that a QP in an error state gives up. */
		if (!err && *state <= XR_QPS_RTS)
			xd_worker_resume_if_due(dev->workers, qp->worker);
		else
			xd_worker_resume(dev->workers, qp->worker);
	} while (err == -EAGAIN && turns--);
	return err;
}

/* The windows were unbound. */
static int qp_modify_reset(struct xd_client *c, struct xd_qp *qp, const struct xr_modify_qp_req *q,
			   const struct xt_path *path, uint32_t *state)
{
	struct xt_qp *sender = xt_loopback_sender(qp->xt);
	int err = change_in_turns(c->dev, qp, q, path, state);

	if (!err) {
		xd_qp_tell_sender(c->dev, sender, qp->xt);
		xd_tables_del_qp(c->dev->tables, qp->qpn);
	}
	return err;
}

/* The address vector names the GID until it is replaced or the QP is destroyed. */
static void hold_gid(struct xd_qp *qp, uint32_t index)
{
	struct xd_gid_hold *hold = qp->target ? &qp->target->gid : &qp->gid;

	xd_net_gid_hold(qp->obj.client->dev->net, hold, index);
}

static int modify_now(struct xd_client *c, const void *request, const struct xt_path *path,
		      struct xd_reply *rep)
{
	const struct xr_modify_qp_req *q = request;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);
	struct xt_path used;
	uint32_t state;
	int err;

	xd_qp_publish_changes(qp);
	if (path) {
		used = xd_path_to_qp(c, path, qp_modify_dest_of(qp, q));
		path = &used;
	}
	err = xd_object_charge(&qp->obj, xt_qp_more_bytes(qp->xt, &q->attr, q->attr_mask));
	if (!err)
		err = xt_qp_prepare(qp->xt, &q->attr, q->attr_mask);
	if (err)
		return err;
	if (q->attr_mask & IBV_QP_STATE && q->attr.qp_state == XR_QPS_RESET)
		err = qp_modify_reset(c, qp, q, path, &state);
	else
		err = change_in_turns(c->dev, qp, q, path, &state);
	if (err == -EAGAIN)
		xd_refuse(c, err, "work requests are posted all the time in SQE");
	else if (err)
		explain_modify(c, qp, q);
	else
		XD_REPLY(rep, xr_modify_qp_rep)->state = state;
	if (!err && path)
		hold_gid(qp, q->attr.ah.sgid_index);
	xd_qp_publish_changes(qp);
	return err;
}

struct modified {
	struct xd_ending ending;
	uint32_t state;
};

static void qp_modify_ended(struct xd_client *c, struct xd_ending *e)
{
	struct modified *m = container_of(e, struct modified, ending);
	struct xd_reply *rep = xd_reply_start();

	XD_REPLY(rep, xr_modify_qp_rep)->state = m->state;
	free(m);
	xd_reply_send(c, 0, rep);
}

/* To RESET or ERR: replies when the writes have ended that were being executed. */
static int modify_and_wait(struct xd_client *c, const struct xr_modify_qp_req *q,
			   struct xd_reply *rep)
{
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);
	struct modified *m = calloc(1, sizeof(*m));
	int err = m ? modify_now(c, q, NULL, rep) : -ENOMEM;

	if (err || !qp->ending) {
		free(m);
		return err;
	}
	m->state = q->attr.qp_state;
	xd_ending_qp(&m->ending, qp->xt, qp->worker);
	m->ending.then = qp_modify_ended;
	xd_ending_wait(c, &m->ending);
	return XD_LATER;
}

static int qp_modify_unloaded(struct xd_object *obj, const void *request, struct xd_reply *rep)
{
	return modify_and_wait(obj->client, request, rep);
}

static int modify_after_posted(struct xd_client *c, const void *request, struct xd_reply *rep)
{
	const struct xr_modify_qp_req *q = request;
	struct xd_qp *qp = xd_object_get(c, XD_QP, q->handle);

	if (q->attr.qp_state == XR_QPS_RESET)
		return xd_after_unload(&qp->obj, q, sizeof(*q), qp_modify_unloaded, rep);
	return ends_rights(q) ? modify_and_wait(c, q, rep) : modify_now(c, q, NULL, rep);
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
	if (q->attr_mask & IBV_QP_STATE && q->attr.qp_state != XR_QPS_RTS &&
	    !(q->attr_mask & IBV_QP_AV)) /* the QP may leave RTS */
		return xd_after_posted(qp, q, sizeof(*q), rep, modify_after_posted);
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

static void qp_modify_refreshed(void *arg, int err, const struct xt_path *path)
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
	used = xd_path_to_qp(qp->obj.client, path, attr.dest_qp_num);
	old = xt_qp_path(qp->xt);
	if (memcmp(old, &used, sizeof(used)))
		xt_qp_set_path(qp->xt, &used);
	xd_worker_resume(dev->workers, qp->worker);
}

void xd_qp_refresh(struct xd_object *obj)
{
	struct xd_qp *qp = container_of(obj, struct xd_qp, obj);
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
	resolve = xd_net_resolve(dev->net, &attr.ah, qp_modify_refreshed, qp);
	if (resolve)
		qp->resolve = resolve;
}
