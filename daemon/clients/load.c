// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "load.h"

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/datapath/worker.h"
#include "client.h"

/* A client that was idle may at once use its share of this time. */
#define BURST_NS 2000000000ull
/* All clients of a user together have the share of this number of clients. */
#define USER_CLIENTS 2

/* A client waits at most this long after others have stopped to send and receive. */
#define OTHERS_NS 100000000ull

/* share: in per cent of one processor */
static void load_fill(uint64_t *bucket, uint64_t now, uint64_t used, uint64_t share)
{
	uint64_t most = now + BURST_NS + OTHERS_NS;

	if (*bucket < now)
		*bucket = now;
	*bucket += used * 100 / share;
	if (*bucket > most)
		*bucket = most;
}

/* Returns true if another client sends or receives, which needs the processors. */
static bool others_work(const struct xd_client *c, uint64_t now)
{
	const struct xd_doorbells *d = &c->doorbells;
	struct xd_workers *ws = c->dev->workers;
	uint64_t at;

	for (uint32_t i = 0; i < xd_workers_count(ws); i++) {
		at = xt_engine_others_at(xd_worker_engine(ws, i),
					 i < d->workers ? &d->worker[i].flow : NULL);
		if (at && now < at + OTHERS_NS)
			return true;
	}
	return false;
}

void xd_load_charge(struct xd_client *c, uint64_t ns)
{
	uint64_t share = c->dev->opt->client_max_load, now = xd_now();

	load_fill(&c->connection.bucket, now, ns, share);
	load_fill(&c->user->bucket, now, ns, share * USER_CLIENTS);
}

void xd_load_charge_lap(struct xd_client *c)
{
	xd_load_charge(c, xd_loop_lap(c->dev->loop));
}

bool xd_load_exceeded(const struct xd_client *c, uint64_t now)
{
	uint64_t full = now + BURST_NS;

	if (c->connection.bucket <= full && (c->user->is_operator || c->user->bucket <= full))
		return false;
	return others_work(c, now);
}
