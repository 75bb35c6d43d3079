// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * MONITOR: events for the readers of `xroce monitor`. While there are readers, the control thread
 * compares what the workers count: errors of QPs, CQs and SRQs often; NAKs, timeouts and hits of
 * fault rules once a second, so that many of them are one event.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "direct_rules.h"
#include "server.h"
#include "view.h"

#define ERRORS_NS 100000000ull
#define COUNTS_NS 1000000000ull
/* At most this part of the control thread's time is used to compare. */
#define MOST_TIME 10

/* A rule of fault injection, as it was when it was compared last */
struct monitor_rule {
	char text[XD_FAULT_TEXT];
	uint64_t owner, hits;
};

struct xd_event_watch {
	struct xd_server *server;
	struct xd_timer *timer;
	uint64_t begun;	    /* when the last comparison began */
	uint64_t counts_at; /* when counts are compared next */
	uint64_t queue_errors;
	uint32_t rules;
	struct monitor_rule rule[XD_FAULT_RULES], new_rule[XD_FAULT_RULES];
	struct worker {
		uint64_t errors, counts;
	} worker[];
};

/* ---- faults ---------------------------------------------------------------------- */

/* Returns the hits of the same rule when it was compared last. Rules are replaced at any time. */
static uint64_t known_hits(const struct xd_event_watch *w, const struct monitor_rule *r)
{
	for (uint32_t i = 0; i < w->rules; i++)
		if (w->rule[i].owner == r->owner && !strcmp(w->rule[i].text, r->text))
			return w->rule[i].hits <= r->hits ? w->rule[i].hits : 0;
	return 0;
}

static void publish_hits(struct xd_event_watch *w, const struct monitor_rule *r)
{
	struct xd_clients *cs = &w->server->objects.clients;
	uint64_t count = r->hits - known_hits(w, r);
	struct json *j = count ? xd_publish_begin(cs, "fault") : NULL;

	if (!j)
		return;
	json_text(j, "rule", r->text);
	if (r->owner)
		json_number(j, "client", r->owner);
	json_number(j, "count", count);
	json_number(j, "hits", r->hits);
	xd_publish(cs);
}

static void compare_faults(struct xd_event_watch *w, bool publish)
{
	struct xd_faults *faults = xd_workers_faults(w->server->dev->workers);
	const struct xd_fault_rule *rule;
	struct xd_fault_hits hits;
	uint32_t n;

	xd_direct_rules_collect(&w->server->objects.clients);
	for (n = 0; n < XD_FAULT_RULES; n++) {
		struct monitor_rule *r = &w->new_rule[n];

		rule = xd_faults_at(faults, n, &hits, &r->owner);
		if (!rule)
			break;
		memcpy(r->text, rule->text, sizeof(r->text));
		r->hits = hits.hits;
		if (publish)
			publish_hits(w, r);
	}
	memcpy(w->rule, w->new_rule, n * sizeof(w->rule[0]));
	w->rules = n;
}

void xd_monitor_faults(struct xd_server *s)
{
	if (s->event_watch && xd_monitored(&s->objects.clients))
		compare_faults(s->event_watch, true);
}

/* ---- queue pairs ----------------------------------------------------------------- */

static uint64_t errors_of(struct xd_device *dev, uint32_t worker)
{
	struct xd_worker_stats stats;

	xd_worker_stats(dev->workers, worker, &stats);
	return stats.qp_errors;
}

/* Returns a sum that changes when a QP of the worker has sent or received a NAK, or timed out. */
static uint64_t counts_of(struct xd_device *dev, uint32_t worker)
{
	struct xt_counters c;

	xd_worker_pause(dev->workers, worker);
	c = *xt_engine_counters(xd_worker_engine(dev->workers, worker));
	xd_worker_resume_no_wake(dev->workers, worker);
	return xt_counters_naks(&c) + c.timeouts;
}

/* Returns true if the worker has counted something since the last time. */
static bool worker_changed(struct xd_event_watch *w, uint32_t index, bool with_counts)
{
	struct xd_device *dev = w->server->dev;
	struct worker present = { .errors = errors_of(dev, index) };
	bool changed;

	present.counts = with_counts ? counts_of(dev, index) : w->worker[index].counts;
	changed = present.errors != w->worker[index].errors ||
		  present.counts != w->worker[index].counts;
	w->worker[index] = present;
	return changed;
}

/* Returns the number of asynchronous errors of CQs and SRQs. */
static uint64_t queue_errors_of(struct xd_device *dev)
{
	struct xd_worker_stats stats;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < xd_workers_count(dev->workers); i++) {
		xd_worker_stats(dev->workers, i, &stats);
		sum += stats.queue_errors;
	}
	return sum;
}

static bool queues_changed(struct xd_event_watch *w)
{
	uint64_t errors = queue_errors_of(w->server->dev);
	bool changed = errors != w->queue_errors;

	w->queue_errors = errors;
	return changed;
}

static void compare_later(void *arg)
{
	struct xd_event_watch *w = arg;
	uint64_t took = xd_now() - w->begun;

	xd_timer_arm(w->timer, took * MOST_TIME > ERRORS_NS ? took * MOST_TIME : ERRORS_NS);
}

/* The objects are walked if any of them has changed. */
static void monitor_compare(void *arg)
{
	struct xd_event_watch *w = arg;
	struct xd_clients *cs = &w->server->objects.clients;
	bool with_counts, changed;

	w->begun = xd_now();
	with_counts = w->begun >= w->counts_at;
	if (!xd_monitored(cs))
		return;
	xd_views_publish(cs, true);
	changed = queues_changed(w);
	for (uint32_t i = 0; i < xd_workers_count(w->server->dev->workers); i++)
		changed |= worker_changed(w, i, with_counts);
	if (with_counts) {
		compare_faults(w, true);
		w->counts_at = w->begun + COUNTS_NS;
	}
	if (changed)
		xd_walk_all(cs, XD_WALK_PUBLISH);
	else
		compare_later(w);
}

/* ---- the request ----------------------------------------------------------------- */

static int new_watch(struct xd_server *s)
{
	uint32_t workers = xd_workers_count(s->dev->workers);
	struct xd_event_watch *w = calloc(1, sizeof(*w) + workers * sizeof(w->worker[0]));

	if (!w)
		return -ENOMEM;
	w->server = s;
	w->timer = xd_timer_new(s->dev->loop, monitor_compare, w);
	if (!w->timer) {
		free(w);
		return -ENOMEM;
	}
	s->event_watch = w;
	return 0;
}

/* Notes what has happened before the first reader: the walk publishes nothing of that. */
static void start_watch(struct xd_event_watch *w)
{
	struct xd_server *s = w->server;
	struct xd_walk *walk = &s->objects.clients.walk[XD_WALK_PUBLISH];

	w->begun = xd_now();
	for (uint32_t i = 0; i < xd_workers_count(s->dev->workers); i++)
		worker_changed(w, i, true);
	queues_changed(w);
	xd_views_publish(&s->objects.clients, false);
	compare_faults(w, false);
	w->counts_at = w->begun + COUNTS_NS;
	walk->done = compare_later;
	walk->arg = w;
	xd_walk_all(&s->objects.clients, XD_WALK_PUBLISH);
}

int xd_do_monitor(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_server *s = xd_server_of(c);
	bool first = !xd_monitored(c->clients);
	int err = s->event_watch ? 0 : new_watch(s), fd;

	(void)req;
	if (!err)
		err = xd_monitor_open(c, &fd);
	if (err)
		return err;
	if (first)
		start_watch(s->event_watch);
	xd_reply_fd(rep, fd, false);
	return 0;
}

void xd_monitor_stop(struct xd_server *s)
{
	if (!s->event_watch)
		return;
	xd_timer_free(s->event_watch->timer);
	free(s->event_watch);
	s->event_watch = NULL;
}
