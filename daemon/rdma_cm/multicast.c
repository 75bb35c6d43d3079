// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Joins of multicast groups. On RoCE a join only computes the group's GID: the interface becomes a
 * member of the IP group when librdmacm attaches the program's QP to that GID.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "daemon/transport/transport.h"
#include "id.h"

static const struct xd_bytes join_bytes = { .memory = sizeof(struct xd_cm_join) };

/* ---- join ----------------------------------------------------------------------- */

static int multicast_check(const struct xd_cm_id *id, const union xd_cm_addr *addr, uint16_t flags)
{
	struct xr_addr group = xd_cm_addr_gid(addr);

	if (flags >= RDMA_MC_JOIN_FLAG_RESERVED || !id->device || id->qp_type != IBV_QPT_UD)
		return -EINVAL;
	if (id->state != XD_CM_BOUND && id->state != XD_CM_ADDR_RESOLVED)
		return -EINVAL;
	return xt_is_group(&group) ? 0 : -EINVAL;
}

static struct xd_cm_event *new_event(struct xd_cm_join *join, const struct xr_addr *group)
{
	struct xd_cm_event *ev = xd_cm_event_new(join->id, XD_CM_EVENT_MULTICAST_JOIN, 0);
	struct xd_cm_id to_group = *join->id;

	if (!ev)
		return NULL;
	to_group.path = (struct xd_cm_path){ .gids.peer = *group, .gids.hop_limit = 64 };
	xd_cm_local_gid(&to_group, &to_group.src, &to_group.path.gids.local);
	to_group.path.gids.traffic_class = to_group.tos;
	xd_cm_ah_attr(&to_group, &ev->body.param.ud.ah_attr);
	xd_cm_default_qkey(join->id);
	ev->body.param.ud.qp_num = XR_MULTICAST_QPN;
	ev->body.param.ud.qkey = join->id->qp.qkey;
	ev->body.uid = join->uid;
	ev->body.id = join->number;
	ev->join = join;
	join->event = ev;
	return ev;
}

static int new_join(struct xd_cm_id *id, uint64_t uid, struct xd_cm_join **out)
{
	struct xd_cm_join *join;
	int err;

	if (id->join_count == XR_MAX_GROUPS)
		return xd_limit_reached(id->obj.client, -ENOMEM, "number of joins of an id",
					XR_MAX_GROUPS);
	err = xd_user_charge(id->obj.client, join_bytes);
	if (err)
		return err;
	join = calloc(1, sizeof(*join));
	err = join ? xd_table_add(&id->cm->joins, join, &join->number) : -ENOMEM;
	if (err) {
		xd_user_uncharge(id->obj.client, join_bytes);
		free(join);
		return err;
	}
	join->id = id;
	join->uid = uid;
	xt_list_add_tail(&id->joins, &join->link);
	id->join_count++;
	*out = join;
	return 0;
}

/* Returns the number of events of the join that the program has read. */
static uint32_t free_join(struct xd_cm_join *join)
{
	struct xd_client *c = join->id->obj.client;
	uint32_t reported = join->events_reported;

	if (join->event)
		xd_cm_event_discard(join->event);
	xt_list_del(&join->link);
	join->id->join_count--;
	xd_table_del(&join->id->cm->joins, join->number);
	xd_user_uncharge(c, join_bytes);
	free(join);
	return reported;
}

int xd_cm_join(struct xd_cm_id *id, uint64_t uid, const union xd_cm_addr *addr, uint16_t flags,
	       uint32_t *number)
{
	struct xr_addr group = xd_cm_addr_gid(addr);
	struct xd_cm_join *join = NULL;
	struct xd_cm_event *ev;
	int err = multicast_check(id, addr, flags);

	if (!err)
		err = new_join(id, uid, &join);
	if (err)
		return err;
	ev = new_event(join, &group);
	if (!ev) {
		free_join(join);
		return -ENOMEM;
	}
	xd_cm_event_add(ev);
	*number = join->number;
	return 0;
}

/* ---- leave ---------------------------------------------------------------------- */

int xd_cm_leave(struct xd_client *c, uint32_t number, uint32_t *events_reported)
{
	struct xd_cm_join *join = xd_table_get(&xd_rdma_cm_of(c)->joins, number);

	if (!join)
		return -ENOENT;
	if (join->id->obj.client != c)
		return -EINVAL;
	*events_reported = free_join(join);
	return 0;
}

bool xd_cm_join_free_next(struct xd_cm_id *id)
{
	if (xt_list_empty(&id->joins))
		return false;
	free_join((struct xd_cm_join *)id->joins.next);
	return true;
}
