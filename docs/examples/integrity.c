// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An integrity region with the direct verbs of xroce, xrocedv(3): blocks without protection
 * information (PI) are written to a peer, which gets them with T10-DIF behind each block. A bit of
 * the peer's copy changes, and reading it back finds the block. Initiator and target are two QPs of
 * this program, connected to each other, to keep the example short.
 *
 *     cc integrity.c $(pkg-config --cflags --libs xroce)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/xrocedv.h>

#define BLOCK 512
#define BLOCKS 8
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *initiator, *target;
static struct memory {
	unsigned char data[BLOCKS * BLOCK];	    /* the initiator's */
	unsigned char stored[BLOCKS * (BLOCK + 8)]; /* the target's */
} * memory;
static struct ibv_mr *memory_mr, *region;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "integrity: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- a device, two queue pairs ----------------------------------------------------- */

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
	memory = aligned_alloc(4096, (sizeof(*memory) + 4095) / 4096 * 4096);
	must(pd && cq && memory, "PD, CQ or memory");
	memory_mr = ibv_reg_mr(pd, memory, sizeof(*memory), ACCESS);
	region = xrocedv_alloc_integrity_mr(pd, 4);
	must(memory_mr && region, "regions");
}

static struct ibv_qp *create_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	must(qp != NULL, "ibv_create_qp");
	return qp;
}

static void connect(struct ibv_qp *qp, const struct ibv_qp *to, const struct ibv_gid_entry *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS,
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
	int err = ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC);
	errno = err;
	must(!err, "ibv_modify_qp");
}

static void connect_both(void)
{
	struct ibv_gid_entry gid[16];

	must(ibv_query_gid_table(ctx, gid, 16, 0) > 0, "the device has no address");
	initiator = create_qp();
	target = create_qp();
	connect(initiator, target, gid);
	connect(target, initiator, gid);
}

static void complete(const char *what)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	must(n > 0, "ibv_poll_cq");
	if (wc.status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "integrity: %s: %s\n", what, ibv_wc_status_str(wc.status));
	exit(1);
}

/* ---- the region --------------------------------------------------------------------- */

/* The initiator's data has no PI; on the wire each block has T10-DIF of type 1. */
static void register_blocks(void)
{
	struct ibv_sge data = { (uintptr_t)memory->data, sizeof(memory->data), memory_mr->lkey };
	struct xrocedv_integrity_attr attr = {
		.access = IBV_ACCESS_LOCAL_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.block_size = BLOCK,
		.memory = { .type = XROCEDV_SIG_NONE },
		.wire = { .type = XROCEDV_SIG_T10DIF_1,
			  .check = XROCEDV_SIG_CHECK_GUARD | XROCEDV_SIG_CHECK_REF_TAG,
			  .app_tag = 0x5a,
			  .ref_tag = 1000 }, /* usually the low bits of the block address */
		.data = &data,
		.num_data = 1,
	};

	xrocedv_update_key(region, 1);
	errno = xrocedv_post_reg_integrity(initiator, region, &attr);
	must(!errno, "xrocedv_post_reg_integrity");
	complete("registration");
	printf("%zu bytes of memory are %zu bytes on the wire\n", sizeof(memory->data),
	       region->length);
}

static void transfer(enum ibv_wr_opcode opcode, const char *what)
{
	struct ibv_sge sge = { (uintptr_t)region->addr, (uint32_t)region->length, region->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)memory->stored, memory_mr->rkey },
	};

	must(!ibv_post_send(initiator, &wr, &bad), what);
	complete(what);
}

static int check(const char *what)
{
	struct xrocedv_integrity_error e;
	int failed = xrocedv_check_integrity(region, &e);

	must(failed >= 0, "xrocedv_check_integrity");
	if (!failed)
		printf("%s: no error\n", what);
	else
		printf("%s: error %d at offset %llu: expected %x, actual %x\n", what, (int)e.kind,
		       (unsigned long long)e.offset, e.expected, e.actual);
	return failed ? (int)e.kind : 0;
}

int main(void)
{
	const unsigned char *pi;
	int i;

	open_device();
	connect_both();
	for (i = 0; i < BLOCKS * BLOCK; i++)
		memory->data[i] = (unsigned char)(i * 7);
	register_blocks();
	transfer(IBV_WR_RDMA_WRITE, "WRITE");
	pi = memory->stored + 2 * (BLOCK + 8) + BLOCK;
	printf("PI of block 2: guard %02x%02x, application tag %02x%02x, reference tag %d\n", pi[0],
	       pi[1], pi[2], pi[3], pi[6] << 8 | pi[7]);
	transfer(IBV_WR_RDMA_READ, "READ");
	must(!check("READ"), "unexpected error");
	memory->stored[5 * (BLOCK + 8) + 3] ^= 1;
	transfer(IBV_WR_RDMA_READ, "READ");
	must(check("READ of a wrong bit") == XROCEDV_INTEGRITY_GUARD, "the error was not found");
	must(!ibv_dereg_mr(region) && !ibv_dereg_mr(memory_mr) && !ibv_destroy_qp(initiator) &&
		     !ibv_destroy_qp(target) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
		     !ibv_close_device(ctx),
	     "cleanup");
	return 0;
}
