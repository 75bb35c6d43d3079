// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When a worker without work yields, pauses or sleeps. The clock is the test's own. */
#include <string.h>

#include "daemon/datapath/spin.h"
#include "selftests/lib/tap.h"

#define US 1000ull
#define MS 1000000ull
#define SECOND 1000000000ull
#define LIMIT (50 * US)
/* What programs that do as they should let a yield take, and one that never yields */
#define GIVEN_BACK (3 * US)
#define TAKEN (4 * MS)

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

/* Idle from the last work on until the worker sleeps, or for so long */
static void idle(struct sim *s, uint64_t ns, uint64_t yield_ns)
{
	uint64_t end = s->now + ns, before;

	while (s->now < end) {
		switch (xd_spin_next(&s->spin, s->now)) {
		case XD_IDLE_SLEEP:
			s->sleeps++;
			s->now = end;
			xd_spin_slept(&s->spin, s->now);
			return;
		case XD_IDLE_PAUSE:
			s->pauses++;
			s->now += US / 10;
			break;
		case XD_IDLE_YIELD:
			s->yields++;
			before = s->now;
			s->now += yield_ns;
			s->starved += xd_spin_yielded(&s->spin, before, s->now);
			break;
		}
	}
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

/* A message comes every 20 us; returns how many of n met a sleeping worker. */
static unsigned ping_pong(struct sim *s, unsigned n, uint64_t yield_ns)
{
	clear(s);
	while (n--) {
		work(s);
		idle(s, 20 * US, yield_ns);
	}
	return s->sleeps;
}

/* Messages all the time, from a worker on the same core that yields only when its window is full */
static void bandwidth(struct sim *s, uint64_t ns)
{
	uint64_t end = s->now + ns;

	while (s->now < end) {
		work(s);
		idle(s, 20 * US, TAKEN);
	}
}

static void test_idle(void)
{
	struct sim s = sim_new(LIMIT);

	work(&s);
	idle(&s, SECOND, GIVEN_BACK);
	TAP_OK(s.yields >= LIMIT / GIVEN_BACK && s.yields <= LIMIT / GIVEN_BACK + 1,
	       "after work a worker spins for as long as configured (%u yields)", s.yields);
	TAP_OK(!s.pauses && s.sleeps == 1, "yielding all the while; then it sleeps");
	clear(&s);
	idle(&s, SECOND, GIVEN_BACK);
	TAP_OK(s.yields && s.sleeps == 1, "woken for nothing it spins once more, no longer");
}

static void test_no_spin(void)
{
	struct sim s = sim_new(0);

	work(&s);
	idle(&s, SECOND, GIVEN_BACK);
	TAP_OK(s.yields == 1 && s.sleeps == 1, "told not to spin, it yields once before it sleeps");
	clear(&s);
	idle(&s, SECOND, GIVEN_BACK);
	TAP_OK(!s.yields && s.sleeps == 1, "and not again before there was work");
	work(&s);
	idle(&s, 5 * MS, TAKEN);
	TAP_OK(s.starved == 1, "that one yield tells of a program that does not");
	clear(&s);
	work(&s);
	idle(&s, US, TAKEN);
	TAP_OK(!s.yields && !s.pauses && s.sleeps == 1, "then it sleeps at once");
}

static void test_polite(void)
{
	struct sim s = sim_new(LIMIT);

	TAP_OK(!ping_pong(&s, 10000, GIVEN_BACK),
	       "among programs that yield no message meets a sleeping worker");
	TAP_OK(!ping_pong(&s, 10000, XD_STARVED_NS / 100) && !s.starved,
	       "nor where a yield takes 10 us");
}

/* A program that never yields: tried now and then, seldom enough */
static void test_hog(void)
{
	struct sim s = sim_new(LIMIT);
	uint64_t begun = s.now;

	while (s.now < begun + 60 * SECOND)
		ping_pong(&s, 100, TAKEN);
	clear(&s);
	begun = s.now;
	while (s.now < begun + 60 * SECOND) {
		work(&s);
		idle(&s, 20 * US, TAKEN);
	}
	TAP_OK(s.starved >= 60 * SECOND / XD_BACKOFF_MAX_NS / 2 &&
		       s.starved <= 60 * SECOND / XD_BACKOFF_MAX_NS,
	       "a program that does not yield: tried again every 2 s (%u times in 60 s)",
	       s.starved);
	TAP_OK(s.pauses && s.sleeps > 1000 * s.starved,
	       "else the worker sleeps, after a short spin");
	s.now += 10 * SECOND;
	clear(&s);
	work(&s);
	idle(&s, 20 * US, TAKEN);
	TAP_OK(s.starved == 1 && s.spin.backoff_until - s.now <= XD_BACKOFF_MIN_NS,
	       "long after, it is taken as new");
}

static void test_other_programs(void)
{
	struct sim s = sim_new(LIMIT);
	unsigned slept;

	bandwidth(&s, 5 * SECOND);
	TAP_OK(s.spin.backoff_until > s.now + 100 * MS,
	       "a bandwidth run taught it that spinning does not pay");
	slept = ping_pong(&s, 100, GIVEN_BACK);
	TAP_OK(slept == 100,
	       "the same programs go on in turns: each message meets a sleeping worker");
	xd_spin_reset_backoff(&s.spin);
	TAP_OK(!ping_pong(&s, 100, GIVEN_BACK),
	       "other programs came: from the first message on none does");
	bandwidth(&s, 5 * SECOND);
	xd_spin_reset_backoff(&s.spin);
	clear(&s);
	work(&s);
	idle(&s, 20 * US, TAKEN);
	TAP_OK(s.starved == 1 && s.spin.backoff_until == s.now + XD_BACKOFF_MIN_NS,
	       "nor is a new program's first slice held against it for long");
}

int main(void)
{
	test_idle();
	test_no_spin();
	test_polite();
	test_hog();
	test_other_programs();
	return tap_end();
}
