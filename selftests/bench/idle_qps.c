// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Holds idle RC QPs, each connected to itself:
 *
 *   idle_qps GID_INDEX COUNT
 *
 * Prints "ready", and then sleeps until it is killed.
 */
#include <unistd.h>

#include "selftests/e2e/verbs_util.h"

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_context *ctx = open_device(NULL);
	struct ibv_qp_attr attr;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	union ibv_gid gid;

	MUST(argc == 3, "arguments");
	MUST(ctx, "no device");
	gid = own_gid(ctx, atoi(argv[1]));
	pd = ibv_alloc_pd(ctx);
	MUST(pd, "PD");
	init.send_cq = init.recv_cq = ibv_create_cq(ctx, 2, NULL, NULL, 0);
	MUST(init.send_cq, "CQ");
	for (int i = 0; i < atoi(argv[2]); i++) {
		qp = ibv_create_qp(pd, &init);
		MUST(qp, "QP");
		attr = rc_attr(atoi(argv[1]), gid, qp->qp_num);
		MUST(!reset_to_rts(qp, &attr), "RTS");
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
