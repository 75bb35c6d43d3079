/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared receive queues on one host: QPs that are connected to themselves and use one SRQ. Uses
 * plain verbs. Exit status 0 on success; otherwise prints the first failure.
 *
 *   rdma_srq          limit event, resize, last WQE reached event
 *   rdma_srq death    prints "ready" with receives posted, expects them to be flushed when the
 *                     device fails
 */
#include "verbs_util.h"

#include <poll.h>

#define GID_INDEX 1
#define WAIT_MS 20000
#define SLOT 64
#define SLOTS 64

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp[2];
static char buf[(SLOTS + 1) * SLOT];

/* ---- set-up ---------------------------------------------------------------- */

static void set_up(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };

	ctx = open_device(NULL);
	MUST(ctx, "no device");
	pd = ibv_alloc_pd(ctx);
	mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	srq = ibv_create_srq(pd, &init);
	MUST(pd && mr && cq && srq && init.attr.max_wr >= 8, "objects");
}

static struct ibv_qp *connected_to_itself(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};
	struct ibv_qp *q = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr;

	MUST(q, "create_qp");
	attr = rc_attr(GID_INDEX, own_gid(ctx, GID_INDEX), q->qp_num);
	MUST(!reset_to_rts(q, &attr), "RTS");
	return q;
}

/* ---- helpers --------------------------------------------------------------------- */

static int post(uint64_t first, int n)
{
	struct ibv_sge sge = { .length = SLOT, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = 0;

	for (; n-- && !err; first++) {
		sge.addr = (uintptr_t)buf + first % SLOTS * SLOT;
		wr.wr_id = first;
		err = ibv_post_srq_recv(srq, &wr, &bad);
	}
	return err;
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;

	MUST(next_completion(cq, &wc, WAIT_MS / 1000.0) == 1, "no completion");
	return wc;
}

/* Sends one message, which must consume this receive. */
static void send_to_itself(struct ibv_qp *q, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)buf + SLOTS * SLOT, 8, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, .wr_id = 1000 + wr_id,
	}, *bad;
	struct ibv_wc wc;
	int i;

	memcpy(buf + SLOTS * SLOT, &wr_id, sizeof(wr_id));
	MUST(!ibv_post_send(q, &wr, &bad), "post_send");
	for (i = 0; i < 2; i++) {
		wc = completion();
		MUST(wc.status == IBV_WC_SUCCESS && wc.qp_num == q->qp_num, "wrong completion");
		if (wc.opcode == IBV_WC_RECV)
			MUST(wc.wr_id == wr_id && wc.byte_len == 8 &&
				     !memcmp(buf + wr_id % SLOTS * SLOT, &wr_id, 8),
			     "wrong receive");
	}
}

static struct ibv_async_event event(enum ibv_event_type type)
{
	struct pollfd pfd = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	MUST(poll(&pfd, 1, WAIT_MS) == 1 && !ibv_get_async_event(ctx, &ev), "no event");
	MUST(ev.event_type == type, ibv_event_type_str(ev.event_type));
	ibv_ack_async_event(&ev);
	return ev;
}

static void no_event(void)
{
	struct pollfd pfd = { .fd = ctx->async_fd, .events = POLLIN };

	MUST(!poll(&pfd, 1, 0), "unexpected event");
}

/* ---- tests ------------------------------------------------------------ */

static void test_limit(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 5 };

	MUST(!post(0, 8), "post");
	MUST(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "modify_srq");
	send_to_itself(qp[0], 0);
	send_to_itself(qp[1], 1);
	send_to_itself(qp[0], 2);
	no_event();
	MUST(!ibv_query_srq(srq, &attr) && attr.srq_limit == 5 && attr.max_wr == 8, "query_srq");
	send_to_itself(qp[1], 3);
	MUST(event(IBV_EVENT_SRQ_LIMIT_REACHED).element.srq == srq, "event of another SRQ");
	MUST(!ibv_query_srq(srq, &attr) && !attr.srq_limit, "limit still armed");
	send_to_itself(qp[1], 4);
	no_event();
}

static void test_resize(void)
{
	struct ibv_srq_attr attr = { .max_wr = 2 };

	MUST(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), "resized below the posted receives");
	attr.max_wr = 32;
	MUST(!ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) && attr.max_wr == 32, "resize");
	MUST(!post(8, 29) && post(99, 1) == ENOMEM, "wrong size");
	for (int i = 5; i < 20; i++)
		send_to_itself(qp[i % 2], i);
}

static void test_last_wqe(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	MUST(!ibv_modify_qp(qp[0], &attr, IBV_QP_STATE), "ERR");
	MUST(event(IBV_EVENT_QP_LAST_WQE_REACHED).element.qp == qp[0], "event of another QP");
	MUST(!ibv_poll_cq(cq, 1, &wc), "an unused receive completed");
	send_to_itself(qp[1], 20);
	MUST(ibv_destroy_srq(srq) == EBUSY && !ibv_destroy_qp(qp[0]), "destroy one QP");
	send_to_itself(qp[1], 21);
	qp[0] = connected_to_itself();
	send_to_itself(qp[0], 22);
}

static int test_death(void)
{
	struct ibv_async_event ev;
	struct ibv_wc wc;

	MUST(!post(0, 8), "post");
	send_to_itself(qp[0], 0);
	puts("ready");
	fflush(stdout);
	do
		MUST(!ibv_get_async_event(ctx, &ev), "event");
	while (ev.event_type != IBV_EVENT_DEVICE_FATAL);
	for (uint64_t i = 1; i < 8; i++) {
		wc = completion();
		MUST(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i, "not flushed in order");
	}
	MUST(!ibv_poll_cq(cq, 1, &wc), "too many completions");
	return 0;
}

int main(int argc, char **argv)
{
	set_up();
	qp[0] = connected_to_itself();
	qp[1] = connected_to_itself();
	if (argc > 1)
		return test_death();
	test_limit();
	test_resize();
	test_last_wqe();
	MUST(!ibv_destroy_qp(qp[0]) && !ibv_destroy_qp(qp[1]) && !ibv_destroy_srq(srq) &&
		     !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) &&
		     !ibv_close_device(ctx),
	     "clean-up");
	return 0;
}
