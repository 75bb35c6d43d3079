// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* XRC domains, SRQs with numbers, initiator and target QPs, and wrong uses of each */
#include <fcntl.h>
#include <xroce/ring.h>

#include "fixture.h"
#include "selftests/lib/tap.h"

#define MASK (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)

static struct ibv_xrcd *open_domain(struct fixture *f, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = MASK, .fd = fd, .oflags = oflags };

	return ibv_open_xrcd(f->ctx, &attr);
}

static struct ibv_srq *make_srq(struct fixture *f, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     (xrcd ? IBV_SRQ_INIT_ATTR_XRCD : 0) | (cq ? IBV_SRQ_INIT_ATTR_CQ : 0),
		.srq_type = IBV_SRQT_XRC,
		.pd = f->pd,
		.xrcd = xrcd,
		.cq = cq,
		.attr = { .max_wr = 4, .max_sge = 1 },
	};

	return ibv_create_srq_ex(f->ctx, &attr);
}

static struct ibv_qp *make_half(struct fixture *f, enum ibv_qp_type type, struct ibv_xrcd *xrcd,
				struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = xrcd ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.qp_type = type,
		.xrcd = xrcd,
		.pd = f->pd,
		.send_cq = cq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
	};

	return ibv_create_qp_ex(f->ctx, &attr);
}

static struct ibv_qp *open_target(struct fixture *f, struct ibv_xrcd *xrcd, uint32_t qpn,
				  uint32_t mask)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = mask,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_context = f,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(f->ctx, &attr);
}
#define OPEN (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD)

/* ---- XRC domains -------------------------------------------------------------- */

static void domains(struct fixture *f)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };
	int fd = open(f->dir, O_RDONLY);
	struct ibv_xrcd *a, *b;

	TAP_OK(!ibv_open_xrcd(f->ctx, &attr) && errno == EINVAL,
	       "open_xrcd: both attributes are required");
	attr.comp_mask = MASK | 1 << 10;
	TAP_OK(!ibv_open_xrcd(f->ctx, &attr) && errno == EOPNOTSUPP,
	       "open_xrcd: refuses an unknown attribute");
	TAP_OK(!open_domain(f, fd, 0) && errno == EAGAIN,
	       "open_xrcd: EAGAIN if the file has no domain and O_CREAT is not given");
	a = open_domain(f, fd, O_CREAT);
	TAP_OK(a && a->context == f->ctx, "open_xrcd: creates a domain");
	TAP_OK(!open_domain(f, fd, O_CREAT | O_EXCL) && errno == EINVAL,
	       "open_xrcd: O_EXCL refuses an existing domain");
	b = open_domain(f, fd, 0);
	TAP_OK(b && b != a, "open_xrcd: opens an existing domain");
	TAP_OK(!ibv_close_xrcd(a) && !ibv_close_xrcd(b), "close_xrcd: closes each handle");
	TAP_OK(!open_domain(f, fd, 0) && errno == EAGAIN,
	       "the domain is freed with its last handle");
	a = open_domain(f, -1, O_CREAT);
	TAP_OK(a && !ibv_close_xrcd(a), "open_xrcd: creates a domain without a file");
	close(fd);
}

/* ---- SRQs -------------------------------------------------------------------------- */

static void srqs(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_xrcd *xrcd = open_domain(f, -1, O_CREAT);
	struct ibv_srq *a = make_srq(f, xrcd, cq), *b = make_srq(f, xrcd, cq);
	uint32_t num_a = 0, num_b = 0, none;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *plain = ibv_create_srq(f->pd, &init);

	TAP_OK(a && b && !ibv_get_srq_num(a, &num_a) && !ibv_get_srq_num(b, &num_b) &&
		       num_a >= FAKE_SRQN && num_b >= FAKE_SRQN && num_a != num_b,
	       "XRC SRQs have different numbers");
	TAP_OK(plain && ibv_get_srq_num(plain, &none) == EINVAL,
	       "get_srq_num: EINVAL for other SRQs");
	TAP_OK(!make_srq(f, NULL, cq) && errno == EINVAL,
	       "create_srq_ex: refused without an XRC domain");
	TAP_OK(!make_srq(f, xrcd, NULL) && errno == EINVAL, "create_srq_ex: refused without a CQ");
	TAP_OK(ibv_destroy_cq(cq) == EBUSY, "the CQ of an XRC SRQ cannot be destroyed");
	TAP_OK(!ibv_destroy_srq(a) && !ibv_destroy_srq(b) && !ibv_destroy_srq(plain) &&
		       !ibv_destroy_cq(cq) && !ibv_close_xrcd(xrcd),
	       "SRQs, CQ and XRC domain are destroyed");
}

/* ---- initiator and target QPs ------------------------------------------------- */

static void initiator(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_half(f, IBV_QPT_XRC_SEND, NULL, cq);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .qp_type.xrc.remote_srqn = 0x123456 },
			   *bad;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct xr_send_wqe wqe;

	TAP_OK(qp && to_state(qp, IBV_QPS_RTS) == 0, "initiator: moves to RTS");
	TAP_OK(!ibv_post_send(qp, &wr, &bad) &&
		       fake_send_entry(&f->daemon, qp->qp_num, 0, &wqe, sizeof(wqe)) == 1 &&
		       wqe.xrc_srqn == 0x123456,
	       "initiator: a WR names the SRQ");
	TAP_OK(ibv_post_recv(qp, &recv, &bad_recv) == EINVAL, "initiator: post_recv is EINVAL");
	TAP_OK(!make_half(f, IBV_QPT_XRC_SEND, NULL, NULL) && errno == EINVAL,
	       "initiator: refused without a send CQ");
	TAP_OK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "initiator: destroyed");
}

static void target(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_xrcd *xrcd = open_domain(f, -1, O_CREAT), *other = open_domain(f, -1, O_CREAT);
	struct ibv_srq *srq = make_srq(f, xrcd, cq);
	struct ibv_qp *qp = make_half(f, IBV_QPT_XRC_RECV, xrcd, NULL), *again;
	struct ibv_recv_wr recv = { .wr_id = 55 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc;
	uint32_t num;

	TAP_OK(qp && to_state(qp, IBV_QPS_RTR) == 0, "target: moves to RTR");
	TAP_OK(ibv_post_send(qp, &send, &bad) == EINVAL &&
		       ibv_post_recv(qp, &recv, &bad_recv) == EINVAL,
	       "target: post_send and post_recv are EINVAL");
	TAP_OK(!ibv_get_srq_num(srq, &num) && !fake_complete_xrc(&f->daemon, qp->qp_num, num),
	       "target: no receive in an empty SRQ");
	TAP_OK(!ibv_post_srq_recv(srq, &recv, &bad_recv) &&
		       fake_complete_xrc(&f->daemon, qp->qp_num, num) == 1 &&
		       poll_n(cq, &wc, 1) == 1 && wc.wr_id == 55 && wc.qp_num == qp->qp_num &&
		       wc.opcode == IBV_WC_RECV,
	       "target: a message completes a receive in the SRQ's CQ");
	again = open_target(f, xrcd, qp->qp_num, OPEN | IBV_QP_OPEN_ATTR_CONTEXT);
	TAP_OK(again && again->qp_num == qp->qp_num && again->qp_context == f,
	       "open_qp: opens a target");
	TAP_OK(!open_target(f, other, qp->qp_num, OPEN) && errno == EINVAL,
	       "open_qp: refused with another XRC domain");
	TAP_OK(!open_target(f, xrcd, 4000, OPEN) && errno == EINVAL,
	       "open_qp: refused for a QPN that does not exist");
	TAP_OK(!open_target(f, xrcd, qp->qp_num, IBV_QP_OPEN_ATTR_NUM) && errno == EINVAL,
	       "open_qp: refused without an XRC domain");
	TAP_OK(!open_target(f, xrcd, qp->qp_num, OPEN | 1 << 10) && errno == EOPNOTSUPP,
	       "open_qp: refuses an unknown attribute");
	TAP_OK(!make_half(f, IBV_QPT_XRC_RECV, NULL, NULL) && errno == EOPNOTSUPP,
	       "target: refused with a PD instead of an XRC domain");
	TAP_OK(!ibv_destroy_qp(again) && !ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) &&
		       !ibv_close_xrcd(xrcd) && !ibv_close_xrcd(other) && !ibv_destroy_cq(cq),
	       "target: all objects are destroyed");
}

/* The completion is of a QP that may belong to another program. */
static void late_arming(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, ch, 0), *raised = NULL;
	struct ibv_xrcd *xrcd = open_domain(f, -1, O_CREAT);
	struct ibv_srq *srq = make_srq(f, xrcd, cq);
	struct ibv_qp *qp = make_half(f, IBV_QPT_XRC_RECV, xrcd, NULL);
	struct ibv_recv_wr recv = { .wr_id = 55 }, *bad;
	void *context;
	uint32_t num;

	to_state(qp, IBV_QPS_RTR);
	ibv_get_srq_num(srq, &num);
	ibv_post_srq_recv(srq, &recv, &bad);
	fake_complete_xrc(&f->daemon, qp->qp_num, num);
	fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK);
	TAP_OK(!ibv_req_notify_cq(cq, 0) && !ibv_get_cq_event(ch, &raised, &context) &&
		       raised == cq,
	       "arming a CQ with completions of a target raises an event");
	ibv_ack_cq_events(cq, 1);
	ibv_destroy_qp(qp);
	ibv_destroy_srq(srq);
	ibv_close_xrcd(xrcd);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(ch);
}

int main(void)
{
	struct fixture f;
	unsigned int before;

	setup(&f);
	before = fake_objects(&f.daemon);
	domains(&f);
	srqs(&f);
	initiator(&f);
	target(&f);
	late_arming(&f);
	TAP_OK(fake_objects(&f.daemon) == before, "all objects are destroyed");
	teardown(&f);
	return tap_end();
}
