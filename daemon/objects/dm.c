// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "dm.h"

#include <errno.h>
#include <stdlib.h>

#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "objects.h"

#define PAGE 4096u

/* Bytes that count for the client's limit */
static uint64_t dm_pages_of(const struct xd_dm *dm)
{
	return (uint64_t)dm->piece.pages * PAGE;
}

int xd_do_alloc_dm(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_alloc_dm_req *q = req->body;
	uint64_t most = c->dev->opt->client_max_dm, bytes;
	struct xr_alloc_dm_rep *r;
	struct xd_dm *dm;
	int err;

	if (!q->length || q->log_align > XR_DM_LOG_ALIGN_MAX)
		return xd_refuse(c, -EINVAL, "length %llu, log_align_req %u, at most %u",
				 (unsigned long long)q->length, q->log_align, XR_DM_LOG_ALIGN_MAX);
	bytes = (q->length + PAGE - 1) & -(uint64_t)PAGE;
	if (q->length > most || bytes > most || c->objects->dm_bytes > most - bytes)
		return xd_option_reached(c, -ENOMEM, offsetof(struct xd_options, client_max_dm),
					 most);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return -ENOMEM;
	err = xd_object_add(c, &dm->obj, XD_DM);
	if (!err)
		err = xd_shm_alloc_dm(c, q->length, &dm->piece);
	if (err) {
		xd_object_del(&dm->obj);
		free(dm);
		return err;
	}
	dm->length = q->length;
	c->objects->dm_bytes += dm_pages_of(dm);
	r = XD_REPLY(rep, xr_alloc_dm_rep);
	r->handle = dm->obj.handle;
	xd_shm_ref(&dm->piece, &r->memory, rep);
	return 0;
}

static void free_dm(struct xd_object *obj)
{
	struct xd_dm *dm = container_of(obj, struct xd_dm, obj);
	struct xd_client *c = obj->client;

	c->objects->dm_bytes -= dm_pages_of(dm);
	xd_shm_free(c, &dm->piece);
	xd_object_del(obj);
	free(dm);
}

int xd_do_free_dm(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_dm *dm = xd_object_get(c, XD_DM, q->handle);

	if (!dm)
		return -ENOENT;
	if (dm->obj.refs)
		return xd_refuse(c, -EBUSY, "%u regions use the device memory", dm->obj.refs);
	free_dm(&dm->obj);
	return 0;
}

static void put_dm(struct json *j, const struct xr_view_dm *r, const struct xd_client *c,
		   const char *path)
{
	json_number(j, "dm", r->dm);
	json_number(j, "client", c->id);
	json_number(j, "length", r->length);
	json_number(j, "mrs", r->mrs);
	json_text(j, "path", path);
}

static void show_dm(struct json *j, struct xd_object *obj)
{
	const struct xr_view_dm r = {
		.dm = obj->handle,
		.mrs = obj->refs,
		.length = container_of(obj, struct xd_dm, obj)->length,
	};

	put_dm(j, &r, obj->client, "daemon");
}

static void show_dm_view(struct json *j, const void *record, const struct xd_client *c, bool detail)
{
	(void)detail;
	put_dm(j, record, c, "direct");
}

/* Device memory is limited by its size. Its number has the limits of regions. */
const struct xd_kind_ops xd_dm_ops = {
	.name = "dms",
	.list = XR_SHOW_DMS,
	.show = show_dm,
	.show_view = show_dm_view,
	.free = free_dm,
	.client_limit = offsetof(struct xd_options, client_max_mr),
	.user_limit = offsetof(struct xd_options, user_max_mr),
	.device_limit = offsetof(struct xd_options, max_mr),
	.bytes = sizeof(struct xd_dm),
};
