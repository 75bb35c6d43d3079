// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Address handles, and the paths of them and of QPs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/io/tables.h"
#include "requests.h"

#define DEFAULT_HOP_LIMIT 64

int xp_path_resolve(struct xp_host *h, const struct xr_ah_attr *attr, struct xt_path *path,
		    bool *local, uint32_t *max_mtu)
{
	const struct xr_resolve_ah_req req = { .attr = *attr };
	struct xr_resolve_ah_rep rep = { 0 };
	int err = h->env.request(h->env.arg, XR_MSG_RESOLVE_AH, &req, sizeof(req), &rep,
				 sizeof(rep));

	if (err)
		return err;
	*path = (struct xt_path){
		.ip_version = xr_gid_is_ipv4(&attr->dgid) ? 4 : 6,
		.vlan = rep.vlan,
		.sgid = rep.sgid,
		.dgid = attr->dgid,
		.flow_label = attr->flow_label & 0xfffff,
		.hop_limit = attr->hop_limit ? attr->hop_limit : DEFAULT_HOP_LIMIT,
		.traffic_class = attr->traffic_class,
	};
	path->self = xt_is_group(&attr->dgid);
	memcpy(path->smac, h->env.lent.rep.mac, sizeof(path->smac));
	memcpy(path->dmac, rep.mac, sizeof(path->dmac));
	*local = rep.flags & XR_RESOLVED_LOCAL;
	*max_mtu = rep.max_mtu;
	/* The device may have got this address lately. Answers go there. */
	return xd_tables_set_addr(h->tables, &rep.sgid, attr->sgid_index);
}

int xp_do_create_ah(struct xp_host *h, struct xp_call *call)
{
	const struct xr_create_ah_req *q = call->req;
	struct xp_pd *pd = xp_object_get(&h->objects, XP_KIND_PD, q->pd);
	struct xr_handle_rep rep = { 0 };
	struct xp_ah_object *ah;
	struct xt_path path;
	bool local;
	int err;

	if (!pd)
		return -ENOENT;
	err = xp_path_resolve(h, &q->attr, &path, &local, &h->max_mtu);
	if (err)
		return err;
	ah = calloc(1, sizeof(*ah));
	err = ah ? xp_host_add(h, &ah->obj, XP_KIND_AH) : -ENOMEM;
	if (!err) {
		xp_host_enter(h);
		ah->pd = pd;
		ah->gid_index = q->attr.sgid_index;
		ah->path = path;
		err = xt_ahs_set(h->ahs, ah->obj.handle, pd->number, &path);
		if (!err)
			xp_view_add(h, &ah->obj);
		xp_host_leave_quietly(h);
	}
	if (err) {
		if (ah)
			xp_host_del(h, &ah->obj);
		free(ah);
		return err;
	}
	pd->obj.refs++;
	rep.handle = ah->obj.handle;
	xp_reply(call, &rep, sizeof(rep));
	return 0;
}

int xp_do_destroy_ah(struct xp_host *h, struct xp_call *call)
{
	const struct xr_handle_req *q = call->req;
	struct xp_ah_object *ah = xp_object_get(&h->objects, XP_KIND_AH, q->handle);

	if (!ah)
		return -ENOENT;
	xp_host_enter(h);
	xp_view_remove(h, &ah->obj);
	xt_ahs_del(h->ahs, ah->obj.handle);
	xp_host_leave_quietly(h);
	ah->pd->obj.refs--;
	xp_host_del(h, &ah->obj);
	free(ah);
	return 0;
}
