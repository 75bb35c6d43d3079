// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "processes.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/memory/mover.h"
#include "client.h"

struct charge {
	struct xd_killed killed;
	struct xd_clients *clients;
	struct xd_user *user;
	uint64_t bytes;
};

/* The memory of a mover is freed as well, unless a worker still uses it. */
static void process_ended(struct xd_killed *k)
{
	struct charge *p = container_of(k, struct charge, killed);

	xd_movers_free_unused(p->clients->dev->movers);
	p->user->processes--;
	p->user->bytes.memory -= p->bytes;
	xd_fds_put(&p->user->fds, XD_PROCESS_FDS);
	xd_users_free_unused(&p->clients->limits);
	free(p);
}

static int charge_user(struct xd_client *c, uint64_t bytes)
{
	const struct xd_options *opt = c->dev->opt;
	const struct xd_bytes memory = { .memory = bytes };
	int err;

	if (!c->user->is_operator && c->user->processes >= opt->user_max_processes)
		return xd_option_reached(c, -EDQUOT,
					 offsetof(struct xd_options, user_max_processes),
					 opt->user_max_processes);
	err = xd_user_charge(c, memory);
	if (err)
		return err;
	err = xd_user_take_fds(c, XD_PROCESS_FDS);
	if (err)
		xd_user_uncharge(c, memory);
	else
		c->user->processes++;
	return err;
}

int xd_process_charge(struct xd_client *c, uint64_t bytes, struct xd_killed **process)
{
	struct charge *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	bytes += XD_PROCESS_BYTES;
	err = charge_user(c, bytes);
	if (err) {
		free(p);
		return err;
	}
	p->killed.reaper = c->clients->reaper;
	p->killed.ended = process_ended;
	p->clients = c->clients;
	p->user = c->user;
	p->bytes = bytes;
	*process = &p->killed;
	return 0;
}
