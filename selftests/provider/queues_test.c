// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs: posting, completions, states, limits */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <xroce/ring.h>
#include <xroce/tables.h>

#include "../lib/tap.h"

/* A CQ and a QP that uses it */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct pair make_pair(struct fixture *f, enum ibv_qp_state state)
{
	struct pair p = { .cq = ibv_create_cq(f->ctx, 100, NULL, NULL, 0) };

	p.qp = make_qp(f, p.cq, p.cq, state);
	return p;
}

static void free_pair(const struct pair *p)
{
	TAP_OK(ibv_destroy_cq(p->cq) == EBUSY, "destroy_cq: EBUSY while it has a QP");
	TAP_OK(!ibv_destroy_qp(p->qp) && !ibv_destroy_cq(p->cq), "QP, then CQ are destroyed");
}

static void posting_by_state(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RESET);

	TAP_OK(p.cq->cqe == 128, "create_cq: rounds up to a power of two");
	TAP_OK(post_recv(p.qp, 0, 1) == EINVAL, "RESET: post_recv is EINVAL");
	TAP_OK(post_send(p.qp, 0, 1) == EINVAL, "RESET: post_send is EINVAL");
	to_state(p.qp, IBV_QPS_INIT);
	TAP_OK(!post_recv(p.qp, 100, 8), "INIT: post_recv succeeds");
	TAP_OK(post_recv(p.qp, 0, 1) == ENOMEM, "post_recv: ENOMEM if the queue is full");
	TAP_OK(post_send(p.qp, 0, 1) == EINVAL, "INIT: post_send is EINVAL");
	free_pair(&p);
}

static void posting_rings(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	unsigned int wakes;
	bool rang;

	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(!post_send(p.qp, 1, 2), "RTS: post_send succeeds");
	fake_doorbell(&f->daemon, true, &rang, &wakes);
	TAP_OK(rang && !wakes,
	       "post_send rings the doorbell and does not wake a worker that is awake");
	TAP_OK(!post_send(p.qp, 3, 1), "post_send succeeds while the worker sleeps");
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang && wakes == 1, "post_send rings the doorbell and wakes a sleeping worker");
	post_recv(p.qp, 0, 1);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(!rang, "post_recv does not ring the doorbell");
	fake_qp_error(&f->daemon, p.qp->qp_num);
	post_recv(p.qp, 0, 1);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang, "ERR: post_recv rings the doorbell");
	free_pair(&p);
}

static void completing(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_wc wc[32];

	post_send(p.qp, 1, 3);
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 0, "poll_cq: returns 0 if nothing has completed");
	fake_complete(&f->daemon, p.qp->qp_num, false, 8, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(p.cq, 2, wc) == 2 && wc[0].wr_id == 1 && wc[1].wr_id == 2 &&
		       wc[0].qp_num == p.qp->qp_num && wc[0].status == IBV_WC_SUCCESS,
	       "poll_cq: returns completions in order");
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 1 && wc[0].wr_id == 3,
	       "poll_cq: returns the remaining completion");
	post_send(p.qp, 20, 8);
	fake_complete(&f->daemon, p.qp->qp_num, false, 3, IBV_WC_SUCCESS, false);
	to_state(p.qp, IBV_QPS_RESET);
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 0, "RESET: drops completions");
	to_state(p.qp, IBV_QPS_RTS);
	TAP_OK(!post_send(p.qp, 30, 8) && post_send(p.qp, 0, 1) == ENOMEM,
	       "RESET: empties the queues");
	fake_complete(&f->daemon, p.qp->qp_num, false, 8, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(p.cq, 32, wc) == 8 && wc[0].wr_id == 30,
	       "after RESET the queues work again");
	free_pair(&p);
}

/* All fields of a completion are copied. */
/* ---- several threads ------------------------------------------------------ */

struct poller {
	struct ibv_cq *cq;
	int left; /* completions; atomic */
	uint64_t sum;
};

static void *poll_it(void *arg)
{
	struct poller *p = arg;
	struct ibv_wc wc;

	while (__atomic_load_n(&p->left, __ATOMIC_RELAXED) > 0) {
		if (ibv_poll_cq(p->cq, 1, &wc) != 1)
			continue;
		__atomic_fetch_add(&p->sum, wc.wr_id, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&p->left, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/*
 * SANITIZE=thread detects data races here, since nothing but the CQ
 * itself synchronizes the threads.
 */
static void polling_threads(struct fixture *f)
{
	enum { BATCH = 8, COUNT = 2500 * BATCH, THREADS = 3 };
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct poller poller = { .cq = p.cq, .left = COUNT };
	pthread_t thread[THREADS];
	uint64_t want = 0;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, poll_it, &poller);
	for (unsigned int i = 0; i < COUNT; i++) {
		while (post_send(p.qp, i, 1) == ENOMEM)
			sched_yield();
		want += i;
		if (i % BATCH == BATCH - 1)
			fake_complete(&f->daemon, p.qp->qp_num, false, BATCH, IBV_WC_SUCCESS,
				      false);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	TAP_OK(poller.sum == want, "three threads poll each completion of one CQ once");
	free_pair(&p);
}

/* Polls once when its turn comes. Relaxed accesses do not synchronize the threads. */
struct turn {
	struct ibv_cq *cq;
	int mine, *now;
	int got;
};

static void *poll_in_turn(void *arg)
{
	struct turn *t = arg;
	struct ibv_wc wc;

	while (__atomic_load_n(t->now, __ATOMIC_RELAXED) != t->mine)
		sched_yield();
	t->got = ibv_poll_cq(t->cq, 1, &wc);
	__atomic_store_n(t->now, t->mine + 1, __ATOMIC_RELAXED);
	return NULL;
}

/*
 * The second thread polls after the first one, but is synchronized only with its unlocking of the
 * CQ. So SANITIZE=thread detects each access of ibv_poll_cq() that needs the lock and comes later.
 */
static void polling_in_turn(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct turn turn[2];
	pthread_t thread[2];
	int now = 0;

	post_send(p.qp, 0, 1);
	post_send(p.qp, 1, 1);
	fake_complete(&f->daemon, p.qp->qp_num, false, 2, IBV_WC_SUCCESS, false);
	for (int i = 0; i < 2; i++) {
		turn[i] = (struct turn){ .cq = p.cq, .mine = i, .now = &now };
		pthread_create(&thread[i], NULL, poll_in_turn, &turn[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	TAP_OK(turn[0].got == 1 && turn[1].got == 1, "two threads poll one CQ in turn");
	free_pair(&p);
}

static void contents(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_wc wc[2];

	post_recv(p.qp, 1, 2);
	fake_complete(&f->daemon, p.qp->qp_num, true, 1, IBV_WC_SUCCESS, false);
	fake_complete(&f->daemon, p.qp->qp_num, true, 1, IBV_WC_LOC_LEN_ERR, false);
	TAP_OK(ibv_poll_cq(p.cq, 2, wc) == 2 && wc[0].opcode == IBV_WC_RECV && !wc[0].vendor_err &&
		       wc[0].byte_len == FAKE_RECEIVED_LENGTH &&
		       wc[0].imm_data == FAKE_RECEIVED(1) && wc[0].src_qp == FAKE_RECEIVED(2) &&
		       wc[0].pkey_index == FAKE_RECEIVED(3) && wc[0].sl == FAKE_RECEIVED(4) &&
		       wc[0].wc_flags == IBV_WC_WITH_IMM,
	       "poll_cq: returns the fields of a receive");
	TAP_OK(wc[1].status == IBV_WC_LOC_LEN_ERR && wc[1].vendor_err == FAKE_VENDOR_ERR,
	       "poll_cq: returns status and vendor error");
	free_pair(&p);
}

/* Objects of two contexts cannot be combined. */
static void strangers(struct fixture *f)
{
	struct fixture other = { .ctx = open_fake(), .daemon = f->daemon };
	struct ibv_comp_channel *ch = ibv_create_comp_channel(other.ctx);
	struct ibv_cq *own = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	/* Handles are unique per context only. The other context has a CQ with the same handle. */
	union {
		struct ibv_cq cq;
		uint8_t room[1024];
	} like = { .cq = { .context = other.ctx, .handle = own->handle } };
	struct ibv_qp_init_attr init = { .send_cq = &like.cq,
					 .recv_cq = own,
					 .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(other.ctx);

	TAP_OK(!ibv_create_cq(f->ctx, 8, NULL, ch, 0) && errno == EINVAL,
	       "create_cq: refuses a channel of another context");
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL,
	       "create_qp: refuses a send CQ of another context");
	init.send_cq = own;
	init.recv_cq = &like.cq;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL,
	       "create_qp: refuses a receive CQ of another context");
	init.recv_cq = own;
	init.srq = ibv_create_srq(pd, &srq_attr);
	TAP_OK(init.srq && !ibv_create_qp(f->pd, &init) && errno == EINVAL,
	       "create_qp: refuses an SRQ of another context");
	ibv_destroy_cq(own);
	ibv_destroy_srq(init.srq);
	ibv_destroy_comp_channel(ch);
	ibv_dealloc_pd(pd);
	TAP_OK(!ibv_close_device(other.ctx), "the other context is closed");
}

static void posting_lists(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_send_wr wr[3] = { 0 }, *bad = NULL;
	struct ibv_sge sge[3] = { 0 };
	struct ibv_wc wc[8];
	unsigned int wakes;
	bool rang;
	int i;

	for (i = 0; i < 3; i++) {
		wr[i].wr_id = i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 3;
	wr[1].sg_list = sge;
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(ibv_post_send(p.qp, wr, &bad) == EINVAL && bad == &wr[1],
	       "post_send: bad_wr is the invalid WR of a list");
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang, "post_send: the WRs before it are posted");
	wr[1].num_sge = 0;
	wr[1].send_flags = 1u << 20;
	TAP_OK(ibv_post_send(p.qp, &wr[1], &bad) == EINVAL && bad == &wr[1],
	       "post_send: unknown flags are EINVAL");
	wr[1].send_flags = 0;
	wr[1].opcode = IBV_WR_TSO;
	TAP_OK(ibv_post_send(p.qp, &wr[1], &bad) == EINVAL && bad == &wr[1],
	       "post_send: an unknown operation is EINVAL");
	/* One WR of the list is outstanding. */
	TAP_OK(post_send(p.qp, 10, 8) == ENOMEM, "post_send: ENOMEM if the queue is full");
	TAP_OK(fake_complete(&f->daemon, p.qp->qp_num, false, 100, IBV_WC_SUCCESS, false) == 8,
	       "the daemon gets all WRs that were posted");
	TAP_OK(poll_n(p.cq, wc, 8) == 8 && !wc[0].wr_id && wc[7].wr_id == 16,
	       "all posted WRs complete");
	free_pair(&p);
}

static void posting_inline(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	char data[80] = "hello";
	struct ibv_sge sge[2] = { { (uintptr_t)data, 40, 0 }, { (uintptr_t)data, 25, 0 } };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
		.sg_list = sge,
		.num_sge = 2,
	};
	struct {
		struct xr_send_wqe wqe;
		char data[64];
	} entry;

	TAP_OK(ibv_post_send(p.qp, &wr, &bad) == EINVAL,
	       "post_send: inline data above the limit is EINVAL");
	sge[1].length = 24;
	TAP_OK(!ibv_post_send(p.qp, &wr, &bad) &&
		       fake_send_entry(&f->daemon, p.qp->qp_num, 0, &entry, sizeof(entry)) == 1 &&
		       entry.wqe.inline_len == 64 && !entry.wqe.num_sge &&
		       !strcmp(entry.data, "hello") && !strcmp(entry.data + 40, "hello"),
	       "post_send: accepts inline data up to the limit");
	wr.opcode = IBV_WR_RDMA_READ;
	TAP_OK(ibv_post_send(p.qp, &wr, &bad) == EINVAL,
	       "post_send: inline data of a READ is EINVAL");
	free_pair(&p);
}

/* Ring entries of the operations */
static void posting_operations(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_mw mw = { .context = f->ctx, .pd = f->pd, .rkey = 0x500, .type = IBV_MW_TYPE_2 };
	struct ibv_mr mr = { .lkey = 0x600 };
	struct ibv_send_wr *bad, inv = {
		.opcode = IBV_WR_SEND_WITH_INV,
		.invalidate_rkey = 0x1234,
	};
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = &mw,
			     .rkey = 0x501,
			     .bind_info = { &mr, 0x1000, 0x20, IBV_ACCESS_REMOTE_READ } },
	};
	struct xr_send_wqe wqe;

	ibv_post_send(p.qp, &inv, &bad);
	fake_send_entry(&f->daemon, p.qp->qp_num, 0, &wqe, sizeof(wqe));
	TAP_OK(wqe.opcode == XR_WR_SEND_WITH_INV && wqe.invalidate_rkey == 0x1234,
	       "post_send: the entry of a SEND with invalidate has the R_Key");
	ibv_post_send(p.qp, &bind, &bad);
	fake_send_entry(&f->daemon, p.qp->qp_num, 1, &wqe, sizeof(wqe));
	TAP_OK(wqe.opcode == XR_WR_BIND_MW && wqe.bind.mw_rkey == 0x500 &&
		       wqe.bind.new_rkey == 0x501 && wqe.bind.mr_lkey == 0x600 &&
		       wqe.bind.access == IBV_ACCESS_REMOTE_READ && wqe.remote_addr == 0x1000 &&
		       wqe.bind_len == 0x20,
	       "post_send: the entry of a bind has window, region and range");
	mw.type = IBV_MW_TYPE_1;
	TAP_OK(ibv_post_send(p.qp, &bind, &bad) == EINVAL && bad == &bind,
	       "post_send: bind of a type 1 window is EINVAL");
	free_pair(&p);
}

static void windows(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_mr mr = { .pd = f->pd, .lkey = 0x600 };
	struct ibv_mw_bind bind = {
		.wr_id = 7,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { &mr, 0x1000, 0x20, IBV_ACCESS_REMOTE_WRITE },
	};
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_1);
	struct ibv_mw *type_2 = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	struct xr_send_wqe wqe = { 0 };
	uint32_t old;

	TAP_OK(mw && type_2 && mw->handle && mw->type == IBV_MW_TYPE_1 && mw->pd == f->pd &&
		       mw->context == f->ctx && mw->rkey != type_2->rkey,
	       "alloc_mw: allocates windows of type 1 and 2");
	TAP_OK((errno = 0, !ibv_alloc_mw(f->pd, 3)) && errno == EINVAL,
	       "alloc_mw: type 3 is EINVAL");
	old = mw->rkey;
	TAP_OK(!ibv_bind_mw(p.qp, mw, &bind) && mw->rkey == ibv_inc_rkey(old),
	       "bind_mw: changes the key");
	fake_send_entry(&f->daemon, p.qp->qp_num, 0, &wqe, sizeof(wqe));
	TAP_OK(wqe.wr_id == 7 && wqe.opcode == XR_WR_BIND_MW && wqe.flags == XR_SEND_SIGNALED &&
		       XR_KEY_INDEX(wqe.bind.mw_rkey) == XR_KEY_INDEX(old) &&
		       wqe.bind.new_rkey == mw->rkey && wqe.bind.mr_lkey == 0x600 &&
		       wqe.bind.access == IBV_ACCESS_REMOTE_WRITE && wqe.remote_addr == 0x1000 &&
		       wqe.bind_len == 0x20,
	       "bind_mw: posts a WR");
	bind.send_flags = IBV_SEND_INLINE;
	old = mw->rkey;
	TAP_OK(ibv_bind_mw(p.qp, mw, &bind) == EINVAL && mw->rkey == old,
	       "bind_mw: an error does not change the key");
	TAP_OK(ibv_bind_mw(p.qp, type_2, &bind) == EINVAL, "bind_mw: type 2 is EINVAL");
	TAP_OK(!ibv_dealloc_mw(mw) && !ibv_dealloc_mw(type_2), "the windows are deallocated");
	free_pair(&p);
}

/* Operations of each QP type */
static void unreliable_types(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_UC,
		.cap.max_send_wr = 4,
	};
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
	struct ibv_ah *ah = ibv_create_ah(f->pd, &attr);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ }, *bad;
	struct xr_send_wqe wqe = { 0 };
	struct ibv_qp *uc = ibv_create_qp(f->pd, &init), *ud;

	init.qp_type = IBV_QPT_UD;
	ud = ibv_create_qp(f->pd, &init);
	TAP_OK(uc && ud && ah, "create_qp: creates UC and UD QPs");
	to_state(uc, IBV_QPS_RTS);
	to_state(ud, IBV_QPS_RTS);
	TAP_OK(ibv_post_send(uc, &wr, &bad) == EINVAL, "UC: READ is EINVAL");
	wr.opcode = IBV_WR_RDMA_WRITE;
	TAP_OK(!ibv_post_send(uc, &wr, &bad), "UC: WRITE is accepted");
	wr.opcode = IBV_WR_LOCAL_INV;
	TAP_OK(!ibv_post_send(uc, &wr, &bad) && ibv_post_send(ud, &wr, &bad) == EINVAL,
	       "UC: local invalidate is accepted; UD: it is EINVAL");
	wr.opcode = IBV_WR_SEND_WITH_INV;
	TAP_OK(ibv_post_send(uc, &wr, &bad) == EINVAL, "UC: SEND with invalidate is EINVAL");
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.ud.ah = ah;
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "UD: WRITE is EINVAL");
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.remote_qpn = 0x123;
	wr.wr.ud.remote_qkey = 0x456;
	TAP_OK(!ibv_post_send(ud, &wr, &bad), "UD: SEND is accepted");
	fake_send_entry(&f->daemon, ud->qp_num, 0, &wqe, sizeof(wqe));
	TAP_OK(wqe.ud.ah == ah->handle && wqe.ud.remote_qpn == 0x123 && wqe.ud.remote_qkey == 0x456,
	       "UD: the entry has the destination");
	wr.wr.ud.ah = NULL;
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "UD: no address handle is EINVAL");
	wr.wr.ud.ah = &(struct ibv_ah){ .handle = ah->handle };
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL,
	       "UD: an address handle of another context is EINVAL");
	TAP_OK(!ibv_destroy_qp(uc) && !ibv_destroy_qp(ud) && !ibv_destroy_cq(cq) &&
		       !ibv_destroy_ah(ah),
	       "UC and UD QPs, AH and CQ are destroyed");
}

static void limits(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;

	TAP_OK(!ibv_create_cq(f->ctx, 0, NULL, NULL, 0) && errno == EINVAL,
	       "create_cq: 0 entries are EINVAL");
	TAP_OK(!ibv_create_cq(f->ctx, 4097, NULL, NULL, 0) && errno == EINVAL,
	       "create_cq: too many entries are EINVAL");
	TAP_OK(!ibv_create_cq(f->ctx, 8, NULL, NULL, 1) && errno == EINVAL,
	       "create_cq: comp_vector 1 is EINVAL");
	init.cap.max_send_wr = 5000;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL,
	       "create_qp: max_send_wr above the limit is EINVAL");
	init.cap.max_send_wr = 1;
	init.cap.max_send_sge = 17;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL,
	       "create_qp: max_send_sge above the limit is EINVAL");
	init.cap.max_send_sge = 1;
	init.cap.max_inline_data = 257;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL,
	       "create_qp: max_inline_data above the limit is EINVAL");
	init.cap.max_inline_data = 33;
	qp = ibv_create_qp(f->pd, &init);
	TAP_OK(qp && init.cap.max_inline_data == 48 && !ibv_destroy_qp(qp),
	       "create_qp: returns what was granted");
	init.cap.max_inline_data = 0;
	init.send_cq = NULL;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "create_qp: no send CQ is EINVAL");
	init.send_cq = cq;
	qp = ibv_create_qp(f->pd, &init);
	TAP_OK(qp && qp->state == IBV_QPS_RESET, "create_qp: accepts max_recv_wr 0");
	TAP_OK(!to_state(qp, IBV_QPS_INIT) && post_recv(qp, 1, 1) == ENOMEM,
	       "max_recv_wr 0: post_recv is ENOMEM");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static unsigned int access_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, IBV_QP_ACCESS_FLAGS, &init) ? ~0u : attr.qp_access_flags;
}

/* librdmacm sets the access flags of a QP in INIT once more before it moves the QP to RTR. */
static void access_in_init(struct fixture *f)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 5, .max_burst_sz = 3000 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_INIT);

	/* The fake daemon forgets the burst when it gets another request to modify the QP. */
	ibv_modify_qp_rate_limit(qp, &limit);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	TAP_OK(!ibv_modify_qp(qp, &attr, init) && fake_burst(&f->daemon, qp->qp_num) == 3000,
	       "modify_qp: access flags alone of a QP in INIT take no request");
	TAP_OK(access_of(qp) == IBV_ACCESS_REMOTE_READ, "query_qp: returns them");
	TAP_OK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX) &&
		       !fake_burst(&f->daemon, qp->qp_num) &&
		       access_of(qp) == IBV_ACCESS_REMOTE_READ,
	       "modify_qp: the next request has them");
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	ibv_modify_qp(qp, &attr, init);
	attr.qp_state = IBV_QPS_RTR;
	attr.qp_access_flags = 0;
	TAP_OK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN) &&
		       access_of(qp) == IBV_ACCESS_REMOTE_WRITE,
	       "modify_qp: so has one that moves the QP to RTR");
	TAP_OK(!to_state(qp, IBV_QPS_RTS) && !access_of(qp), "modify_qp: but not a later one");
	to_state(qp, IBV_QPS_RESET);
	to_state(qp, IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_INIT;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	ibv_modify_qp(qp, &attr, init);
	TAP_OK(!to_state(qp, IBV_QPS_ERR) && !access_of(qp) && !to_state(qp, IBV_QPS_RESET) &&
		       !to_state(qp, IBV_QPS_INIT) && !access_of(qp),
	       "modify_qp: the end of INIT drops them");
	attr.port_num = 2;
	ibv_modify_qp_rate_limit(qp, &limit);
	TAP_OK(!ibv_modify_qp(qp, &attr, init) && !fake_burst(&f->daemon, qp->qp_num),
	       "modify_qp: the daemon checks other values");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static void modify_and_query(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_INIT);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .ah_attr.is_global = 1,
				    .dest_qp_num = 77,
				    .rq_psn = 5,
				    .sq_psn = 0x81000006 };
	struct ibv_qp_init_attr init;

	attr.ah_attr.grh.hop_limit = FAKE_REFUSED_HOP;
	TAP_OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV) == EHOSTUNREACH &&
		       qp->state == IBV_QPS_INIT,
	       "modify_qp: returns the daemon's error, the state is unchanged");
	attr.ah_attr.grh.hop_limit = 3;
	attr.ah_attr.grh.dgid.raw[3] = 9;
	TAP_OK(!ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_SQ_PSN) &&
		       qp->state == IBV_QPS_RTR,
	       "modify_qp: moves the QP to RTR");
	memset(&attr, 0, sizeof(attr));
	TAP_OK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTR &&
		       attr.dest_qp_num == 77 && attr.rq_psn == 0 &&
		       attr.ah_attr.grh.hop_limit == 3 && attr.ah_attr.grh.dgid.raw[3] == 9 &&
		       init.send_cq == cq && init.cap.max_send_wr == 8,
	       "query_qp: modify_qp sent only the fields in the mask");
	TAP_OK(init.recv_cq == cq && !init.srq && init.qp_type == IBV_QPT_RC && !init.sq_sig_all &&
		       init.cap.max_recv_wr == 8 && init.cap.max_send_sge == 2 &&
		       init.cap.max_recv_sge == 2 && init.cap.max_inline_data == 64 &&
		       !memcmp(&attr.cap, &init.cap, sizeof(init.cap)),
	       "query_qp: returns the attributes of creation");
	TAP_OK(attr.sq_psn == 6, "modify_qp: PSNs are cut to 24 bits");
	TAP_OK(ibv_modify_qp(qp, &attr, IBV_QP_CAP) == EOPNOTSUPP,
	       "modify_qp: IBV_QP_CAP is EOPNOTSUPP");
	fake_qp_error(&f->daemon, qp->qp_num);
	TAP_OK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR &&
		       qp->state == IBV_QPS_ERR,
	       "query_qp: updates the state that the daemon changed");
	ibv_destroy_qp(qp);
	init.sq_sig_all = 1;
	init.qp_context = &init;
	qp = ibv_create_qp(f->pd, &init);
	memset(&init, 0, sizeof(init));
	TAP_OK(qp && !ibv_query_qp(qp, &attr, 0, &init) && init.sq_sig_all == 1 &&
		       init.qp_context == &init,
	       "query_qp: returns sq_sig_all and qp_context");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static unsigned int descriptors(void)
{
	unsigned int n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void no_descriptors(struct fixture *f)
{
	unsigned int before = descriptors();
	struct fixture other = { .ctx = open_fake(), .daemon = f->daemon };
	struct ibv_cq *cq = ibv_create_cq(other.ctx, 8, NULL, NULL, 0);
	struct ibv_qp *qp;

	other.pd = ibv_alloc_pd(other.ctx);
	qp = make_qp(&other, cq, cq, IBV_QPS_RTS);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(other.pd);
	ibv_close_device(other.ctx);
	TAP_OK(descriptors() == before, "closing a context closes all its descriptors");
}

static void many_qps(struct fixture *f)
{
	struct ibv_cq *send = ibv_create_cq(f->ctx, 512, NULL, NULL, 0);
	struct ibv_cq *recv = ibv_create_cq(f->ctx, 512, NULL, NULL, 0);
	struct ibv_qp *qp[40];
	struct ibv_wc wc[512];
	int i, j, n, good = 0;

	for (i = 0; i < 40; i++)
		qp[i] = make_qp(f, send, recv, IBV_QPS_RTS);
	for (j = 0; j < 50; j++) {
		for (i = 0; i < 40; i++) {
			good += !post_send(qp[i], i, 8) && !post_recv(qp[i], i, 8);
			fake_complete(&f->daemon, qp[i]->qp_num, false, 8, 0, false);
			fake_complete(&f->daemon, qp[i]->qp_num, true, 8, 0, false);
		}
		n = poll_n(send, wc, 320);
		good += n == 320 && wc[319].wr_id == 46;
		n = poll_n(recv, wc, 320);
		good += n == 320 && wc[0].opcode == IBV_WC_RECV;
	}
	TAP_OK(good == 50 * 42, "40 QPs on two CQs complete all WRs, 50 times around their rings");
	post_send(qp[3], 3, 8);
	post_send(qp[5], 5, 8);
	fake_complete(&f->daemon, qp[3]->qp_num, false, 8, 0, false);
	fake_complete(&f->daemon, qp[5]->qp_num, false, 8, 0, false);
	ibv_destroy_qp(qp[3]);
	TAP_OK(poll_n(send, wc, 9) == 8 && wc[0].wr_id == 5,
	       "destroy_qp: drops completions of this QP only");
	TAP_OK(!ibv_resize_cq(send, 1000) && send->cqe == 1024, "resize_cq: accepts more entries");
	for (i = 4; i < 40; i++) {
		post_send(qp[i], i, 8);
		fake_complete(&f->daemon, qp[i]->qp_num, false, 8, 0, false);
	}
	TAP_OK(ibv_resize_cq(send, 100) == EINVAL,
	       "resize_cq: EINVAL if the completions do not fit");
	TAP_OK(!ibv_resize_cq(send, 300) && send->cqe == 512, "resize_cq: accepts fewer entries");
	TAP_OK(poll_n(send, wc, 289) == 288 && wc[0].wr_id == 4 && wc[287].wr_id == 46,
	       "resize_cq: keeps the completions");
	for (i = 0; i < 40; i++) {
		if (i != 3)
			ibv_destroy_qp(qp[i]);
	}
	ibv_destroy_cq(send);
	ibv_destroy_cq(recv);
}

int main(void)
{
	struct fixture f;

	setup(&f);
	unreliable_types(&f);
	limits(&f);
	posting_by_state(&f);
	posting_rings(&f);
	completing(&f);
	polling_threads(&f);
	polling_in_turn(&f);
	contents(&f);
	strangers(&f);
	posting_lists(&f);
	posting_inline(&f);
	windows(&f);
	posting_operations(&f);
	windows(&f);
	modify_and_query(&f);
	access_in_init(&f);
	no_descriptors(&f);
	many_qps(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
