// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Derives a world from a seed, and the phases after the faults. */
#include "cm_sim.h"

static void plan_limits(struct world *w, struct xc_config *c)
{
	struct rng *r = &w->rng;

	c->max_ids = w->limited ? rng_between(r, 4, 24) : 256;
	c->max_half_open = w->limited ? rng_between(r, 2, 12) : 24;
	c->max_source_half_open = w->limited ? rng_between(r, 1, 6) : 8;
}

static void plan_services(struct host *h)
{
	struct rng *r = &h->w->rng;
	unsigned i;

	h->services = rng_between(r, 2, MAX_SERVICES);
	for (i = 0; i < h->services; i++) {
		struct service *s = &h->service[i];

		s->sidr = i == 1;
		s->id = xc_ip_service_id(s->sidr ? 0x111 : 0x106, 1000 + i);
		s->backlog = rng_chance(r, 20) && !h->w->calm ? rng_between(r, 1, 3) : 1000;
	}
}

static void plan_host(struct world *w, struct host *h, unsigned index)
{
	struct rng *r = &w->rng;

	h->w = w;
	h->index = index;
	h->gid.raw[0] = 0xfd;
	h->gid.raw[15] = index + 1;
	h->config.guid = 0x0200000000000100ull + index;
	h->config.mra_timeout = rng_between(r, 14, 20);
	plan_limits(w, &h->config);
	h->first_qpn = h->next_qpn = rng_next(r) & 0xffffff;
	h->late = rng_chance(r, 30) ? 20 * MSEC : 0;
	rng_bytes(r, &h->random.state, sizeof(h->random.state));
	plan_services(h);
	h->crash_at = h->restart_at = NEVER;
	host_start(h);
}

static void plan_faults(struct world *w)
{
	struct rng *r = &w->rng;
	struct faults *f = &w->faults;

	f->lose = rng_chance(r, 70) ? rng_below(r, 400) : 0;
	if (rng_chance(r, 5))
		f->lose = 950;
	f->duplicate = rng_chance(r, 50) ? rng_below(r, 300) : 0;
	f->delay = rng_chance(r, 60) ? rng_below(r, 500) : 0;
	f->max_delay = rng_chance(r, 70) ? 20 * MSEC : rng_chance(r, 70) ? 10 * SEC : 60 * SEC;
	f->foreign = rng_chance(r, 40) ? rng_below(r, 300) : 0;
	if (w->weak)
		f->damage = rng_between(r, 1, 300);
	if (rng_chance(r, 8)) {
		f->flood_gap = rng_between(r, 5, 200) * MSEC;
		w->faults_end = rng_between(r, 1, 20) * SEC;
	}
}

static void plan_crashes(struct world *w)
{
	struct rng *r = &w->rng;
	struct host *h;

	if (!rng_chance(r, 35))
		return;
	h = &w->host[rng_below(r, w->hosts)];
	h->crash_at = rng_below(r, w->faults_end);
}

void plan_world(struct world *w)
{
	struct rng *r = &w->rng;
	unsigned kind = rng_below(r, 100), i;

	w->blocks = memory_blocks();
	w->calm = kind < 10;
	w->weak = kind >= 90;
	w->limited = kind >= 75 && kind < 85;
	w->hosts = rng_between(r, 2, MAX_HOSTS);
	w->latency = rng_between(r, 1, 2000) * USEC;
	w->faults_end = rng_between(r, 5, 120) * SEC;
	w->planned = rng_between(r, 1, 30);
	w->connect_at = 0;
	w->flood_at = 0;
	for (i = 0; i < w->hosts; i++)
		plan_host(w, &w->host[i], i);
	if (!w->calm) {
		plan_faults(w);
		plan_crashes(w);
	}
}

void plan_heal(struct world *w)
{
	unsigned i;

	TRACE(w, "the faults end");
	memset(&w->faults, 0, sizeof(w->faults));
	w->connect_at = NEVER;
	for (i = 0; i < w->hosts; i++) {
		w->host[i].crash_at = NEVER;
		if (!w->host[i].cm)
			host_start(&w->host[i]);
	}
}

void plan_reconnect(struct world *w)
{
	unsigned i, k;

	TRACE(w, "every host connects to every other one");
	if (w->limited)
		return; /* connections that exist may take all ids */
	for (i = 0; i < w->hosts; i++)
		for (k = 0; k < w->hosts; k++) {
			struct conn *c;

			if (i == k || w->host[k].service[0].backlog < 1000)
				continue;
			c = conn_new(w, &w->host[i], &w->host[k], false);
			c->probe = true;
			program_connect(w, c);
		}
}

void plan_close(struct world *w)
{
	struct rng *r = &w->sched;
	struct end *e;
	unsigned i;

	TRACE(w, "all programs end");
	w->closing = true;
	for (i = 0; i < w->hosts; i++)
		for (e = w->host[i].ends; e; e = e->next) {
			if (e->state == END_GONE)
				continue;
			if (rng_chance(r, 60))
				end_plan(e, ACT_DISCONNECT, rng_below(r, 60 * SEC));
			end_plan(e, ACT_DESTROY, rng_below(r, 120 * SEC));
		}
}

void plan_free(struct world *w)
{
	unsigned i;

	for (i = 0; i < w->hosts; i++) {
		xc_free(w->host[i].cm);
		ends_free(&w->host[i]);
	}
	while (w->conns) {
		struct conn *c = w->conns;

		w->conns = c->next;
		free(c);
	}
	flights_free(&w->flights);
	CHECK(w, memory_blocks() == w->blocks, "%ld blocks of memory are not freed",
	      memory_blocks() - w->blocks);
}
