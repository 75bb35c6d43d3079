// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Polls of an empty CQ that sleep, counted as voluntary context switches of the thread */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "../lib/tap.h"

#define POLLS 20
#define TRIES 50

/* Polls an empty CQ several times. Returns how often the thread slept. */
static long sleeps(struct ibv_cq *cq)
{
	struct rusage before, after;
	struct ibv_wc wc;

	getrusage(RUSAGE_THREAD, &before);
	for (int i = 0; i < POLLS; i++)
		ibv_poll_cq(cq, 1, &wc);
	getrusage(RUSAGE_THREAD, &after);
	return after.ru_nvcsw - before.ru_nvcsw;
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ull + ts.tv_nsec / 1000;
}

struct completer {
	struct fake *daemon;
	uint32_t qpn;
};

static void *complete_4(void *arg)
{
	struct completer *c = arg;

	fake_complete(c->daemon, c->qpn, false, 4, IBV_WC_SUCCESS, false);
	return NULL;
}

/*
 * Lets 4 WRs complete in 2 ms or more, posts `left` ones and counts sleeps. Another thread talks to
 * the daemon: this one only polls, as a time without polls is not part of a measurement.
 */
static long measure(struct fixture *f, struct ibv_cq *cq, struct ibv_qp *qp, unsigned int left)
{
	struct completer c = { .daemon = &f->daemon, .qpn = qp->qp_num };
	uint64_t until = now_us() + 2000;
	struct ibv_wc wc[8];
	pthread_t thread;
	int got = 0;
	long n;

	post_send(qp, 0, 4);
	pthread_create(&thread, NULL, complete_4, &c);
	while (got < 4)
		got += ibv_poll_cq(cq, 4 - got, wc);
	post_send(qp, 0, left);
	do
		ibv_poll_cq(cq, 1, wc);
	while (now_us() < until);
	n = sleeps(cq);
	pthread_join(thread, NULL);
	fake_complete(&f->daemon, qp->qp_num, false, left, IBV_WC_SUCCESS, false);
	poll_n(cq, wc, (int)left);
	return n;
}

/*
 * Returns the most sleeps in one of several tries: a machine that stands still between two polls
 * makes the measurement start again.
 */
static long most_sleeps(struct fixture *f, unsigned int left, long enough)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 32, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	long n, most = 0;

	for (int i = 0; i < TRIES && most < enough; i++) {
		n = measure(f, cq, qp, left);
		most = n > most ? n : most;
	}
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	return most;
}

int main(void)
{
	struct fixture f;
	cpu_set_t set;
	long n;

	/* before the first poll, which decides whether there are few processors */
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	TAP_OK(!sched_setaffinity(0, sizeof(set), &set), "the program may use one processor");
	setup(&f);
	n = most_sleeps(&f, 8, POLLS);
	TAP_OK(n >= POLLS, "8 slow WRs outstanding: %d polls sleep %ld times", POLLS, n);
	n = most_sleeps(&f, 3, POLLS);
	TAP_OK(n < POLLS / 2, "3 slow WRs outstanding: %d polls sleep %ld times", POLLS, n);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
