// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The state of rdma_cm for the device. */
#include "rdma_cm.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/gsi/gsi.h"
#include "daemon/netdev/net.h"
#include "id.h"

/* The service timeout of MRAs: 4.096 us * 2^24, as the kernel's CMA_CM_MRA_SETTING */
#define MRA_TIMEOUT 24

static void on_mad(void *ctx, const struct xc_path *path, const uint8_t *mad)
{
	struct xd_rdma_cm *cm = ctx;

	xc_receive(cm->engine, path, mad, XC_MAD_LEN);
	xd_rdma_cm_arm(cm);
}

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
	cm->dreqs = dev->dreqs;
	xd_cm_ports_init(cm);
	cm->engine = xc_new(&config, &xd_cm_engine_ops, cm);
	if (!cm->engine || xc_table_init(&cm->by_qpn) || xd_cm_timer_start(cm) ||
	    xd_cm_comm_est_start(cm)) {
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

void xd_cm_id_refresh(struct xd_object *obj)
{
	struct xd_cm_id *id = container_of(obj, struct xd_cm_id, obj);
	struct xr_addr gid;
	bool lost = id->device && xd_cm_local_gid(id, &id->src, &gid);

	if (lost && !id->address_lost)
		xd_cm_event_raise(id, XD_CM_EVENT_ADDR_CHANGE, 0);
	id->address_lost = lost;
	xd_cm_resolve_again(id);
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
	/* The helper sends DREQs for what is in the list now: those sent here may be lost. */
	cm->dreqs = NULL;
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
	xc_table_free(&cm->by_qpn);
	free(cm);
}
