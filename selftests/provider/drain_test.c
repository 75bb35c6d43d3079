// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs: draining of queues */
#include "fixture.h"

#include <pthread.h>
#include <sys/wait.h>

#include "../lib/direct_verbs.h"
#include "../lib/tap.h"

#define SEND_MARK 1001u
#define RECV_MARK 1002u
#define DEPTH 8 /* of make_qp() */

static struct direct_verbs dv;

/* Polls one completion at a time, which the fake daemon writes just before. */
struct poller {
	struct fixture *f;
	struct ibv_qp *qp;
	unsigned int polled, send_mark, recv_mark; /* marks: their place, counted from 1 */
	unsigned int flushed;			   /* completions with status "flushed" */
	int err;				   /* returned instead of polling */
	bool still;				   /* nothing completes */
};

static void note(struct poller *p, const struct ibv_wc *wc)
{
	p->polled++;
	p->flushed += wc->status == IBV_WC_WR_FLUSH_ERR;
	if (wc->wr_id == SEND_MARK)
		p->send_mark = p->polled;
	if (wc->wr_id == RECV_MARK)
		p->recv_mark = p->polled;
}

static int poll_one(struct ibv_cq *cq, void *arg)
{
	struct poller *p = arg;
	struct ibv_wc wc;
	int got;

	if (p->err)
		return -p->err;
	if (!p->still && cq == p->qp->send_cq)
		fake_complete(&p->f->daemon, p->qp->qp_num, false, 1, IBV_WC_WR_FLUSH_ERR, false);
	if (!p->still && cq == p->qp->recv_cq && !p->qp->srq)
		fake_complete(&p->f->daemon, p->qp->qp_num, true, 1, IBV_WC_WR_FLUSH_ERR, false);
	got = ibv_poll_cq(cq, 1, &wc);
	if (got > 0)
		note(p, &wc);
	return got;
}

static struct xrocedv_drain_attr attr_of(struct poller *p, int timeout_ms)
{
	return (struct xrocedv_drain_attr){ .send_wr_id = SEND_MARK,
					    .recv_wr_id = RECV_MARK,
					    .timeout_ms = timeout_ms,
					    .poll = p ? poll_one : NULL,
					    .arg = p };
}

static int state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;
}

/* Each queue alone and both, with one CQ and with two; n WRs are posted before. */
static void queues(struct fixture *f)
{
	static const struct {
		const char *what;
		unsigned int n;
		bool send, recv, one_cq;
	} rows[] = {
		{ "drain_sq: empty", 0, true, false, false },
		{ "drain_sq: 3 posted", 3, true, false, false },
		{ "drain_sq: a full queue", DEPTH, true, false, true },
		{ "drain_rq: empty", 0, false, true, false },
		{ "drain_rq: a full queue", DEPTH, false, true, false },
		{ "drain_qp: 3 posted, one CQ", 3, true, true, true },
		{ "drain_qp: full queues", DEPTH, true, true, false },
	};
	struct ibv_cq *cq[2] = { ibv_create_cq(f->ctx, 64, NULL, NULL, 0),
				 ibv_create_cq(f->ctx, 64, NULL, NULL, 0) };

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_cq *recv = cq[!rows[i].one_cq];
		struct ibv_qp *qp = make_qp(f, cq[0], recv, IBV_QPS_RTS);
		struct poller p = { .f = f, .qp = qp };
		struct xrocedv_drain_attr attr = attr_of(&p, 5000);
		unsigned int n = rows[i].n, all = 0;
		int err;

		if (rows[i].send)
			post_send(qp, 1, n), all += n + 1;
		if (rows[i].recv)
			post_recv(qp, 1, n), all += n + 1;
		err = !rows[i].recv   ? dv.drain_sq(qp, &attr)
		      : !rows[i].send ? dv.drain_rq(qp, &attr)
				      : dv.drain_qp(qp, &attr);
		TAP_OK(!err && p.polled == all && p.flushed == all &&
			       (!rows[i].send || p.send_mark > n) &&
			       (!rows[i].recv || p.recv_mark > n) && state_of(qp) == IBV_QPS_ERR,
		       "%s: returns behind the marker", rows[i].what);
		ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq[0]);
	ibv_destroy_cq(cq[1]);
}

static void errors(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct poller p = { .f = f, .qp = qp, .still = true };
	struct xrocedv_drain_attr attr = attr_of(&p, 20);
	int status = -1;
	pid_t child;

	TAP_OK(dv.drain_sq(qp, &attr) == ETIMEDOUT, "drain_sq: ETIMEDOUT if nothing completes");
	p.err = EPROTO;
	TAP_OK(dv.drain_sq(qp, &attr) == EPROTO, "drain_sq: returns the error of the callback");
	p.err = 0;
	p.still = false;
	TAP_OK(!dv.drain_sq(qp, &attr) && p.polled == 3,
	       "drain_sq: can be repeated after an error, behind the earlier markers");
	child = fork();
	if (!child)
		_exit(dv.drain_sq(qp, &attr) != EIO);
	waitpid(child, &status, 0);
	TAP_OK(!status, "drain_sq: EIO in a child process");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

/* With an SRQ, what the QP took from it must have been polled; other receives stay there. */
static void srq(struct fixture *f)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &srq_attr);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);
	struct poller p = { .f = f, .qp = qp };
	struct xrocedv_drain_attr attr = attr_of(&p, 5000);
	struct ibv_recv_wr *bad, wr = { .wr_id = 5 };
	int i;

	for (i = 0; i < 5; i++)
		ibv_post_srq_recv(srq, &wr, &bad);
	to_state(qp, IBV_QPS_INIT);
	fake_complete(&f->daemon, qp->qp_num, true, 3, 0, false);
	TAP_OK(!dv.drain_rq(qp, &attr) && p.polled == 3 && !p.recv_mark,
	       "drain_rq with an SRQ: returns when the QP's receives were polled, without marker");
	TAP_OK(!dv.drain_rq(qp, &attr) && p.polled == 3,
	       "drain_rq with an SRQ: nothing to wait for");
	TAP_OK(!dv.drain_qp(qp, &attr) && p.polled == 4 && p.send_mark == 4,
	       "drain_qp with an SRQ: has a marker of the SQ");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_destroy_srq(srq);
}

struct other {
	struct poller p;
	bool stop;
};

static void *poll_elsewhere(void *arg)
{
	struct other *o = arg;

	while (!__atomic_load_n(&o->stop, __ATOMIC_ACQUIRE))
		poll_one(o->p.qp->send_cq, &o->p);
	return NULL;
}

static void other_thread(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct other o = { .p = { .f = f, .qp = qp } };
	struct xrocedv_drain_attr attr = attr_of(NULL, 10000);
	pthread_t thread;
	int err;

	post_send(qp, 1, 3);
	pthread_create(&thread, NULL, poll_elsewhere, &o);
	err = dv.drain_qp(qp, &attr);
	__atomic_store_n(&o.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	TAP_OK(!err && o.p.polled == 5 && o.p.send_mark && o.p.recv_mark,
	       "drain_qp: without a callback, another thread polls");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static void without_daemon(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct poller p = { .f = f, .qp = qp, .still = true };
	struct xrocedv_drain_attr attr = attr_of(&p, 10000);

	post_send(qp, 1, 2);
	post_recv(qp, 1, 2);
	fake_kill(&f->daemon);
	TAP_OK(!dv.drain_qp(qp, &attr) && p.polled == 6 && p.flushed == 6,
	       "daemon gone: drain_qp returns when all WRs were flushed");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

int main(void)
{
	struct fixture f = { 0 };

	TAP_OK(find_direct_verbs(&dv), "libxroce.so exports the direct verbs");
	setup(&f);
	queues(&f);
	errors(&f);
	srq(&f);
	other_thread(&f);
	without_daemon(&f);
	teardown(&f);
	return tap_end();
}
