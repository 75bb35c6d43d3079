// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kind of object of ids, and their JSON output. */
#include <stdio.h>
#include <string.h>

#include "daemon/base/json.h"
#include "daemon/base/options.h"
#include "id.h"

static const char *const state_names[] = {
	[XD_CM_IDLE] = "idle",
	[XD_CM_BOUND] = "bound",
	[XD_CM_ADDR_QUERY] = "address query",
	[XD_CM_ADDR_RESOLVED] = "address resolved",
	[XD_CM_ROUTE_QUERY] = "route query",
	[XD_CM_ROUTE_RESOLVED] = "route resolved",
	[XD_CM_CONNECT] = "connect",
	[XD_CM_DISCONNECT] = "disconnect",
	[XD_CM_LISTEN] = "listen",
};

static const char *port_space_name(uint16_t ps)
{
	switch (ps) {
	case RDMA_PS_TCP:
		return "tcp";
	case RDMA_PS_UDP:
		return "udp";
	case RDMA_PS_IPOIB:
		return "ipoib";
	default:
		return "ib";
	}
}

static void show_addr(struct json *j, const char *addr, const char *port, const union xd_cm_addr *a)
{
	const bool set = a->sa.sa_family;
	struct xr_addr gid;

	if (set) {
		gid = xd_cm_addr_gid(a);
		json_address(j, addr, &gid);
	} else {
		json_text(j, addr, "");
	}
	json_number(j, port, set ? xd_cm_addr_port(a) : 0);
}

static void show_id(struct json *j, struct xd_object *obj)
{
	const struct xd_cm_id *id = container_of(obj, struct xd_cm_id, obj);
	const struct xc_info *info = id->conn ? xc_info(id->conn) : NULL;

	json_number(j, "id", id->number);
	json_number(j, "client", obj->client->id);
	json_text(j, "port_space", port_space_name(id->ps));
	json_text(j, "state", state_names[id->state]);
	json_text(j, "cm_state", info ? xc_state_name(info->state) : "");
	show_addr(j, "address", "port", &id->src);
	show_addr(j, "peer", "peer_port", &id->dst);
	json_number(j, "qpn", id->qp.number);
	json_number(j, "peer_qpn", id->qp.remote);
	json_number(j, "backlog", id->state == XD_CM_LISTEN ? (uint64_t)id->backlog : 0);
}

static const char *const event_names[] = {
	[XD_CM_EVENT_ADDR_ERROR] = "ADDR_ERROR",
	[XD_CM_EVENT_ROUTE_ERROR] = "ROUTE_ERROR",
	[XD_CM_EVENT_CONNECT_ERROR] = "CONNECT_ERROR",
	[XD_CM_EVENT_UNREACHABLE] = "UNREACHABLE",
	[XD_CM_EVENT_REJECTED] = "REJECTED",
	[XD_CM_EVENT_DISCONNECTED] = "DISCONNECTED",
	[XD_CM_EVENT_DEVICE_REMOVAL] = "DEVICE_REMOVAL",
	[XD_CM_EVENT_MULTICAST_ERROR] = "MULTICAST_ERROR",
	[XD_CM_EVENT_ADDR_CHANGE] = "ADDR_CHANGE",
};

/* Negative: an error number; else a reason of REJ or a status of SIDR_REP. */
static void rdma_cm_show_status(struct json *j, const struct xd_cm_failure *f)
{
	const char *text = "";
	char number[32];

	if (f->status < 0) {
		text = strerror(-f->status);
	} else if (f->status) {
		if (f->type == XD_CM_EVENT_REJECTED)
			text = xc_reason_text((unsigned int)f->status);
		snprintf(number, sizeof(number), "status %d", f->status);
		if (!text || !*text)
			text = number;
	}
	if (*text)
		json_text(j, "status", text);
}

static void show_failure(struct json *j, const struct xd_cm_failure *f)
{
	const char *name = NULL;

	if (!f->at)
		return;
	if (f->type < sizeof(event_names) / sizeof(event_names[0]))
		name = event_names[f->type];
	json_begin(j, "last_error", '{');
	xd_show_moment(j, f->at);
	json_text(j, "reason", name ? name : "?");
	rdma_cm_show_status(j, f);
	json_end(j, '}');
}

static void show_id_detail(struct json *j, struct xd_object *obj)
{
	const struct xd_cm_id *id = container_of(obj, struct xd_cm_id, obj);
	const struct xc_info *info = id->conn ? xc_info(id->conn) : NULL;

	show_id(j, obj);
	json_number(j, "comm_id", info ? info->local_id : 0);
	json_number(j, "peer_comm_id", info ? info->remote_id : 0);
	json_number(j, "tos", id->tos);
	json_number(j, "responder_resources", id->qp.responder_resources);
	json_number(j, "initiator_depth", id->qp.initiator_depth);
	json_number(j, "retry_cnt", id->qp.retry_count);
	json_number(j, "rnr_retry", id->qp.rnr_retry_count);
	json_number(j, "mads_sent", info ? info->sent : 0);
	json_number(j, "mads_retried", info ? info->retried : 0);
	json_number(j, "events", id->events);
	json_number(j, "events_read", id->events_reported);
	show_failure(j, &id->failure);
}

static void free_id(struct xd_object *obj)
{
	xd_cm_id_destroy(container_of(obj, struct xd_cm_id, obj));
}

const struct xd_kind_ops xd_cm_id_ops = {
	.name = "cm_ids",
	.list = XR_SHOW_CM_IDS,
	.show = show_id,
	.detail_list = XR_SHOW_CM_ID_DETAILS,
	.show_detail = show_id_detail,
	.refresh = xd_cm_id_refresh,
	.unload = xd_cm_id_unload,
	.free = free_id,
	.client_limit = offsetof(struct xd_options, client_max_cm_id),
	.user_limit = offsetof(struct xd_options, user_max_cm_id),
	.device_limit = offsetof(struct xd_options, max_cm_id),
	.bytes = sizeof(struct xd_cm_id),
};
