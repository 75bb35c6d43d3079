// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory windows. Either type is bound by a WR; ibv_bind_mw(), for type 1, posts one. */
#include <stdlib.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/mw.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"
#include "provider/verbs/request.h"

struct ibv_mw *xp_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct xr_alloc_mw_req req = { .pd = xp_own_pd(ibpd)->ibpd.handle, .type = type };
	struct xr_alloc_mw_rep rep;
	struct xp_mw *mw = calloc(1, sizeof(*mw));
	int err;

	if (!mw)
		return xp_null(xp_refuse_memory("ibv_alloc_mw"));
	err = xp_request(xp_own_pd(ibpd)->ctx, XR_MSG_ALLOC_MW, &req, sizeof(req), &rep,
			 sizeof(rep));
	if (err) {
		free(mw);
		return xp_null(err);
	}
	mw->ctx = xp_pd(ibpd)->ctx;
	mw->ibmw.context = ibpd->context;
	mw->ibmw.pd = ibpd;
	mw->ibmw.type = type;
	mw->ibmw.handle = rep.handle;
	mw->ibmw.rkey = rep.rkey;
	return &mw->ibmw;
}

int xp_dealloc_mw(struct ibv_mw *ibmw)
{
	int err = xp_release(xp_mw(ibmw)->ctx, XR_MSG_DEALLOC_MW, ibmw->handle, NULL);

	if (err)
		return -err;
	free(ibmw);
	return 0;
}

/* The window gets its new key when the WR is posted, as in other drivers. */
int xp_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *ibmw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {
			.mw = ibmw,
			.rkey = ibv_inc_rkey(ibmw->rkey),
			.bind_info = bind->bind_info,
		},
	};
	int err;

	if (!xp_pd_same(ibqp->pd, ibmw->pd))
		return -xp_refuse("ibv_bind_mw", EPERM, "window and QP have different PDs");
	err = xp_post_bind(ibqp, &wr);
	if (!err)
		ibmw->rkey = wr.bind_mw.rkey;
	return err;
}
