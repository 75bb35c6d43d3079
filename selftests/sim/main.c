// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the simulation with a range of seeds (lib/seeds.h). Each seed gives its own hosts,
 * connections, faults and operations; the same seed gives the same run, packet by packet.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "selftests/lib/seeds.h"
#include "sim.h"

#define TIME_LIMIT (300 * SEC) /* virtual */
/* Programs that poll while others wait seconds for an ACK timeout need millions of steps. */
#define STEP_LIMIT 100000000

void sim_fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->what, sizeof(w->what), fmt, ap);
	va_end(ap);
	longjmp(w->failed, 1);
}

void sim_trace(struct world *w, const char *fmt, ...)
{
	va_list ap;

	printf("# %10.3f ", w->now / 1000.0);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* ---- virtual time -------------------------------------------------------- */

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t next_time(struct world *w)
{
	struct frame *f = flights_first(&w->flights);
	uint64_t when = earliest(f ? f->flight.when : NEVER, memory_next(w));
	unsigned i, k;

	for (i = 0; i < w->hosts; i++)
		for (k = 0; k < w->host[i].engines; k++)
			when = earliest(when, w->host[i].engine[k].wake);
	for (i = 0; i < w->conns; i++) {
		struct conn *c = &w->conn[i];

		when = earliest(when, earliest(c->qp[0].step, c->qp[1].step));
		if (c->phase != CONN_CLOSED)
			when = earliest(when,
					earliest(c->script_at, earliest(c->close_at, c->ready_at)));
	}
	return when;
}

static void run_due(struct world *w)
{
	struct frame *f;
	unsigned i, k;

	while ((f = flights_first(&w->flights)) && f->flight.when <= w->now)
		net_arrive(w);
	memory_run(w);
	for (i = 0; i < w->hosts; i++)
		for (k = 0; k < w->host[i].engines; k++)
			if (w->host[i].engine[k].wake <= w->now)
				engine_round(&w->host[i].engine[k]);
	for (i = 0; i < w->conns; i++) {
		struct conn *c = &w->conn[i];

		for (k = 0; k < 2; k++)
			if (c->qp[k].step <= w->now)
				client_step(&c->qp[k]);
		if (c->ready_at <= w->now)
			conn_ready(c);
		if (c->script_at <= w->now)
			script_run(w, c);
		script_close(w, c);
	}
}

static bool all_closed(const struct world *w)
{
	unsigned i;

	for (i = 0; i < w->conns; i++)
		if (w->conn[i].phase != CONN_CLOSED)
			return false;
	return true;
}

static void describe(struct world *w)
{
	unsigned i;

	for (i = 0; i < 2 * w->conns; i++) {
		struct conn *c = &w->conn[i / 2];
		struct sim_qp *q = &c->qp[i % 2];

		if (c->phase != CONN_CLOSED)
			printf("# qp %u: %s, state %d, script %s%s, "
			       "requests %u of %u posted, %u complete; "
			       "receives %u posted, %u complete\n",
			       q->id, c->local ? "local" : "remote",
			       q->qp ? (int)xt_qp_info(q->qp)->state : -1, script_name(c->script),
			       c->broken ? " (broken)" : "", q->op_next, q->op_count, q->op_head,
			       q->recv_next, q->recv_head);
	}
}

static const char *why_stuck(uint64_t when)
{
	if (when == NEVER)
		return "deadlock: no event is pending";
	return when > TIME_LIMIT ? "livelock: virtual time is up" : "livelock: too many steps";
}

/* Runs until all connections are closed and no packet is in flight. */
static void run_world(struct world *w)
{
	uint64_t when;

	while (!all_closed(w) || w->flights.len) {
		when = next_time(w);
		if (when == NEVER || when > TIME_LIMIT || w->steps++ > STEP_LIMIT) {
			describe(w);
			sim_fail(w, "%s", why_stuck(when));
		}
		w->now = when > w->now ? when : w->now;
		run_due(w);
	}
	verify_end(w);
}

/* True if all retransmissions were caused by NAKs, none by timeouts. */
static bool recovered_by_nak(const struct world *w)
{
	uint64_t timeouts = 0, again = 0, naks = 0;
	unsigned i, k;

	for (i = 0; i < w->hosts; i++)
		for (k = 0; k < w->host[i].engines; k++) {
			const struct xt_counters *c =
				xt_engine_counters(w->host[i].engine[k].engine);

			timeouts += c->timeouts;
			again += c->tx_retransmits;
			naks += c->seq_naks_received;
		}
	return again && naks && !timeouts;
}

/* ---- seeds --------------------------------------------------------------- */

static struct {
	uint64_t accesses, posted_pieces, packets, operations, errors, starved, forged;
	uint64_t arrivals, forwarded, other_ids, large_frames;
	uint64_t recovered; /* worlds that recovered from losses without a timeout */
} totals;		    /* of the block */

static const char *program;

/* Memory is not freed after a failure. */
static bool run_seed(uint64_t seed, bool verbose)
{
	struct world *w = calloc(1, sizeof(*w));

	w->seed = seed;
	w->verbose = verbose;
	w->rng.state = seed * 0x2545f4914f6cdd1dull;
	w->sched.state = ~w->rng.state;
	if (setjmp(w->failed)) {
		printf("# seed %llu, at %.3f us: %s\n", (unsigned long long)seed, w->now / 1000.0,
		       w->what);
		printf("# replay: %s -n 1 -s %llu -v\n", program, (unsigned long long)seed);
		return false;
	}
	plan_world(w);
	run_world(w);
	totals.accesses += w->accesses;
	totals.posted_pieces += w->posted_pieces;
	totals.packets += w->packets;
	totals.operations += w->ops_done;
	totals.errors += w->errors_seen;
	totals.starved += w->gave_up;
	totals.forged += w->forged;
	totals.arrivals += w->arrivals;
	totals.forwarded += w->forwarded;
	totals.other_ids += w->other_ids;
	totals.large_frames += w->large_frames;
	totals.recovered += recovered_by_nak(w);
	plan_free(w);
	free(w);
	return true;
}

static void report(uint64_t first, uint64_t last, bool whole)
{
	TAP_OK(true,
	       "seeds %llu to %llu: %llu operations, %llu packets, %llu forged, "
	       "%llu errors as expected",
	       (unsigned long long)first, (unsigned long long)last,
	       (unsigned long long)totals.operations, (unsigned long long)totals.packets,
	       (unsigned long long)totals.forged, (unsigned long long)totals.errors);
	if (whole) {
		TAP_OK(totals.recovered, "%llu of them recover from losses by NAKs alone",
		       (unsigned long long)totals.recovered);
		TAP_OK(totals.accesses, "%llu accesses to memory that must be waited for",
		       (unsigned long long)totals.accesses);
		TAP_OK(totals.posted_pieces, "%llu posted writes over loopback",
		       (unsigned long long)totals.posted_pieces);
		TAP_OK(totals.arrivals, "%llu unreliable messages that must arrive do",
		       (unsigned long long)totals.arrivals);
		TAP_OK(totals.forwarded && totals.other_ids,
		       "UDP sockets: %llu packets are forwarded to their worker, %llu have another "
		       "IPv4 identification than assumed",
		       (unsigned long long)totals.forwarded, (unsigned long long)totals.other_ids);
		TAP_OK(totals.large_frames, "%llu large frames",
		       (unsigned long long)totals.large_frames);
	}
	if (totals.starved)
		printf("# %llu programs ended early because they found no free memory\n",
		       (unsigned long long)totals.starved);
}

int main(int argc, char **argv)
{
	const struct seeds seeds = {
		.runs = 2000,
		.max_failures = 5,
		.block = 250,
		.run = run_seed,
		.report = report,
		.totals = &totals,
		.totals_size = sizeof(totals),
	};

	program = argv[0];
	return run_seeds(seeds, argc, argv);
}
