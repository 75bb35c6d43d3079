// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Polls of an empty CQ that sleep, counted as voluntary context switches of the thread */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "../lib/tap.h"

#define POLLS 13
#define TRIES 50

/* Polls one completion, of an extended CQ by ibv_start_poll(). Returns whether there was one. */
static int poll_one(struct ibv_cq *cq, struct ibv_cq_ex *ex)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc;

	if (!ex)
		return ibv_poll_cq(cq, 1, &wc);
	if (ibv_start_poll(ex, &attr))
		return 0;
	ibv_end_poll(ex);
	return 1;
}

/*
 * Polls an empty CQ several times. Returns how often the thread slept. The process has other
 * threads, so each poll is timed and considers a sleep.
 */
static long sleeps(struct ibv_cq *cq, struct ibv_cq_ex *ex)
{
	struct rusage before, after;

	getrusage(RUSAGE_THREAD, &before);
	for (int i = 0; i < POLLS; i++)
		poll_one(cq, ex);
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
	bool recv;
};

static void *complete_4(void *arg)
{
	struct completer *c = arg;

	fake_complete(c->daemon, c->qpn, c->recv, 4, IBV_WC_SUCCESS, false);
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
	n = sleeps(cq, NULL);
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

struct receiver {
	const char *name;
	bool extended;
	bool shared;	   /* receives of an SRQ */
	bool answers;	   /* a send WR is posted */
	bool unreliable;   /* UC */
	bool reposted;	   /* completed receives wait for the program, which posts new ones */
	unsigned int left; /* receives that stay posted */
	bool sleeps;
};

static void post_receives(struct ibv_qp *qp, struct ibv_srq *srq, unsigned int n)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	if (!srq)
		post_recv(qp, 0, n);
	for (; srq && n; n--)
		ibv_post_srq_recv(srq, &wr, &bad);
}

/* Lets 4 receives complete in 4 ms or more, and counts sleeps in the next ones. */
static long receive(struct fixture *f, const struct receiver *r, struct ibv_cq *cq,
		    struct ibv_cq_ex *ex)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = r->shared ? ibv_create_srq(f->pd, &srq_init) : NULL;
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = r->unreliable ? IBV_QPT_UC : IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 },
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);
	struct completer c = { .daemon = &f->daemon, .qpn = qp->qp_num, .recv = true };
	pthread_t thread;
	int got = 0, polled;
	uint64_t until;
	long n;

	to_state(qp, IBV_QPS_RTS);
	post_receives(qp, srq, 4 + r->left);
	poll_one(cq, ex);
	until = now_us() + 4000;
	if (r->answers)
		post_send(qp, 0, 1);
	pthread_create(&thread, NULL, complete_4, &c);
	if (r->reposted)
		pthread_join(thread, NULL);
	while (got < 4 || now_us() < until) {
		polled = poll_one(cq, ex);
		got += polled;
		if (polled && r->reposted)
			post_receives(qp, srq, 1);
	}
	n = sleeps(cq, ex);
	if (!r->reposted)
		pthread_join(thread, NULL);
	ibv_destroy_qp(qp);
	if (srq)
		ibv_destroy_srq(srq);
	return n;
}

/* Each try has a CQ of its own, because a CQ remembers that a stream has ended. */
static void receiver_sleeps(struct fixture *f, const struct receiver *r)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 32 };
	long n, most = 0;

	for (int i = 0; i < TRIES && most < POLLS; i++) {
		struct ibv_cq_ex *ex = r->extended ? ibv_create_cq_ex(f->ctx, &attr) : NULL;
		struct ibv_cq *cq = ex ? ibv_cq_ex_to_cq(ex)
				       : ibv_create_cq(f->ctx, 32, NULL, NULL, 0);

		n = receive(f, r, cq, ex);
		most = n > most ? n : most;
		ibv_destroy_cq(cq);
	}
#ifdef __SANITIZE_THREAD__
	if (r->sleeps) {
		tap_skip(r->name, "with ThreadSanitizer polls take too long");
		return;
	}
#endif
	TAP_OK(r->sleeps ? most > POLLS / 2 : most < POLLS / 2, "%s: %d polls sleep %ld times",
	       r->name, POLLS, most);
}

static const struct receiver receivers[] = {
	{ .name = "receives of a stream, 4 posted", .left = 4, .sleeps = true },
	{ .name = "... ibv_start_poll()", .left = 4, .extended = true, .sleeps = true },
	{ .name = "... of an SRQ", .left = 4, .shared = true, .sleeps = true },
	{ .name = "... 3 posted", .left = 3 },
	{ .name = "... of an SRQ, 3 posted", .left = 3, .shared = true },
	{ .name = "... 4 left when they were polled, others posted",
	  .left = 4,
	  .reposted = true,
	  .sleeps = true },
	{ .name = "... 3 left when they were polled, others posted", .left = 3, .reposted = true },
	{ .name = "... answered by a send WR", .left = 4, .answers = true },
	{ .name = "... of UC", .left = 4, .unreliable = true },
};

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
	for (size_t i = 0; i < sizeof(receivers) / sizeof(receivers[0]); i++)
		receiver_sleeps(&f, &receivers[i]);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
