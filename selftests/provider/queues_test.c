// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs: work requests into rings, completions out of them, states and limits */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>

#include <xroce/ring.h>
#include <xroce/tables.h>

#include "../lib/tap.h"

/* One CQ and one QP on it */
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
	TAP_OK(ibv_destroy_cq(p->cq) == EBUSY, "a CQ in use stays");
	TAP_OK(!ibv_destroy_qp(p->qp) && !ibv_destroy_cq(p->cq), "destroyed in order");
}

static void posting_by_state(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RESET);

	TAP_OK(p.cq->cqe == 128, "a CQ of a power of two");
	TAP_OK(post_recv(p.qp, 0, 1) == EINVAL, "post_recv in RESET");
	TAP_OK(post_send(p.qp, 0, 1) == EINVAL, "post_send in RESET");
	to_state(p.qp, IBV_QPS_INIT);
	TAP_OK(!post_recv(p.qp, 100, 8), "post_recv in INIT");
	TAP_OK(post_recv(p.qp, 0, 1) == ENOMEM, "until the queue is full");
	TAP_OK(post_send(p.qp, 0, 1) == EINVAL, "post_send in INIT");
	free_pair(&p);
}

static void posting_rings(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	unsigned int wakes;
	bool rang;

	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(!post_send(p.qp, 1, 2), "post_send in RTS");
	fake_doorbell(&f->daemon, true, &rang, &wakes);
	TAP_OK(rang && !wakes, "rings without waking a worker that is awake");
	TAP_OK(!post_send(p.qp, 3, 1), "post_send to a sleeping worker");
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang && wakes == 1, "rings and wakes it");
	post_recv(p.qp, 0, 1);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(!rang, "a receive queue does not ring");
	fake_qp_error(&f->daemon, p.qp->qp_num);
	post_recv(p.qp, 0, 1);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang, "except in ERR");
	free_pair(&p);
}

static void completing(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_wc wc[32];

	post_send(p.qp, 1, 3);
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 0, "nothing completed yet");
	fake_complete(&f->daemon, p.qp->qp_num, false, 8, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(p.cq, 2, wc) == 2 && wc[0].wr_id == 1 && wc[1].wr_id == 2 &&
		       wc[0].qp_num == p.qp->qp_num && wc[0].status == IBV_WC_SUCCESS,
	       "completions in order");
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 1 && wc[0].wr_id == 3, "and the rest");
	post_send(p.qp, 20, 8);
	fake_complete(&f->daemon, p.qp->qp_num, false, 3, IBV_WC_SUCCESS, false);
	to_state(p.qp, IBV_QPS_RESET);
	TAP_OK(ibv_poll_cq(p.cq, 8, wc) == 0, "RESET drops completions");
	to_state(p.qp, IBV_QPS_RTS);
	TAP_OK(!post_send(p.qp, 30, 8) && post_send(p.qp, 0, 1) == ENOMEM,
	       "and empties the queues");
	fake_complete(&f->daemon, p.qp->qp_num, false, 8, IBV_WC_SUCCESS, false);
	TAP_OK(ibv_poll_cq(p.cq, 32, wc) == 8 && wc[0].wr_id == 30, "which start over");
	free_pair(&p);
}

/* All that a completion says is handed on. */
static void contents(struct fixture *f)
{
	struct pair p = make_pair(f, IBV_QPS_RTS);
	struct ibv_wc wc[2];

	post_recv(p.qp, 1, 2);
	fake_complete(&f->daemon, p.qp->qp_num, true, 1, IBV_WC_SUCCESS, false);
	fake_complete(&f->daemon, p.qp->qp_num, true, 1, IBV_WC_LOC_LEN_ERR, false);
	TAP_OK(ibv_poll_cq(p.cq, 2, wc) == 2 && wc[0].opcode == IBV_WC_RECV && !wc[0].vendor_err &&
		       wc[0].byte_len == FAKE_RECEIVED(0) && wc[0].imm_data == FAKE_RECEIVED(1) &&
		       wc[0].src_qp == FAKE_RECEIVED(2) && wc[0].pkey_index == FAKE_RECEIVED(3) &&
		       wc[0].sl == FAKE_RECEIVED(4) && wc[0].wc_flags == IBV_WC_WITH_IMM,
	       "what was received");
	TAP_OK(wc[1].status == IBV_WC_LOC_LEN_ERR && wc[1].vendor_err == FAKE_VENDOR_ERR,
	       "what failed");
	free_pair(&p);
}

/* Objects of two contexts do not go together. */
static void strangers(struct fixture *f)
{
	struct fixture other = { .ctx = open_fake(), .daemon = f->daemon };
	struct ibv_comp_channel *ch = ibv_create_comp_channel(other.ctx);
	struct ibv_cq *own = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	/* handles mean something in their context only: here it is one that the other has, too */
	union {
		struct ibv_cq cq;
		uint8_t room[1024];
	} like = { .cq = { .context = other.ctx, .handle = own->handle } };
	struct ibv_qp_init_attr init = { .send_cq = &like.cq,
					 .recv_cq = own,
					 .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(other.ctx);

	TAP_OK(!ibv_create_cq(f->ctx, 8, NULL, ch, 0) && errno == EINVAL, "another's channel");
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "another's CQ to send");
	init.send_cq = own;
	init.recv_cq = &like.cq;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "another's CQ to receive");
	init.recv_cq = own;
	init.srq = ibv_create_srq(pd, &srq_attr);
	TAP_OK(init.srq && !ibv_create_qp(f->pd, &init) && errno == EINVAL, "another's SRQ");
	ibv_destroy_cq(own);
	ibv_destroy_srq(init.srq);
	ibv_destroy_comp_channel(ch);
	ibv_dealloc_pd(pd);
	TAP_OK(!ibv_close_device(other.ctx), "it goes");
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
	TAP_OK(ibv_post_send(p.qp, wr, &bad) == EINVAL && bad == &wr[1], "bad_wr of a list");
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(rang, "what lies before it is posted");
	wr[1].num_sge = 0;
	wr[1].send_flags = 1u << 20;
	TAP_OK(ibv_post_send(p.qp, &wr[1], &bad) == EINVAL && bad == &wr[1], "unknown flags");
	wr[1].send_flags = 0;
	wr[1].opcode = IBV_WR_TSO;
	TAP_OK(ibv_post_send(p.qp, &wr[1], &bad) == EINVAL && bad == &wr[1], "unknown operation");
	/* 1 is outstanding, of the list */
	TAP_OK(post_send(p.qp, 10, 8) == ENOMEM, "a full send queue");
	TAP_OK(fake_complete(&f->daemon, p.qp->qp_num, false, 100, IBV_WC_SUCCESS, false) == 8,
	       "all of it arrives");
	TAP_OK(poll_n(p.cq, wc, 8) == 8 && !wc[0].wr_id && wc[7].wr_id == 16, "and completes");
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

	TAP_OK(ibv_post_send(p.qp, &wr, &bad) == EINVAL, "inline data over the limit");
	sge[1].length = 24;
	TAP_OK(!ibv_post_send(p.qp, &wr, &bad) &&
		       fake_send_entry(&f->daemon, p.qp->qp_num, 0, &entry, sizeof(entry)) == 1 &&
		       entry.wqe.inline_len == 64 && !entry.wqe.num_sge &&
		       !strcmp(entry.data, "hello") && !strcmp(entry.data + 40, "hello"),
	       "inline data at the limit");
	wr.opcode = IBV_WR_RDMA_READ;
	TAP_OK(ibv_post_send(p.qp, &wr, &bad) == EINVAL, "no inline READ");
	free_pair(&p);
}

/* What each operation leaves in its entry */
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
	       "a SEND with invalidate");
	ibv_post_send(p.qp, &bind, &bad);
	fake_send_entry(&f->daemon, p.qp->qp_num, 1, &wqe, sizeof(wqe));
	TAP_OK(wqe.opcode == XR_WR_BIND_MW && wqe.bind.mw_rkey == 0x500 &&
		       wqe.bind.new_rkey == 0x501 && wqe.bind.mr_lkey == 0x600 &&
		       wqe.bind.access == IBV_ACCESS_REMOTE_READ && wqe.remote_addr == 0x1000 &&
		       wqe.bind_len == 0x20,
	       "a bind");
	mw.type = IBV_MW_TYPE_1;
	TAP_OK(ibv_post_send(p.qp, &bind, &bad) == EINVAL && bad == &bind,
	       "no window of type 1 by a work request");
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
	       "windows of both types");
	TAP_OK((errno = 0, !ibv_alloc_mw(f->pd, 3)) && errno == EINVAL, "there is no type 3");
	old = mw->rkey;
	TAP_OK(!ibv_bind_mw(p.qp, mw, &bind) && mw->rkey == ibv_inc_rkey(old),
	       "ibv_bind_mw gives a new key");
	fake_send_entry(&f->daemon, p.qp->qp_num, 0, &wqe, sizeof(wqe));
	TAP_OK(wqe.wr_id == 7 && wqe.opcode == XR_WR_BIND_MW && wqe.flags == XR_SEND_SIGNALED &&
		       XR_KEY_INDEX(wqe.bind.mw_rkey) == XR_KEY_INDEX(old) &&
		       wqe.bind.new_rkey == mw->rkey && wqe.bind.mr_lkey == 0x600 &&
		       wqe.bind.access == IBV_ACCESS_REMOTE_WRITE && wqe.remote_addr == 0x1000 &&
		       wqe.bind_len == 0x20,
	       "and posts a work request");
	bind.send_flags = IBV_SEND_INLINE;
	old = mw->rkey;
	TAP_OK(ibv_bind_mw(p.qp, mw, &bind) == EINVAL && mw->rkey == old,
	       "a request that is refused leaves the key");
	TAP_OK(ibv_bind_mw(p.qp, type_2, &bind) == EINVAL, "no window of type 2 by the verb");
	TAP_OK(!ibv_dealloc_mw(mw) && !ibv_dealloc_mw(type_2), "they go");
	free_pair(&p);
}

/* What each type of QP can be asked for */
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
	TAP_OK(uc && ud && ah, "QPs of type UC and UD");
	to_state(uc, IBV_QPS_RTS);
	to_state(ud, IBV_QPS_RTS);
	TAP_OK(ibv_post_send(uc, &wr, &bad) == EINVAL, "UC reads nothing");
	wr.opcode = IBV_WR_RDMA_WRITE;
	TAP_OK(!ibv_post_send(uc, &wr, &bad), "UC writes");
	wr.opcode = IBV_WR_LOCAL_INV;
	TAP_OK(!ibv_post_send(uc, &wr, &bad) && ibv_post_send(ud, &wr, &bad) == EINVAL,
	       "UC invalidates keys, UD does not");
	wr.opcode = IBV_WR_SEND_WITH_INV;
	TAP_OK(ibv_post_send(uc, &wr, &bad) == EINVAL, "UC does not invalidate those of its peer");
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.ud.ah = ah;
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "UD does not");
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.remote_qpn = 0x123;
	wr.wr.ud.remote_qkey = 0x456;
	TAP_OK(!ibv_post_send(ud, &wr, &bad), "UD sends");
	fake_send_entry(&f->daemon, ud->qp_num, 0, &wqe, sizeof(wqe));
	TAP_OK(wqe.ud.ah == ah->handle && wqe.ud.remote_qpn == 0x123 && wqe.ud.remote_qkey == 0x456,
	       "to whom it was told");
	wr.wr.ud.ah = NULL;
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "with an address handle only");
	wr.wr.ud.ah = &(struct ibv_ah){ .handle = ah->handle };
	TAP_OK(ibv_post_send(ud, &wr, &bad) == EINVAL, "of its own context");
	TAP_OK(!ibv_destroy_qp(uc) && !ibv_destroy_qp(ud) && !ibv_destroy_cq(cq) &&
		       !ibv_destroy_ah(ah),
	       "destroyed");
}

static void limits(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;

	TAP_OK(!ibv_create_cq(f->ctx, 0, NULL, NULL, 0) && errno == EINVAL, "a CQ of 0");
	TAP_OK(!ibv_create_cq(f->ctx, 4097, NULL, NULL, 0) && errno == EINVAL, "a CQ too large");
	TAP_OK(!ibv_create_cq(f->ctx, 8, NULL, NULL, 1) && errno == EINVAL, "comp_vector 1");
	init.cap.max_send_wr = 5000;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "too many WRs");
	init.cap.max_send_wr = 1;
	init.cap.max_send_sge = 17;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "too many elements");
	init.cap.max_send_sge = 1;
	init.cap.max_inline_data = 257;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "too much inline data");
	init.cap.max_inline_data = 33;
	qp = ibv_create_qp(f->pd, &init);
	TAP_OK(qp && init.cap.max_inline_data == 48 && !ibv_destroy_qp(qp),
	       "what is granted is told");
	init.cap.max_inline_data = 0;
	init.send_cq = NULL;
	TAP_OK(!ibv_create_qp(f->pd, &init) && errno == EINVAL, "no CQ");
	init.send_cq = cq;
	qp = ibv_create_qp(f->pd, &init);
	TAP_OK(qp && qp->state == IBV_QPS_RESET, "a QP without a receive queue to speak of");
	TAP_OK(!to_state(qp, IBV_QPS_INIT) && post_recv(qp, 1, 1) == ENOMEM, "takes no receives");
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
	       "the daemon's refusal is the answer");
	attr.ah_attr.grh.hop_limit = 3;
	attr.ah_attr.grh.dgid.raw[3] = 9;
	TAP_OK(!ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_SQ_PSN) &&
		       qp->state == IBV_QPS_RTR,
	       "modify_qp");
	memset(&attr, 0, sizeof(attr));
	TAP_OK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTR &&
		       attr.dest_qp_num == 77 && attr.rq_psn == 0 &&
		       attr.ah_attr.grh.hop_limit == 3 && attr.ah_attr.grh.dgid.raw[3] == 9 &&
		       init.send_cq == cq && init.cap.max_send_wr == 8,
	       "query_qp: only what the mask named was sent");
	TAP_OK(init.recv_cq == cq && !init.srq && init.qp_type == IBV_QPT_RC && !init.sq_sig_all &&
		       init.cap.max_recv_wr == 8 && init.cap.max_send_sge == 2 &&
		       init.cap.max_recv_sge == 2 && init.cap.max_inline_data == 64 &&
		       !memcmp(&attr.cap, &init.cap, sizeof(init.cap)),
	       "what the QP was made with");
	TAP_OK(attr.sq_psn == 6, "of a PSN, the bits that the wire has");
	TAP_OK(ibv_modify_qp(qp, &attr, IBV_QP_CAP) == EOPNOTSUPP, "a QP keeps its size");
	fake_qp_error(&f->daemon, qp->qp_num);
	TAP_OK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR &&
		       qp->state == IBV_QPS_ERR,
	       "a state that came by itself is known by a query");
	ibv_destroy_qp(qp);
	init.sq_sig_all = 1;
	init.qp_context = &init;
	qp = ibv_create_qp(f->pd, &init);
	memset(&init, 0, sizeof(init));
	TAP_OK(qp && !ibv_query_qp(qp, &attr, 0, &init) && init.sq_sig_all == 1 &&
		       init.qp_context == &init,
	       "with all of its sends signaled");
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
	TAP_OK(descriptors() == before, "a context leaves no descriptor open");
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
	TAP_OK(good == 50 * 42, "40 QPs on two CQs, 50 times around their rings");
	post_send(qp[3], 3, 8);
	post_send(qp[5], 5, 8);
	fake_complete(&f->daemon, qp[3]->qp_num, false, 8, 0, false);
	fake_complete(&f->daemon, qp[5]->qp_num, false, 8, 0, false);
	ibv_destroy_qp(qp[3]);
	TAP_OK(poll_n(send, wc, 9) == 8 && wc[0].wr_id == 5,
	       "completions of a destroyed QP are gone, those of another are not");
	TAP_OK(!ibv_resize_cq(send, 1000) && send->cqe == 1024, "resize_cq up");
	for (i = 4; i < 40; i++) {
		post_send(qp[i], i, 8);
		fake_complete(&f->daemon, qp[i]->qp_num, false, 8, 0, false);
	}
	TAP_OK(ibv_resize_cq(send, 100) == EINVAL, "resize_cq below what is in there");
	TAP_OK(!ibv_resize_cq(send, 300) && send->cqe == 512, "resize_cq down");
	TAP_OK(poll_n(send, wc, 289) == 288 && wc[0].wr_id == 4 && wc[287].wr_id == 46,
	       "keeps the completions");
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
	contents(&f);
	strangers(&f);
	posting_lists(&f);
	posting_inline(&f);
	windows(&f);
	posting_operations(&f);
	windows(&f);
	modify_and_query(&f);
	no_descriptors(&f);
	many_qps(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "no object is left but the PD");
	teardown(&f);
	return tap_end();
}
