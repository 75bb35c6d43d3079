/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Raises the asynchronous events of QPs, CQs and SRQs one after the other, with two connected QPs
 * of one process. Prints a line for each event. Exit status 0 if each event came, named the right
 * object, and no other event came.
 *
 *   rdma_events       uses the first device and GID index 1
 */
#include "verbs_util.h"

#include <poll.h>

#include <xroce/ring.h>

#define GID_INDEX 1
#define WAIT_MS 20000
#define LEN 64

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq; /* for all QPs but the one whose CQ overruns */
static char buf[2 * LEN];

/* ---- two QPs ----------------------------------------------------------- */

struct pair {
	struct ibv_qp *a, *b;
};

static struct ibv_qp *new_qp(struct ibv_cq *recv_cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = recv_cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp, "create_qp");
	return qp;
}

static void ready_to_receive(struct ibv_qp *qp, uint32_t peer, int reads)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(ctx, GID_INDEX), peer);

	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	attr.max_dest_rd_atomic = (uint8_t)reads;
	MUST(!to_init(qp, &attr) && !to_rtr(qp, &attr), "RTR");
}

static void ready_to_send(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(ctx, GID_INDEX), 0);

	attr.max_rd_atomic = 1;
	MUST(!to_rts(qp, &attr), "RTS");
}

/* Moves a to RTS and b to RTR. @b_reads: max_dest_rd_atomic of b */
static void connect_pair(const struct pair *p, int b_reads)
{
	ready_to_receive(p->a, p->b->qp_num, 1);
	ready_to_receive(p->b, p->a->qp_num, b_reads);
	ready_to_send(p->a);
}

static struct pair connected(struct ibv_cq *recv_cq, int b_reads)
{
	struct pair p = { new_qp(cq, NULL), new_qp(recv_cq, NULL) };

	connect_pair(&p, b_reads);
	return p;
}

static void destroy(struct pair *p)
{
	MUST(!ibv_destroy_qp(p->a) && !ibv_destroy_qp(p->b), "destroy_qp");
}

static void receive(struct ibv_qp *qp, int n)
{
	struct ibv_sge sge = { (uintptr_t)buf, LEN, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	while (n--)
		MUST(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

static void request(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey, int signaled)
{
	struct ibv_sge sge = { (uintptr_t)buf + LEN, LEN, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = signaled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { (uintptr_t)buf, rkey },
	};

	MUST(!ibv_post_send(qp, &wr, &bad), "post_send");
}

static enum ibv_wc_status completion(struct ibv_cq *from)
{
	struct ibv_wc wc;

	MUST(next_completion(from, &wc, WAIT_MS / 1000.0) == 1, "no completion");
	return wc.status;
}

/* ---- events -------------------------------------------------------------------- */

static int next_event(struct ibv_async_event *ev, int ms)
{
	struct pollfd pfd = { ctx->async_fd, POLLIN, 0 };

	if (poll(&pfd, 1, ms) != 1)
		return 0;
	MUST(!ibv_get_async_event(ctx, ev), "get_async_event");
	return 1;
}

static void expect_event(enum ibv_event_type type, const void *element)
{
	struct ibv_async_event ev;

	MUST(next_event(&ev, WAIT_MS), ibv_event_type_str(type));
	printf("%s\n", ibv_event_type_str(ev.event_type));
	MUST(ev.event_type == type, ibv_event_type_str(type));
	MUST((void *)ev.element.qp == element, "the event names the wrong object");
	ibv_ack_async_event(&ev);
}

static void established_and_drained(void)
{
	struct pair p = connected(cq, 1);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	receive(p.b, 1);
	request(p.a, IBV_WR_SEND, 0, 1);
	expect_event(IBV_EVENT_COMM_EST, p.b);
	MUST(!completion(cq) && !completion(cq), "SEND to a QP in RTR");
	ready_to_send(p.b);
	MUST(!ibv_modify_qp(p.a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "SQD");
	expect_event(IBV_EVENT_SQ_DRAINED, p.a);
	destroy(&p);
}

static void refused(void)
{
	struct pair p = connected(cq, 1);

	ready_to_send(p.b);
	request(p.a, IBV_WR_RDMA_WRITE, mr->rkey ^ 0x55, 1);
	expect_event(IBV_EVENT_QP_ACCESS_ERR, p.b);
	MUST(completion(cq) == IBV_WC_REM_ACCESS_ERR, "completion of the WRITE");
	destroy(&p);

	p = connected(cq, 0);
	ready_to_send(p.b);
	request(p.a, IBV_WR_RDMA_READ, mr->rkey, 1);
	expect_event(IBV_EVENT_QP_REQ_ERR, p.b);
	MUST(completion(cq) == IBV_WC_REM_INV_REQ_ERR, "completion of the READ");
	destroy(&p);
}

static void overrun(void)
{
	struct ibv_cq *small = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	struct pair p = connected(small, 1);
	int i;

	ready_to_send(p.b);
	receive(p.b, small->cqe + 1);
	for (i = 0; i <= small->cqe; i++)
		request(p.a, IBV_WR_SEND, 0, 0);
	expect_event(IBV_EVENT_CQ_ERR, small);
	expect_event(IBV_EVENT_QP_FATAL, p.b);
	destroy(&p);
	MUST(!ibv_destroy_cq(small), "destroy_cq");
}

/* ---- an SRQ with an invalid producer index ------------------------------------------ */

#define SRQ_DEPTH 2048 /* no other queue has this depth */

/* Returns the queue of SRQ_DEPTH in a mapping of shared memory, or NULL. */
static struct xr_queue *queue_in(uint8_t *start, const uint8_t *end)
{
	struct xr_queue *q;

	for (; start + sizeof(*q) <= end; start += 4096) {
		q = (struct xr_queue *)start;
		if (q->magic == XR_QUEUE_MAGIC && q->depth == SRQ_DEPTH)
			return q;
	}
	return NULL;
}

/* Memory of the daemon; of the program, if its context is direct */
static struct xr_queue *find_srq_ring(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct xr_queue *q = NULL;
	char line[512];
	void *start, *end;

	MUST(f, "/proc/self/maps");
	while (!q && fgets(line, sizeof(line), f))
		if ((strstr(line, "memfd:xroce-rings") || strstr(line, " rw-p 00000000 00:00 ")) &&
		    sscanf(line, "%p-%p", &start, &end) == 2)
			q = queue_in(start, end);
	fclose(f);
	return q;
}

/* The program corrupts the ring that it shares with the engine. */
static void corrupted(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = SRQ_DEPTH, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct xr_queue *ring = srq ? find_srq_ring() : NULL;
	struct pair p = { new_qp(cq, NULL), new_qp(cq, srq) };

	MUST(ring, "ring of the SRQ not found");
	connect_pair(&p, 1);
	ready_to_send(p.b);
	ring->producer += SRQ_DEPTH + 1;
	request(p.a, IBV_WR_SEND, 0, 1);
	expect_event(IBV_EVENT_SRQ_ERR, srq);
	expect_event(IBV_EVENT_QP_FATAL, p.b);
	expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, p.b);
	MUST(completion(cq), "the SEND succeeded");
	destroy(&p);
	MUST(!ibv_destroy_srq(srq), "destroy_srq");
}

/* Path migration is refused, so its event never occurs. */
static void migration(void)
{
	struct pair p = connected(cq, 1);
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_REARM };

	MUST(ibv_modify_qp(p.a, &attr, IBV_QP_PATH_MIG_STATE) == EOPNOTSUPP,
	     "path migration was not refused");
	destroy(&p);
}

int main(void)
{
	struct ibv_async_event ev;

	ctx = open_device(NULL);
	MUST(ctx, "no device");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ)
		: NULL;
	MUST(cq && mr, "objects");
	established_and_drained();
	refused();
	overrun();
	corrupted();
	migration();
	MUST(!next_event(&ev, 0), "unexpected event");
	MUST(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
		     !ibv_close_device(ctx),
	     "clean-up");
	return 0;
}
