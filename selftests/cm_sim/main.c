// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the simulation of the CM with a range of seeds (lib/seeds.h). Each seed gives its own hosts,
 * programs and faults; the same seed gives the same run, MAD by MAD.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "cm_sim.h"
#include "selftests/lib/seeds.h"

#define STEP_LIMIT 2000000

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

	printf("# %12.3f ", w->now / 1e6);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* ---- virtual time -------------------------------------------------------- */

static uint64_t next_time(struct world *w)
{
	uint64_t when = earliest(net_next(w), users_next(w));
	unsigned i;

	for (i = 0; i < w->hosts; i++)
		when = earliest(when, host_next(&w->host[i]));
	return when;
}

static void run_due(struct world *w)
{
	unsigned i;

	net_run(w);
	for (i = 0; i < w->hosts; i++)
		host_run(&w->host[i]);
	users_run(w);
	verify_limits(w);
}

/* Runs the events until `end`, or until none is left. */
static void run_until(struct world *w, uint64_t end)
{
	uint64_t when;

	while ((when = next_time(w)) <= end && when != NEVER) {
		if (w->steps++ > STEP_LIMIT)
			sim_fail(w, "livelock: too many steps");
		w->now = when > w->now ? when : w->now;
		run_due(w);
	}
	if (end != NEVER)
		w->now = end;
}

/*
 * The phases of a run. Faults happen in the first one only. In the second one programs start
 * nothing new, so that all ends have come to rest at its end. In the third one every host connects
 * to every other one. In the last one every program closes what it has, until no event is left.
 */
static void run_world(struct world *w)
{
	run_until(w, w->faults_end);
	plan_heal(w);
	run_until(w, w->now + SETTLE_TIME);
	verify_agreement(w);
	plan_reconnect(w);
	run_until(w, w->now + SETTLE_TIME);
	verify_agreement(w);
	verify_reconnect(w);
	plan_close(w);
	run_until(w, w->now + CLOSE_TIME);
	if (next_time(w) != NEVER)
		sim_fail(w, "an event is left %llu s after the end of all programs",
			 CLOSE_TIME / SEC);
	verify_end(w);
}

/* ---- seeds --------------------------------------------------------------- */

static struct totals totals; /* of the block */
static const char *program;

/* Memory is not freed after a failure. */
static bool run_seed(uint64_t seed, bool verbose)
{
	struct world *w = calloc(1, sizeof(*w));
	unsigned i;

	w->seed = seed;
	w->verbose = verbose;
	w->rng.state = seed * 0x2545f4914f6cdd1dull;
	w->sched.state = ~w->rng.state;
	if (setjmp(w->failed)) {
		printf("# seed %llu, at %.3f ms: %s\n", (unsigned long long)seed, w->now / 1e6,
		       w->what);
		printf("# replay: %s -n 1 -s %llu -v\n", program, (unsigned long long)seed);
		return false;
	}
	plan_world(w);
	run_world(w);
	for (i = 0; i < TOTAL_COUNT; i++)
		totals.count[i] += w->totals.count[i];
	plan_free(w);
	free(w);
	return true;
}

static const char *const total_names[TOTAL_COUNT] = {
#define X(NAME, text) [TOTAL_##NAME] = text,
	TOTALS(X)
#undef X
};

/* A kind of event that never happens in a block is a sign that the simulation misses it. */
static void report(uint64_t first, uint64_t last, bool whole)
{
	unsigned i;

	TAP_OK(true, "seeds %llu to %llu", (unsigned long long)first, (unsigned long long)last);
	for (i = 0; i < TOTAL_COUNT; i++)
		if (whole)
			TAP_OK(totals.count[i], "%llu %s", (unsigned long long)totals.count[i],
			       total_names[i]);
		else
			printf("# %llu %s\n", (unsigned long long)totals.count[i], total_names[i]);
}

int main(int argc, char **argv)
{
	const struct seeds seeds = {
		.runs = 25000,
		.max_failures = 5,
		.block = 25000,
		.run = run_seed,
		.report = report,
		.totals = &totals,
		.totals_size = sizeof(totals),
	};

	program = argv[0];
	return run_seeds(seeds, argc, argv);
}
