// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs: common reasons for refusal, posting of one WR. */
#include <errno.h>

#include "provider/base/debug.h"
#include "provider/dv/common.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"

int xp_refuse_foreign(const char *verb)
{
	return xp_refuse(verb, EOPNOTSUPP, "the object is not of an xroce device");
}

int xp_refuse_forked(const char *verb)
{
	return xp_refuse(verb, EIO, "%s", XP_FORKED_TEXT);
}

int xp_refuse_pd(const char *verb, const char *what)
{
	return xp_refuse(verb, EPERM, "%s and QP are of different protection domains", what);
}

int xp_refuse_post(const char *verb, const struct xp_qp *qp)
{
	if (!xp_can_send(qp->ibqp.state))
		return xp_refuse(verb, EINVAL, "the QP is in state %d; IBV_QPS_RTS or later",
				 (int)qp->ibqp.state);
	return xp_refuse_full(verb, "max_send_wr", qp->sq.limit);
}

int xp_post_begin(const char *verb, struct ibv_qp *ibqp, const struct ibv_pd *ibpd,
		  const char *what)
{
	struct xp_qp *qp = xp_qp(ibqp);

	if (!xp_pd_same(ibqp->pd, ibpd))
		return xp_refuse_pd(verb, what);
	if (xp_health(xp_qp(ibqp)->ctx) == XP_FORKED)
		return xp_refuse_forked(verb);
	xp_lock(&qp->sq_lock);
	if (xp_can_send(ibqp->state) && xp_ring_room(&qp->sq))
		return 0;
	xp_unlock(&qp->sq_lock);
	return xp_refuse_post(verb, qp);
}

void xp_post_end(struct xp_qp *qp, uint64_t wr_id)
{
	xp_ring_push(&qp->sq, wr_id);
	xp_ring_publish(&qp->sq);
	xp_unlock(&qp->sq_lock);
	xp_ring_doorbell(qp);
}
