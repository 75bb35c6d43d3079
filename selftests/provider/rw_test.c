// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs: RW contexts */
#include "fixture.h"

#include <xroce/ring.h>

#include "../lib/direct_verbs.h"
#include "../lib/tap.h"

#define REMOTE 0x50000000ull
#define RKEY 0x1234
#define PAGE 4096u
#define GIB (1u << 30)
#define MAX_PIECES 40

static struct direct_verbs dv;

static struct ibv_qp *make_rw_qp(struct fixture *f, struct ibv_cq *cq, unsigned int depth,
				 unsigned int sges)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = depth, .max_send_sge = sges },
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);

	if (qp)
		to_state(qp, IBV_QPS_RTS);
	return qp;
}

/* A send queue entry with its SGEs */
struct entry {
	struct xr_send_wqe wqe;
	struct xr_sge sge[4];
};

static struct entry entry_at(struct fixture *f, struct ibv_qp *qp, uint32_t index)
{
	struct entry e;

	fake_send_entry(&f->daemon, qp->qp_num, index, &e, sizeof(e));
	return e;
}

/* ---- with L_Keys ------------------------------------------------------------------- */

/* Follows the entries and the pieces. Returns NULL, or what is wrong. */
static const char *check_entries(struct fixture *f, struct ibv_qp *qp,
				 const struct xrocedv_rw_attr *attr, unsigned int n,
				 unsigned int max_sge)
{
	uint8_t opcode = attr->direction == XROCEDV_RW_READ ? XR_WR_RDMA_READ : XR_WR_RDMA_WRITE;
	uint64_t remote = attr->remote_addr, off = attr->sg_offset, total;
	const struct ibv_sge *sg = attr->sg;

	for (; off >= sg->length; sg++)
		off -= sg->length;
	for (unsigned int i = 0; i < n; i++) {
		struct entry e = entry_at(f, qp, i);

		if (e.wqe.opcode != opcode || e.wqe.rkey != attr->rkey || e.wqe.wr_id != 77)
			return "opcode, rkey or wr_id";
		if (e.wqe.flags != (i + 1 == n ? XR_SEND_SIGNALED : 0))
			return "not exactly the last one is signaled";
		if (e.wqe.remote_addr != remote || !e.wqe.num_sge || e.wqe.num_sge > max_sge)
			return "remote address, or number of SGEs";
		total = 0;
		for (unsigned int j = 0; j < e.wqe.num_sge; j++) {
			if (sg == attr->sg + attr->nents)
				return "more than the pieces";
			if (e.sge[j].addr != sg->addr + off || e.sge[j].lkey != sg->lkey ||
			    e.sge[j].length > sg->length - off)
				return "not the next piece";
			total += e.sge[j].length;
			off += e.sge[j].length;
			if (off == sg->length) {
				sg++;
				off = 0;
			}
		}
		if (total > XROCEDV_RW_MAX_MESSAGE)
			return "message too long";
		remote += total;
	}
	return sg == attr->sg + attr->nents ? NULL : "less than the pieces";
}

static void with_lkeys(struct fixture *f)
{
	static const struct {
		const char *what;
		unsigned int nents, sges, wrs;
		uint32_t length; /* of each piece */
		uint64_t offset;
		enum xrocedv_rw_direction direction;
	} rows[] = {
		{ "one byte", 1, 1, 1, 1, 0, XROCEDV_RW_WRITE },
		{ "as many pieces as SGEs", 4, 4, 1, 100, 0, XROCEDV_RW_READ },
		{ "one piece more", 5, 4, 2, 100, 0, XROCEDV_RW_READ },
		{ "a piece for each WR", 8, 1, 8, 5000, 0, XROCEDV_RW_WRITE },
		{ "offset within a piece", 5, 2, 2, 100, 199, XROCEDV_RW_WRITE },
		{ "offset of whole pieces", 5, 2, 2, 100, 200, XROCEDV_RW_WRITE },
		{ "offset before the last byte", 5, 2, 1, 100, 499, XROCEDV_RW_WRITE },
		{ "exactly the longest message", 2, 4, 1, GIB, 0, XROCEDV_RW_READ },
		{ "one piece beyond the longest message", 3, 4, 2, GIB, 0, XROCEDV_RW_READ },
		{ "a piece cut by the longest message", 3, 4, 2, GIB, 5, XROCEDV_RW_WRITE },
		{ "pieces longer than a message", 2, 4, 4, 0xffffffffu, 0, XROCEDV_RW_WRITE },
	};
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *qp = make_rw_qp(f, cq, 16, rows[i].sges);
		struct ibv_sge sg[MAX_PIECES];
		struct xrocedv_rw_attr attr = {
			.direction = rows[i].direction,
			.rkey = RKEY,
			.remote_addr = REMOTE,
			.sg = sg,
			.nents = (int)rows[i].nents,
			.sg_offset = rows[i].offset,
		};
		const char *wrong = "not created";
		unsigned int wrs = 0, most;
		struct xrocedv_rw *rw;

		for (unsigned int j = 0; j < rows[i].nents; j++)
			sg[j] = (struct ibv_sge){ 0x100000001ull + j * 0x200000000ull,
						  rows[i].length, j + 1 };
		most = xrocedv_rw_max_wrs(rows[i].nents, rows[i].sges,
					  (uint64_t)rows[i].nents * rows[i].length);
		rw = dv.rw_create(qp, &attr);
		if (rw) {
			wrs = dv.rw_wrs(rw);
			wrong = dv.rw_post(rw, 77, NULL)
					? "post"
					: check_entries(f, qp, &attr, wrs, rows[i].sges);
			if (!wrong && dv.rw_post(rw, 77, NULL) != EALREADY)
				wrong = "posted twice";
			dv.rw_destroy(rw);
		}
		TAP_OK(!wrong && wrs == rows[i].wrs && wrs <= most, "rw: %s: %u WRs%s%s",
		       rows[i].what, wrs, wrong ? ": " : "", wrong ? wrong : "");
		ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq);
}

/* ---- refusals ---------------------------------------------------------------------- */

static void refusals(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_rw_qp(f, cq, 16, 2);
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	struct ibv_qp *all = ibv_create_qp(f->pd, &init), *uc;
	struct ibv_pd *pd = ibv_alloc_pd(f->ctx);
	struct ibv_mr *mr = dv.alloc_mr(f->pd, 2), *stranger = dv.alloc_mr(pd, 2);
	struct ibv_mr *twice[2] = { mr, mr };
	struct ibv_sge sg[2] = { { 0x10000, 100, 1 }, { 0x20000, 100, 1 } };
	struct xrocedv_rw_attr good = { .direction = XROCEDV_RW_READ,
					.remote_addr = REMOTE,
					.sg = sg,
					.nents = 2,
					.page_size = PAGE },
			       a;
	struct xrocedv_rw *rw;

	init.sq_sig_all = 0;
	init.qp_type = IBV_QPT_UC;
	uc = ibv_create_qp(f->pd, &init);
	TAP_OK(!dv.rw_create(all, &good) && errno == EINVAL,
	       "rw_create: EINVAL for a QP with sq_sig_all");
	TAP_OK(!dv.rw_create(uc, &good) && errno == EINVAL, "rw_create: EINVAL for READ on UC");
	a = good;
	a.direction = 7;
	TAP_OK(!dv.rw_create(qp, &a) && errno == EINVAL, "rw_create: EINVAL for the direction");
	a = good;
	a.nents = 0;
	TAP_OK(!dv.rw_create(qp, &a) && errno == EINVAL, "rw_create: EINVAL without pieces");
	a = good;
	a.sg_offset = 200;
	TAP_OK(!dv.rw_create(qp, &a) && errno == EINVAL, "rw_create: EINVAL if all is skipped");
	a = good;
	a.remote_addr = -100ull;
	TAP_OK(!dv.rw_create(qp, &a) && errno == EINVAL,
	       "rw_create: EINVAL if the remote addresses wrap around");
	sg[1].length = 0;
	TAP_OK(!dv.rw_create(qp, &good) && errno == EINVAL, "rw_create: EINVAL for an empty piece");
	sg[1].length = 100;
	a = good;
	a.mr = &stranger;
	a.num_mr = 1;
	TAP_OK(!dv.rw_create(qp, &a) && errno == EPERM, "rw_create: EPERM for another PD");
	a.mr = twice;
	a.num_mr = 2;
	TAP_OK(!dv.rw_create(qp, &a) && errno == EINVAL, "rw_create: EINVAL for a region twice");
	a.num_mr = 1;
	TAP_OK(!dv.rw_create(qp, &a) && errno == ENOSPC,
	       "rw_create: ENOSPC if the regions cannot hold the pieces");
	a = good;
	to_state(uc, IBV_QPS_INIT);
	a.direction = XROCEDV_RW_WRITE;
	rw = dv.rw_create(uc, &a);
	TAP_OK(rw && dv.rw_post(rw, 1, NULL) == EINVAL && dv.rw_wrs(rw) == 2,
	       "rw_post: EINVAL if the QP is not in RTS, and nothing is posted");
	dv.rw_destroy(rw);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(stranger);
	ibv_dealloc_pd(pd);
	ibv_destroy_qp(qp);
	ibv_destroy_qp(all);
	ibv_destroy_qp(uc);
	ibv_destroy_cq(cq);
}

/* ---- chain, and a small queue -------------------------------------------------------- */

static void chain(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_rw_qp(f, cq, 4, 1);
	struct ibv_sge sg[3] = { { 0x10000, 10, 1 }, { 0x20000, 10, 1 }, { 0x30000, 10, 1 } };
	struct xrocedv_rw_attr attr = { XROCEDV_RW_WRITE, RKEY, REMOTE, sg, 3, 0, NULL, 0, 0 };
	struct ibv_send_wr send = { .wr_id = 5,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr bad = send, *bad_wr;
	struct xrocedv_rw *rw = dv.rw_create(qp, &attr);
	struct entry e[4];

	bad.num_sge = 2;
	TAP_OK(dv.rw_post(rw, 1, &bad) == EINVAL && dv.rw_wrs(rw) == 3,
	       "rw_post: EINVAL for a bad WR of the chain, and nothing is posted");
	TAP_OK(!dv.rw_post(rw, 1, &send), "rw_post: with a chain");
	for (uint32_t i = 0; i < 4; i++)
		e[i] = entry_at(f, qp, i);
	TAP_OK(e[3].wqe.opcode == XR_WR_SEND && e[3].wqe.wr_id == 5 &&
		       e[3].wqe.flags == XR_SEND_SIGNALED && !e[2].wqe.flags && !e[0].wqe.flags,
	       "rw_post: the chain is behind the transfer, which is not signaled");
	dv.rw_destroy(rw);
	rw = dv.rw_create(qp, &attr);
	TAP_OK(dv.rw_post(rw, 1, NULL) == ENOMEM && dv.rw_wrs(rw) == 3,
	       "rw_post: ENOMEM if the queue has no room, and nothing is posted");
	dv.rw_destroy(rw);
	TAP_OK(ibv_post_send(qp, &send, &bad_wr) == ENOMEM, "the queue is full");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

/* A queue of 4 entries takes a transfer of 10 WRs and a chain in parts. */
static void parts(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_rw_qp(f, cq, 4, 1);
	struct ibv_sge sg[MAX_PIECES];
	struct xrocedv_rw_attr attr = { XROCEDV_RW_WRITE, RKEY, REMOTE, sg, 10, 0, NULL, 0, 0 };
	struct ibv_send_wr send = { .wr_id = 5,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	unsigned int in_order = 0, signaled = 0, calls = 0, at = 0;
	struct xrocedv_rw *rw;
	struct ibv_wc wc;
	int err;

	for (unsigned int i = 0; i < 10; i++)
		sg[i] = (struct ibv_sge){ 0x10000 + i * 100, 10, 1 };
	rw = dv.rw_create(qp, &attr);
	do {
		unsigned int before = dv.rw_wrs(rw), n;

		err = dv.rw_post(rw, 1, &send);
		calls++;
		n = before - dv.rw_wrs(rw) + !err;
		for (unsigned int i = 0; i < n; i++, at++) {
			struct entry e = entry_at(f, qp, at);

			in_order += at < 10 ? e.wqe.remote_addr == REMOTE + at * 10
					    : e.wqe.opcode == XR_WR_SEND;
			signaled += e.wqe.flags == XR_SEND_SIGNALED && i + 1 == n;
		}
		if (n > 1) /* the fake daemon would complete unsignaled WRs, too */
			fake_complete(&f->daemon, qp->qp_num, false, n, 0, false);
		else
			fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false);
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			;
	} while (err == EINPROGRESS && calls < 20);
	TAP_OK(!err && at == 11 && in_order == 11 && signaled == calls && calls == 3,
	       "rw_post: a transfer longer than the queue is posted in %u parts", calls);
	dv.rw_destroy(rw);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

/* ---- with regions ------------------------------------------------------------------ */

static void with_regions(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_rw_qp(f, cq, 16, 1);
	struct ibv_mr *mr[3] = { dv.alloc_mr(f->pd, 2), dv.alloc_mr(f->pd, 2),
				 dv.alloc_mr(f->pd, 2) };
	uint32_t before = mr[0]->rkey;
	/* 100 bytes at the end of a page, 3 pages, and 10 bytes at the start of another page */
	struct ibv_sge sg[3] = { { 0x10000 + PAGE - 100, 100, 0 },
				 { 0x20000, 3 * PAGE, 0 },
				 { 0x30000, 10, 0 } };
	struct xrocedv_rw_attr attr = { XROCEDV_RW_READ, RKEY, REMOTE, sg, 3, 10, mr, 3, PAGE };
	static const uint32_t length[3] = { 90 + PAGE, 2 * PAGE, 10 };
	struct xrocedv_rw *rw = dv.rw_create(qp, &attr);
	uint64_t remote = REMOTE;
	unsigned int right = 0;

	TAP_OK(rw && dv.rw_wrs(rw) == 9 &&
		       mr[0]->rkey == ((before & ~0xffu) | ((before + 1) & 0xff)),
	       "rw: three regions take nine WRs, and get new keys");
	TAP_OK(rw && !dv.rw_post(rw, 77, NULL), "rw_post: with regions");
	for (unsigned int i = 0; i < 3; i++) {
		struct entry reg = entry_at(f, qp, 3 * i), data = entry_at(f, qp, 3 * i + 1),
			     inv = entry_at(f, qp, 3 * i + 2);

		right += reg.wqe.opcode == XR_WR_REG_MR && reg.wqe.reg.key == mr[i]->rkey &&
			 reg.wqe.reg.access == IBV_ACCESS_LOCAL_WRITE &&
			 reg.wqe.bind_len == length[i] && !reg.wqe.flags;
		right += data.wqe.opcode == XR_WR_RDMA_READ && data.wqe.remote_addr == remote &&
			 data.wqe.num_sge == 1 && data.sge[0].lkey == mr[i]->lkey &&
			 data.sge[0].addr == reg.wqe.remote_addr &&
			 data.sge[0].length == length[i] && !data.wqe.flags;
		right += inv.wqe.opcode == XR_WR_LOCAL_INV &&
			 inv.wqe.invalidate_rkey == mr[i]->rkey &&
			 inv.wqe.flags == (i == 2 ? XR_SEND_SIGNALED : 0);
		remote += length[i];
	}
	TAP_OK(right == 9, "rw: each region is registered, used and invalidated");
	dv.rw_destroy(rw);
	ibv_destroy_qp(qp);
	for (unsigned int i = 0; i < 3; i++)
		ibv_dereg_mr(mr[i]);
	ibv_destroy_cq(cq);
}

int main(void)
{
	struct fixture f = { 0 };

	TAP_OK(find_direct_verbs(&dv), "libxroce.so exports the direct verbs");
	setup(&f);
	with_lkeys(&f);
	refusals(&f);
	chain(&f);
	parts(&f);
	with_regions(&f);
	teardown(&f);
	return tap_end();
}
