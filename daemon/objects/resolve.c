// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "resolve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/clients/request.h"
#include "daemon/netdev/net.h"

/* A request that waits for its next hop */
struct waiting {
	xd_resolved_fn then;
	struct xd_resolve *resolve;
	uint64_t request[];
};

static int check_address(const struct xd_device *dev, const struct xr_ah_attr *attr)
{
	struct xr_addr gid;

	/* Upper bits of the flow label are ignored: UCX sets them. */
	if (!attr->is_global || attr->port_num != 1 || attr->sgid_index >= XR_GID_TABLE_LEN ||
	    !xd_net_gid(dev->net, attr->sgid_index, &gid))
		return -EINVAL;
	return 0;
}

static void cancel(struct xd_client *c)
{
	struct waiting *w = c->connection.waiting;

	xd_net_resolve_cancel(w->resolve);
	xd_request_wake(c);
	free(w);
}

static void resolved(void *arg, int err, const struct xt_path *path)
{
	struct xd_client *c = arg;
	struct waiting *w = c->connection.waiting;
	struct xd_reply *rep = xd_reply_start();

	if (!err)
		err = w->then(c, w->request, path, rep);
	xd_request_wake(c);
	free(w);
	xd_reply_send(c, err, rep);
}

int xd_after_resolve(struct xd_client *c, const struct xr_ah_attr *attr, const void *request,
		     size_t length, xd_resolved_fn then)
{
	int err = check_address(c->dev, attr);
	struct xd_resolve *resolve;
	struct waiting *w;

	if (err)
		return err;
	w = calloc(1, sizeof(*w) + length);
	if (!w)
		return -ENOMEM;
	w->then = then;
	memcpy(w->request, request, length);
	xd_request_wait(c, cancel, w);
	/* If the path is known already, resolved() is called at once, and frees w. */
	resolve = xd_net_resolve(c->dev->net, attr, resolved, c);
	if (resolve)
		w->resolve = resolve;
	return XD_LATER;
}
