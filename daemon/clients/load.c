// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "load.h"

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "client.h"

/* A client that was idle may at once use its share of this time. */
#define BURST_NS 2000000000ull
/* All clients of a user together have the share of this number of clients. */
#define USER_CLIENTS 2

/* share: in per cent of one processor */
static void fill(uint64_t *bucket, uint64_t now, uint64_t used, uint64_t share)
{
	if (*bucket < now)
		*bucket = now;
	*bucket += used * 100 / share;
}

void xd_load_charge(struct xd_client *c, uint64_t ns)
{
	uint64_t share = c->dev->opt->client_max_load, now = xd_now();

	fill(&c->connection.bucket, now, ns, share);
	fill(&c->user->bucket, now, ns, share * USER_CLIENTS);
}

void xd_load_charge_lap(struct xd_client *c)
{
	xd_load_charge(c, xd_loop_lap(c->dev->loop));
}

bool xd_load_exceeded(const struct xd_client *c, uint64_t now)
{
	uint64_t full = now + BURST_NS;

	return c->connection.bucket > full || (!c->user->is_operator && c->user->bucket > full);
}
