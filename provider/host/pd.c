// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Protection domains. */
#include <errno.h>
#include <stdlib.h>

#include "requests.h"

int xp_do_alloc_pd(struct xp_host *h, struct xp_call *call)
{
	struct xp_pd *pd = calloc(1, sizeof(*pd));
	struct xr_handle_rep rep = { 0 };
	int err = pd ? xp_host_add(h, &pd->obj, XP_KIND_PD) : -ENOMEM;

	if (err) {
		free(pd);
		return err;
	}
	pd->number = ++h->next_pd;
	rep.handle = pd->obj.handle;
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_dealloc_pd(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->handle);

	if (!pd)
		return -ENOENT;
	if (pd->obj.refs)
		return xp_host_refuse(h, -EBUSY, "%u objects use the PD", pd->obj.refs);
	xp_host_del(h, &pd->obj);
	free(pd);
	return 0;
}
