// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Extended verbs against the fake daemon: CQs that are polled one by one. Run with libxroce.so preloaded. */
#include "fixture.h"

#include <pthread.h>
#include <time.h>

#include <xroce/control.h>
#include <xroce/ring.h>

#include "../lib/tap.h"

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ---- completion queues --------------------------------------------------------- */

#define ALL_WC                                                                                     \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct ibv_cq_ex *make_cq_ex(struct fixture *f, uint32_t cqe, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe, .cq_context = f, .wc_flags = ALL_WC,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags,
	};

	return ibv_create_cq_ex(f->ctx, &attr);
}

static void cq_creation(struct fixture *f)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 10, .flags = 0xffff };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(f->ctx, &attr);
	int i, refused = 0;

	TAP_OK(cq && cq->cqe == 16 && !fake_cq_flags(&f->daemon, cq->handle),
	       "an extended CQ; flags that the mask does not name do not count");
	TAP_OK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "is destroyed as any");
	cq = make_cq_ex(f, 4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	TAP_OK(cq && cq->cq_context == f &&
		       fake_cq_flags(&f->daemon, cq->handle) == XR_CQF_IGNORE_OVERRUN,
	       "the daemon is told to ignore overruns");
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	attr.cqe = 0;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EINVAL, "a CQ of 0");
	attr.cqe = 4097;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EINVAL, "a CQ too large");
	attr.cqe = 4;
	attr.comp_vector = 1;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EINVAL, "comp_vector 1");
	attr.comp_vector = 0;
	for (i = 0; i < 64; i++) {
		attr.wc_flags = 1ull << i;
		cq = ibv_create_cq_ex(f->ctx, &attr);
		refused += !cq && errno == EOPNOTSUPP && !(attr.wc_flags & ALL_WC);
		if (cq)
			ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	}
	TAP_OK(refused == 64 - __builtin_popcountll(ALL_WC), "unknown wc_flags");
	attr.wc_flags = 0;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 4;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EOPNOTSUPP, "unknown flags");
	attr.comp_mask = 4;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EOPNOTSUPP, "unknown masks");
}

static bool stamped(struct ibv_cq_ex *cq, uint64_t before)
{
	uint64_t raw = ibv_wc_read_completion_ts(cq), wall, now = clock_ns(CLOCK_REALTIME);

	wall = ibv_wc_read_completion_wallclock_ns(cq);
	return raw >= before && raw <= clock_ns(CLOCK_MONOTONIC) && wall <= now &&
	       wall > now - 60000000000ull;
}

static void cq_polling(struct fixture *f)
{
	uint64_t before = clock_ns(CLOCK_MONOTONIC);
	struct ibv_cq_ex *cq = make_cq_ex(f, 16, 0);
	struct ibv_cq *plain = ibv_cq_ex_to_cq(cq);
	struct ibv_qp *qp = make_qp(f, plain, plain, IBV_QPS_RTS), *other;
	struct ibv_poll_cq_attr attr = { .comp_mask = 1 };
	struct ibv_wc wc;

	TAP_OK(ibv_start_poll(cq, &attr) == EINVAL, "start_poll knows no masks");
	attr.comp_mask = 0;
	TAP_OK(ibv_start_poll(cq, &attr) == ENOENT && ibv_start_poll(cq, &attr) == ENOENT,
	       "an empty CQ needs no end_poll");
	post_send(qp, 7, 3);
	post_recv(qp, 50, 1);
	fake_complete(&f->daemon, qp->qp_num, false, 2, IBV_WC_SUCCESS, false);
	fake_complete(&f->daemon, qp->qp_num, true, 1, IBV_WC_LOC_LEN_ERR, false);
	TAP_OK(!ibv_start_poll(cq, &attr) && cq->wr_id == 7 && cq->status == IBV_WC_SUCCESS &&
		       ibv_wc_read_opcode(cq) == IBV_WC_SEND &&
		       ibv_wc_read_qp_num(cq) == qp->qp_num && !ibv_wc_read_wc_flags(cq) &&
		       !ibv_wc_read_slid(cq) && !ibv_wc_read_sl(cq) &&
		       !ibv_wc_read_dlid_path_bits(cq) && !ibv_wc_read_vendor_err(cq) &&
		       !ibv_wc_read_byte_len(cq) && !ibv_wc_read_src_qp(cq),
	       "start_poll");
	TAP_OK(stamped(cq, before), "with its time by either clock");
	TAP_OK(!ibv_req_notify_cq(plain, 0) && !post_send(qp, 20, 1), "other verbs meanwhile");
	TAP_OK(!ibv_next_poll(cq) && cq->wr_id == 8, "next_poll");
	TAP_OK(!ibv_next_poll(cq) && cq->wr_id == 50 && cq->status == IBV_WC_LOC_LEN_ERR &&
		       ibv_wc_read_opcode(cq) == IBV_WC_RECV,
	       "an error of a receive");
	TAP_OK(ibv_next_poll(cq) == ENOENT, "the end");
	ibv_end_poll(cq);
	fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(plain, 1, &wc) == 1 && wc.wr_id == 9, "poll_cq works as well");

	other = make_qp(f, plain, plain, IBV_QPS_RTS);
	post_send(other, 70, 2);
	fake_complete(&f->daemon, other->qp_num, false, 2, IBV_WC_SUCCESS, false);
	fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	TAP_OK(!ibv_start_poll(cq, &attr) && cq->wr_id == 70, "start_poll again");
	ibv_destroy_qp(other);
	TAP_OK(ibv_wc_read_opcode(cq) == IBV_WC_SEND && !ibv_next_poll(cq) && cq->wr_id == 20,
	       "a QP destroyed meanwhile takes its completions along");
	ibv_end_poll(cq);
	ibv_destroy_qp(qp);
	TAP_OK(!ibv_destroy_cq(plain), "destroyed");
}

struct poller {
	struct ibv_cq_ex *cq;
	unsigned int left, torn;
	uint64_t sum;
};

static void *poll_it(void *arg)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct poller *p = arg;
	uint64_t wr_id;

	while (__atomic_load_n(&p->left, __ATOMIC_ACQUIRE)) {
		if (ibv_start_poll(p->cq, &attr))
			continue;
		do {
			wr_id = p->cq->wr_id;
			sched_yield();
			if (p->cq->wr_id != wr_id)
				__atomic_fetch_add(&p->torn, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&p->sum, wr_id, __ATOMIC_RELAXED);
			__atomic_fetch_sub(&p->left, 1, __ATOMIC_RELEASE);
		} while (!ibv_next_poll(p->cq));
		ibv_end_poll(p->cq);
	}
	return NULL;
}

/* What start_poll() moved to stays until the same thread moves on. */
static void cq_threads(struct fixture *f)
{
	struct poller p = { .cq = make_cq_ex(f, 64, 0), .left = 400 };
	struct ibv_cq *plain = ibv_cq_ex_to_cq(p.cq);
	struct ibv_qp *qp = make_qp(f, plain, plain, IBV_QPS_RTS);
	pthread_t thread[3];
	unsigned int posted, i;
	uint64_t want = 0;

	for (i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, poll_it, &p);
	for (posted = 0; posted < 400; posted++) {
		while (post_send(qp, posted, 1) == ENOMEM)
			sched_yield();
		want += posted;
		fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	}
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	TAP_OK(p.sum == want && !p.torn, "three threads poll one CQ");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(plain);
}

static void cq_overwritten(struct fixture *f)
{
	struct ibv_cq_ex *cq = make_cq_ex(f, 4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN |
						IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	struct ibv_cq *plain = ibv_cq_ex_to_cq(cq);
	struct ibv_qp *qp = make_qp(f, plain, plain, IBV_QPS_RTS);
	struct ibv_poll_cq_attr attr = { 0 };
	int i, good = 0;

	post_send(qp, 0, 8);
	fake_complete(&f->daemon, qp->qp_num, false, 7, IBV_WC_SUCCESS, false);
	if (!ibv_start_poll(cq, &attr)) {
		for (i = 3; i < 7; i++) {
			good += cq->wr_id == (uint64_t)i;
			good += !ibv_next_poll(cq) == (i < 6);
		}
		ibv_end_poll(cq);
	}
	TAP_OK(good == 8, "of an overwritten CQ the latest are polled");
	TAP_OK(!post_send(qp, 20, 7) && post_send(qp, 0, 1) == ENOMEM,
	       "and all that completed makes room");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(plain);
}

static void clocks(struct fixture *f)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	uint64_t before = clock_ns(CLOCK_MONOTONIC);
	struct ibv_device_attr_ex attr;

	TAP_OK(!ibv_query_rt_values_ex(f->ctx, &values) && !values.raw_clock.tv_sec &&
		       (uint64_t)values.raw_clock.tv_nsec >= before &&
		       (uint64_t)values.raw_clock.tv_nsec <= clock_ns(CLOCK_MONOTONIC) &&
		       values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK,
	       "the clock that completions are stamped by");
	values.comp_mask = IBV_VALUES_MASK_RESERVED;
	TAP_OK(ibv_query_rt_values_ex(f->ctx, &values) == EOPNOTSUPP, "there are no other values");
	TAP_OK(!ibv_query_device_ex(f->ctx, NULL, &attr) && attr.hca_core_clock == 1000000 &&
		       attr.completion_timestamp_mask == UINT64_MAX,
	       "it counts ns, in 64 bits");
}

/* ---- the daemon dies, the program forks ---------------------------------------- */

static void daemon_dies(struct fixture *f)
{
	struct ibv_cq_ex *cq = make_cq_ex(f, 16, 0);
	struct ibv_cq *plain = ibv_cq_ex_to_cq(cq);
	struct ibv_qp *qp = make_qp(f, plain, plain, IBV_QPS_RTS);
	struct ibv_poll_cq_attr attr = { 0 };
	time_t end = time(NULL) + 5;
	int err;

	post_send(qp, 1, 3);
	fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	fake_kill(&f->daemon);
	TAP_OK(!ibv_start_poll(cq, &attr) && cq->wr_id == 1 && !cq->status,
	       "what had completed is polled");
	ibv_end_poll(cq);
	while ((err = ibv_start_poll(cq, &attr)) == ENOENT && time(NULL) < end)
		;
	TAP_OK(!err && cq->wr_id == 2 && cq->status == IBV_WC_WR_FLUSH_ERR &&
		       ibv_wc_read_qp_num(cq) == qp->qp_num && ibv_wc_read_completion_ts(cq),
	       "what had not is flushed");
	TAP_OK(!ibv_next_poll(cq) && cq->wr_id == 3 && ibv_next_poll(cq) == ENOENT, "all of it");
	ibv_end_poll(cq);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(plain);
	ibv_dealloc_pd(f->pd);
	ibv_close_device(f->ctx);
	fake_start(&f->daemon, f->dir);
	f->ctx = open_fake();
	f->pd = ibv_alloc_pd(f->ctx);
}

int main(void)
{
	struct fixture f;

	setup(&f);
	cq_creation(&f);
	cq_polling(&f);
	cq_threads(&f);
	cq_overwritten(&f);
	clocks(&f);
	daemon_dies(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "no object is left but the PD");
	teardown(&f);
	return tap_end();
}
