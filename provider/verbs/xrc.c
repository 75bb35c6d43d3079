// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* XRC domains and target QPs. */
#include <fcntl.h>
#include <stdlib.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/child.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"
#include "provider/verbs/xrc.h"

struct ibv_xrcd *xp_open_xrcd(struct ibv_context *ibctx, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct xr_open_xrcd_req req = { 0 };
	struct xr_handle_rep rep;
	struct xp_call call = {
		.type = XR_MSG_OPEN_XRCD,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_xrcd *xrcd;
	int err;

	if (attr->comp_mask & ~mask)
		return xp_null(xp_refuse("ibv_open_xrcd", EOPNOTSUPP, "comp_mask 0x%x, known 0x%x",
					 attr->comp_mask, mask));
	if (attr->comp_mask != mask)
		return xp_null(xp_refuse("ibv_open_xrcd", EINVAL, "comp_mask 0x%x, needs 0x%x",
					 attr->comp_mask, mask));
	req.flags = (attr->oflags & O_CREAT ? XR_XRCDF_CREAT : 0) |
		    (attr->oflags & O_EXCL ? XR_XRCDF_EXCL : 0);
	if (attr->fd != -1) {
		req.flags |= XR_XRCDF_FD;
		call.fds = &attr->fd;
		call.nfds = 1;
	}
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return xp_null(xp_refuse_memory("ibv_open_xrcd"));
	xrcd->ctx = xp_ctx(xp_process_context(ibctx));
	err = xp_call(xrcd->ctx, &call);
	if (err) {
		free(xrcd);
		return xp_null(err);
	}
	xrcd->ibxrcd.context = xrcd->ctx->shown;
	xrcd->handle = rep.handle;
	return &xrcd->ibxrcd;
}

int xp_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct xp_xrcd *xrcd = xp_xrcd(ibxrcd);
	int err = xp_release(xrcd->ctx, XR_MSG_CLOSE_XRCD, xrcd->handle, NULL);

	if (!err)
		free(xrcd);
	return -err;
}

struct ibv_qp *xp_create_target_qp(struct xp_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct xr_create_qp_req req = { .type = IBV_QPT_XRC_RECV };
	const struct xp_qp_request request = {
		.type = XR_MSG_CREATE_QP,
		.req = &req,
		.req_len = sizeof(req),
		.cookie = &req.cookie,
	};

	/* The daemon needs no PD, but librdmacm takes it from the QP. */
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;

	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD))
		return xp_null(xp_refuse("ibv_create_qp_ex", EOPNOTSUPP,
					 "comp_mask 0x%x of an XRC target QP, known 0x%x",
					 attr->comp_mask,
					 IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD));
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !xp_is_of(attr->xrcd, xp_xrcd, ctx))
		return xp_null(xp_refuse("ibv_create_qp_ex", EINVAL,
					 "xrcd is missing or of another context"));
	req.xrcd = xp_xrcd(attr->xrcd)->handle;
	return xp_qp_create(ctx, pd, (struct ibv_qp_init_attr *)attr, &request);
}

#define OPEN_MASK                                                                                  \
	(IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_CONTEXT |                 \
	 IBV_QP_OPEN_ATTR_TYPE)
#define OPEN_REQUIRED (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD)

struct ibv_qp *xp_open_qp(struct ibv_context *ibctx, struct ibv_qp_open_attr *attr)
{
	struct xp_context *ctx = xp_ctx(xp_process_context(ibctx));
	uint32_t mask = attr->comp_mask;
	struct ibv_qp_init_attr init = {
		.qp_context = mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct xr_open_qp_req req = { .qpn = attr->qp_num };
	const struct xp_qp_request request = {
		.type = XR_MSG_OPEN_QP,
		.req = &req,
		.req_len = sizeof(req),
		.cookie = &req.cookie,
	};

	if (mask & ~OPEN_MASK)
		return xp_null(xp_refuse("ibv_open_qp", EOPNOTSUPP, "comp_mask 0x%x, known 0x%x",
					 mask, OPEN_MASK));
	if ((mask & OPEN_REQUIRED) != OPEN_REQUIRED || !xp_is_of(attr->xrcd, xp_xrcd, ctx) ||
	    (mask & IBV_QP_OPEN_ATTR_TYPE && attr->qp_type != IBV_QPT_XRC_RECV))
		return xp_null(
			xp_refuse("ibv_open_qp", EINVAL,
				  "qp_num or xrcd is missing, xrcd is of another context, or "
				  "qp_type is not IBV_QPT_XRC_RECV"));
	req.xrcd = xp_xrcd(attr->xrcd)->handle;
	return xp_qp_create(ctx, NULL, &init, &request);
}
