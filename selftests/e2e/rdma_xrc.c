/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XRC by an ordinary ibverbs program on one host: a domain that two clients of the device (two opened
 * contexts) share through a file, a target QP that both have, an initiator that sends to SRQs of either.
 * Exit status 0 if all is as it should be; else the first thing that was not.
 *
 *   rdma_xrc FILE          domains, shared targets
 *   rdma_xrc FILE death    says "ready" with receives posted, and wants them flushed
 */
#include "rdma_steps.h"

#include <fcntl.h>
#include <unistd.h>

#define GID_INDEX 1
#define WAIT_S 5

struct side {
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

	/* the domain needs the file no more */
	if (attr.fd >= 0)
		close(attr.fd);
	errno = err;
	return xrcd;
}

static void post(struct side *s, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)s->buf, sizeof(s->buf), s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(!ibv_post_srq_recv(s->srq, &wr, &bad), "post_srq_recv");
}

static void open_side(struct side *s, const char *file, int oflags)
{
	struct ibv_srq_init_attr_ex init = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.attr = { .max_wr = 8, .max_sge = 1 },
	};

	s->ctx = open_device(NULL);
	MUST(s->ctx, "a device");
	init.pd = s->pd = ibv_alloc_pd(s->ctx);
	init.cq = s->cq = ibv_create_cq(s->ctx, 32, NULL, NULL, 0);
	s->mr = ibv_reg_mr(s->pd, s->buf, sizeof(s->buf),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	init.xrcd = s->xrcd = open_xrcd(s->ctx, file, oflags);
	MUST(s->pd && s->cq && s->mr && s->xrcd, "objects");
	s->srq = ibv_create_srq_ex(s->ctx, &init);
	MUST(s->srq && !ibv_get_srq_num(s->srq, &s->srqn) && s->srqn, "an SRQ with a number");
}

static void connect_to(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(qp->context, GID_INDEX), to);

	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	MUST(!reset_to_rts(qp, &attr), "RTS");
}

static struct ibv_qp *create_target(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = s->xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(s->ctx, &init);

	MUST(qp, "a target");
	return qp;
}

static struct ibv_qp *create_initiator(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = s->cq,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	MUST(qp, "an initiator");
	return qp;
}

static struct ibv_qp *open_target(struct side *s, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(s->ctx, &attr);
}

static struct ibv_wc completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	MUST(next_completion(cq, &wc, WAIT_S) == 1, "no completion");
	return wc;
}

/* From one side's memory to the other's SRQ; the receive must be this one. */
static enum ibv_wc_status send_to(struct ibv_qp *initiator, struct side *from, struct side *to,
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
		MUST(wc.wr_id == wr_id, "the receive");
		return completion(from->cq).status;
	}
	if (wc.status)
		return wc.status;
	wc = completion(to->cq);
	MUST(!wc.status && wc.wr_id == wr_id && wc.byte_len == sizeof(hello) &&
		     !memcmp(to->buf, hello, sizeof(hello)),
	     "the receive");
	return IBV_WC_SUCCESS;
}

static void test_domains(struct side *s, const char *file)
{
	struct ibv_xrcd *lone;

	MUST(!open_xrcd(s->ctx, file, O_CREAT | O_EXCL) && errno == EINVAL,
	     "O_EXCL, and it is there");
	MUST(!open_xrcd(s->ctx, "/dev/null", 0) && errno == EAGAIN, "no O_CREAT, and it is not");
	lone = open_xrcd(s->ctx, NULL, O_CREAT);
	MUST(lone, "without a file");
	MUST(!open_target(s, lone, s->target->qp_num) && errno == EINVAL,
	     "a target of another domain");
	MUST(!open_target(s, s->xrcd, 0xabcdef) && errno == EINVAL, "no target of that number");
	MUST(!ibv_close_xrcd(lone), "close");
	MUST(ibv_close_xrcd(s->xrcd) == EBUSY, "a domain in use stays");
}

static void close_side(struct side *s)
{
	MUST(!ibv_destroy_qp(s->target) && !ibv_destroy_srq(s->srq) && !ibv_close_xrcd(s->xrcd) &&
		     !ibv_destroy_cq(s->cq) && !ibv_dereg_mr(s->mr) && !ibv_dealloc_pd(s->pd) &&
		     !ibv_close_device(s->ctx),
	     "the end of a side");
}

static void test_sharing(struct side *a, struct side *b, const char *file)
{
	struct ibv_qp *initiator = create_initiator(b);
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_wc wc;

	a->target = create_target(a);
	MUST(ibv_post_recv(a->target, &wr, &bad) == EINVAL, "a target has no receive queue");
	b->target = open_target(b, b->xrcd, a->target->qp_num);
	MUST(b->target && b->target->qp_num == a->target->qp_num, "open_qp");
	connect_to(initiator, a->target->qp_num);
	connect_to(b->target, initiator->qp_num);
	test_domains(b, file);
	post(a, 1);
	post(b, 2);
	MUST(!send_to(initiator, b, a, 1), "to the one's SRQ");
	MUST(!send_to(initiator, b, b, 2), "to the other's");
	post(b, 3);
	close_side(a);
	MUST(!send_to(initiator, b, b, 3), "the target lives while one has it");
	MUST(send_to(initiator, b, a, 0) == IBV_WC_REM_INV_REQ_ERR, "an SRQ that is gone");
	post(b, 4);
	MUST(!ibv_poll_cq(b->cq, 1, &wc), "a receive that no message took stays");
	MUST(!ibv_destroy_qp(initiator), "destroy");
}

static void test_death(struct side *a, struct side *b)
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
	MUST(!send_to(initiator, b, a, 1), "to an SRQ");
	puts("ready");
	fflush(stdout);
	do
		MUST(!ibv_get_async_event(a->ctx, &ev), "event");
	while (ev.event_type != IBV_EVENT_DEVICE_FATAL);
	for (uint64_t i = 2; i < 4; i++) {
		wc = completion(a->cq);
		MUST(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i, "flushed in order");
	}
	MUST(!ibv_poll_cq(a->cq, 1, &wc), "and no more");
}

int main(int argc, char **argv)
{
	static struct side a, b;

	MUST(argc > 1, "usage: rdma_xrc FILE [death]");
	open_side(&a, argv[1], O_CREAT | O_EXCL);
	open_side(&b, argv[1], 0);
	if (argc > 2) {
		test_death(&a, &b);
		return 0;
	}
	test_sharing(&a, &b, argv[1]);
	close_side(&b);
	return 0;
}
