// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The policy of workers without work, with a simulated clock. */
#include <string.h>

#include "daemon/datapath/spin.h"
#include "selftests/lib/tap.h"

#define US 1000ull
#define MS 1000000ull
#define SECOND 1000000000ull
#define LIMIT (50 * US)
/* Duration of a yield to programs that yield, and to one that never does */
#define YIELD_SHORT (3 * US)
#define YIELD_LONG (4 * MS)
/* ... and of one that switches to no other thread */
#define YIELD_LONE 200ull

struct sim {
	struct xd_spin spin;
	uint64_t now;
	unsigned yields, pauses, sleeps, starved;
};

static struct sim sim_new(uint64_t limit)
{
	struct sim s = { .now = SECOND };

	xd_spin_init(&s.spin, limit, s.now);
	return s;
}

/* The next step of a worker without work; returns false if it sleeps. */
static bool step(struct sim *s, uint64_t yield_ns)
{
	uint64_t before = s->now;

	switch (xd_spin_next(&s->spin, s->now)) {
	case XD_IDLE_SLEEP:
		s->sleeps++;
		return false;
	case XD_IDLE_PAUSE:
		s->pauses++;
		s->now += US / 10;
		return true;
	case XD_IDLE_YIELD:
		break;
	}
	s->yields++;
	s->now += yield_ns;
	s->starved += xd_spin_yielded(&s->spin, before, s->now);
	return true;
}

static void wake_at(struct sim *s, uint64_t now)
{
	s->now = now;
	xd_spin_slept(&s->spin, s->now);
}

/* Idles until the worker sleeps, or for ns. */
static void idle(struct sim *s, uint64_t ns, uint64_t yield_ns)
{
	uint64_t end = s->now + ns;

	while (s->now < end)
		if (!step(s, yield_ns))
			wake_at(s, end);
}

static void work(struct sim *s)
{
	s->now += US;
	xd_spin_worked(&s->spin, s->now);
}

static void clear(struct sim *s)
{
	s->yields = s->pauses = s->sleeps = s->starved = 0;
}

/*
 * Messages for ns, from a thread of another group of the scheduler on the same core: it runs only
 * while the worker sleeps. Returns their number.
 */
static unsigned kept_core(struct sim *s, uint64_t ns)
{
	uint64_t end = s->now + ns;
	unsigned n;

	clear(s);
	for (n = 0; s->now < end; n++) {
		work(s);
		while (step(s, YIELD_LONE))
			;
		wake_at(s, s->now + 3 * US);
	}
	return n;
}

/* n messages, one each 20 us; returns how many of them found the worker asleep. */
static unsigned ping_pong(struct sim *s, unsigned n, uint64_t yield_ns)
{
	clear(s);
	while (n--) {
		work(s);
		idle(s, 20 * US, yield_ns);
	}
	return s->sleeps;
}

/* Continuous messages, from a worker on the same core that yields only if its window is full */
static void bandwidth(struct sim *s, uint64_t ns)
{
	uint64_t end = s->now + ns;

	while (s->now < end) {
		work(s);
		idle(s, 20 * US, YIELD_LONG);
	}
}

/* Messages that take the worker 70 us each, beside a program that never yields */
static void stream(struct sim *s, uint64_t ns)
{
	uint64_t end = s->now + ns;
	unsigned i;

	while (s->now < end) {
		for (i = 0; i < 70; i++)
			work(s);
		idle(s, 20 * US, YIELD_LONG);
	}
}

/* As many yields to a program that never yields as make the worker back off */
static void long_yields(struct sim *s)
{
	unsigned i;

	for (i = 0; i < XD_STARVED_YIELDS; i++) {
		work(s);
		idle(s, US, YIELD_LONG);
	}
}

static void test_idle(void)
{
	struct sim s = sim_new(LIMIT);

	work(&s);
	idle(&s, SECOND, YIELD_SHORT);
	TAP_OK(s.yields >= LIMIT / YIELD_SHORT && s.yields <= LIMIT / YIELD_SHORT + 1,
	       "after work a worker spins for as long as configured (%u yields)", s.yields);
	TAP_OK(!s.pauses && s.sleeps == 1, "a spinning worker only yields, then sleeps");
	clear(&s);
	idle(&s, SECOND, YIELD_SHORT);
	TAP_OK(s.yields && s.sleeps == 1, "after a wake-up without work a worker spins again");
}

static void test_no_spin(void)
{
	struct sim s = sim_new(0);

	work(&s);
	idle(&s, SECOND, YIELD_SHORT);
	TAP_OK(s.yields == 1 && s.sleeps == 1,
	       "without spin time a worker yields once before it sleeps");
	clear(&s);
	idle(&s, SECOND, YIELD_SHORT);
	TAP_OK(!s.yields && s.sleeps == 1,
	       "without spin time a worker yields again only after work");
	long_yields(&s);
	TAP_OK(s.starved == 1,
	       "without spin time the single yields detect a program that does not yield");
	clear(&s);
	work(&s);
	idle(&s, US, YIELD_LONG);
	TAP_OK(!s.yields && !s.pauses && s.sleeps == 1,
	       "a starved worker without spin time sleeps at once");
}

static void test_yielding_programs(void)
{
	struct sim s = sim_new(LIMIT);

	TAP_OK(!ping_pong(&s, 10000, YIELD_SHORT),
	       "with programs that yield, no message finds the worker asleep");
	TAP_OK(!ping_pong(&s, 10000, XD_STARVED_NS / 100) && !s.starved,
	       "no message finds the worker asleep if a yield takes 10 us");
	work(&s);
	idle(&s, US, YIELD_LONG);
	TAP_OK(!s.starved && !ping_pong(&s, 100, YIELD_SHORT),
	       "after a single long yield, no message finds the worker asleep");
	work(&s);
	idle(&s, US, YIELD_LONG);
	TAP_OK(!s.starved, "long yields count only if no short one was in between");
}

/* A worker that has a processor for itself yields once in a few looks for work. */
static void test_lone_worker(void)
{
	struct sim s = sim_new(LIMIT);

	work(&s);
	idle(&s, 20 * US, YIELD_LONE);
	TAP_OK(s.yields && s.pauses >= (s.yields - 1) * XD_LONE_LOOKS && !s.sleeps,
	       "after a yield that switched to no thread the worker looks for work %u times",
	       XD_LONE_LOOKS);
	clear(&s);
	work(&s);
	idle(&s, YIELD_LONE, YIELD_LONE);
	TAP_OK(s.yields == 1 && !s.pauses, "after work it yields first");
	clear(&s);
	idle(&s, SECOND, YIELD_LONE);
	TAP_OK(s.sleeps == 1, "it sleeps in the end");
	s = sim_new(0);
	work(&s);
	idle(&s, US, YIELD_LONE);
	TAP_OK(s.yields == 1 && !s.pauses && s.sleeps == 1,
	       "without spin time it sleeps after the yield");
}

/* n messages within the host, and replies after ns; returns how many replies came after a yield. */
static unsigned carry(struct sim *s, unsigned n, uint64_t ns)
{
	unsigned late = 0;

	while (n--) {
		work(s);
		xd_spin_look(&s->spin, s->now);
		clear(s);
		idle(s, ns, YIELD_SHORT);
		late += s->yields > 0;
		work(s); /* the reply, for the program on the worker's core */
		xd_spin_look(&s->spin, s->now);
		idle(s, YIELD_SHORT, YIELD_SHORT);
	}
	return late;
}

/* A worker that has carried a message to a program on another core waits for the reply. */
static void test_looks(void)
{
	struct sim s = sim_new(LIMIT);
	uint64_t begun;

	TAP_OK(!carry(&s, 1000, US), "a reply within the host is found before a yield");
	work(&s);
	begun = s.now;
	xd_spin_look(&s.spin, s.now);
	clear(&s);
	while (!s.yields)
		step(&s, YIELD_SHORT);
	TAP_OK(s.now - begun <= XD_LOOK_NS + US / 10 + YIELD_SHORT,
	       "the worker yields if there is none for %u ns", XD_LOOK_NS);
	work(&s);
	xd_spin_look(&s.spin, s.now);
	work(&s);
	xd_spin_look(&s.spin, s.now);
	clear(&s);
	step(&s, YIELD_SHORT);
	TAP_OK(s.yields == 1, "it looks once between two yields");
	carry(&s, XD_LOOKS, 20 * US);
	TAP_OK(carry(&s, 100, US) == 100, "without replies it does not look any more");
	s.now += XD_NO_LOOKS_NS;
	TAP_OK(!carry(&s, 100, US), "10 ms later it looks again");
}

/* A worker that keeps the core from the thread that it waits for spins rarely. */
static void test_wasted_spins(void)
{
	struct sim s = sim_new(LIMIT);
	unsigned n;

	n = kept_core(&s, 100 * MS);
	TAP_OK(n > 20000, "a thread that needs the worker's core gets it (%u turns in 100 ms)", n);
	n = kept_core(&s, SECOND);
	TAP_OK(s.pauses, "... and spinning is tried again");
	TAP_OK(n > 230000, "... ever more rarely (%u turns in a second)", n);
	xd_spin_reset_backoff(&s.spin);
	TAP_OK(!ping_pong(&s, 1000, YIELD_SHORT),
	       "after a reset of the back-off, spins are long again");
	kept_core(&s, SECOND);
	ping_pong(&s, XD_SHORT_SPINS_MAX_NS / (20 * US), YIELD_SHORT);
	TAP_OK(!ping_pong(&s, 1000, YIELD_SHORT),
	       "100 ms later, no message finds the worker asleep");
	for (n = 0; n < 1000; n++) {
		ping_pong(&s, XD_WASTED_WEIGHT, YIELD_SHORT);
		work(&s);
		idle(&s, 2 * LIMIT, YIELD_SHORT);
		if (s.spin.short_until > s.now)
			break;
	}
	TAP_OK(n == 1000, "spins stay long if one in nine is wasted");
}

/* Returns the number of wasted spins until spins are short. */
static unsigned wasted_until_short(struct sim *s)
{
	unsigned n;

	for (n = 0; s->spin.short_until <= s->now; n++) {
		work(s);
		idle(s, 2 * LIMIT, YIELD_SHORT);
	}
	return n;
}

static void test_retries(void)
{
	struct sim s = sim_new(LIMIT);
	unsigned i;

	TAP_OK(wasted_until_short(&s) == XD_WASTED_LIMIT / XD_WASTED_WEIGHT,
	       "spins become short after several wasted ones");
	for (i = 0; i < 100; i++) { /* messages that come after a yield */
		work(&s);
		step(&s, US);
	}
	work(&s);
	s.now = s.spin.short_until;
	TAP_OK(wasted_until_short(&s) == (XD_WASTED_LIMIT - XD_WASTED_RETRY) / XD_WASTED_WEIGHT,
	       "... and after fewer when long ones are tried again");
}

/* With a program that never yields, the worker spins rarely. */
static void test_spinning_program(void)
{
	struct sim s = sim_new(LIMIT);
	uint64_t begun = s.now;

	while (s.now < begun + 60 * SECOND)
		ping_pong(&s, 100, YIELD_LONG);
	clear(&s);
	begun = s.now;
	while (s.now < begun + 60 * SECOND) {
		work(&s);
		idle(&s, 20 * US, YIELD_LONG);
	}
	TAP_OK(s.starved >= 60 * SECOND / XD_BACKOFF_MAX_NS / 2 &&
		       s.starved <= 60 * SECOND / XD_BACKOFF_MAX_NS,
	       "with a program that never yields, spinning is tried each 2 s (%u times in 60 s)",
	       s.starved);
	TAP_OK(!s.pauses && s.yields == s.starved && s.sleeps > 1000 * s.starved,
	       "with a program that never yields, the worker mostly sleeps at once");
	clear(&s);
	stream(&s, 10 * MS);
	TAP_OK(s.starved <= 1 && s.pauses > 100 && s.sleeps,
	       "during a stream the worker pauses before it sleeps (%u pauses, %u sleeps)",
	       s.pauses, s.sleeps);
	s.now += 10 * SECOND;
	clear(&s);
	long_yields(&s);
	TAP_OK(s.starved == 1 && s.spin.backoff_until - s.now <= XD_BACKOFF_MIN_NS,
	       "after a long time, the back-off starts from its minimum");
}

static void test_other_programs(void)
{
	struct sim s = sim_new(LIMIT);
	unsigned slept;

	bandwidth(&s, 5 * SECOND);
	TAP_OK(s.spin.backoff_until > s.now + 100 * MS,
	       "a bandwidth run makes the worker back off");
	slept = ping_pong(&s, 100, YIELD_SHORT);
	TAP_OK(slept == 100, "during back-off, each message finds the worker asleep");
	xd_spin_reset_backoff(&s.spin);
	TAP_OK(!ping_pong(&s, 100, YIELD_SHORT),
	       "after a reset of the back-off, no message finds the worker asleep");
	bandwidth(&s, 5 * SECOND);
	xd_spin_reset_backoff(&s.spin);
	clear(&s);
	long_yields(&s);
	TAP_OK(s.starved == 1 && s.spin.backoff_until == s.now + XD_BACKOFF_MIN_NS,
	       "the first slices of a new program cause the shortest back-off only");
}

int main(void)
{
	test_idle();
	test_no_spin();
	test_yielding_programs();
	test_lone_worker();
	test_looks();
	test_wasted_spins();
	test_retries();
	test_spinning_program();
	test_other_programs();
	return tap_end();
}
