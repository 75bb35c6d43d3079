// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whether a thread polls: rounds of this thread, which polls, computes, sleeps, or waits for a
 * processor.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "provider/host/cover.h"
#include "selftests/lib/tap.h"

#define MOST 20000u /* ns of a break that counts */
#define LONG 200000u
#define TIMES 30
#define SPINNERS 3
#define LATE 1000000u /* ns since the last poll */

static struct xp_cover cover;
static struct xp_cover_look look;
static bool stop;    /* atomic */
static bool started; /* atomic: the other thread has polled */
static sem_t ends;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void receive(void)
{
	uint64_t begin = now();

	xp_cover_add(&cover, begin, now(), MOST);
}

/* At the end of the last round: this thread may lose its processor before it looks. */
static enum xp_polls polls(void)
{
	return xp_cover_look(&cover, &look, 0, cover.to, cover.to);
}

/* Some time after it */
static enum xp_polls polls_now(void)
{
	return xp_cover_look(&cover, &look, 0, cover.to, now());
}

static void start(void)
{
	receive();
	look = (struct xp_cover_look){ .ns = cover.ns, .to = cover.to };
}

static void compute(uint64_t ns)
{
	uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

static void *spin(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return arg;
}

/* Returns true if breaks were left out. Other programs may have had the processor, too. */
static bool leaves_out(uint64_t breaks)
{
	return cover.ns - look.ns <= cover.to - look.to - breaks * (LONG - MOST);
}

static void sleep_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static long preemptions(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

/* Polls on one processor, with threads that want it all the time, until it has lost it often. */
static void poll_beside_spinners(bool yield)
{
	pthread_t spinner[SPINNERS];
	cpu_set_t one, all;
	long until;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (int i = 0; i < SPINNERS; i++)
		pthread_create(&spinner[i], NULL, spin, NULL);
	start();
	for (until = preemptions() + TIMES; preemptions() < until;) {
		receive();
		if (yield)
			sched_yield();
	}
	receive();
	TAP_OK(polls() == XP_POLLS,
	       yield ? "a thread that polls, and yields to others, polls"
		     : "a thread that polls beside others on its processor polls");
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < SPINNERS; i++)
		pthread_join(spinner[i], NULL);
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	sched_setaffinity(0, sizeof(all), &all);
}

static void test_short(void)
{
	start();
	TAP_OK(polls() == XP_POLLS_UNKNOWN, "a thread that has not run since is unknown");
	look.to = cover.to - MOST;
	TAP_OK(polls() == XP_POLLS_UNKNOWN, "so is one that has run for a moment");
}

static void test_breaks(void)
{
	start();
	for (int i = 0; i < TIMES; i++) {
		compute(LONG);
		receive();
	}
	TAP_OK(leaves_out(TIMES), "time in which a thread computes between polls does not count");
	start();
	for (int i = 0; i < TIMES; i++) {
		sleep_ns(LONG);
		receive();
	}
	TAP_OK(leaves_out(TIMES), "nor does time in which it sleeps");
	TAP_OK(polls() == XP_POLLS_NOT, "so it does not poll");
}

static void *receive_often(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		compute(LONG);
		receive();
	}
	return arg;
}

/* One after the other, each with a long break */
static void test_threads(void)
{
	pthread_t thread;

	start();
	compute(LONG);
	receive();
	pthread_create(&thread, NULL, receive_often, NULL);
	pthread_join(thread, NULL);
	receive();
	TAP_OK(leaves_out(TIMES + 1), "breaks of several threads are not taken for waiting");
}

static void test_entered(void)
{
	uint64_t begin;

	start();
	begin = now();
	compute(LONG);
	TAP_OK(xp_cover_look(&cover, &look, begin, cover.to, now()) == XP_POLLS,
	       "a long round counts");
	start();
	sleep_ns(LONG);
	begin = now();
	compute(LONG);
	TAP_OK(xp_cover_look(&cover, &look, begin, cover.to, now()) == XP_POLLS,
	       "the break before it is not known before its end");
	receive();
	TAP_OK(polls() == XP_POLLS_NOT, "it counts then");
}

/* Polls of so much time are missed, after a break; then one is not. */
static enum xp_polls miss_polls(uint64_t ns, uint64_t pause)
{
	uint64_t at, until;

	start();
	sleep_ns(1); /* so no time counts as waiting for a processor */
	at = cover.to + pause;
	for (until = at + ns; at < until; at += MOST / 2)
		xp_cover_miss(&cover, at, MOST);
	xp_cover_add(&cover, at, at + MOST / 2, MOST);
	return polls();
}

static void test_missed(void)
{
	TAP_OK(miss_polls(LONG, MOST / 2) == XP_POLLS,
	       "polls count while another thread has the engine");
	TAP_OK(miss_polls(LONG, LONG) == XP_POLLS_NOT, "not if a break came first");
}

static void test_late(void)
{
	start();
	look = (struct xp_cover_look){ .ns = cover.ns - LONG, .to = cover.to - LONG };
	TAP_OK(xp_cover_look(&cover, &look, 0, cover.to, cover.to + LATE) == XP_POLLS_UNKNOWN,
	       "a program is unknown some time after its last poll");
}

/* ---- a thread that has polled, and what it does then -------------------------------------- */

static void *poll_and_run(void *arg)
{
	compute(LONG);
	receive(); /* after a long break */
	__atomic_store_n(&started, true, __ATOMIC_RELEASE);
	spin(arg);
	return arg;
}

static void *poll_and_sleep(void *arg)
{
	compute(LONG);
	receive();
	__atomic_store_n(&started, true, __ATOMIC_RELEASE);
	sem_wait(&ends);
	return arg;
}

static void wait_until_it_ran(pthread_t thread, uint64_t ns)
{
	clockid_t clock;
	uint64_t until;

	if (pthread_getcpuclockid(thread, &clock))
		return;
	for (until = clock_ns(clock) + ns; clock_ns(clock) < until;)
		sleep_ns(LONG);
}

/*
 * Looks twice, as the first look only tells where the second one begins. runs: the thread has a
 * processor for so long in between
 */
static enum xp_polls look_twice(void *(*run)(void *), uint64_t runs)
{
	enum xp_polls found;
	pthread_t thread;

	sem_init(&ends, 0, 0);
	start();
	pthread_create(&thread, NULL, run, NULL);
	while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
		sleep_ns(LONG);
	xp_cover_start(&cover, &look);
	TAP_OK(polls_now() == XP_POLLS_UNKNOWN,
	       "one look at a thread does not tell what it waits for");
	if (runs)
		wait_until_it_ran(thread, runs);
	else
		compute(LONG);
	found = polls_now();
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	sem_post(&ends);
	pthread_join(thread, NULL);
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	__atomic_store_n(&started, false, __ATOMIC_RELAXED);
	return found;
}

/* Both threads on one processor, which this one does not give away */
static void test_waits(void)
{
	struct sched_param first = { .sched_priority = 1 }, none = { 0 };
	cpu_set_t one, all;

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first)) {
		tap_skip("a thread that waits for a processor", "no permission for SCHED_FIFO");
		return;
	}
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	TAP_OK(look_twice(poll_and_run, 0) == XP_POLLS_WAITS,
	       "a thread that waits for a processor since it polled is known");
	sched_setaffinity(0, sizeof(all), &all);
	sched_setscheduler(0, SCHED_OTHER, &none);
}

static void test_waits_not(void)
{
	TAP_OK(look_twice(poll_and_sleep, 0) == XP_POLLS_UNKNOWN,
	       "a thread that sleeps does not wait for a processor");
	TAP_OK(look_twice(poll_and_run, LONG) == XP_POLLS_UNKNOWN, "nor does one that computes");
}

int main(void)
{
	test_short();
	test_breaks();
	test_threads();
	test_entered();
	test_missed();
	test_late();
	test_waits();
	test_waits_not();
	poll_beside_spinners(false);
	poll_beside_spinners(true);
	return tap_end();
}
