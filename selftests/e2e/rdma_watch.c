/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Watches a device: an ordinary ibverbs program for tests of what happens to
 * one while the world around it changes. Prints a line for each thing seen.
 *
 *   rdma_watch events SECONDS       every asynchronous event, for that long
 *   rdma_watch death SECONDS        a QP connected to itself with work outstanding; waits for the
 *                                   device to fail: the event, the flush of all work, an end
 *                                   to everything without hanging; then for a new device
 *                                   and opens it
 *
 * Exit status 0 if all that was waited for was seen within SECONDS.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
	char buf[4096];
};

static double deadline;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

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

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	if (list && list[0])
		ctx = ibv_open_device(list[0]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
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
		return "cannot be asked";
	return ibv_port_state_str(attr.state);
}

static int watch_events(void)
{
	struct ibv_context *ctx = open_first();
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

static int to_rts(struct watch *w)
{
	union ibv_gid gid;
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = w->qp->qp_num,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
				   .rnr_retry = 7 };

	if (ibv_query_gid(w->ctx, 1, GID_INDEX, &gid))
		return -1;
	rtr.ah_attr.grh.dgid = gid;
	if (ibv_modify_qp(w->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS) ||
	    ibv_modify_qp(w->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			  IBV_QP_MIN_RNR_TIMER))
		return -1;
	return ibv_modify_qp(w->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) ? -1 : 0;
}

static int set_up(struct watch *w)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, RECVS, 1, 1, 0 } };
	struct ibv_sge sge = { 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	w->ctx = open_first();
	if (!w->ctx)
		return fail("open");
	w->pd = ibv_alloc_pd(w->ctx);
	w->channel = ibv_create_comp_channel(w->ctx);
	w->cq = ibv_create_cq(w->ctx, 64, NULL, w->channel, 0);
	w->mr = ibv_reg_mr(w->pd, w->buf, sizeof(w->buf), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = w->cq;
	w->qp = w->cq ? ibv_create_qp(w->pd, &init) : NULL;
	if (!w->pd || !w->mr || !w->qp || to_rts(w) || ibv_req_notify_cq(w->cq, 0))
		return fail("set up");
	sge = (struct ibv_sge){ (uintptr_t)w->buf, sizeof(w->buf), w->mr->lkey };
	for (int i = 0; i < RECVS; i++)
		if (ibv_post_recv(w->qp, &wr, &bad))
			return fail("receive");
	return 0;
}

/* A program that sleeps on its completion channel must be woken too. */
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
		ctx = open_first();
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

	if (set_up(&w))
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

int main(int argc, char **argv)
{
	if (argc == 3)
		deadline = now() + atof(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "events"))
		return watch_events();
	if (argc == 3 && !strcmp(argv[1], "death"))
		return watch_death();
	fprintf(stderr, "usage: rdma_watch events SECONDS | death SECONDS\n");
	return 2;
}
