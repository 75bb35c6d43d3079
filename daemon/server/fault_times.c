// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Injected faults of time: port states, GIDs, and events of the device. They are what a program
 * sees; the interface and other programs are left alone. The workers drop the packets
 * (faults/packets.c).
 */
#include <errno.h>
#include <infiniband/verbs.h>

#include "daemon/base/loop.h"
#include "daemon/clients/load.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "server.h"

/* At most this part of the control thread's time is used for turns. */
#define MOST_TIME 10

static struct xd_faults *fault_times_faults_of(const struct xd_client *c)
{
	return xd_workers_faults(c->dev->workers);
}

static bool is_port_down(const struct xd_client *c)
{
	return xd_faults_active(fault_times_faults_of(c), XD_FAULT_PORT) & c->fault_rules;
}

static uint64_t gone_gids(const struct xd_client *c)
{
	return xd_faults_active(fault_times_faults_of(c), XD_FAULT_GID) & c->fault_rules;
}

void xd_fault_times_hello(struct xd_client *c)
{
	c->fault_port = is_port_down(c);
	c->fault_gids = gone_gids(c);
}

/* raised: rules of events that are due */
static void fault_times_update(struct xd_client *c, uint64_t raised)
{
	struct xd_event_source *port = &c->events.port;
	const bool port_changed = c->fault_port != is_port_down(c);
	const bool gids_changed = c->fault_gids != gone_gids(c);
	const struct xd_fault_rule *rule;
	struct xd_fault_hits hits;
	uint64_t owner;

	if (port_changed)
		xd_event_raise(port, c->fault_port ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	if (gids_changed)
		xd_event_raise(port, IBV_EVENT_GID_CHANGE);
	xd_fault_times_hello(c);
	if (c->cm_channel && (port_changed || gids_changed))
		xd_walk_add(c, XD_WALK_REFRESH);
	for (raised &= c->fault_rules; raised; raised &= raised - 1) {
		rule = xd_faults_at(fault_times_faults_of(c), (uint32_t)__builtin_ctzll(raised),
				    &hits, &owner);
		xd_event_raise(port, rule->event);
	}
}

/* Charges the programs whose rules have changed for processor time. */
static void fault_times_charge(struct xd_server *s, uint64_t changed, uint64_t used)
{
	struct xd_faults *f = xd_workers_faults(s->dev->workers);
	const uint64_t each = changed ? used / (uint64_t)__builtin_popcountll(changed) : 0;
	struct xd_fault_hits hits;
	struct xd_client *c;
	uint64_t owner;

	for (; changed; changed &= changed - 1) {
		xd_faults_at(f, (uint32_t)__builtin_ctzll(changed), &hits, &owner);
		for (c = owner ? s->objects.clients.first : NULL; c && c->id != owner;)
			c = c->next;
		if (c)
			xd_load_charge(c, each);
	}
}

void xd_fault_times_run(struct xd_server *s)
{
	const uint64_t begin = xd_cpu_time();
	uint64_t now = xd_now(), next, used, pause;
	struct xd_fault_turns turns;
	struct xd_client *c;

	next = xd_faults_tick(xd_workers_faults(s->dev->workers), now, &turns);
	for (c = s->objects.clients.first; c; c = c->next)
		if (!c->ending && c->connection.hello && !c->connection.observer)
			fault_times_update(c, turns.raised);
	xd_walk_begin(&s->objects.clients, XD_WALK_REFRESH);
	used = xd_cpu_time() - begin;
	fault_times_charge(s, turns.changed, used);
	if (next == XT_NEVER) {
		xd_timer_cancel(s->fault_timer);
		return;
	}
	pause = used * MOST_TIME > XD_FAULT_TICK_NS ? used * MOST_TIME : XD_FAULT_TICK_NS;
	xd_timer_arm(s->fault_timer, next > now + pause ? next - now : pause);
}

static void fault_times_on_timer(void *arg)
{
	xd_fault_times_run(arg);
}

int xd_fault_times_start(struct xd_server *s)
{
	s->fault_timer = xd_timer_new(s->dev->loop, fault_times_on_timer, s);
	return s->fault_timer ? 0 : -ENOMEM;
}

void xd_fault_times_stop(struct xd_server *s)
{
	xd_timer_free(s->fault_timer);
}
