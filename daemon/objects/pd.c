// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pd.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "objects.h"

static int pd_new_id(struct xd_client *c, struct xd_pd_id **out)
{
	struct xd_pd_id *id = calloc(1, sizeof(*id));
	int err = id ? xd_table_add(&xd_objects_of(c)->pd_ids, id, &id->number) : -ENOMEM;

	if (err)
		free(id);
	else
		*out = id;
	return err;
}

int xd_pd_new(struct xd_client *c, struct xd_pd_id *id, struct xd_pd **out)
{
	struct xd_pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return -ENOMEM;
	err = xd_object_add(c, &pd->obj, XD_PD);
	if (!err && !id)
		err = pd_new_id(c, &id);
	if (err) {
		xd_object_del(&pd->obj);
		free(pd);
		return err;
	}
	id->refs++;
	pd->id = id;
	*out = pd;
	return 0;
}

int xd_do_alloc_pd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_pd *pd;
	int err = xd_pd_new(c, NULL, &pd);

	if (!err)
		XD_REPLY(rep, xr_handle_rep)->handle = pd->obj.handle;
	return err;
}

static void objects_free_pd(struct xd_object *obj)
{
	struct xd_pd *pd = container_of(obj, struct xd_pd, obj);

	if (!--pd->id->refs) {
		xd_table_del(&xd_objects_of(obj->client)->pd_ids, pd->id->number);
		free(pd->id);
	}
	xd_object_del(obj);
	free(pd);
}

int xd_do_dealloc_pd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_pd *pd = xd_object_get(c, XD_PD, q->handle);

	if (!pd)
		return -ENOENT;
	if (pd->obj.refs)
		return xd_refuse(c, -EBUSY, "%u objects use the PD", pd->obj.refs);
	objects_free_pd(&pd->obj);
	return 0;
}

const struct xd_kind_ops xd_pd_ops = {
	.name = "pds",
	.free = objects_free_pd,
	.client_limit = offsetof(struct xd_options, client_max_pd),
	.user_limit = offsetof(struct xd_options, user_max_pd),
	.device_limit = offsetof(struct xd_options, max_pd),
	.bytes = sizeof(struct xd_pd) + sizeof(struct xd_pd_id),
};
