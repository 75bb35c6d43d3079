// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "resolve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/clients/request.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "daemon/io/io.h"
#include "daemon/netdev/net.h"

/* A request that waits for its next hop */
struct resolve_waiting {
	xd_resolved_fn then;
	struct xr_addr dgid;
	struct xd_resolve *resolve;
	uint64_t request[];
};

bool xd_gid_is_gone(const struct xd_client *c, const struct xr_addr *gid)
{
	return c->fault_gids &&
	       xd_faults_hide(xd_workers_faults(c->dev->workers), c->fault_gids, gid);
}

static int resolve_check_address(struct xd_client *c, const struct xr_ah_attr *attr)
{
	struct xr_addr gid;

	/* Upper bits of the flow label are ignored: UCX sets them. */
	if (!attr->is_global)
		return xd_refuse(c, -EINVAL, "%s", XT_WHY_NO_GRH);
	if (attr->port_num != 1)
		return xd_refuse(c, -EINVAL, "port_num %u; the device has port 1 only",
				 attr->port_num);
	if (!xd_net_gid(c->dev->net, attr->sgid_index, &gid) || xd_gid_is_gone(c, &gid))
		return xd_refuse(c, -EINVAL,
				 "sgid_index %u has no GID; `xroce status` lists those in use",
				 attr->sgid_index);
	return 0;
}

/* Explains why the next hop was not found. */
static void resolve_explain(struct xd_client *c, int err, const struct xr_addr *dgid)
{
	if (err == -EINVAL)
		xd_refuse(c, err,
			  "dgid and the GID of sgid_index are not of the same address family");
	else if (err == -ENETUNREACH)
		xd_refuse(c, err, "there is no route from the GID of sgid_index to dgid by %s",
			  xd_net_link(c->dev->net)->ifname);
	else if (err == -EHOSTUNREACH && xd_net_is_local(c->dev->net, dgid))
		xd_refuse(
			c, err,
			"dgid is an address of another interface of this host, and frames of %s do "
			"not get there",
			xd_net_link(c->dev->net)->ifname);
	else if (err == -EHOSTUNREACH)
		xd_refuse(c, err,
			  "the next hop to dgid does not answer ARP or neighbour discovery");
}

static void resolve_cancel(struct xd_client *c)
{
	struct resolve_waiting *w = c->connection.waiting;

	xd_net_resolve_cancel(w->resolve);
	xd_request_wake(c);
	free(w);
}

static void resolve_resolved(void *arg, int err, const struct xt_path *path)
{
	struct xd_client *c = arg;
	struct resolve_waiting *w = c->connection.waiting;
	struct xd_reply *rep = xd_reply_start();

	if (err)
		resolve_explain(c, err, &w->dgid);
	else
		err = w->then(c, w->request, path, rep);
	xd_request_wake(c);
	free(w);
	xd_reply_send(c, err, rep);
}

/* Returns the user of a QP of this device, that of the client if there is no such QP. */
static uint32_t resolve_user_of(const struct xd_client *c, uint32_t qpn)
{
	const struct xt_qp *qp = qpn ? xt_qp_by_num(c->dev->shared.qps, qpn) : NULL;
	const struct xd_object *obj = qp ? xt_qp_info(qp)->owner : NULL;

	return obj && xt_qp_info(qp)->type != XR_QPT_XRC_RECV ? obj->client->identity.uid
							      : c->identity.uid;
}

static bool resolve_is_of_slot(const struct xd_client *c, uint32_t qpn)
{
	struct xd_slots_state slots;
	uint32_t slot;

	xd_io_slots(c->dev->io, &slots);
	return xd_slot_of_qpn(&slots, qpn, &slot);
}

struct xt_path xd_path_to_qp(const struct xd_client *c, const struct xt_path *path,
			     uint32_t dest_qpn)
{
	const struct xd_faults *f = xd_workers_faults(c->dev->workers);
	struct xt_path p = *path;

	if (p.loopback && resolve_is_of_slot(c, dest_qpn))
		p.loopback = false;
	else if ((p.loopback || xt_is_group(&p.dgid)) && xd_faults_of_user(f, c->identity.uid) &&
		 xd_faults_of_user(f, resolve_user_of(c, dest_qpn)))
		xd_path_to_self(&p);
	return p;
}

int xd_after_resolve(struct xd_client *c, const struct xr_ah_attr *attr, const void *request,
		     size_t length, xd_resolved_fn then)
{
	int err = resolve_check_address(c, attr);
	struct xd_resolve *resolve;
	struct resolve_waiting *w;

	if (err)
		return err;
	w = calloc(1, sizeof(*w) + length);
	if (!w)
		return -ENOMEM;
	w->then = then;
	w->dgid = attr->dgid;
	memcpy(w->request, request, length);
	xd_request_wait(c, resolve_cancel, w);
	/* If the path is known already, resolve_resolved() is called at once, and frees w. */
	resolve = xd_net_resolve(c->dev->net, attr, resolve_resolved, c);
	if (resolve)
		w->resolve = resolve;
	return XD_LATER;
}
