// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Extended CQs and QPs, parent and thread domains, rate limits, against the fake daemon.
 */
#include "fixture.h"

#include <infiniband/xrocedv.h>

#include <pthread.h>
#include <sys/wait.h>
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

/* ---- completion queues -------------------------------------------------------- */

#define ALL_WC                                                                                     \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct ibv_cq_ex *make_cq_ex(struct fixture *f, uint32_t cqe, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.cq_context = f,
		.wc_flags = ALL_WC,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = flags,
	};

	return ibv_create_cq_ex(f->ctx, &attr);
}

static void cq_creation(struct fixture *f)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 10, .flags = 0xffff };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(f->ctx, &attr);
	int i, refused = 0;

	TAP_OK(cq && cq->cqe == 16 && !fake_cq_flags(&f->daemon, cq->handle),
	       "create_cq_ex: flags without IBV_CQ_INIT_ATTR_MASK_FLAGS are ignored");
	TAP_OK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "destroy_cq: destroys an extended CQ");
	cq = make_cq_ex(f, 4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	TAP_OK(cq && cq->cq_context == f &&
		       fake_cq_flags(&f->daemon, cq->handle) == XR_CQF_IGNORE_OVERRUN,
	       "create_cq_ex: IGNORE_OVERRUN is passed to the daemon");
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	attr.cqe = 0;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EINVAL,
	       "create_cq_ex: 0 entries are EINVAL");
	attr.cqe = 4097;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EINVAL,
	       "create_cq_ex: too many entries are EINVAL");
	attr.cqe = 4;
	attr.comp_vector = 1;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EINVAL,
	       "create_cq_ex: comp_vector 1 is EINVAL");
	attr.comp_vector = 0;
	for (i = 0; i < 64; i++) {
		attr.wc_flags = 1ull << i;
		cq = ibv_create_cq_ex(f->ctx, &attr);
		refused += !cq && errno == EOPNOTSUPP && !(attr.wc_flags & ALL_WC);
		if (cq)
			ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	}
	TAP_OK(refused == 64 - __builtin_popcountll(ALL_WC),
	       "create_cq_ex: unsupported wc_flags are EOPNOTSUPP");
	attr.wc_flags = 0;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 4;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EOPNOTSUPP,
	       "create_cq_ex: unknown flags are EOPNOTSUPP");
	attr.comp_mask = 8;
	TAP_OK(!ibv_create_cq_ex(f->ctx, &attr) && errno == EOPNOTSUPP,
	       "create_cq_ex: an unknown comp_mask is EOPNOTSUPP");
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

	TAP_OK(ibv_start_poll(cq, &attr) == EINVAL, "start_poll: an unknown comp_mask is EINVAL");
	attr.comp_mask = 0;
	TAP_OK(ibv_start_poll(cq, &attr) == ENOENT && ibv_start_poll(cq, &attr) == ENOENT,
	       "start_poll: ENOENT does not lock an empty CQ");
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
	       "start_poll: moves to the first completion");
	TAP_OK(stamped(cq, before), "a completion has a timestamp and a wall-clock time");
	TAP_OK(!ibv_req_notify_cq(plain, 0) && !post_send(qp, 20, 1),
	       "other verbs may be called while polling");
	TAP_OK(!ibv_next_poll(cq) && cq->wr_id == 8, "next_poll: moves to the next completion");
	TAP_OK(!ibv_next_poll(cq) && cq->wr_id == 50 && cq->status == IBV_WC_LOC_LEN_ERR &&
		       ibv_wc_read_opcode(cq) == IBV_WC_RECV,
	       "next_poll: moves to a failed receive");
	TAP_OK(ibv_next_poll(cq) == ENOENT, "next_poll: ENOENT at the end");
	ibv_end_poll(cq);
	fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(plain, 1, &wc) == 1 && wc.wr_id == 9,
	       "poll_cq: works for an extended CQ");

	other = make_qp(f, plain, plain, IBV_QPS_RTS);
	post_send(other, 70, 2);
	fake_complete(&f->daemon, other->qp_num, false, 2, IBV_WC_SUCCESS, false);
	fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	TAP_OK(!ibv_start_poll(cq, &attr) && cq->wr_id == 70,
	       "start_poll: moves to the completion of another QP");
	ibv_destroy_qp(other);
	TAP_OK(ibv_wc_read_opcode(cq) == IBV_WC_SEND && !ibv_next_poll(cq) && cq->wr_id == 20,
	       "destroy_qp while polling drops the QP's completions");
	ibv_end_poll(cq);
	ibv_destroy_qp(qp);
	TAP_OK(!ibv_destroy_cq(plain), "destroy_cq: succeeds after polling");
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

/* The completion of start_poll() does not change until the same thread calls next_poll(). */
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
	struct ibv_cq_ex *cq = make_cq_ex(
		f, 4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
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
	TAP_OK(good == 8, "IGNORE_OVERRUN: the latest completions are polled");
	TAP_OK(!post_send(qp, 20, 7) && post_send(qp, 0, 1) == ENOMEM,
	       "IGNORE_OVERRUN: all completed entries are free");
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
	       "query_rt_values_ex: returns the clock of the timestamps");
	values.comp_mask = IBV_VALUES_MASK_RESERVED;
	TAP_OK(ibv_query_rt_values_ex(f->ctx, &values) == EOPNOTSUPP,
	       "query_rt_values_ex: other values are EOPNOTSUPP");
	TAP_OK(!ibv_query_device_ex(f->ctx, NULL, &attr) && attr.hca_core_clock == 1000000 &&
		       attr.completion_timestamp_mask == UINT64_MAX,
	       "query_device_ex: timestamps have 1000000 kHz and 64 bits");
}

/* ---- queue pairs -------------------------------------------------------------- */

static struct ibv_qp *make_qp_ex(struct fixture *f, struct ibv_cq *cq, enum ibv_qp_type type,
				 uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.pd = f->pd,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(f->ctx, &attr);
}

/* The function that verbs.h of rdma-core 45 and later names wr_flush */
static bool has_flush(struct ibv_qp *qp)
{
	const struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	void (*wr_flush)(void);

	memcpy(&wr_flush, (const char *)&ex->wr_atomic_write + sizeof(ex->wr_atomic_write),
	       sizeof(wr_flush));
	return wr_flush;
}

static bool has_atomic_write(struct ibv_qp *qp)
{
	return ibv_qp_to_qp_ex(qp)->wr_atomic_write;
}

static void optional_builders(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *write = make_qp_ex(f, cq, IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE);
	struct ibv_qp *flush = make_qp_ex(f, cq, IBV_QPT_RC, XROCEDV_QP_EX_WITH_FLUSH);

	TAP_OK(write && has_atomic_write(write) && !has_flush(write) && flush &&
		       !has_atomic_write(flush) && has_flush(flush),
	       "create_qp_ex: wr_atomic_write and wr_flush are NULL unless the QP has them");
	ibv_destroy_qp(write);
	ibv_destroy_qp(flush);
	ibv_destroy_cq(cq);
}

static void qp_creation(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.pd = f->pd,
		.cap = { .max_send_wr = 8 },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.send_ops_flags = ~0ull,
		.create_flags = ~0u,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->ctx, &attr);

	TAP_OK(qp && !ibv_qp_to_qp_ex(qp) && !ibv_destroy_qp(qp),
	       "create_qp_ex: without send_ops_flags the QP has no builders");
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	TAP_OK(!ibv_create_qp_ex(f->ctx, &attr) && errno == EOPNOTSUPP,
	       "create_qp_ex: unknown create_flags are EOPNOTSUPP");
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	TAP_OK(!ibv_create_qp_ex(f->ctx, &attr) && errno == EOPNOTSUPP,
	       "create_qp_ex: refuses BLOCK_SELF_MCAST_LB for RC");
	attr.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp_ex(f->ctx, &attr);
	TAP_OK(qp && !ibv_destroy_qp(qp), "create_qp_ex: accepts BLOCK_SELF_MCAST_LB for UD");
	attr.qp_type = IBV_QPT_RC;
	attr.create_flags = 0;
	qp = ibv_create_qp_ex(f->ctx, &attr);
	TAP_OK(qp && !ibv_destroy_qp(qp), "create_qp_ex: accepts create_flags 0");
	attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	TAP_OK(!ibv_create_qp_ex(f->ctx, &attr) && errno == EOPNOTSUPP,
	       "create_qp_ex: an unknown comp_mask is EOPNOTSUPP");
	attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	TAP_OK(!ibv_create_qp_ex(f->ctx, &attr) && errno == EINVAL,
	       "create_qp_ex: no PD is EINVAL");
	TAP_OK(!make_qp_ex(f, cq, IBV_QPT_RC, IBV_QP_EX_WITH_TSO) && errno == EOPNOTSUPP &&
		       !make_qp_ex(f, cq, IBV_QPT_RC, 1ull << 40) && errno == EOPNOTSUPP,
	       "create_qp_ex: unknown operations are EOPNOTSUPP");
	TAP_OK(!make_qp_ex(f, cq, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE) && errno == EOPNOTSUPP,
	       "create_qp_ex: operations that the type lacks are EOPNOTSUPP");
	TAP_OK(!ibv_destroy_cq(cq), "create_qp_ex: an error leaves no QP behind");
}

#define RC_OPS                                                                                     \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |          \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                           \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |                 \
	 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)

struct entry {
	struct xr_send_wqe wqe;
	union {
		struct ibv_sge sge[2];
		char data[64];
	};
};

struct ex {
	struct fixture *f;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
};

static struct ex make_ex(struct fixture *f, uint64_t ops)
{
	struct ex x = { .f = f, .cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0) };

	x.qp = make_qp_ex(f, x.cq, IBV_QPT_RC, ops);
	to_state(x.qp, IBV_QPS_RTS);
	x.ex = ibv_qp_to_qp_ex(x.qp);
	return x;
}

static void free_ex(struct ex *x)
{
	ibv_destroy_qp(x->qp);
	ibv_destroy_cq(x->cq);
}

/* Starts a batch of one WR, which the caller builds. */
static void start(struct ex *x, uint64_t wr_id, unsigned int flags)
{
	ibv_wr_start(x->ex);
	x->ex->wr_id = wr_id;
	x->ex->wr_flags = flags;
}

/* Completes the batch and gets its entry. */
static struct entry finish(struct ex *x, uint32_t index)
{
	struct entry e = { .wqe.opcode = 0xff };
	struct ibv_wc wc;

	if (ibv_wr_complete(x->ex))
		return e;
	if (fake_send_entry(&x->f->daemon, x->qp->qp_num, index, &e, sizeof(e)) != index + 1)
		e.wqe.opcode = 0xfe;
	fake_complete(&x->f->daemon, x->qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	if (poll_n(x->cq, &wc, 1) != 1 || wc.wr_id != e.wqe.wr_id)
		e.wqe.opcode = 0xfd;
	return e;
}

static void building(struct fixture *f)
{
	struct ex x = make_ex(f, RC_OPS);
	struct ibv_sge sge[2] = { { 0x1000, 10, 1 }, { 0x2000, 20, 2 } };
	struct ibv_data_buf buf[2] = { { "abc", 3 }, { "defg", 5 } };
	struct entry e;
	uint32_t n = 0;

	start(&x, 5, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	ibv_wr_send(x.ex);
	ibv_wr_set_sge(x.ex, 7, 0x4000, 100);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_SEND && e.wqe.wr_id == 5 && e.wqe.num_sge == 1 &&
		       e.wqe.flags == (XR_SEND_SIGNALED | XR_SEND_SOLICITED) &&
		       e.sge[0].lkey == 7 && e.sge[0].addr == 0x4000 && e.sge[0].length == 100,
	       "wr_send: the entry has one element");
	start(&x, 6, 0);
	ibv_wr_send_imm(x.ex, 0x11223344);
	ibv_wr_set_sge_list(x.ex, 2, sge);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_SEND_WITH_IMM && e.wqe.imm_data == 0x11223344 &&
		       e.wqe.num_sge == 2 && !memcmp(e.sge, sge, sizeof(sge)),
	       "wr_send_imm: the entry has a list of elements");
	start(&x, 6, IBV_SEND_INLINE);
	ibv_wr_rdma_write(x.ex, 0x77, 0x8000);
	ibv_wr_set_inline_data_list(x.ex, 2, buf);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_RDMA_WRITE && e.wqe.rkey == 0x77 &&
		       e.wqe.remote_addr == 0x8000 && e.wqe.flags == XR_SEND_INLINE &&
		       e.wqe.inline_len == 8 && !e.wqe.num_sge && !strcmp(e.data, "abcdefg"),
	       "wr_rdma_write: the entry has inline data");
	start(&x, 6, IBV_SEND_FENCE);
	ibv_wr_rdma_write_imm(x.ex, 0x78, 0x9000, 0x55);
	ibv_wr_set_inline_data(x.ex, "xyz", 4);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_RDMA_WRITE_WITH_IMM && e.wqe.rkey == 0x78 &&
		       e.wqe.imm_data == 0x55 && e.wqe.inline_len == 4 &&
		       e.wqe.flags == (XR_SEND_INLINE | XR_SEND_FENCE) && !strcmp(e.data, "xyz"),
	       "wr_rdma_write_imm: the entry has immediate data and a fence");
	start(&x, 6, 0);
	ibv_wr_rdma_read(x.ex, 0x79, 0xa000);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_RDMA_READ && e.wqe.rkey == 0x79 &&
		       e.wqe.remote_addr == 0xa000 && !e.wqe.num_sge && !e.wqe.inline_len,
	       "wr_rdma_read: the entry may have no elements");
	free_ex(&x);
}

static void building_atomics_and_keys(struct fixture *f)
{
	struct ibv_mw mw = { .context = f->ctx, .pd = f->pd, .rkey = 0x500 };
	struct ibv_mr mr = { .lkey = 0x600 };
	struct ibv_mw_bind_info info = { &mr, 0x1000, 0x20, IBV_ACCESS_REMOTE_WRITE };
	struct ex x = make_ex(f, RC_OPS);
	struct entry e;
	uint32_t n = 0;

	start(&x, 1, 0);
	ibv_wr_atomic_cmp_swp(x.ex, 3, 0x100, 4, 5);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_ATOMIC_CMP_AND_SWP && e.wqe.rkey == 3 &&
		       e.wqe.remote_addr == 0x100 && e.wqe.atomic.compare_add == 4 &&
		       e.wqe.atomic.swap == 5,
	       "wr_atomic_cmp_swp: the entry has both operands");
	start(&x, 1, 0);
	ibv_wr_atomic_fetch_add(x.ex, 3, 0x108, 9);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_ATOMIC_FETCH_AND_ADD && e.wqe.remote_addr == 0x108 &&
		       e.wqe.atomic.compare_add == 9,
	       "wr_atomic_fetch_add: the entry has the operand");
	start(&x, 1, 0);
	ibv_wr_send_inv(x.ex, 0x900);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_SEND_WITH_INV && e.wqe.invalidate_rkey == 0x900,
	       "wr_send_inv: the entry has the R_Key");
	start(&x, 1, 0);
	ibv_wr_local_inv(x.ex, 0x901);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_LOCAL_INV && e.wqe.invalidate_rkey == 0x901,
	       "wr_local_inv: the entry has the key");
	start(&x, 1, 0);
	ibv_wr_bind_mw(x.ex, &mw, 0x501, &info);
	e = finish(&x, n++);
	TAP_OK(e.wqe.opcode == XR_WR_BIND_MW && e.wqe.bind.mw_rkey == 0x500 &&
		       e.wqe.bind.new_rkey == 0x501 && e.wqe.bind.mr_lkey == 0x600 &&
		       e.wqe.bind.access == IBV_ACCESS_REMOTE_WRITE &&
		       e.wqe.remote_addr == 0x1000 && e.wqe.bind_len == 0x20,
	       "wr_bind_mw: the entry has window, region and range");
	free_ex(&x);
}

static bool nothing_posted(struct ex *x)
{
	struct entry e;

	return !fake_send_entry(&x->f->daemon, x->qp->qp_num, 0, &e, sizeof(e)) &&
	       !fake_complete(&x->f->daemon, x->qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
}

/* wr_complete() returns the first error, and nothing of the batch is posted. */
static void bad_batches(struct fixture *f)
{
	struct ex x = make_ex(f, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ);
	struct ibv_sge sge[3] = { 0 };
	char data[65] = "";
	int i;

	start(&x, 1, 0);
	ibv_wr_send(x.ex);
	ibv_wr_rdma_write(x.ex, 1, 1);
	ibv_wr_send(x.ex);
	TAP_OK(ibv_wr_complete(x.ex) == EINVAL, "an operation not in send_ops_flags is EINVAL");
	start(&x, 1, 0);
	ibv_wr_set_sge(x.ex, 1, 1, 1);
	TAP_OK(ibv_wr_complete(x.ex) == EINVAL, "a setter without a builder is EINVAL");
	start(&x, 1, 0);
	ibv_wr_send(x.ex);
	ibv_wr_set_sge_list(x.ex, 3, sge);
	TAP_OK(ibv_wr_complete(x.ex) == EINVAL, "too many elements are EINVAL");
	start(&x, 1, 0);
	ibv_wr_send(x.ex);
	ibv_wr_set_inline_data(x.ex, data, 65);
	TAP_OK(ibv_wr_complete(x.ex) == EINVAL, "too much inline data is EINVAL");
	start(&x, 1, 0);
	ibv_wr_rdma_read(x.ex, 1, 1);
	ibv_wr_set_inline_data(x.ex, data, 8);
	TAP_OK(ibv_wr_complete(x.ex) == EINVAL, "inline data of a READ is EINVAL");
	start(&x, 1, 1 << 20);
	ibv_wr_send(x.ex);
	TAP_OK(ibv_wr_complete(x.ex) == EINVAL, "unknown flags are EINVAL");
	start(&x, 1, 0);
	for (i = 0; i < 9; i++)
		ibv_wr_send(x.ex);
	TAP_OK(ibv_wr_complete(x.ex) == ENOMEM, "more WRs than the queue has room for are ENOMEM");
	start(&x, 1, 0);
	ibv_wr_send(x.ex);
	ibv_wr_abort(x.ex);
	start(&x, 1, 0);
	TAP_OK(!ibv_wr_complete(x.ex) && nothing_posted(&x),
	       "failed, aborted and empty batches post nothing");
	to_state(x.qp, IBV_QPS_RESET);
	start(&x, 1, 0);
	ibv_wr_send(x.ex);
	TAP_OK(ibv_wr_complete(x.ex) == EINVAL, "a QP that is not in RTS is EINVAL");
	free_ex(&x);
}

/* Batches of each length, with ibv_post_send() and aborted batches between them */
static void batches(struct fixture *f)
{
	struct ex x = make_ex(f, RC_OPS);
	unsigned int wakes, i, j, n, good = 0;
	uint64_t next = 0, seen = 0;
	struct ibv_wc wc[8];
	bool rang;

	for (i = 0; i < 100; i++) {
		fake_doorbell(&f->daemon, true, &rang, &wakes);
		start(&x, 99999, IBV_SEND_SIGNALED);
		ibv_wr_send(x.ex);
		ibv_wr_abort(x.ex);
		fake_doorbell(&f->daemon, true, &rang, &wakes);
		good += !rang;
		n = 1 + i % 7;
		ibv_wr_start(x.ex);
		for (j = 0; j < n; j++) {
			x.ex->wr_id = next++;
			ibv_wr_send(x.ex);
		}
		good += !ibv_wr_complete(x.ex);
		fake_doorbell(&f->daemon, true, &rang, &wakes);
		good += rang && wakes == 1;
		good += !post_send(x.qp, next++, 1);
		good += fake_complete(&f->daemon, x.qp->qp_num, false, 8, 0, false) == n + 1;
		good += poll_n(x.cq, wc, n + 1) == (int)n + 1 && wc[n].wr_id == seen + n;
		seen += n + 1;
	}
	TAP_OK(good == 600, "100 batches of 1 to 7 WRs are posted around the ring");
	free_ex(&x);
}

/* ---- parent domains ----------------------------------------------------------- */

static void domain_refusals(struct fixture *f)
{
	struct ibv_parent_domain_init_attr attr = { 0 };
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_pd *parent;

	TAP_OK(!ibv_alloc_td(f->ctx, &td_attr) && errno == EOPNOTSUPP,
	       "alloc_td: an unknown comp_mask is EOPNOTSUPP");
	TAP_OK(!ibv_alloc_parent_domain(f->ctx, &attr) && errno == EINVAL,
	       "alloc_parent_domain: no PD is EINVAL");
	attr.pd = f->pd;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	TAP_OK(!ibv_alloc_parent_domain(f->ctx, &attr) && errno == EINVAL,
	       "alloc_parent_domain: missing allocators are EINVAL");
	attr.comp_mask = 8;
	TAP_OK(!ibv_alloc_parent_domain(f->ctx, &attr) && errno == EOPNOTSUPP,
	       "alloc_parent_domain: an unknown comp_mask is EOPNOTSUPP");
	attr.comp_mask = 0;
	parent = attr.pd = ibv_alloc_parent_domain(f->ctx, &attr);
	TAP_OK(parent && !ibv_alloc_parent_domain(f->ctx, &attr) && errno == EINVAL,
	       "alloc_parent_domain: a parent domain as PD is EINVAL");
	TAP_OK(ibv_dealloc_pd(f->pd) == EBUSY, "dealloc_pd: EBUSY while there is a parent domain");
	TAP_OK(!ibv_dealloc_pd(parent), "dealloc_pd: deallocates a parent domain");
}

/* unimport_pd() cannot fail, so its effect is deferred. */
static void unimported_domain(struct fixture *f)
{
	unsigned int before = fake_objects(&f->daemon);
	struct ibv_parent_domain_init_attr attr = { .pd = ibv_alloc_pd(f->ctx) };
	struct ibv_pd *one = ibv_alloc_parent_domain(f->ctx, &attr);
	struct ibv_pd *two = ibv_alloc_parent_domain(f->ctx, &attr);
	char buf[64];
	struct ibv_mr *mr;

	ibv_unimport_pd(attr.pd);
	mr = ibv_reg_mr(one, buf, sizeof(buf), 0);
	TAP_OK(mr && !ibv_dereg_mr(mr) && fake_objects(&f->daemon) == before + 1,
	       "unimport_pd: the PD is usable through its parent domains");
	TAP_OK(!ibv_dealloc_pd(one) && fake_objects(&f->daemon) == before + 1,
	       "unimport_pd: the PD is freed with the last parent domain");
	ibv_unimport_pd(two);
	TAP_OK(fake_objects(&f->daemon) == before, "unimport_pd: accepts a parent domain");
}

static void domains(struct fixture *f)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(f->ctx, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = f->pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(f->ctx, &attr), *pd = f->pd;
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 16,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent,
	};
	struct ibv_poll_cq_attr poll_attr = { 0 };
	unsigned int objects = fake_objects(&f->daemon);
	struct ibv_mw_bind bind = { .wr_id = 3 };
	struct ibv_cq_ex *cq;
	struct ibv_mw *mw;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[64];

	TAP_OK(td && parent && parent->handle == pd->handle && objects == 1,
	       "thread domain and parent domain are no objects of the daemon");
	TAP_OK(ibv_dealloc_td(td) == EBUSY, "dealloc_td: EBUSY while there is a parent domain");
	cq = ibv_create_cq_ex(f->ctx, &cq_attr);
	cq_attr.parent_domain = pd;
	TAP_OK(cq && !ibv_create_cq_ex(f->ctx, &cq_attr) && errno == EINVAL,
	       "create_cq_ex: takes a parent domain, not a PD");
	f->pd = parent;
	qp = make_qp(f, ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq), IBV_QPS_RTS);
	mr = ibv_reg_mr(parent, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	TAP_OK(qp->pd == parent && mr && mr->pd == parent,
	       "QP and region have the parent domain as their PD");
	post_send(qp, 1, 1);
	post_recv(qp, 2, 1);
	fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	TAP_OK(!ibv_start_poll(cq, &poll_attr) && cq->wr_id == 1 && ibv_next_poll(cq) == ENOENT,
	       "a QP of a parent domain sends");
	ibv_end_poll(cq);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	TAP_OK(mw && !ibv_bind_mw(qp, mw, &bind) && !ibv_dealloc_mw(mw),
	       "bind_mw: a QP of the parent domain can bind a window of the PD");
	TAP_OK(ibv_dealloc_pd(parent) == EBUSY, "dealloc_pd: EBUSY while there is a QP");
	ibv_destroy_qp(qp);
	TAP_OK(ibv_dealloc_pd(parent) == EBUSY, "dealloc_pd: EBUSY while there is a CQ");
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	ibv_dereg_mr(mr);
	f->pd = pd;
	TAP_OK(!ibv_dealloc_pd(parent) && !ibv_dealloc_td(td),
	       "parent domain, then thread domain are deallocated");
}

/* Memory that the program's allocator has allocated and not freed */
struct pool {
	struct ibv_pd *pd;
	unsigned int pieces[XROCEDV_RES_CQ + 1], wrong;
	bool refuse, pass;
};

static void *pool_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			uint64_t type)
{
	struct pool *p = context;
	void *piece;

	if (p->refuse || p->pass)
		return p->refuse ? NULL : IBV_ALLOCATOR_USE_DEFAULT;
	p->wrong += pd != p->pd || type < XROCEDV_RES_QP || type > XROCEDV_RES_CQ;
	if (posix_memalign(&piece, alignment, size))
		return NULL;
	p->pieces[type & 3]++;
	return memset(piece, 0xaa, size);
}

static void pool_free(struct ibv_pd *pd, void *context, void *piece, uint64_t type)
{
	struct pool *p = context;

	p->wrong += pd != p->pd || p->pass;
	p->pieces[type & 3]--;
	free(piece);
}

static void allocators(struct fixture *f)
{
	struct pool p = { 0 };
	struct ibv_parent_domain_init_attr attr = {
		.pd = f->pd,
		.alloc = pool_alloc,
		.free = pool_free,
		.pd_context = &p,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
	};
	struct ibv_pd *parent = p.pd = ibv_alloc_parent_domain(f->ctx, &attr), *pd = f->pd;
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 16,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent,
	};
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(f->ctx, &cq_attr));
	struct ibv_srq *srq = ibv_create_srq(parent, &srq_attr);
	struct ibv_qp *qp;

	f->pd = parent;
	qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	TAP_OK(p.pieces[XROCEDV_RES_CQ] == 1 && p.pieces[XROCEDV_RES_SRQ] == 1 &&
		       p.pieces[XROCEDV_RES_QP] == 3 && !p.wrong,
	       "allocator: called for CQ, SRQ, QP and its two queues");
	post_send(qp, 1, 1);
	TAP_OK(fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false) == 1,
	       "allocator: memory need not be zeroed");
	p.refuse = true;
	TAP_OK(!ibv_create_srq(parent, &srq_attr) && errno == ENOMEM,
	       "allocator: failure is ENOMEM");
	p.refuse = false;
	TAP_OK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) && !p.wrong &&
		       !p.pieces[1] && !p.pieces[2] && !p.pieces[3],
	       "allocator: all memory is freed");
	p.pass = true;
	srq = ibv_create_srq(parent, &srq_attr);
	TAP_OK(srq && !ibv_destroy_srq(srq) && !p.wrong,
	       "allocator: may return IBV_ALLOCATOR_USE_DEFAULT");
	f->pd = pd;
	TAP_OK(!ibv_dealloc_pd(parent), "dealloc_pd: deallocates a parent domain with allocators");
}

/* ---- ECE, data order, rate limits --------------------------------------------- */

static void enhancements(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_INIT);
	struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 1, .comp_mask = 1 };

	TAP_OK(ibv_set_ece(qp, &ece) == EOPNOTSUPP, "set_ece is EOPNOTSUPP");
	TAP_OK(ibv_query_ece(qp, &ece) == EOPNOTSUPP, "query_ece is EOPNOTSUPP");
	TAP_OK(!ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0),
	       "query_qp_data_in_order is 0");
	/* IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS of later releases */
	TAP_OK(!ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 1),
	       "query_qp_data_in_order returns no capability");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static void rate_limits(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_qp_rate_limit_attr attr = {
		.rate_limit = 5000,
		.max_burst_sz = 9000,
		.typical_pkt_sz = 1500,
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr qp_attr;

	TAP_OK(!ibv_modify_qp_rate_limit(qp, &attr) &&
		       !ibv_query_qp(qp, &qp_attr, IBV_QP_RATE_LIMIT, &init) &&
		       qp_attr.rate_limit == 5000 && qp->state == IBV_QPS_RTS,
	       "modify_qp_rate_limit: sets the rate limit");
	TAP_OK(fake_burst(&f->daemon, qp->qp_num) == 9000,
	       "modify_qp_rate_limit: passes the burst size");
	attr.comp_mask = 1;
	TAP_OK(ibv_modify_qp_rate_limit(qp, &attr) == EOPNOTSUPP,
	       "modify_qp_rate_limit: an unknown comp_mask is EOPNOTSUPP");
	qp_attr.rate_limit = 7000;
	TAP_OK(!ibv_modify_qp(qp, &qp_attr, IBV_QP_RATE_LIMIT) &&
		       !ibv_query_qp(qp, &qp_attr, IBV_QP_RATE_LIMIT, &init) &&
		       qp_attr.rate_limit == 7000,
	       "modify_qp: sets the rate limit");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

/* ---- fork --------------------------------------------------------------------- */

static int in_child(struct ibv_cq_ex *cq, struct ex *x)
{
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(cq, &attr) != EIO)
		return 1;
	/* The parent forked in the middle of a batch. */
	ibv_wr_start(x->ex);
	ibv_wr_send(x->ex);
	if (ibv_wr_complete(x->ex) != EIO)
		return 2;
	return 0;
}

static void forks(struct fixture *f)
{
	struct ibv_cq_ex *cq = make_cq_ex(f, 16, 0);
	struct ex x = make_ex(f, RC_OPS);
	int status = -1;
	pid_t pid;

	start(&x, 1, 0);
	ibv_wr_send(x.ex);
	pid = fork();
	if (!pid)
		_exit(in_child(cq, &x));
	waitpid(pid, &status, 0);
	TAP_OK(!status, "child: start_poll and wr_complete are EIO (%x)", status);
	TAP_OK(!ibv_wr_complete(x.ex) &&
		       fake_complete(&f->daemon, x.qp->qp_num, false, 2, 0, false) == 1,
	       "parent: the batch is posted");
	free_ex(&x);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

/* ---- end of the daemon -------------------------------------------------------- */

static void daemon_dies(struct fixture *f)
{
	struct ibv_cq_ex *cq = make_cq_ex(f, 16, 0);
	struct ibv_cq *plain = ibv_cq_ex_to_cq(cq);
	struct ibv_qp *qp = make_qp_ex(f, plain, IBV_QPT_RC, RC_OPS);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_poll_cq_attr attr = { 0 };
	time_t end = time(NULL) + 20;
	int err;

	to_state(qp, IBV_QPS_RTS);
	post_send(qp, 1, 3);
	ibv_wr_start(ex);
	ex->wr_id = 4;
	ibv_wr_send(ex);
	fake_complete(&f->daemon, qp->qp_num, false, 1, IBV_WC_SUCCESS, false);
	fake_kill(&f->daemon);
	TAP_OK(!ibv_start_poll(cq, &attr) && cq->wr_id == 1 && !cq->status,
	       "daemon gone: completed WRs are polled");
	ibv_end_poll(cq);
	while ((err = ibv_start_poll(cq, &attr)) == ENOENT && time(NULL) < end)
		;
	TAP_OK(!err && cq->wr_id == 2 && cq->status == IBV_WC_WR_FLUSH_ERR &&
		       ibv_wc_read_qp_num(cq) == qp->qp_num && ibv_wc_read_completion_ts(cq),
	       "daemon gone: outstanding WRs are flushed");
	TAP_OK(!ibv_next_poll(cq) && cq->wr_id == 3 && ibv_next_poll(cq) == ENOENT,
	       "daemon gone: WRs of an unfinished batch are not flushed");
	ibv_end_poll(cq);
	TAP_OK(!ibv_wr_complete(ex) && !ibv_start_poll(cq, &attr) && cq->wr_id == 4 &&
		       cq->status == IBV_WC_WR_FLUSH_ERR,
	       "daemon gone: WRs of a batch are flushed after wr_complete");
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
	optional_builders(&f);
	qp_creation(&f);
	building(&f);
	building_atomics_and_keys(&f);
	bad_batches(&f);
	batches(&f);
	domain_refusals(&f);
	domains(&f);
	unimported_domain(&f);
	allocators(&f);
	enhancements(&f);
	rate_limits(&f);
	forks(&f);
	daemon_dies(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
