// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "limits.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "daemon/base/options.h"
#include "client.h"

void xd_limits_init(struct xd_limits *limits)
{
	struct rlimit limit = { 0 };
	rlim_t half;

	/* The other half is for connections and for the daemon itself. */
	getrlimit(RLIMIT_NOFILE, &limit);
	half = limit.rlim_cur / 2;
	limits->fds.limit = half > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)half;
}

int xd_user_join(struct xd_client *c)
{
	struct xd_limits *limits = &c->clients->limits;
	struct xd_user *u = limits->users;

	while (u && u->uid != c->identity.uid)
		u = u->next;
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->uid = c->identity.uid;
		u->next = limits->users;
		limits->users = u;
	}
	u->clients++;
	c->user = u;
	return 0;
}

void xd_user_leave(struct xd_client *c)
{
	struct xd_user **pp = &c->clients->limits.users;

	if (!c->user || --c->user->clients)
		return;
	while (*pp != c->user)
		pp = &(*pp)->next;
	*pp = c->user->next;
	free(c->user);
}

int xd_user_charge(struct xd_client *c, uint64_t bytes)
{
	uint64_t max = c->dev->opt->user_max_pinned;

	if (c->user->bytes > max || bytes > max - c->user->bytes)
		return -EDQUOT;
	c->user->bytes += bytes;
	return 0;
}

void xd_user_uncharge(struct xd_client *c, uint64_t bytes)
{
	c->user->bytes -= bytes;
}
