// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Pauses in polls of an empty CQ beside other threads of the program. The program's own
 * sched_yield() and nanosleep() count those of the main thread. They last until another thread has
 * had a time slice.
 */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "provider/base/export.h"

#include "../lib/clock.h"
#include "../lib/tap.h"

#define POLLS 200
#define SLICE_NS 2000000u

enum other { SPINS, POLLS_TOO, SLEEPS };

static struct ibv_cq *other_cq;
static enum other other;
static bool stop;
static unsigned int turns; /* of the other thread, each with a slice of processor time */
static __thread bool is_main;
static unsigned int pauses;

static int pause_main(void)
{
	unsigned int now = __atomic_load_n(&turns, __ATOMIC_RELAXED);

	if (!is_main)
		return 0;
	pauses++;
	while (other != SLEEPS && __atomic_load_n(&turns, __ATOMIC_RELAXED) - now < 2)
		usleep(100);
	return 0;
}

XP_PUBLIC int sched_yield(void)
{
	return pause_main();
}

XP_PUBLIC int nanosleep(const struct timespec *time, struct timespec *left)
{
	return pause_main();
}

static uint64_t thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void *run_other(void *arg)
{
	struct ibv_wc wc;
	uint64_t end;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (other == SLEEPS) {
			usleep(1000);
			continue;
		}
		for (end = thread_ns() + SLICE_NS; thread_ns() < end;) {
			if (other == POLLS_TOO)
				ibv_poll_cq(other_cq, 1, &wc);
		}
		__atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

/* Returns the number of pauses in POLLS polls beside another thread. */
static unsigned int pauses_beside(struct fixture *f, enum other kind, double *seconds)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 4, NULL, NULL, 0);
	struct ibv_wc wc;
	pthread_t thread;
	double from;

	other = kind;
	stop = false;
	pthread_create(&thread, NULL, run_other, NULL);
	from = now();
	pauses = 0;
	for (int i = 0; i < POLLS; i++)
		ibv_poll_cq(cq, 1, &wc);
	*seconds = now() - from;
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ibv_destroy_cq(cq);
	return pauses;
}

int main(void)
{
	struct fixture f;
	cpu_set_t set;
	double seconds;
	unsigned int n;

	/* before the first poll, which decides whether there are few processors */
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	TAP_OK(!sched_setaffinity(0, sizeof(set), &set), "the program may use one processor");
	setup(&f);
	is_main = true;
	other_cq = ibv_create_cq(f.ctx, 4, NULL, NULL, 0);
	n = pauses_beside(&f, SLEEPS, &seconds);
	TAP_OK(n == POLLS, "beside a thread that sleeps, each of %d empty polls pauses: %u", POLLS,
	       n);
	n = pauses_beside(&f, POLLS_TOO, &seconds);
	TAP_OK(n == POLLS, "beside a thread that polls another CQ, each pauses: %u", n);
	n = pauses_beside(&f, SPINS, &seconds);
	TAP_OK(n <= 1 + seconds, "beside a thread that spins, one pauses in a second: %u", n);
	ibv_destroy_cq(other_cq);
	teardown(&f);
	return tap_end();
}
