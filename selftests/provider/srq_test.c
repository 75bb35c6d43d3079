// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* SRQs: posting, resizing, events, end of the daemon */
#include "fixture.h"
#include "selftests/lib/tap.h"

#define DEPTH 8

static struct ibv_srq *make_srq(struct fixture *f)
{
	struct ibv_srq_init_attr init = {
		.srq_context = f,
		.attr = { .max_wr = DEPTH, .max_sge = 2 },
	};

	return ibv_create_srq(f->pd, &init);
}

static struct ibv_qp *make_srq_qp(struct fixture *f, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_send_sge = 2 },
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);

	if (qp)
		to_state(qp, IBV_QPS_RTS);
	return qp;
}

/* Returns the number of receives that were posted. */
static int post_srq(struct ibv_srq *srq, uint64_t wr_id, int n)
{
	struct ibv_recv_wr wr = { 0 }, *bad = NULL;
	int i;

	for (i = 0; i < n; i++) {
		wr.wr_id = wr_id + i;
		if (ibv_post_srq_recv(srq, &wr, &bad))
			return bad == &wr ? i : -1;
	}
	return i;
}

static bool came(struct ibv_cq *cq, uint64_t wr_id, const struct ibv_qp *qp, int status)
{
	struct ibv_wc wc;

	return poll_n(cq, &wc, 1) == 1 && wc.wr_id == wr_id && wc.qp_num == qp->qp_num &&
	       (int)wc.status == status && wc.opcode == IBV_WC_RECV;
}

static void attributes(struct fixture *f)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 100000, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex ex = {
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_BASIC,
		.pd = f->pd,
		.attr = { .max_wr = 5, .max_sge = 3 },
	};
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct ibv_srq *srq;

	TAP_OK(!ibv_create_srq(f->pd, &init) && errno == EINVAL,
	       "create_srq: max_wr above the limit is EINVAL");
	init.attr = (struct ibv_srq_attr){ .max_wr = 5, .max_sge = 100 };
	TAP_OK(!ibv_create_srq(f->pd, &init) && errno == EINVAL,
	       "create_srq: max_sge above the limit is EINVAL");
	srq = ibv_create_srq_ex(f->ctx, &ex);
	TAP_OK(srq && ex.attr.max_wr == 8 && ex.attr.max_sge == 3,
	       "create_srq_ex: creates an SRQ of the basic type");
	TAP_OK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "modify_srq: sets the limit");
	TAP_OK(!ibv_query_srq(srq, &attr) && attr.max_wr == 8 && attr.max_sge == 3 &&
		       attr.srq_limit == 3,
	       "query_srq: returns size and limit");
	TAP_OK(!ibv_destroy_srq(srq), "destroy_srq: succeeds without QPs");
}

static void posting(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_srq *srq = make_srq(f);
	struct ibv_qp *a = make_srq_qp(f, cq, srq), *b = make_srq_qp(f, cq, srq);
	struct ibv_recv_wr wr = { .num_sge = 3 }, *bad;
	unsigned int wakes;
	bool rang;

	TAP_OK(a && b && a->srq == srq && srq->srq_context == f, "two QPs share an SRQ");
	TAP_OK(ibv_post_recv(a, &wr, &bad) == EINVAL, "post_recv to a QP with an SRQ is EINVAL");
	TAP_OK(ibv_post_srq_recv(srq, &wr, &bad) == EINVAL && bad == &wr,
	       "post_srq_recv: too many elements are EINVAL");
	fake_doorbell(&f->daemon, true, &rang, &wakes);
	TAP_OK(post_srq(srq, 10, DEPTH + 1) == DEPTH, "post_srq_recv: until the SRQ is full");
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(!rang && !wakes, "post_srq_recv rings no doorbell");
	fake_complete(&f->daemon, b->qp_num, true, 2, 0, false);
	fake_complete(&f->daemon, a->qp_num, true, 1, 0, false);
	TAP_OK(post_srq(srq, 20, 4) == 3,
	       "consumed entries are free before their completions are polled");
	TAP_OK(came(cq, 10, b, 0) && came(cq, 11, b, 0) && came(cq, 12, a, 0),
	       "completions name the QP that received");
	TAP_OK(ibv_destroy_srq(srq) == EBUSY, "an SRQ with two QPs cannot be destroyed");
	fake_complete(&f->daemon, a->qp_num, true, 1, 0, false);
	TAP_OK(!ibv_destroy_qp(a) && ibv_destroy_srq(srq) == EBUSY,
	       "an SRQ with one QP cannot be destroyed");
	fake_complete(&f->daemon, b->qp_num, true, 1, 0, false);
	TAP_OK(came(cq, 14, b, 0), "completions of a destroyed QP are dropped");
	to_state(b, IBV_QPS_RESET);
	to_state(b, IBV_QPS_RTS);
	TAP_OK(post_srq(srq, 30, DEPTH) == 2, "moving a QP to RESET does not change its SRQ");
	TAP_OK(!ibv_destroy_qp(b) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq),
	       "QP, SRQ and CQ are destroyed");
}

static void resizing(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_srq *srq = make_srq(f);
	struct ibv_qp *qp = make_srq_qp(f, cq, srq);
	struct ibv_srq_attr attr = { .max_wr = 20 };
	int i;

	post_srq(srq, 0, DEPTH);
	fake_complete(&f->daemon, qp->qp_num, true, 3, 0, false);
	TAP_OK(!ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) && attr.max_wr == 32,
	       "modify_srq: sets a larger max_wr");
	TAP_OK(post_srq(srq, DEPTH, 100) == 27, "the new entries can be posted");
	fake_complete(&f->daemon, qp->qp_num, true, 32, 0, false);
	for (i = 0; i < 35 && came(cq, i, qp, 0); i++)
		;
	TAP_OK(i == 35, "all receives complete in order across the resize");
	post_srq(srq, 0, 5);
	attr.max_wr = 4;
	TAP_OK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EINVAL && post_srq(srq, 5, 1) == 1,
	       "modify_srq: has no effect and is EINVAL if too many receives are posted");
	ibv_destroy_qp(qp);
	ibv_destroy_srq(srq);
	ibv_destroy_cq(cq);
}

static void events(struct fixture *f)
{
	struct ibv_srq *srq = make_srq(f);
	struct ibv_async_event event;

	fake_async_event(&f->daemon, (uintptr_t)srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	fake_async_event(&f->daemon, (uintptr_t)srq, IBV_EVENT_SRQ_ERR);
	fake_async_event(&f->daemon, 1, IBV_EVENT_PORT_ACTIVE);
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.element.srq == srq &&
		       event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED,
	       "an asynchronous event names its SRQ");
	ibv_ack_async_event(&event);
	TAP_OK(!ibv_destroy_srq(srq), "destroy_srq does not wait for unread events");
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_PORT_ACTIVE,
	       "unread events of a destroyed SRQ are not delivered");
}

static void daemon_dies(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, ch, 0), *cq_read;
	struct ibv_srq *srq = make_srq(f);
	struct ibv_qp *qp = make_srq_qp(f, cq, srq);
	struct ibv_async_event event;
	void *context;
	int i;

	post_srq(srq, 0, 5);
	fake_complete(&f->daemon, qp->qp_num, true, 2, 0, false);
	ibv_req_notify_cq(cq, 0);
	fake_kill(&f->daemon);
	TAP_OK(!ibv_get_cq_event(ch, &cq_read, &context) && cq_read == cq,
	       "daemon gone: an armed CQ gets its event");
	ibv_ack_cq_events(cq, 1);
	for (i = 0; i < 5 && came(cq, i, qp, i < 2 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR); i++)
		;
	TAP_OK(i == 5, "daemon gone: completed receives are polled, then flushed ones");
	TAP_OK(post_srq(srq, 50, 1) == 1 && came(cq, 50, qp, IBV_WC_WR_FLUSH_ERR),
	       "daemon gone: later receives are flushed");
	TAP_OK(post_srq(srq, 60, 2 * DEPTH) == DEPTH,
	       "daemon gone: no more can be posted than the SRQ holds");
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_DEVICE_FATAL,
	       "daemon gone: get_async_event returns IBV_EVENT_DEVICE_FATAL");
	TAP_OK(ibv_query_srq(srq, &(struct ibv_srq_attr){ 0 }) == EIO,
	       "daemon gone: query_srq is EIO");
	TAP_OK(ibv_destroy_srq(srq) == EBUSY && !ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) &&
		       !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(ch) &&
		       !ibv_dealloc_pd(f->pd) && !ibv_close_device(f->ctx),
	       "daemon gone: all objects are destroyed");
	f->pd = NULL;
	f->ctx = NULL;
}

int main(void)
{
	struct fixture f;

	setup(&f);
	attributes(&f);
	posting(&f);
	resizing(&f);
	events(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	daemon_dies(&f);
	teardown(&f);
	return tap_end();
}
