// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Ids: create, destroy, options, migration. */
#include "id.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/loop.h"
#include "daemon/gsi/gsi.h"

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
	int err = xd_cm_check_orphans(c);
	struct xd_cm_id *id;

	if (err)
		return err;
	id = calloc(1, sizeof(*id));
	if (!id)
		return -ENOMEM;
	id->cm = cm;
	id->ps = ps;
	id->qp_type = qp_type;
	id->qp.rq_psn = random_psn();
	xt_list_init(&id->queued);
	xt_list_init(&id->joins);
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

void xd_cm_conn_destroy(struct xd_cm_id *id)
{
	if (id->conn) {
		xd_cm_send_posted(id);
		xd_cm_orphan(id->obj.client, id->conn);
	}
	id->conn = NULL;
	xd_cm_faults_end(id);
}

/* Returns false if nothing is left. */
static bool free_next(struct xd_cm_id *id)
{
	struct xd_cm_id *request;

	if (xd_cm_join_free_next(id))
		return true;
	if (!xd_cm_event_discard_next(id, &request))
		return false;
	if (request)
		xd_cm_id_destroy(request);
	return true;
}

/* Without a port, resolve and connection, the id gets nothing new. */
bool xd_cm_id_unload(struct xd_object *obj)
{
	struct xd_cm_id *id = container_of(obj, struct xd_cm_id, obj);

	xd_cm_resolve_cancel(id);
	xd_cm_conn_destroy(id);
	xd_cm_port_release(id);
	while (free_next(id)) {
		if (xd_loop_must_yield(obj->client->dev->loop))
			return false;
	}
	return true;
}

uint32_t xd_cm_id_destroy(struct xd_cm_id *id)
{
	struct xd_rdma_cm *cm = id->cm;
	uint32_t reported = id->events_reported;

	xd_cm_resolve_cancel(id);
	xd_cm_conn_destroy(id);
	xd_cm_port_release(id);
	xd_net_gid_release(cm->dev->net, &id->gid);
	while (free_next(id))
		;
	if (id->holds_gsi)
		xd_gsi_release(cm->dev->gsi);
	xc_table_del(&cm->by_qpn, &id->by_qpn);
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

/* ---- QP 1 ----------------------------------------------------------------------- */

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
	xd_cm_port_set_reuse(id, reuse);
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

	if (err)
		return err;
	xd_object_del(&old);
	xd_cm_faults_move(id);
	return 0;
}

int xd_cm_id_migrate(struct xd_cm_id *id, struct xd_client *to, uint32_t *events_reported)
{
	struct xd_client *from = id->obj.client;
	struct xd_cm_event *ev;
	struct xt_list *l;
	int err;

	*events_reported = id->events_reported;
	if (to == from) /* its events are there: moving them within a queue would never end */
		return 0;
	err = change_channel(id, to);
	if (err)
		return err;
	xd_cm_events_move(id, from->cm_channel, to->cm_channel);
	/* The program finds the ids of requests that it has not read where it reads them. */
	for (l = id->queued.next; l != &id->queued; l = l->next) {
		ev = container_of(l, struct xd_cm_event, in_id);
		if (ev->request && ev->request->obj.client == from)
			change_channel(ev->request, to);
	}
	return 0;
}
