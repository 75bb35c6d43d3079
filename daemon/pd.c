// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "objects.h"

static int reply_handle(struct xd_reply *rep, const struct xd_object *obj)
{
	XD_REPLY(rep, xr_handle_rep)->handle = obj->handle;
	return 0;
}

int xd_do_alloc_pd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return -ENOMEM;
	err = xd_object_add(c, &pd->obj, XD_PD);
	if (!err)
		err = xd_table_add(&c->server->pds, pd, &pd->d.number);
	if (err) {
		xd_pd_free(pd);
		return err;
	}
	return reply_handle(rep, &pd->obj);
}

int xd_do_dealloc_pd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->handle);

	if (!pd)
		return -ENOENT;
	if (pd->obj.refs)
		return -EBUSY;
	xd_pd_free(pd);
	return 0;
}

void xd_pd_free(struct xd_pd *pd)
{
	if (pd->d.number)
		xd_table_del(&pd->obj.client->server->pds, pd->d.number);
	xd_object_del(&pd->obj);
	free(pd);
}
