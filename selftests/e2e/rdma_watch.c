/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Watches a device while tests change its environment. Prints a line for each observation.
 *
 *   rdma_watch events SECONDS    prints every asynchronous event, for that long
 *   rdma_watch death SECONDS     posts work to a QP connected to itself, then expects:
 *                                IBV_EVENT_DEVICE_FATAL, all work flushed, every verb returning
 *                                without hanging, and finally a new device, which it opens
 *   rdma_watch queues SECONDS [RULES]
 *                                sends messages to itself through an SRQ, until its QP fails, and
 *                                prints the events of the QP, the CQ and the SRQ for that long,
 *                                and the first failed completion. RULES: faults of its own
 *
 * Exit status 0 if all this was observed within SECONDS.
 */
#include "verbs_util.h"

#include <dlfcn.h>
#include <infiniband/xrocedv.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#define RECVS 16
#define GID_INDEX 1

struct watch {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_srq *srq; /* queues only */
	char buf[4096];
};

static double deadline;

static int ms_left(void)
{
	double left = (deadline - now()) * 1000;

	return left > 0 ? (int)left : 0;
}

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static int fail(const char *what)
{
	fprintf(stderr, "rdma_watch: %s: %s\n", what, strerror(errno));
	return 1;
}

/* ---- events ------------------------------------------------------------------------ */

static int next_event(struct ibv_context *ctx, enum ibv_event_type *type)
{
	struct pollfd pfd = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	if (poll(&pfd, 1, ms_left()) != 1)
		return -ETIMEDOUT;
	if (ibv_get_async_event(ctx, &ev))
		return -errno;
	*type = ev.event_type;
	ibv_ack_async_event(&ev);
	return 0;
}

static const char *port_state(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(ctx, 1, &attr))
		return "query failed";
	return ibv_port_state_str(attr.state);
}

static int watch_events(void)
{
	struct ibv_context *ctx = open_device(NULL);
	enum ibv_event_type type;

	if (!ctx)
		return fail("open");
	say("ready");
	while (!next_event(ctx, &type)) {
		printf("%s (port: %s)\n", ibv_event_type_str(type), port_state(ctx));
		fflush(stdout);
	}
	return ibv_close_device(ctx) ? fail("close") : 0;
}

/* ---- death ------------------------------------------------------------------------- */

static int connect_to_itself(struct watch *w)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(w->ctx, GID_INDEX), w->qp->qp_num);

	return reset_to_rts(w->qp, &attr);
}

static int post_recv(struct watch *w)
{
	struct ibv_sge sge = { (uintptr_t)w->buf, sizeof(w->buf), w->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return w->srq ? ibv_post_srq_recv(w->srq, &wr, &bad) : ibv_post_recv(w->qp, &wr, &bad);
}

static int set_up(struct watch *w, bool with_srq)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, RECVS, 1, 1, 0 } };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = RECVS, .max_sge = 1 } };

	w->ctx = open_device(NULL);
	if (!w->ctx)
		return fail("open");
	w->pd = ibv_alloc_pd(w->ctx);
	w->channel = ibv_create_comp_channel(w->ctx);
	w->cq = ibv_create_cq(w->ctx, 64, NULL, w->channel, 0);
	w->mr = w->pd ? ibv_reg_mr(w->pd, w->buf, sizeof(w->buf), IBV_ACCESS_LOCAL_WRITE) : NULL;
	init.send_cq = init.recv_cq = w->cq;
	if (!w->pd || !w->mr || !w->cq)
		return fail("set up");
	if (with_srq)
		init.srq = w->srq = ibv_create_srq(w->pd, &srq);
	if (with_srq && !w->srq)
		return fail("SRQ");
	w->qp = ibv_create_qp(w->pd, &init);
	if (!w->qp || connect_to_itself(w) || ibv_req_notify_cq(w->cq, 0))
		return fail("set up");
	for (int i = 0; i < RECVS; i++)
		if (post_recv(w))
			return fail("receive");
	return 0;
}

/* The flush must also wake a program that sleeps on its completion channel. */
static int flushed(struct watch *w)
{
	struct pollfd pfd = { .fd = w->channel->fd, .events = POLLIN };
	struct ibv_wc wc;
	int n, got = 0;

	if (poll(&pfd, 1, ms_left()) != 1)
		return fail("no completion event");
	while (got < RECVS && ms_left()) {
		n = ibv_poll_cq(w->cq, 1, &wc);
		if (n < 0)
			return fail("poll");
		if (n && wc.status != IBV_WC_WR_FLUSH_ERR) {
			fprintf(stderr, "rdma_watch: completion: %s\n",
				ibv_wc_status_str(wc.status));
			return 1;
		}
		got += n;
	}
	if (got < RECVS)
		return fail("not everything was flushed");
	say("flushed");
	return 0;
}

static void tear_down(struct watch *w)
{
	struct ibv_cq *cq;
	void *context;

	if (!ibv_get_cq_event(w->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	ibv_destroy_qp(w->qp);
	ibv_destroy_cq(w->cq);
	ibv_destroy_comp_channel(w->channel);
	ibv_dereg_mr(w->mr);
	ibv_dealloc_pd(w->pd);
	ibv_close_device(w->ctx);
	say("closed");
}

static int reopen(void)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	do {
		ctx = open_device(NULL);
		if (!ctx)
			usleep(50000);
	} while (!ctx && ms_left());
	if (!ctx)
		return fail("no new device");
	pd = ibv_alloc_pd(ctx);
	if (!pd || ibv_dealloc_pd(pd) || ibv_close_device(ctx))
		return fail("the new device");
	say("opened again");
	return 0;
}

static int watch_death(void)
{
	static struct watch w;
	enum ibv_event_type type;

	if (set_up(&w, false))
		return 1;
	say("ready");
	do {
		if (next_event(w.ctx, &type))
			return fail("no IBV_EVENT_DEVICE_FATAL");
	} while (type != IBV_EVENT_DEVICE_FATAL);
	say("fatal");
	if (flushed(&w))
		return 1;
	if (ibv_reg_mr(w.pd, w.buf, sizeof(w.buf), 0))
		return fail("a dead device registered memory");
	tear_down(&w);
	return reopen();
}

/* ---- queues ------------------------------------------------------------------------- */

static void print_failed(const struct ibv_wc *wc)
{
	printf("failed: %s, vendor error %u\n", ibv_wc_status_str(wc->status), wc->vendor_err);
	fflush(stdout);
}

/* Sends a message and receives it. Returns false if that did not succeed. */
static bool message(struct watch *w)
{
	struct ibv_sge sge = { (uintptr_t)w->buf, 64, w->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	double give_up = now() + 5;
	struct ibv_wc wc;
	int done = 0, n;

	if (ibv_post_send(w->qp, &wr, &bad))
		return false;
	while (done < 2 && now() < give_up) {
		n = ibv_poll_cq(w->cq, 1, &wc);
		if (n > 0 && wc.status)
			print_failed(&wc);
		if (n < 0 || (n && wc.status))
			return false;
		done += n;
	}
	return done == 2 && !post_recv(w);
}

/* Returns true if an event came, which it prints with the object that it names. */
static bool print_event(struct watch *w, int ms)
{
	struct pollfd pfd = { .fd = w->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	const char *of = "another object";

	if (poll(&pfd, 1, ms) != 1 || ibv_get_async_event(w->ctx, &ev))
		return false;
	if (ev.event_type == IBV_EVENT_CQ_ERR && ev.element.cq == w->cq)
		of = "the CQ";
	else if ((ev.event_type == IBV_EVENT_SRQ_ERR ||
		  ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) &&
		 ev.element.srq == w->srq)
		of = "the SRQ";
	else if (ev.element.qp == w->qp)
		of = "the QP";
	printf("%s: %s\n", of, ibv_event_type_str(ev.event_type));
	fflush(stdout);
	ibv_ack_async_event(&ev);
	return true;
}

static int inject(struct ibv_context *ctx, const char *rules)
{
	__typeof__(xrocedv_set_faults) *set_faults = dlsym(RTLD_DEFAULT, "xrocedv_set_faults");

	errno = set_faults ? set_faults(ctx, rules) : ENOSYS;
	return errno ? fail("xrocedv_set_faults") : 0;
}

static int watch_queues(const char *rules)
{
	static struct watch w;

	if (set_up(&w, true) || (rules && inject(w.ctx, rules)))
		return 1;
	say("ready");
	while (ms_left() && message(&w))
		print_event(&w, 10);
	while (print_event(&w, 500))
		;
	say("the QP has failed");
	/* until the test has looked at the queues */
	while (ms_left())
		print_event(&w, ms_left());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 3)
		deadline = now() + atof(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "events"))
		return watch_events();
	if (argc == 3 && !strcmp(argv[1], "death"))
		return watch_death();
	if ((argc == 3 || argc == 4) && !strcmp(argv[1], "queues"))
		return watch_queues(argv[3]);
	fprintf(stderr, "usage: rdma_watch events SECONDS | death SECONDS | "
			"queues SECONDS [RULES]\n");
	return 2;
}
