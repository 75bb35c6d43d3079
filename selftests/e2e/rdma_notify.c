/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion events: two connected QPs of one process, one of which sends to the other. Exit status
 * 0 if every test passed.
 *
 *   rdma_notify [-n MESSAGES] TEST...
 *
 *   late      polls, then arms, and waits without polling again, while another thread sends
 *   solicited the same, armed for solicited completions only
 *   moderate  events of a moderated CQ: by count, by time, and late arming with moderation
 *   vectors   each completion vector; prints their number
 *   wait-vector creates QPs with the last vector and waits for a signal
 *
 * Uses the first device and GID index 1.
 */
#include "verbs_util.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define GID_INDEX 1
#define WAIT_MS 30000
#define LEN 16
#define DEPTH 64

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *cq; /* cq: of receives, with the channel */
static struct ibv_qp *sender, *receiver;
static char buf[2 * LEN];
static unsigned int messages = 20000;

/* ---- objects ------------------------------------------------------------------- */

static struct ibv_qp *new_qp(struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.qp_type = IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp, "create_qp");
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(ctx, GID_INDEX), peer);

	MUST(!reset_to_rts(qp, &attr), "RTS");
}

static void set_up(int vector)
{
	channel = ibv_create_comp_channel(ctx);
	send_cq = ibv_create_cq(ctx, 2 * DEPTH, NULL, NULL, vector);
	cq = ibv_create_cq(ctx, 2 * DEPTH, NULL, channel, vector);
	MUST(channel && send_cq && cq, "CQs");
	sender = new_qp(send_cq);
	receiver = new_qp(cq);
	connect_to(sender, receiver->qp_num);
	connect_to(receiver, sender->qp_num);
}

static void tear_down(void)
{
	MUST(!ibv_destroy_qp(sender) && !ibv_destroy_qp(receiver) && !ibv_destroy_cq(cq) &&
		     !ibv_destroy_cq(send_cq) && !ibv_destroy_comp_channel(channel),
	     "clean-up");
}

/* ---- messages ------------------------------------------------------------------ */

static void receive(unsigned int n)
{
	struct ibv_sge sge = { (uintptr_t)buf, LEN, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	while (n--)
		MUST(!ibv_post_recv(receiver, &wr, &bad), "post_recv");
}

/* Posts n SENDs and waits until they are complete. Their receives are complete then, too. */
static void send_messages(unsigned int n, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)buf + LEN, LEN, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED | flags,
	};
	struct ibv_wc wc;

	for (unsigned int i = 0; i < n; i++)
		MUST(!ibv_post_send(sender, &wr, &bad), "post_send");
	while (n--)
		MUST(next_completion(send_cq, &wc, WAIT_MS / 1000.0) == 1 && !wc.status, "SEND");
}

static unsigned int poll_all(unsigned int most)
{
	struct ibv_wc wc;
	unsigned int n = 0;

	while (n < most && ibv_poll_cq(cq, 1, &wc) == 1) {
		MUST(!wc.status, ibv_wc_status_str(wc.status));
		n++;
	}
	return n;
}

static bool has_event(int ms)
{
	struct pollfd pfd = { channel->fd, POLLIN, 0 };
	struct ibv_cq *from;
	void *context;

	if (poll(&pfd, 1, ms) != 1)
		return false;
	MUST(!ibv_get_cq_event(channel, &from, &context) && from == cq, "get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* ---- tests --------------------------------------------------------------------- */

static void *send_all(void *arg)
{
	unsigned int flags = *(unsigned int *)arg, left = messages, n;

	for (; left; left -= n) {
		n = left % 7 + 1 < left ? left % 7 + 1 : left;
		send_messages(n, flags);
	}
	return NULL;
}

/* A thread sends. Without an event for completions before the arming this hangs sooner or later. */
static void wait_for_all(int solicited_only, unsigned int flags)
{
	unsigned int got = 0, n, events = 0;
	pthread_t thread;

	receive(DEPTH);
	MUST(!pthread_create(&thread, NULL, send_all, &flags), "thread");
	for (;;) {
		/* a few at a time, so that some are left */
		n = poll_all(3);
		receive(n);
		got += n;
		if (got == messages)
			break;
		MUST(!ibv_req_notify_cq(cq, solicited_only), "req_notify_cq");
		MUST(has_event(WAIT_MS), "no event for an armed CQ");
		events++;
	}
	pthread_join(thread, NULL);
	printf("%u messages, %u events\n", got, events);
}

static void test_late(void)
{
	set_up(0);
	wait_for_all(0, 0);
	tear_down();
}

static void test_solicited(void)
{
	set_up(0);
	receive(4);
	send_messages(2, 0);
	MUST(!ibv_req_notify_cq(cq, 1), "req_notify_cq");
	MUST(!has_event(100), "an event for completions that are not solicited");
	send_messages(1, IBV_SEND_SOLICITED);
	MUST(has_event(WAIT_MS), "no event for a solicited completion");
	send_messages(1, 0);
	MUST(poll_all(2) == 2 && !ibv_req_notify_cq(cq, 1), "req_notify_cq");
	MUST(has_event(WAIT_MS), "no event for a solicited completion before the arming");
	poll_all(DEPTH);
	tear_down();
	set_up(0);
	wait_for_all(1, IBV_SEND_SOLICITED);
	tear_down();
}

static void moderate(unsigned int count, unsigned int period)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { (uint16_t)count, (uint16_t)period },
	};

	MUST(!ibv_modify_cq(cq, &attr), "modify_cq");
}

#define LONG_US 60000

static void test_moderate(void)
{
	double start;

	set_up(0);
	receive(DEPTH / 2);
	moderate(4, LONG_US);
	MUST(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	start = now();
	send_messages(1, 0);
	MUST(has_event(WAIT_MS), "no event after the period");
	/* The period begins at the start of the worker's round, before the SEND was posted. */
	MUST(now() - start > LONG_US * 1e-6 / 2, "the event came before the end of the period");
	poll_all(DEPTH);

	moderate(4, 65535);
	MUST(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	send_messages(8, 0);
	MUST(has_event(WAIT_MS), "no event after 4 completions");
	MUST(!has_event(0), "a second event");
	MUST(poll_all(5) == 5 && !ibv_req_notify_cq(cq, 0), "3 completions are left");
	send_messages(1, 0);
	MUST(has_event(WAIT_MS), "no event after 3 completions before the arming and one more");
	poll_all(DEPTH);

	MUST(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	send_messages(1, 0);
	moderate(0, 0);
	MUST(has_event(WAIT_MS), "no event when moderation ends");
	poll_all(DEPTH);
	tear_down();

	set_up(0);
	moderate(5, 50);
	wait_for_all(0, 0);
	tear_down();
}

static void test_vectors(void)
{
	int n = ctx->num_comp_vectors, v;

	MUST(n >= 1, "no completion vector");
	MUST(!ibv_create_cq(ctx, 1, NULL, NULL, n) && errno == EINVAL, "vector beyond the last");
	MUST(!ibv_create_cq(ctx, 1, NULL, NULL, -1) && errno == EINVAL, "vector -1");
	for (v = 0; v < n; v++) {
		set_up(v);
		receive(DEPTH);
		MUST(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
		send_messages(1, 0);
		MUST(has_event(WAIT_MS), "no event");
		MUST(poll_all(1) == 1, "completion");
		tear_down();
	}
	printf("%d vectors\n", n);
}

/* For the test to look at. */
static void wait_with_vector(void)
{
	set_up(ctx->num_comp_vectors - 1);
	pause();
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "late", test_late },
	{ "solicited", test_solicited },
	{ "moderate", test_moderate },
	{ "vectors", test_vectors },
	{ "wait-vector", wait_with_vector },
};

static bool run(const char *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(name, tests[i].name))
			continue;
		tests[i].run();
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	int i = 1;

	if (argc > 2 && !strcmp(argv[1], "-n")) {
		messages = (unsigned int)atoi(argv[2]);
		i = 3;
	}
	ctx = open_device(NULL);
	MUST(ctx, "no device");
	pd = ibv_alloc_pd(ctx);
	mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE) : NULL;
	MUST(mr, "objects");
	for (; i < argc; i++) {
		if (!run(argv[i])) {
			fprintf(stderr, "no such test: %s\n", argv[i]);
			return 2;
		}
	}
	MUST(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx), "clean-up");
	return 0;
}
