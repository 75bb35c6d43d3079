// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Connections that end after their ids. The CM engine repeats a DREQ for a minute if the peer does
 * not respond, and has room for a number of connections. Without a limit for each user, one that
 * connects to such a peer and destroys its ids again and again would take all of it.
 */
#include <errno.h>

#include "daemon/base/options.h"
#include "daemon/clients/client.h"
#include "id.h"

static const struct xd_bytes orphan_bytes = { .memory = XC_ID_BYTES };

/* What exists cannot be refused: the next objects of the user are. */
void xd_cm_orphan(struct xd_client *c, struct xc_id *conn)
{
	c->user->orphans++;
	c->user->bytes.memory += orphan_bytes.memory;
	xc_destroy_for(conn, c->user);
}

void xd_cm_orphan_gone(void *ctx, void *payer)
{
	const struct xd_rdma_cm *cm = ctx;
	struct xd_user *user = payer;

	user->bytes.memory -= orphan_bytes.memory;
	if (!--user->orphans && !user->clients)
		xd_users_free_unused(&cm->objects->clients.limits);
}

/* The engine has twice as many ids as the device, so a user may have twice as many as of ids. */
int xd_cm_check_orphans(struct xd_client *c)
{
	const struct xd_user *user = c->user;
	uint64_t limit = 2ull * c->dev->opt->user_max_cm_id;

	if (user->is_operator || user->orphans + (uint64_t)user->objects[XD_CM_ID] < limit)
		return 0;
	return xd_limit_reached(c, -EDQUOT,
				"twice --user-max-cm-id, for ids and connections that end,", limit);
}
