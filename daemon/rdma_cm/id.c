// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The life of ids, their options, and the state of rdma_cm. */
#include "id.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/gsi/gsi.h"
#include "daemon/netdev/net.h"

/* ---- create and destroy --------------------------------------------------------- */

static uint32_t random_psn(void)
{
	uint32_t psn = 0;

	while (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		;
	return psn & XR_PSN_MASK;
}

int xd_cm_id_new(struct xd_client *c, uint16_t ps, uint8_t qp_type, struct xd_cm_id **out)
{
	struct xd_rdma_cm *cm = xd_rdma_cm_of(c);
	struct xd_cm_id *id = calloc(1, sizeof(*id));
	int err;

	if (!id)
		return -ENOMEM;
	id->cm = cm;
	id->ps = ps;
	id->qp_type = qp_type;
	id->qp.rq_psn = random_psn();
	err = xd_table_add(&cm->ids, id, &id->number);
	if (err) {
		free(id);
		return err;
	}
	err = xd_object_add(c, &id->obj, XD_CM_ID);
	if (err) {
		xd_table_del(&cm->ids, id->number);
		free(id);
		return err;
	}
	*out = id;
	return 0;
}

uint32_t xd_cm_id_destroy(struct xd_cm_id *id)
{
	struct xd_rdma_cm *cm = id->cm;
	uint32_t reported = id->events_reported;

	xd_cm_resolve_cancel(id);
	xd_cm_conn_destroy(id);
	xd_cm_joins_free(id);
	xd_cm_port_release(id);
	xd_cm_events_discard(id);
	if (id->holds_gsi)
		xd_gsi_release(cm->dev->gsi);
	xd_table_del(&cm->ids, id->number);
	xd_object_del(&id->obj);
	free(id);
	xd_rdma_cm_arm(cm);
	return reported;
}

int xd_cm_id_get(struct xd_client *c, uint32_t number, struct xd_cm_id **out)
{
	struct xd_cm_id *id = xd_table_get(&xd_rdma_cm_of(c)->ids, number);

	if (!id)
		return -ENOENT;
	if (id->obj.client != c)
		return -EINVAL;
	*out = id;
	return 0;
}

int xd_cm_id_hold_gsi(struct xd_cm_id *id)
{
	int err = id->holds_gsi ? 0 : xd_gsi_hold(id->cm->dev->gsi);

	if (!err)
		id->holds_gsi = true;
	return err;
}

/* ---- options -------------------------------------------------------------------- */

static int int_of(const void *value)
{
	int n;

	memcpy(&n, value, sizeof(n));
	return n;
}

static int set_reuse(struct xd_cm_id *id, bool reuse)
{
	if (reuse ? id->state == XD_CM_LISTEN : id->state != XD_CM_IDLE)
		return -EINVAL;
	id->reuse = reuse;
	return 0;
}

static int set_afonly(struct xd_cm_id *id, bool afonly)
{
	if (id->state != XD_CM_IDLE && id->state != XD_CM_BOUND)
		return -EINVAL;
	id->afonly_set = true;
	id->afonly = afonly;
	return 0;
}

static int set_ack_timeout(struct xd_cm_id *id, uint8_t timeout)
{
	if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND)
		return -EINVAL;
	id->ack_timeout = timeout;
	id->ack_timeout_set = true;
	return 0;
}

static int set_id_option(struct xd_cm_id *id, uint32_t name, const void *value, uint32_t length)
{
	bool byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;

	if (name > RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	if (length != (byte ? sizeof(uint8_t) : sizeof(int)))
		return -EINVAL;
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		id->tos = *(const uint8_t *)value;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		return set_reuse(id, int_of(value));
	case RDMA_OPTION_ID_AFONLY:
		return set_afonly(id, int_of(value));
	default:
		return set_ack_timeout(id, *(const uint8_t *)value);
	}
}

int xd_cm_id_set_option(struct xd_cm_id *id, uint32_t level, uint32_t name, const void *value,
			uint32_t length)
{
	if (level == RDMA_OPTION_ID)
		return set_id_option(id, name, value, length);
	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return xd_cm_set_path(id, value, length);
	return -ENOSYS;
}

/* ---- migration ------------------------------------------------------------------ */

static int change_channel(struct xd_cm_id *id, struct xd_client *to)
{
	struct xd_object old = id->obj;
	int err = xd_object_add(to, &id->obj, XD_CM_ID);

	if (!err)
		xd_object_del(&old);
	return err;
}

int xd_cm_id_migrate(struct xd_cm_id *id, struct xd_client *to, uint32_t *events_reported)
{
	struct xd_client *from = id->obj.client;
	struct xd_cm_event *ev;
	int err = change_channel(id, to);

	if (err)
		return err;
	xd_cm_events_move(id, from->cm_channel, to->cm_channel);
	/* The program finds the ids of requests that it has not read where it reads them. */
	for (ev = to->cm_channel->first; ev; ev = ev->next) {
		if (ev->id == id && ev->request && ev->request->obj.client == from)
			change_channel(ev->request, to);
	}
	*events_reported = id->events_reported;
	return 0;
}

/* ---- show ----------------------------------------------------------------------- */

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
static void show_status(struct json *j, const struct xd_cm_failure *f)
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
	show_status(j, f);
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
	.free = free_id,
	.client_limit = offsetof(struct xd_options, client_max_cm_id),
	.user_limit = offsetof(struct xd_options, user_max_cm_id),
	.device_limit = offsetof(struct xd_options, max_cm_id),
	.bytes = sizeof(struct xd_cm_id),
};

/* ---- the device's state --------------------------------------------------------- */

void xd_rdma_cm_arm(struct xd_rdma_cm *cm)
{
	uint64_t when = xc_deadline(cm->engine), now;

	/* A timer that expires too early is set again then. */
	if (when >= cm->armed)
		return;
	cm->armed = when;
	now = xd_now();
	xd_timer_arm(cm->timer, when > now ? when - now : 0);
}

static void on_timer(void *arg)
{
	struct xd_rdma_cm *cm = arg;

	cm->armed = XC_NEVER;
	xc_run(cm->engine);
	xd_rdma_cm_arm(cm);
}

static void on_mad(void *ctx, const struct xc_path *path, const uint8_t *mad)
{
	struct xd_rdma_cm *cm = ctx;

	xc_receive(cm->engine, path, mad, XC_MAD_LEN);
	xd_rdma_cm_arm(cm);
}

/* The service timeout of MRAs: 4.096 us * 2^24, as the kernel's CMA_CM_MRA_SETTING */
#define MRA_TIMEOUT 24

int xd_rdma_cm_new(struct xd_objects *objects)
{
	struct xd_device *dev = objects->clients.dev;
	struct xc_config config = {
		.guid = be64toh(xd_net_link(dev->net)->guid),
		.mra_timeout = MRA_TIMEOUT,
		.max_ids = dev->opt->max_cm_id * 2,
		.max_half_open = dev->opt->cm_half_open,
		.max_source_half_open = dev->opt->cm_peer_half_open,
	};
	struct xd_rdma_cm *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return -ENOMEM;
	cm->objects = objects;
	cm->dev = dev;
	cm->armed = XC_NEVER;
	xd_cm_ports_init(cm);
	cm->engine = xc_new(&config, &xd_cm_engine_ops, cm);
	cm->timer = xd_timer_new(dev->loop, on_timer, cm);
	if (!cm->engine || !cm->timer || xd_cm_comm_est_start(cm)) {
		xd_rdma_cm_free(cm);
		return -ENOMEM;
	}
	if (cm->dev->gsi)
		xd_gsi_set_receiver(cm->dev->gsi, on_mad, cm);
	objects->rdma_cm = cm;
	return 0;
}

const struct xc_cm *xd_rdma_cm_engine(const struct xd_rdma_cm *cm)
{
	return cm ? cm->engine : NULL;
}

static void check_address(struct xd_cm_id *id)
{
	struct xr_addr gid;
	bool lost = id->device && xd_cm_local_gid(id, &id->src, &gid);

	if (lost && !id->address_lost)
		xd_cm_event_raise(id, XD_CM_EVENT_ADDR_CHANGE, 0);
	id->address_lost = lost;
}

void xd_rdma_cm_net_changed(struct xd_rdma_cm *cm)
{
	uint32_t number = 0;
	struct xd_cm_id *id;

	while ((id = xd_table_next(&cm->ids, &number)))
		check_address(id);
}

void xd_rdma_cm_faults_changed(struct xd_client *c)
{
	uint32_t handle = 0;
	struct xd_cm_id *id;

	while ((id = xd_object_next(c, XD_CM_ID, &handle))) {
		check_address(id);
		xd_cm_resolve_again(id);
	}
}

#define FLUSH_EACH 128 /* MADs; more than QP 1 can queue would be lost */

void xd_rdma_cm_disconnect(struct xd_rdma_cm *cm)
{
	uint32_t number = 0, n = 0;
	struct xd_cm_id *id;

	while ((id = xd_table_next(&cm->ids, &number))) {
		if (!id->conn)
			continue;
		xd_cm_conn_destroy(id);
		if (++n % FLUSH_EACH == 0 && cm->dev->gsi)
			xd_gsi_flush(cm->dev->gsi);
	}
	if (n && cm->dev->gsi)
		xd_gsi_flush(cm->dev->gsi);
}

void xd_rdma_cm_free(struct xd_rdma_cm *cm)
{
	if (!cm)
		return;
	if (cm->dev->gsi)
		xd_gsi_set_receiver(cm->dev->gsi, NULL, NULL);
	if (cm->engine)
		xc_free(cm->engine);
	xd_timer_free(cm->timer);
	xd_cm_comm_est_stop(cm);
	xd_table_free(&cm->ids);
	xd_table_free(&cm->joins);
	free(cm);
}
