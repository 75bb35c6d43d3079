// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Waits for the end of rounds. The main thread runs the rounds of two workers, others wait. */
#include <pthread.h>
#include <unistd.h>

#include "daemon/datapath/grace.h"
#include "daemon/datapath/worker_internal.h"
#include "selftests/lib/tap.h"

#define SHORT_US 20000
#define LONG_US 5000000
#define MARKS 1000

static struct xd_worker w[2];
static struct xd_workers ws = { .worker = { &w[0], &w[1] }, .count = 2 };

struct wait {
	pthread_t thread;
	uint64_t mark;
	bool over; /* atomic */
};

static void *wait_main(void *arg)
{
	struct wait *t = arg;

	xd_grace_wait(&ws, t->mark);
	__atomic_store_n(&t->over, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Returns when the thread waits for the first worker that is in a round. */
static void begin_wait(struct wait *t)
{
	*t = (struct wait){ .mark = xd_grace_mark(&ws) };
	pthread_create(&t->thread, NULL, wait_main, t);
	while (!__atomic_load_n(&w[0].round_awaited, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&w[1].round_awaited, __ATOMIC_ACQUIRE))
		usleep(100);
}

static bool is_over(struct wait *t, unsigned us)
{
	for (; us && !__atomic_load_n(&t->over, __ATOMIC_ACQUIRE); us -= 100)
		usleep(100);
	return __atomic_load_n(&t->over, __ATOMIC_ACQUIRE);
}

static void test_idle(void)
{
	uint64_t mark = xd_grace_mark(&ws);

	TAP_OK(xd_grace_over(&ws, mark), "a period is over if no worker is in a round");
	xd_round_begin(&w[0]);
	TAP_OK(xd_grace_over(&ws, mark), "... and stays over when one begins");
	xd_grace_wait(&ws, mark);
	TAP_OK(ws.grace.begun == 1, "... so nobody waits for it");
	xd_round_end(&w[0]);
}

static void test_round(void)
{
	struct wait t;

	xd_round_begin(&w[1]);
	begin_wait(&t);
	TAP_OK(!xd_grace_over(&ws, t.mark) && !is_over(&t, SHORT_US),
	       "a period is not over while a round lasts that was running at the mark");
	xd_round_end(&w[1]);
	TAP_OK(is_over(&t, LONG_US), "it ends with the round");
	pthread_join(t.thread, NULL);
}

/* A busy worker begins its next round at once. */
static void test_next_round(void)
{
	struct wait t;
	bool early;

	xd_round_begin(&w[0]);
	begin_wait(&t);
	early = is_over(&t, SHORT_US);
	xd_round_end(&w[0]);
	xd_round_begin(&w[0]);
	TAP_OK(!early && is_over(&t, LONG_US), "it does not wait for the next round");
	pthread_join(t.thread, NULL);
	TAP_OK(xd_grace_over(&ws, t.mark), "... and is over during that round");
	TAP_OK(!xd_grace_over(&ws, xd_grace_mark(&ws)), "for a mark in that round it is not");
	xd_round_end(&w[0]);
}

/* Both workers were in rounds, which end one after the other. */
static void test_two(void)
{
	struct wait t;

	xd_round_begin(&w[0]);
	xd_round_begin(&w[1]);
	begin_wait(&t);
	xd_round_end(&w[0]);
	xd_round_begin(&w[0]);
	TAP_OK(!is_over(&t, SHORT_US), "it waits for the rounds of all workers");
	xd_round_end(&w[1]);
	TAP_OK(is_over(&t, LONG_US), "... each of which may have begun another round");
	pthread_join(t.thread, NULL);
	xd_round_end(&w[0]);
}

static void test_marks(void)
{
	uint64_t mark[MARKS], before = ws.grace.begun;
	struct wait t;
	unsigned i;

	xd_round_begin(&w[0]);
	for (i = 0; i < MARKS; i++)
		mark[i] = xd_grace_mark(&ws);
	begin_wait(&t);
	xd_round_end(&w[0]);
	pthread_join(t.thread, NULL);
	xd_round_begin(&w[0]);
	for (i = 0; i < MARKS && xd_grace_over(&ws, mark[i]); i++)
		xd_grace_wait(&ws, mark[i]);
	TAP_OK(i == MARKS && ws.grace.begun == before + 1,
	       "one period ends the waits for all marks before it");
	xd_round_end(&w[0]);
}

int main(void)
{
	test_idle();
	test_round();
	test_next_round();
	test_two();
	test_marks();
	return tap_end();
}
