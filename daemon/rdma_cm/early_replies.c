// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Replies that an event carries to the commands which librdmacm executes next, so that the client
 * need not send these.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "daemon/gsi/gsi.h"
#include "daemon/objects/ah.h"
#include "daemon/objects/resolve.h"
#include "id.h"

struct next_command {
	uint16_t cmd;
	uint16_t argument; /* option of QUERY, state of INIT_QP_ATTR */
};

#define MAX_NEXT 7
#define QUERY(option)                                                                              \
	{                                                                                          \
		RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_##option                                \
	}
#define INIT_QP_ATTR(state)                                                                        \
	{                                                                                          \
		RDMA_USER_CM_CMD_INIT_QP_ATTR, IBV_QPS_##state                                     \
	}

/* clang-format off */
static const struct next_command next_commands[][MAX_NEXT] = {
	[XD_CM_EVENT_ADDR_RESOLVED]    = { QUERY(ADDR), QUERY(GID), INIT_QP_ATTR(INIT) },
	[XD_CM_EVENT_ROUTE_RESOLVED]   = { QUERY(PATH), INIT_QP_ATTR(INIT) },
	[XD_CM_EVENT_CONNECT_REQUEST]  = { QUERY(ADDR), QUERY(GID), QUERY(PATH), INIT_QP_ATTR(INIT),
					   INIT_QP_ATTR(RTR), INIT_QP_ATTR(RTS),
					   { XR_CM_PATH, 0 } },
	[XD_CM_EVENT_CONNECT_RESPONSE] = { INIT_QP_ATTR(INIT), INIT_QP_ATTR(RTR),
					   INIT_QP_ATTR(RTS), { XR_CM_PATH, 0 } },
};
/* clang-format on */

/* The path of QPs to the peer, if MADs have gone there lately */
static int make_early_path(struct xd_cm_id *id, struct xd_reply *rep)
{
	const struct xc_path *gids = &id->path.gids;
	struct xd_device *dev = id->cm->dev;
	struct ib_uverbs_ah_attr ah;
	struct xt_path path;
	struct xr_cm_path *r;

	if (!dev->gsi || !xd_gsi_known_path(dev->gsi, gids, &path) ||
	    xd_gid_is_gone(id->obj.client, &gids->local))
		return -ENOENT;
	xd_cm_ah_attr(id, &ah);
	r = XD_REPLY(rep, xr_cm_path);
	r->dgid = gids->peer;
	r->sgid_index = ah.grh.sgid_index;
	xd_describe_path(dev, &path, &r->path);
	return 0;
}

static int make_early_reply(struct xd_cm_id *id, const struct next_command *q, struct xd_reply *rep)
{
	if (q->cmd == RDMA_USER_CM_CMD_QUERY)
		return xd_cm_query(id, q->argument, sizeof(rep->body), rep);
	if (q->cmd == XR_CM_PATH)
		return make_early_path(id, rep);
	/* INIT_QP_ATTR sets the Q_Key of a UD id to the default if it has none yet. */
	if (id->qp_type == IBV_QPT_UD)
		return -EOPNOTSUPP;
	return xd_cm_init_qp_attr(id, q->argument, XD_REPLY(rep, ib_uverbs_qp_attr));
}

/* Returns false if there is no room. */
static bool append_early_reply(struct xd_reply *rep, uint32_t room, const struct next_command *q,
			       const struct xd_reply *one)
{
	struct xr_cm_early_reply head = { q->cmd, q->argument, one->length };

	if (rep->length + sizeof(head) + one->length > room)
		return false;
	memcpy(rep->body + rep->length, &head, sizeof(head));
	memcpy(rep->body + rep->length + sizeof(head), one->body, one->length);
	rep->length += (uint32_t)sizeof(head) + one->length;
	return true;
}

void xd_cm_add_early_replies(struct xd_cm_id *id, uint32_t event, uint32_t room,
			     struct xd_reply *rep)
{
	static struct xd_reply one;
	const struct next_command *q;

	if (event >= sizeof(next_commands) / sizeof(next_commands[0]) || !id->device)
		return;
	if (room > sizeof(rep->body))
		room = sizeof(rep->body);
	for (q = next_commands[event]; q < next_commands[event] + MAX_NEXT && q->cmd; q++) {
		if (!make_early_reply(id, q, &one) && !append_early_reply(rep, room, q, &one))
			return;
	}
}
