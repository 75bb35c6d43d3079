// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names the programs whose injected faults apply to MADs: those of connections and listeners. */
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "id.h"

static struct xd_fault_mads *table(const struct xd_cm_id *id)
{
	return xd_faults_mads(xd_workers_faults(id->cm->dev->workers));
}

static void faults_set(struct xd_cm_id *id, struct xd_fault_mad value)
{
	value.rules = &id->obj.client->fault_rules;
	xd_fault_mads_set(table(id), &id->faults, &value);
}

void xd_cm_faults_connection(struct xd_cm_id *id, uint32_t comm_id)
{
	faults_set(id, (struct xd_fault_mad){
			       .kind = XD_FAULT_MAD_CONNECTION,
			       .key = comm_id,
			       .addr = id->path.gids.peer,
		       });
}

void xd_cm_faults_request(struct xd_cm_id *id)
{
	const struct xc_info *info = xc_info(id->conn);

	faults_set(id, (struct xd_fault_mad){
			       .kind = info->sidr ? XD_FAULT_MAD_SIDR : XD_FAULT_MAD_CONNECTION,
			       .key = info->sidr ? info->remote_id : info->local_id,
			       .addr = info->path.peer,
		       });
}

void xd_cm_faults_listener(struct xd_cm_id *id)
{
	faults_set(id, (struct xd_fault_mad){
			       .kind = XD_FAULT_MAD_LISTENER,
			       .key = xd_cm_port_service_id(id),
			       .addr = xd_cm_addr_gid(&id->src),
			       .any = xd_cm_addr_is_any(&id->src),
			       .ip_version = !id->afonly		       ? 0
					     : id->src.sa.sa_family == AF_INET ? 4
									       : 6,
		       });
}

void xd_cm_faults_move(struct xd_cm_id *id)
{
	if (id->faults.pprev)
		faults_set(id, id->faults);
}

void xd_cm_faults_end(struct xd_cm_id *id)
{
	if (id->faults.pprev)
		xd_fault_mads_remove(table(id), &id->faults);
}
