// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The reserved L_Key: a client's own memory, all of it, without a region. */
#include <errno.h>

#include "daemon/memory/region.h"
#include "objects.h"

/*
 * It widens what a client's own queues reach to all that the client itself reaches, which a region
 * of the whole address space on demand does as well; but no domain and no deregistration limits it.
 * So it is for those who could have all of the device anyway, and for whom the administrator names.
 */
static bool may_use(const struct xd_client *c)
{
	gid_t group = c->server->lkey_group;

	return c->operator||(group != XD_NO_GROUP && xd_in_groups(group, c->gid, &c->groups));
}

int xd_do_reserved_lkey(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	int err = 0;

	if (!may_use(c))
		return -EPERM;
	if (!c->own_mem)
		err = xd_mem_on_demand(c->proc, 0, UINT64_MAX, true, &c->own_mem);
	if (err)
		return err;
	xd_workers_pause(c->dev->workers);
	c->own = &c->own_mem->xt;
	xd_workers_resume(c->dev->workers);
	XD_REPLY(rep, xr_reserved_lkey_rep)->lkey = XR_RESERVED_LKEY;
	return 0;
}
