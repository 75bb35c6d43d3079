/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives up its privileges, then opens the first device, registers memory and transfers data from
 * one region to another.
 *
 *   rdma_privileges setuid|seteuid|dumpable
 *
 * setuid   changes all user and group IDs to 65534, and keeps the other groups
 * seteuid  changes the effective IDs
 * dumpable as setuid, and then sets PR_SET_DUMPABLE to 1 and 0, as a user's program may
 */
#include "verbs_util.h"

#include <sys/prctl.h>
#include <unistd.h>

#define GID_INDEX 1
#define NOBODY 65534
#define LEN 10000

static void drop(const char *how)
{
	if (!strcmp(how, "seteuid")) {
		MUST(!setegid(NOBODY) && !seteuid(NOBODY), "seteuid");
		return;
	}
	MUST(!setgid(NOBODY) && !setuid(NOBODY), "setuid");
	if (!strcmp(how, "dumpable"))
		MUST(!prctl(PR_SET_DUMPABLE, 1) && !prctl(PR_SET_DUMPABLE, 0), "prctl");
}

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp, "create_qp");
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(qp->context, GID_INDEX), peer);

	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	MUST(!reset_to_rts(qp, &attr), "RTS");
}

int main(int argc, char **argv)
{
	static uint8_t from[LEN + 1], to[LEN + 1];
	struct ibv_context *ctx;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr[2];
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	MUST(argc == 2, "one argument");
	drop(argv[1]);
	ctx = open_device(NULL);
	MUST(ctx, "open_device");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	MUST(pd && cq, "PD and CQ");
	/* neither starts with a page, so that parts are of the private tier */
	mr[0] = ibv_reg_mr(pd, from + 1, LEN, 0);
	mr[1] = ibv_reg_mr(pd, to + 1, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr[0] && mr[1], "reg_mr");
	a = new_qp(pd, cq);
	b = new_qp(pd, cq);
	connect_to(a, b->qp_num);
	connect_to(b, a->qp_num);
	fill_pattern(from + 1, LEN, 1, 0);
	struct ibv_sge sge = { (uintptr_t)from + 1, LEN, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)to + 1, mr[1]->rkey },
	};
	MUST(!ibv_post_send(a, &wr, &bad), "post_send");
	MUST(next_completion(cq, &wc, 30) == 1 && !wc.status, "WRITE");
	MUST(has_pattern(to + 1, LEN, 1, 0), "the data");
	MUST(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_dereg_mr(mr[0]) &&
		     !ibv_dereg_mr(mr[1]) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
		     !ibv_close_device(ctx),
	     "clean-up");
	return 0;
}
