// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the host has to know of the port. */
#include "requests.h"

int xp_host_learn_port(struct xp_host *h)
{
	struct xr_query_port_rep rep = { 0 };
	int err = h->env.request(h->env.arg, XR_MSG_QUERY_PORT, NULL, 0, &rep, sizeof(rep));

	if (err)
		return err;
	h->max_mtu = 128u << rep.active_mtu;
	h->ifindex = rep.netdev_ifindex;
	return 0;
}
