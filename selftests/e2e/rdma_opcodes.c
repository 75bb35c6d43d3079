/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends every opcode of each transport class: requests of one and of several packets, so that all
 * responses occur as well. For tests that capture packets.
 *
 *   rdma_opcodes -l                               prints every opcode: number, class, name
 *   rdma_opcodes -g GID-INDEX -p PORT [HOST]      both sides; the one with a HOST sends
 *
 * The opcodes are those of include/xroce/opcode.h.
 */
#include "verbs_util.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/xrocedv.h>

#include "xroce/opcode.h"

#define OP_FLUSH 14 /* IBV_WR_FLUSH, which verbs.h has since rdma-core 45 */

#define MTU 1024
#define BUF_SIZE (64u << 10)
#define WAIT_S 30
#define RECEIVES 16
#define QKEY 0x1234

struct peer {
	uint32_t qpn, rkey, window, srqn;
	uint64_t addr;
	union ibv_gid gid;
};

struct side {
	const char *host;
	int sock, gid_index;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_mw *mw; /* type 2, never bound: the peer may invalidate it repeatedly */
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct peer me, peer;
	char *buf;
};

/* ---- opcodes ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint8_t bits;
	unsigned in;
} classes[] = {
	{ "RC", XR_CLASS_RC, XR_IN_RC },
	{ "UC", XR_CLASS_UC, XR_IN_UC },
	{ "UD", XR_CLASS_UD, XR_IN_UD },
	{ "XRC", XR_CLASS_XRC, XR_IN_XRC },
};

#define ROW(op, flags, in) { #op, XR_OP_##op, in },
static const struct {
	const char *name;
	uint8_t op;
	unsigned in;
} operations[] = { XR_OPERATIONS(ROW) };

static int print_list(void)
{
	for (size_t c = 0; c < sizeof(classes) / sizeof(classes[0]); c++)
		for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
			if (operations[i].in & classes[c].in)
				printf("%d %s %s\n", classes[c].bits | operations[i].op,
				       classes[c].name, operations[i].name);
	return 0;
}

/* ---- QPs --------------------------------------------------------------------- */

static void exchange(struct side *s)
{
	MUST(send(s->sock, &s->me, sizeof(s->me), MSG_NOSIGNAL) == sizeof(s->me) &&
		     recv(s->sock, &s->peer, sizeof(s->peer), MSG_WAITALL) == sizeof(s->peer),
	     "the other side closed the connection");
}

static struct ibv_qp *new_qp(struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.pd = s->pd,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { 16, RECEIVES, 1, 1, 0 },
	};

	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = XROCEDV_QP_EX_WITH_FLUSH;
	}
	if (type == IBV_QPT_XRC_RECV) {
		init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		init.xrcd = s->xrcd;
	}
	return ibv_create_qp_ex(s->ctx, &init);
}

static int uc_to_rts(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
	if (to_init(qp, &attr))
		return -1;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN))
		return -1;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static void open_xrc(struct side *s)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex init = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.attr = { .max_wr = RECEIVES, .max_sge = 1 },
		.pd = s->pd,
		.cq = s->cq,
	};

	MUST(s->xrcd = ibv_open_xrcd(s->ctx, &domain), "XRC domain");
	init.xrcd = s->xrcd;
	MUST(s->srq = ibv_create_srq_ex(s->ctx, &init), "SRQ");
	MUST(!ibv_get_srq_num(s->srq, &s->me.srqn), "SRQ number");
}

static void open_side(struct side *s)
{
	MUST(s->ctx = open_device(NULL), "device");
	MUST(s->pd = ibv_alloc_pd(s->ctx), "PD");
	MUST(s->cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0), "CQ");
	MUST(s->buf = aligned_alloc(4096, BUF_SIZE), "memory");
	fill_pattern(s->buf, BUF_SIZE, 1, 0);
	MUST(s->mr = ibv_reg_mr(s->pd, s->buf, BUF_SIZE,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
					XROCEDV_ACCESS_FLUSH_GLOBAL),
	     "region");
	MUST(s->mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2), "window");
	open_xrc(s);
	s->me.gid = own_gid(s->ctx, s->gid_index);
	s->me.addr = (uintptr_t)s->buf;
	s->me.rkey = s->mr->rkey;
	s->me.window = s->mw->rkey;
}

static void connect_side(struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_attr attr;

	if (type == IBV_QPT_XRC_SEND && !s->host)
		type = IBV_QPT_XRC_RECV;
	MUST(s->qp = new_qp(s, type), "QP");
	s->me.qpn = s->qp->qp_num;
	exchange(s);
	attr = rc_attr(s->gid_index, s->peer.gid, s->peer.qpn);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_ATOMIC | XROCEDV_ACCESS_FLUSH_GLOBAL;
	if (type == IBV_QPT_UD)
		MUST(!ud_reset_to_rts(s->qp, QKEY), "UD to RTS");
	else if (type == IBV_QPT_UC)
		MUST(!uc_to_rts(s->qp, attr), "UC to RTS");
	else
		MUST(!reset_to_rts(s->qp, &attr), "to RTS");
}

/* ---- messages ------------------------------------------------------------------------- */

static bool takes_receive(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_SEND_WITH_INV ||
	       op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void post_receive(struct side *s)
{
	struct ibv_sge sge = { (uintptr_t)s->buf, BUF_SIZE, s->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (s->qp->qp_type == IBV_QPT_XRC_RECV)
		MUST(!ibv_post_srq_recv(s->srq, &wr, &bad), "receive");
	else
		MUST(!ibv_post_recv(s->qp, &wr, &bad), "receive");
}

static void complete(struct side *s, enum ibv_wr_opcode op)
{
	struct ibv_wc wc;

	MUST(next_completion(s->cq, &wc, WAIT_S) == 1, "completion");
	if (wc.status) {
		fprintf(stderr, "operation %d: %s\n", op, ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void post_send(struct side *s, enum ibv_wr_opcode op, uint32_t len, struct ibv_ah *ah)
{
	struct ibv_sge sge = { (uintptr_t)s->buf, len, s->mr->lkey };
	struct ibv_send_wr wr = { .opcode = op,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (op == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = s->peer.window;
	else
		wr.imm_data = htonl(len);
	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = s->peer.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = s->peer.addr;
		wr.wr.atomic.rkey = s->peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = s->peer.addr;
		wr.wr.rdma.rkey = s->peer.rkey;
	}
	wr.qp_type.xrc.remote_srqn = s->peer.srqn;
	MUST(!ibv_post_send(s->qp, &wr, &bad), "ibv_post_send");
}

static void post_flush(struct side *s, uint32_t len)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->qp);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	xrocedv_wr_flush(ex, s->peer.rkey, s->peer.addr, len, XROCEDV_FLUSH_GLOBAL,
			 XROCEDV_FLUSH_RANGE);
	if (s->qp->qp_type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(ex, s->peer.srqn);
	MUST(!ibv_wr_complete(ex), "FLUSH");
}

static void message(struct side *s, enum ibv_wr_opcode op, uint32_t len, struct ibv_ah *ah)
{
	if (!s->host && takes_receive(op))
		post_receive(s);
	exchange(s);
	if (s->host && op == (enum ibv_wr_opcode)OP_FLUSH)
		post_flush(s, len);
	else if (s->host)
		post_send(s, op, len, ah);
	if (s->host || takes_receive(op))
		complete(s, op);
}

/* ---- operations of each QP type ------------------------------------------------ */

static const struct {
	enum ibv_qp_type type;
	unsigned operations; /* bit mask of enum ibv_wr_opcode */
	bool one_packet;
} plan[] = {
#define BIT(op) (1u << IBV_WR_##op)
#define SENDS (BIT(SEND) | BIT(SEND_WITH_IMM))
#define WRITES (BIT(RDMA_WRITE) | BIT(RDMA_WRITE_WITH_IMM))
#define RELIABLE                                                                                   \
	(SENDS | WRITES | BIT(SEND_WITH_INV) | BIT(RDMA_READ) | BIT(ATOMIC_CMP_AND_SWP) |          \
	 BIT(ATOMIC_FETCH_AND_ADD) | BIT(ATOMIC_WRITE) | 1u << OP_FLUSH)
	{ IBV_QPT_RC, RELIABLE, false },
	{ IBV_QPT_UC, SENDS | WRITES, false },
	{ IBV_QPT_UD, SENDS, true },
	{ IBV_QPT_XRC_SEND, RELIABLE, false },
};

static bool has_8_bytes(enum ibv_wr_opcode op)
{
	return BIT(ATOMIC_CMP_AND_SWP) == 1u << op || BIT(ATOMIC_FETCH_AND_ADD) == 1u << op ||
	       BIT(ATOMIC_WRITE) == 1u << op;
}

static void run_type(struct side *s, size_t i)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah = NULL;

	connect_side(s, plan[i].type);
	if (plan[i].type == IBV_QPT_UD) {
		attr.grh.dgid = s->peer.gid;
		attr.grh.sgid_index = (uint8_t)s->gid_index;
		attr.grh.hop_limit = 64;
		MUST(ah = ibv_create_ah(s->pd, &attr), "AH");
	}
	exchange(s);
	for (int op = 0; op < 32; op++) {
		if (!(plan[i].operations & 1u << op))
			continue;
		message(s, op, has_8_bytes(op) ? 8 : 60, ah);
		if (!plan[i].one_packet && !has_8_bytes(op))
			message(s, op, 4 * MTU, ah);
	}
	exchange(s);
	if (ah)
		ibv_destroy_ah(ah);
	ibv_destroy_qp(s->qp);
}

int main(int argc, char **argv)
{
	struct sides sides = { .gid_index = 1, .port = 18516 };
	struct side s = { 0 };

	if (argc == 2 && !strcmp(argv[1], "-l"))
		return print_list();
	parse_sides(argc, argv, &sides);
	s.host = sides.host;
	s.gid_index = sides.gid_index;
	open_side(&s);
	s.sock = connect_sides(&sides, WAIT_S);
	for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++)
		run_type(&s, i);
	close(s.sock);
	return 0;
}
