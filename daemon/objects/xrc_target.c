// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "xrc_target.h"

#include <stdlib.h>

#include "daemon/clients/programs.h"
#include "daemon/datapath/grace.h"
#include "daemon/io/tables.h"
#include "objects.h"
#include "qp.h"

static struct xt_qp_init target_init(struct xd_client *c, uint32_t domain)
{
	return (struct xt_qp_init){
		.type = XR_QPT_XRC_RECV,
		.xrcd = domain,
		.psns = c->dev->tables->psns,
	};
}

uint64_t xd_target_bytes(void)
{
	const struct xt_qp_init init = { .type = XR_QPT_XRC_RECV };

	return xt_qp_bytes(&init);
}

struct xd_target *xd_target_new(struct xd_client *c, uint32_t domain)
{
	struct xd_target *t = calloc(1, sizeof(*t));
	struct xt_qp_init init = target_init(c, domain);
	int err;

	if (!t)
		return NULL;
	init.owner = t;
	t->domain = domain;
	t->worker = xd_objects_of(c)->next_worker++ % xd_workers_count(c->dev->workers);
	init.flow = xd_client_flow(c, t->worker);
	err = xt_qp_new(xd_worker_engine(c->dev->workers, t->worker), &init, &t->xt);
	if (!err) {
		xd_worker_pause(c->dev->workers, t->worker);
		err = xt_qp_add(t->xt, &init);
		xd_worker_resume(c->dev->workers, t->worker);
	}
	if (err) {
		if (t->xt)
			xt_qp_free(t->xt);
		free(t);
		return NULL;
	}
	t->qpn = xt_qp_info(t->xt)->qpn;
	t->program = xd_program_of(c);
	return t;
}

void xd_target_join(struct xd_qp *qp, struct xd_target *t)
{
	struct xd_device *dev = qp->obj.client->dev;

	xd_worker_pause(dev->workers, t->worker);
	qp->next_handle = t->handles;
	qp->pprev_handle = &t->handles;
	if (qp->next_handle)
		qp->next_handle->pprev_handle = &qp->next_handle;
	__atomic_store_n(&t->handles, qp, __ATOMIC_RELEASE);
	xd_worker_resume_no_wake(dev->workers, t->worker);
	qp->target = t;
	qp->xt = t->xt;
	qp->qpn = t->qpn;
	qp->worker = t->worker;
}

struct xt_qp *xd_target_leave(struct xd_qp *qp, bool *ending)
{
	struct xd_device *dev = qp->obj.client->dev;
	struct xd_target *t = qp->target;
	struct xt_qp *xt = t->xt;

	xd_worker_pause(dev->workers, t->worker);
	__atomic_store_n(qp->pprev_handle, qp->next_handle, __ATOMIC_RELEASE);
	if (qp->next_handle)
		qp->next_handle->pprev_handle = qp->pprev_handle;
	if (t->handles) {
		xt_qp_set_flow(xt, xd_client_flow(t->handles->obj.client, t->worker));
	} else {
		xt_qp_remove(xt);
		*ending = xt_qp_ending(xt);
	}
	xd_worker_resume(dev->workers, t->worker);
	if (t->handles) {
		/* a worker may have the handle, which it found to select rules of faults */
		xd_grace_synchronize(dev->workers);
	} else {
		xd_qp_withdraw(dev, xt);
		xd_qp_retire(qp);
		xd_qp_log_failure(qp);
	}
	qp->xt = NULL;
	qp->target = NULL;
	if (t->handles)
		return NULL;
	xd_net_gid_release(dev->net, &t->gid);
	free(t);
	return xt;
}
