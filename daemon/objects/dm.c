// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Device memory: pieces of the memory that daemon and client share anyway (shm.h), so that a program
 * copies to and from it by itself. Regions of it name it by XR_SEG_DM.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/options.h"
#include "objects.h"

#define PAGE 4096u

/* What it takes of the client's share */
static uint64_t pages_of(const struct xd_dm *dm)
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
		return -EINVAL;
	bytes = (q->length + PAGE - 1) & -(uint64_t)PAGE;
	if (q->length > most || bytes > most || c->dm_bytes > most - bytes)
		return -ENOMEM;
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
	c->dm_bytes += pages_of(dm);
	r = XD_REPLY(rep, xr_alloc_dm_rep);
	r->handle = dm->obj.handle;
	xd_shm_ref(&dm->piece, &r->memory, rep);
	return 0;
}

int xd_do_free_dm(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_dm *dm = xd_object_get(c, XD_DM, q->handle);

	if (!dm)
		return -ENOENT;
	if (dm->obj.refs)
		return -EBUSY;
	xd_dm_free(dm);
	return 0;
}

void xd_dm_free(struct xd_dm *dm)
{
	struct xd_client *c = dm->obj.client;

	c->dm_bytes -= pages_of(dm);
	xd_shm_free(c, &dm->piece);
	xd_object_del(&dm->obj);
	free(dm);
}
