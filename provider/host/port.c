// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the host has to know of the port. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/io/tables.h"
#include "requests.h"

/* Packets to the addresses of the device are for its QPs. */
static int learn_addresses(struct xp_host *h)
{
	size_t len = sizeof(struct xr_query_gids_rep) +
		     XR_GID_TABLE_LEN * sizeof(struct xr_gid_entry);
	struct xr_query_gids_rep *rep = calloc(1, len);
	int err = rep ? h->env.request(h->env.arg, XR_MSG_QUERY_GIDS, NULL, 0, rep, len) : -ENOMEM;

	for (uint32_t i = 0; !err && i < rep->count && i < XR_GID_TABLE_LEN; i++)
		err = xd_tables_set_addr(h->tables, &rep->entry[i].gid, rep->entry[i].index);
	free(rep);
	return err;
}

int xp_host_learn_port(struct xp_host *h)
{
	struct xr_query_port_rep rep = { 0 };
	int err = h->env.request(h->env.arg, XR_MSG_QUERY_PORT, NULL, 0, &rep, sizeof(rep));

	if (err)
		return err;
	h->max_mtu = 128u << rep.active_mtu;
	h->ifindex = rep.netdev_ifindex;
	return learn_addresses(h);
}
