// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Device memory: memory of the program. Other processes cannot import it. */
#include <errno.h>
#include <stdlib.h>

#include "requests.h"

#define PAGE 4096u

int xp_do_alloc_dm(struct xp_host *h, struct xp_call *call)
{
	const struct xr_alloc_dm_req *q = call->req;
	uint64_t most = h->env.attr->max_dm_size, bytes = (q->length + PAGE - 1) & -(uint64_t)PAGE;
	struct xr_alloc_dm_rep rep = { 0 };
	struct xp_dm_object *dm;
	int err;

	if (!q->length || q->log_align > XR_DM_LOG_ALIGN_MAX)
		return xp_host_refuse(h, -EINVAL, "length %llu, log_align_req %u, at most %u",
				      (unsigned long long)q->length, q->log_align,
				      XR_DM_LOG_ALIGN_MAX);
	if (q->length > most || bytes > most || h->dm_bytes > most - bytes)
		return xp_host_refuse(h, -ENOMEM, "the limit of --client-max-dm is %llu",
				      (unsigned long long)most);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return -ENOMEM;
	dm->length = q->length;
	dm->size = bytes;
	dm->base = xp_shared_alloc(bytes); /* on a page of its own: aligned enough */
	err = dm->base ? xp_host_add(h, &dm->obj, XP_KIND_DM) : -ENOMEM;
	if (err) {
		xp_shared_free(dm->base, dm->size);
		free(dm);
		return err;
	}
	h->dm_bytes += bytes;
	xp_host_enter(h);
	xp_view_add(h, &dm->obj);
	xp_host_leave_quietly(h);
	rep.handle = dm->obj.handle;
	rep.memory = xp_shared_ref(dm->base, dm->length);
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_free_dm(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_dm_object *dm = xp_object_get(&h->objects, XP_KIND_DM, q->handle);

	if (!dm)
		return -ENOENT;
	if (dm->obj.refs)
		return xp_host_refuse(h, -EBUSY, "%u regions use the device memory", dm->obj.refs);
	h->dm_bytes -= dm->size;
	xp_host_enter(h);
	xp_view_remove(h, &dm->obj);
	xp_host_leave_quietly(h);
	xp_host_del(h, &dm->obj);
	xp_shared_free(dm->base, dm->size);
	free(dm);
	return 0;
}
