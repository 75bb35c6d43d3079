/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Set-up of the examples: the first xroce device, and two RC QPs of this program that are connected
 * to each other. The calls are the same between two machines, where the programs exchange QP
 * numbers and GIDs first.
 */
#include <err.h>
#include <errno.h>
#include <stdlib.h>

#include <infiniband/xrocedv.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* Ends the program unless @ok, with @what and the text of errno. */
static void must(int ok, const char *what)
{
	if (!ok)
		err(1, "%s", what);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i] && !ctx; i++)
		if (xrocedv_is_supported(list[i]))
			ctx = ibv_open_device(list[i]);
	must(ctx != NULL, "no xroce device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	must(pd && cq, "PD or CQ");
}

static struct ibv_qp *create_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	must(qp != NULL, "ibv_create_qp");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, const struct ibv_qp *to, const struct ibv_gid_entry *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = gid->gid,
				      .sgid_index = (uint8_t)gid->gid_index,
				      .hop_limit = 64 } },
	};
	int status = ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	attr.qp_state = IBV_QPS_RTR;
	if (!status)
		status = ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	if (!status)
		status = ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC);
	errno = status;
	must(!status, "ibv_modify_qp");
}

/* Creates two QPs and connects them. */
static void create_pair(struct ibv_qp **a, struct ibv_qp **b)
{
	struct ibv_gid_entry gid[16];

	must(ibv_query_gid_table(ctx, gid, 16, 0) > 0, "the device has no address");
	*a = create_qp();
	*b = create_qp();
	connect_qp(*a, *b, gid);
	connect_qp(*b, *a, gid);
}

/* Waits for the next completion, which must be successful; @what is named if it is not. */
static struct ibv_wc completion(const char *what)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	must(n > 0, "ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "%s: %s", what, ibv_wc_status_str(wc.status));
	return wc;
}

static void destroy_pair(struct ibv_qp *a, struct ibv_qp *b)
{
	must(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) &&
		     !ibv_dealloc_pd(pd) && !ibv_close_device(ctx),
	     "cleanup");
}
