// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The QPs of programs that ids name. */
#include <errno.h>

#include "daemon/clients/refuse.h"
#include "daemon/io/io.h"
#include "daemon/objects/posted.h"
#include "daemon/objects/qp.h"
#include "daemon/objects/xrc_target.h"
#include "id.h"

static bool owned_by(const struct xt_qp_info *info, const struct xd_user *user)
{
	const struct xd_target *target = info->owner;
	const struct xd_qp *qp = info->owner;

	if (!info->owner)
		return false;
	if (info->type != XR_QPT_XRC_RECV)
		return qp->obj.client->user == user;
	for (qp = target->handles; qp; qp = qp->next_handle) {
		if (qp->obj.client->user == user)
			return true;
	}
	return false;
}

/* The QPs of direct programs are known to these only. Their QPNs are those of slots. */
static bool may_be_direct(const struct xd_client *c, uint32_t number)
{
	const struct xd_client *borrower;
	struct xd_slots_state slots;
	uint32_t slot;

	xd_io_slots(c->dev->io, &slots);
	if (!xd_slot_of_qpn(&slots, number, &slot))
		return false;
	borrower = c->clients->borrower[slot];
	return borrower && borrower->user == c->user;
}

/* QPNs are random. */
struct xd_cm_id *xd_cm_id_by_qpn(const struct xd_rdma_cm *cm, uint32_t number)
{
	struct xc_node *n = xc_table_first(&cm->by_qpn, number);

	return n ? container_of(n, struct xd_cm_id, by_qpn) : NULL;
}

void xd_cm_id_set_qp(struct xd_cm_id *id, uint32_t number)
{
	struct xd_cm_id *other = xd_cm_id_by_qpn(id->cm, number);

	if (other)
		xc_table_del(&id->cm->by_qpn, &other->by_qpn);
	xc_table_del(&id->cm->by_qpn, &id->by_qpn);
	id->qp.number = number;
	xc_table_add(&id->cm->by_qpn, &id->by_qpn, number);
}

int xd_cm_take_qp(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	uint32_t number = param->qp_num & XR_QPN_MASK;
	struct xt_qp *qp = xt_qp_by_num(id->cm->dev->shared.qps, number);

	if (!(qp && owned_by(xt_qp_info(qp), id->obj.client->user)) &&
	    !may_be_direct(id->obj.client, number))
		return xd_refuse(id->obj.client, -EINVAL,
				 "qp_num %u is not a QP of this device that the user owns", number);
	xd_cm_id_set_qp(id, number);
	id->qp.srq = param->srq;
	return 0;
}

void xd_cm_send_posted(struct xd_cm_id *id)
{
	const struct xt_qp *qp = xt_qp_by_num(id->cm->dev->shared.qps, id->qp.number);
	const struct xt_qp_info *info = qp ? xt_qp_info(qp) : NULL;

	/* the target of XRC sends nothing */
	if (info && info->type != XR_QPT_XRC_RECV && owned_by(info, id->obj.client->user))
		xd_qp_send_last(id->obj.client, info->owner);
}
