// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Workers that take each other's locks. Their threads are simulated: while one worker waits for a
 * lock, another one runs, and each attempt to take a lock is counted.
 */
#include <errno.h>
#include <string.h>

#include "daemon/datapath/worker_internal.h"
#include "selftests/lib/tap.h"

#define WORKERS 3
#define SOON 10 /* attempts; far fewer than XD_LOCK_SPINS */

static struct xd_worker w[WORKERS];
static bool locked[WORKERS];
static unsigned attempts;
static void (*runs_next)(void); /* when the running worker has waited for some attempts */
static unsigned waited;

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

static bool *lock_of(const pthread_mutex_t *m)
{
	unsigned i;

	for (i = 0; i < WORKERS - 1 && m != &w[i].lock; i++)
		;
	return &locked[i];
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
	void (*next)(void) = runs_next;

	attempts++;
	if (next && ++waited == 3) {
		runs_next = NULL;
		waited = 0;
		next();
	}
	if (*lock_of(m))
		return EBUSY;
	*lock_of(m) = true;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	*lock_of(m) = false;
	return 0;
}

/* ---- rounds ------------------------------------------------------------------------------ */

static struct {
	bool entered;
	unsigned attempts;
} result[WORKERS];

static void begin_round(void (*next)(void))
{
	unsigned i;

	for (i = 0; i < WORKERS; i++)
		locked[i] = true;
	memset(result, 0, sizeof(result));
	attempts = waited = 0;
	runs_next = next;
}

/* One worker enters another one in its round, which ends then. */
static void enter(unsigned from, unsigned to)
{
	unsigned before = attempts;

	result[from].entered = xd_worker_enter(&w[from], &w[to]);
	result[from].attempts = attempts - before;
	if (result[from].entered)
		xd_worker_leave(&w[to]);
	xd_worker_unlock(&w[from]);
}

static void set_up(void)
{
	unsigned i;

	memset(w, 0, sizeof(w));
	for (i = 0; i < WORKERS; i++) {
		w[i].index = i;
		w[i].holder = &w[i];
	}
}

static bool nobody_waits(void)
{
	return !w[0].waiter && !w[1].waiter && !w[2].waiter;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void first_enters_second(void)
{
	enter(0, 1);
}

static void second_enters_first(void)
{
	enter(1, 0);
}

static void test_two(void)
{
	unsigned turn, first, second, good = 0;

	set_up();
	begin_round(second_enters_first);
	enter(0, 1);
	TAP_OK(!result[1].entered && result[1].attempts <= SOON,
	       "of two workers that wait for each other, one fails at once");
	TAP_OK(result[0].entered && attempts <= SOON, "the other one succeeds when it has ended");
	TAP_OK(nobody_waits(), "nobody waits afterwards");
	for (turn = 1; turn <= 10; turn++) {
		first = turn % 2;
		second = !first;
		begin_round(first ? first_enters_second : second_enters_first);
		enter(first, second);
		good += result[first].entered && !result[second].entered && attempts <= SOON;
	}
	TAP_OK(good == 10, "they take turns");
}

/* Each waits for the next one. */
static void set_circle(unsigned failed)
{
	unsigned i;

	for (i = 0; i < WORKERS; i++) {
		w[(i + 1) % WORKERS].waiter = &w[i];
		w[i].failed = failed >> i & 1;
	}
}

static void test_circle(void)
{
	unsigned failed, i, give_way, good = 0;

	set_up();
	for (failed = 0; failed < 1 << WORKERS; failed++) {
		give_way = 0;
		for (i = 0; i < WORKERS; i++) {
			begin_round(NULL);
			set_circle(failed);
			enter(i, (i + 1) % WORKERS);
			give_way += attempts <= SOON;
		}
		good += give_way && give_way < WORKERS;
	}
	TAP_OK(good == 1 << WORKERS,
	       "of workers that wait in a circle, at least one fails at once, but not all");
}

static void first_enters_third_too(void)
{
	unsigned before = attempts;

	result[0].entered = xd_worker_enter(&w[0], &w[2]);
	result[0].attempts = attempts - before;
	xd_worker_leave(&w[1]);
	xd_worker_unlock(&w[0]);
}

/* A multicast message needs the locks of several workers at a time. */
static void test_several(void)
{
	set_up();
	begin_round(NULL);
	locked[1] = false;
	TAP_OK(xd_worker_enter(&w[0], &w[1]), "a worker enters one that is between its rounds");
	w[2].failed = true;
	runs_next = first_enters_third_too;
	enter(2, 1);
	TAP_OK(!result[0].entered && result[0].attempts <= SOON,
	       "a worker gives way to one that waits for a lock that it took before");
	TAP_OK(result[2].entered && attempts <= 2 * SOON, "which takes that lock then");
}

static void test_limits(void)
{
	set_up();
	begin_round(NULL);
	enter(0, 1);
	TAP_OK(!result[0].entered && attempts == XD_LOCK_SPINS + 1,
	       "a worker waits for a limited time");
	TAP_OK(nobody_waits(), "nobody waits afterwards");
	w[0].waiter = &w[1];
	xd_worker_unlock(&w[0]);
	TAP_OK(!locked[0] && nobody_waits(),
	       "a worker that waits and does not run is waited for once");
}

int main(void)
{
	test_two();
	test_circle();
	test_several();
	test_limits();
	return tap_end();
}
