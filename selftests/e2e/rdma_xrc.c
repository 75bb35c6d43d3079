/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XRC on one host: two clients of the device (two contexts) share an XRC domain by a file and a
 * target QP; an initiator QP sends to the SRQs of both. Uses plain verbs. Exit status 0 on success;
 * otherwise prints the first failure.
 *
 *   rdma_xrc -             a domain of one context, without a file
 *   rdma_xrc FILE          domains, shared target QP
 *   rdma_xrc FILE death    prints "ready" with receives posted, expects them to be flushed when the
 *                          device fails
 */
#include "verbs_util.h"

#include <fcntl.h>
#include <unistd.h>

#define GID_INDEX 1
#define WAIT_S 20

struct client {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *target;
	uint32_t srqn;
	char buf[256];
};

static struct ibv_xrcd *open_xrcd(struct ibv_context *ctx, const char *file, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file ? open(file, O_RDONLY | O_CREAT, 0600) : -1,
		.oflags = oflags,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ctx, &attr);
	int err = errno;

	/* the domain does not need the open file */
	if (attr.fd >= 0)
		close(attr.fd);
	errno = err;
	return xrcd;
}

static void post(struct client *c, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)c->buf, sizeof(c->buf), c->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(!ibv_post_srq_recv(c->srq, &wr, &bad), "post_srq_recv");
}

static void open_client(struct client *c, const char *file, int oflags)
{
	struct ibv_srq_init_attr_ex init = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.attr = { .max_wr = 8, .max_sge = 1 },
	};

	c->ctx = open_device(NULL);
	MUST(c->ctx, "no device");
	init.pd = c->pd = ibv_alloc_pd(c->ctx);
	init.cq = c->cq = ibv_create_cq(c->ctx, 32, NULL, NULL, 0);
	c->mr = ibv_reg_mr(c->pd, c->buf, sizeof(c->buf),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	init.xrcd = c->xrcd = open_xrcd(c->ctx, file, oflags);
	MUST(c->pd && c->cq && c->mr && c->xrcd, "objects");
	c->srq = ibv_create_srq_ex(c->ctx, &init);
	MUST(c->srq && !ibv_get_srq_num(c->srq, &c->srqn) && c->srqn, "SRQ or its number");
}

static void connect_to(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(qp->context, GID_INDEX), to);

	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	MUST(!reset_to_rts(qp, &attr), "RTS");
}

static struct ibv_qp *create_target(struct client *c)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = c->xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(c->ctx, &init);

	MUST(qp, "target QP");
	return qp;
}

static struct ibv_qp *create_initiator(struct client *c)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = c->cq,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(c->pd, &init);

	MUST(qp, "initiator QP");
	return qp;
}

static struct ibv_qp *open_target(struct client *c, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(c->ctx, &attr);
}

static struct ibv_wc completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	MUST(next_completion(cq, &wc, WAIT_S) == 1, "no completion");
	return wc;
}

/*
 * Sends a message from @from to the SRQ of @to, where it must consume this receive. Returns the
 * status of the SEND.
 */
static enum ibv_wc_status send_to(struct ibv_qp *initiator, struct client *from, struct client *to,
				  uint64_t wr_id)
{
	static char hello[16] = "hello";
	struct ibv_sge sge = { (uintptr_t)hello, sizeof(hello), 0 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .wr_id = 99,
		.qp_type.xrc.remote_srqn = to->srqn,
	}, *bad;
	struct ibv_wc wc;

	MUST(!ibv_post_send(initiator, &wr, &bad), "post_send");
	wc = completion(from->cq);
	if (from == to && wc.opcode == IBV_WC_RECV) {
		MUST(wc.wr_id == wr_id, "wrong receive");
		return completion(from->cq).status;
	}
	if (wc.status)
		return wc.status;
	wc = completion(to->cq);
	MUST(!wc.status && wc.wr_id == wr_id && wc.byte_len == sizeof(hello) &&
		     !memcmp(to->buf, hello, sizeof(hello)),
	     "wrong receive");
	return IBV_WC_SUCCESS;
}

static void test_domains(struct client *c, const char *file)
{
	struct ibv_xrcd *lone;

	MUST(!open_xrcd(c->ctx, file, O_CREAT | O_EXCL) && errno == EINVAL,
	     "O_EXCL, although the domain exists");
	MUST(!open_xrcd(c->ctx, "/dev/null", 0) && errno == EAGAIN,
	     "no O_CREAT, although there is no domain");
	lone = open_xrcd(c->ctx, NULL, O_CREAT);
	MUST(lone, "domain without a file");
	MUST(!open_target(c, lone, c->target->qp_num) && errno == EINVAL,
	     "opened a target of another domain");
	MUST(!open_target(c, c->xrcd, 0xabcdef) && errno == EINVAL,
	     "opened a target that does not exist");
	MUST(!ibv_close_xrcd(lone), "close_xrcd");
	MUST(ibv_close_xrcd(c->xrcd) == EBUSY, "closed a domain in use");
}

static void close_client(struct client *c)
{
	MUST(!ibv_destroy_qp(c->target) && !ibv_destroy_srq(c->srq) && !ibv_close_xrcd(c->xrcd) &&
		     !ibv_destroy_cq(c->cq) && !ibv_dereg_mr(c->mr) && !ibv_dealloc_pd(c->pd) &&
		     !ibv_close_device(c->ctx),
	     "clean-up of a client");
}

static void test_sharing(struct client *a, struct client *b, const char *file)
{
	struct ibv_qp *initiator = create_initiator(b);
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_wc wc;

	a->target = create_target(a);
	MUST(ibv_post_recv(a->target, &wr, &bad) == EINVAL, "posted a receive to a target QP");
	b->target = open_target(b, b->xrcd, a->target->qp_num);
	MUST(b->target && b->target->qp_num == a->target->qp_num, "open_qp");
	connect_to(initiator, a->target->qp_num);
	connect_to(b->target, initiator->qp_num);
	test_domains(b, file);
	post(a, 1);
	post(b, 2);
	MUST(!send_to(initiator, b, a, 1), "SEND to the SRQ of the first client");
	MUST(!send_to(initiator, b, b, 2), "SEND to the SRQ of the second client");
	post(b, 3);
	close_client(a);
	MUST(!send_to(initiator, b, b, 3), "SEND after one of two clients closed the target");
	MUST(send_to(initiator, b, a, 0) == IBV_WC_REM_INV_REQ_ERR, "SEND to a destroyed SRQ");
	post(b, 4);
	MUST(!ibv_poll_cq(b->cq, 1, &wc), "an unused receive completed");
	MUST(!ibv_destroy_qp(initiator), "destroy_qp");
}

static void test_death(struct client *a, struct client *b)
{
	struct ibv_qp *initiator = create_initiator(b);
	struct ibv_async_event ev;
	struct ibv_wc wc;

	a->target = create_target(a);
	connect_to(initiator, a->target->qp_num);
	connect_to(a->target, initiator->qp_num);
	post(a, 1);
	post(a, 2);
	post(a, 3);
	MUST(!send_to(initiator, b, a, 1), "SEND");
	puts("ready");
	fflush(stdout);
	do
		MUST(!ibv_get_async_event(a->ctx, &ev), "event");
	while (ev.event_type != IBV_EVENT_DEVICE_FATAL);
	for (uint64_t i = 2; i < 4; i++) {
		wc = completion(a->cq);
		MUST(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i, "not flushed in order");
	}
	MUST(!ibv_poll_cq(a->cq, 1, &wc), "too many completions");
}

/* A domain of one context, without a file */
static void test_private(struct client *a)
{
	struct ibv_qp *initiator = create_initiator(a);

	a->target = create_target(a);
	connect_to(initiator, a->target->qp_num);
	connect_to(a->target, initiator->qp_num);
	post(a, 1);
	post(a, 2);
	MUST(!send_to(initiator, a, a, 1) && !send_to(initiator, a, a, 2), "SEND");
	MUST(ibv_close_xrcd(a->xrcd) == EBUSY, "a domain in use was closed");
	MUST(!ibv_destroy_qp(initiator), "destroy_qp");
	close_client(a);
}

int main(int argc, char **argv)
{
	static struct client a, b;

	MUST(argc > 1, "usage: rdma_xrc - | FILE [death]");
	if (!strcmp(argv[1], "-")) {
		open_client(&a, NULL, O_CREAT);
		test_private(&a);
		return 0;
	}
	open_client(&a, argv[1], O_CREAT | O_EXCL);
	open_client(&b, argv[1], 0);
	if (argc > 2) {
		test_death(&a, &b);
		return 0;
	}
	test_sharing(&a, &b, argv[1]);
	close_client(&b);
	return 0;
}
