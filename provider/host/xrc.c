// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* XRC domains. Those of files are shared by processes, so only the daemon has them. */
#include <errno.h>
#include <stdlib.h>

#include "requests.h"

int xp_do_open_xrcd(struct xp_host *h, struct xp_call *call)
{
	const struct xr_open_xrcd_req *q = call->req;
	struct xr_handle_rep rep = { 0 };
	struct xp_xrcd_object *xrcd;
	int err;

	if (q->flags & ~(uint32_t)(XR_XRCDF_FD | XR_XRCDF_CREAT | XR_XRCDF_EXCL) ||
	    call->nfds != (q->flags & XR_XRCDF_FD ? 1 : 0))
		return xp_host_refuse(h, -EINVAL, "flags 0x%x with %u descriptors", q->flags,
				      call->nfds);
	if (q->flags & XR_XRCDF_FD)
		return xp_host_refuse(h, -EOPNOTSUPP,
				      "a direct context shares no XRC domain of a file with other "
				      "processes; with XROCE_PATH=daemon it can");
	xrcd = calloc(1, sizeof(*xrcd));
	err = xrcd ? xp_host_add(h, &xrcd->obj, XP_KIND_XRCD) : -ENOMEM;
	if (err) {
		free(xrcd);
		return err;
	}
	xrcd->number = ++h->next_xrcd;
	xp_host_enter(h);
	xp_view_add(h, &xrcd->obj);
	xp_host_leave_quietly(h);
	rep.handle = xrcd->obj.handle;
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_close_xrcd(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_xrcd_object *xrcd = xp_object_get(&h->objects, XP_KIND_XRCD, q->handle);

	if (!xrcd)
		return -ENOENT;
	if (xrcd->obj.refs)
		return xp_host_refuse(h, -EBUSY, "%u QPs and SRQs use the XRC domain",
				      xrcd->obj.refs);
	xp_host_enter(h);
	xp_view_remove(h, &xrcd->obj);
	xp_host_leave_quietly(h);
	xp_host_del(h, &xrcd->obj);
	free(xrcd);
	return 0;
}

int xp_do_open_qp(struct xp_host *h, struct xp_call *call)
{
	(void)call;
	return xp_host_refuse(h, -EOPNOTSUPP,
			      "a direct context opens no XRC target QPs; with XROCE_PATH=daemon it "
			      "can");
}

/* ---- objects of other contexts ------------------------------------------------------------ */

static int refuse_import(struct xp_host *h)
{
	return xp_host_refuse(h, -EOPNOTSUPP,
			      "a direct context imports no objects; with XROCE_PATH=daemon it can");
}

int xp_do_import_pd(struct xp_host *h, struct xp_call *call)
{
	(void)call;
	return refuse_import(h);
}

int xp_do_import_mr(struct xp_host *h, struct xp_call *call)
{
	(void)call;
	return refuse_import(h);
}

int xp_do_import_dm(struct xp_host *h, struct xp_call *call)
{
	(void)call;
	return refuse_import(h);
}
