/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes as many objects of one kind as the device says that there may be, uses the first and the last, and
 * wants ENOMEM for one more. An ordinary ibverbs program, alone on its device.
 *
 *   rdma_limits [-g GID-INDEX] [-w] KIND
 *
 *   KIND   pd, cq, qp, mr, mw, srq, ah; or depth: the longest queues, filled
 *   -w     wait for a line on standard input before the end
 *
 * Prints how many there were. Exits 0 when all was as it should be.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUF 65536
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND)

/* What a WRITE needs: the first half of buf goes to the second. */
struct set {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *from, *to;
	struct ibv_qp *qp[2];
	uint32_t depth;
};

static struct ibv_context *ctx;
static struct ibv_device_attr dev;
static int gid_index = 1;
static uint8_t buf[BUF] __attribute__((aligned(4096)));

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

#define MUST(what, cond)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		if (!(cond))                                                                       \
			fail(what);                                                                \
	} while (0)

/* ---- two queue pairs and a WRITE ------------------------ */

static struct ibv_qp *make_qp(const struct set *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq, .recv_cq = s->cq, .srq = s->srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = s->depth, .max_recv_wr = s->srq ? 0 : 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(s->pd, &init);
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS & 0xf,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = 1,
		.max_rd_atomic = 1, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .sgid_index = (uint8_t)gid_index, .hop_limit = 1 } },
	};

	MUST("GID", !ibv_query_gid(ctx, 1, gid_index, &attr.ah_attr.grh.dgid));
	MUST("INIT", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	MUST("RTR", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	MUST("RTS", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void completion(struct ibv_cq *cq)
{
	time_t end = time(NULL) + 20;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)) && time(NULL) < end)
		;
	if (n != 1 || wc.status) {
		fprintf(stderr, "completion: %s\n", n == 1 ? ibv_wc_status_str(wc.status) : "none");
		exit(1);
	}
}

static int post_write(const struct set *s, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buf, 4096, s->from->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
		.num_sge = 1, .wr.rdma = { (uintptr_t)buf + BUF / 2, rkey },
	};

	return ibv_post_send(s->qp[0], &wr, &bad);
}

static void use_key(const struct set *s, uint32_t rkey)
{
	static uint8_t round;

	memset(buf, ++round, 4096);
	memset(buf + BUF / 2, 0, 4096);
	MUST("post", !post_write(s, rkey));
	completion(s->cq);
	MUST("what was written", !memcmp(buf, buf + BUF / 2, 4096));
}

/* Fills in what is missing; all of it works. */
static void use(struct set *s)
{
	s->depth = s->depth ? s->depth : 1;
	if (!s->from)
		MUST("region", s->from = ibv_reg_mr(s->pd, buf, BUF, ACCESS));
	if (!s->to)
		s->to = s->from;
	for (int i = 0; i < 2; i++)
		if (!s->qp[i])
			MUST("queue pair", s->qp[i] = make_qp(s));
	connect_to(s->qp[0], s->qp[1]);
	connect_to(s->qp[1], s->qp[0]);
	use_key(s, s->to->rkey);
}

/* ---- kinds ------------------------ */

static struct set base;

static void *make_pd(void)
{
	return ibv_alloc_pd(ctx);
}

static void use_pd(void *first, void *last)
{
	struct set s = { .pd = last, .cq = base.cq };

	use(&s);
	ibv_destroy_qp(s.qp[0]);
	ibv_destroy_qp(s.qp[1]);
	ibv_dereg_mr(s.from);
}

static int free_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *make_cq(void)
{
	return ibv_create_cq(ctx, 1, NULL, NULL, 0);
}

static void use_cq(void *first, void *last)
{
	struct set s = { .pd = base.pd, .cq = last };

	use(&s);
	ibv_destroy_qp(s.qp[0]);
	ibv_destroy_qp(s.qp[1]);
	ibv_dereg_mr(s.from);
}

static int free_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void *make_a_qp(void)
{
	return make_qp(&base);
}

static void use_qps(void *first, void *last)
{
	struct set s = { .pd = base.pd, .cq = base.cq, .qp = { first, last } };

	use(&s);
	ibv_dereg_mr(s.from);
}

static int free_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void *make_mr(void)
{
	return ibv_reg_mr(base.pd, buf, BUF, ACCESS);
}

static void use_mrs(void *first, void *last)
{
	struct set s = { .pd = base.pd, .cq = base.cq, .from = first, .to = last };

	use(&s);
	ibv_destroy_qp(s.qp[0]);
	ibv_destroy_qp(s.qp[1]);
}

static int free_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(base.pd, IBV_MW_TYPE_1);
}

static void use_mws(void *first, void *last)
{
	struct set s = { .pd = base.pd, .cq = base.cq };
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };

	use(&s);
	bind.bind_info = (struct ibv_mw_bind_info){ s.from, (uintptr_t)buf, BUF,
						    IBV_ACCESS_REMOTE_WRITE };
	MUST("bind", !ibv_bind_mw(s.qp[0], last, &bind));
	completion(s.cq);
	/* the responder's is the key that counts: both are of one domain */
	use_key(&s, ((struct ibv_mw *)last)->rkey);
	ibv_destroy_qp(s.qp[0]);
	ibv_destroy_qp(s.qp[1]);
}

static int free_mw(void *mw)
{
	return ibv_dealloc_mw(mw);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(base.pd, &attr);
}

static void use_srqs(void *first, void *last)
{
	struct set s = { .pd = base.pd, .cq = base.cq, .srq = last };
	struct ibv_recv_wr rr = { .wr_id = 1 }, *bad_rr;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	use(&s);
	MUST("receive", !ibv_post_srq_recv(last, &rr, &bad_rr));
	MUST("send", !ibv_post_send(s.qp[0], &wr, &bad));
	completion(s.cq);
	completion(s.cq);
	ibv_destroy_qp(s.qp[0]);
	ibv_destroy_qp(s.qp[1]);
	ibv_dereg_mr(s.from);
}

static int free_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1,
				    .grh = { .sgid_index = (uint8_t)gid_index, .hop_limit = 1 } };

	MUST("GID", !ibv_query_gid(ctx, 1, gid_index, &attr.grh.dgid));
	return ibv_create_ah(base.pd, &attr);
}

static int free_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static const struct kind {
	const char *name;
	int *limit;
	int before;		/* objects of this kind that base has */
	void *(*make)(void);
	void (*use)(void *first, void *last);
	int (*free)(void *obj);
} kinds[] = {
	{ "pd", &dev.max_pd, 1, make_pd, use_pd, free_pd },
	{ "cq", &dev.max_cq, 1, make_cq, use_cq, free_cq },
	{ "qp", &dev.max_qp, 0, make_a_qp, use_qps, free_qp },
	{ "mr", &dev.max_mr, 0, make_mr, use_mrs, free_mr },
	{ "mw", &dev.max_mw, 0, make_mw, use_mws, free_mw },
	{ "srq", &dev.max_srq, 0, make_srq, use_srqs, free_srq },
	{ "ah", &dev.max_ah, 0, make_ah, NULL, free_ah },
	{ 0 },
};

static void one_kind(const struct kind *k)
{
	int n = *k->limit - k->before, i;
	void **obj = calloc((size_t)n, sizeof(*obj)), *more;

	for (i = 0; i < n; i++)
		MUST(k->name, obj[i] = k->make());
	printf("%d %ss\n", n + k->before, k->name);
	if (k->use)
		k->use(obj[0], obj[n - 1]);
	errno = 0;
	more = k->make();
	if (more || errno != ENOMEM) {
		fprintf(stderr, "one %s more: %s\n", k->name, more ? "made" : strerror(errno));
		exit(1);
	}
	MUST("one less", !k->free(obj[n / 2]));
	MUST("and one more", obj[n / 2] = k->make());
}

/* ---- queues ------------------------ */

static void full_queue(struct set *s)
{
	uint32_t i;

	for (i = 0; i < s->depth; i++)
		MUST("post", !post_write(s, s->to->rkey));
	if (post_write(s, s->to->rkey) != ENOMEM)
		fail("a full queue took one more");
	for (i = 0; i < s->depth; i++)
		completion(s->cq);
}

static void depth(void)
{
	struct set s = { .pd = base.pd, .depth = (uint32_t)dev.max_qp_wr };

	MUST("the longest CQ", s.cq = ibv_create_cq(ctx, dev.max_cqe, NULL, NULL, 0));
	if (s.cq->cqe < dev.max_cqe || ibv_create_cq(ctx, dev.max_cqe + 1, NULL, NULL, 0) ||
	    errno != EINVAL)
		fail("a longer CQ than there is");
	use(&s);
	full_queue(&s);
	s.depth++;
	if (make_qp(&s) || errno != EINVAL)
		fail("a longer QP than there is");
	printf("%d entries of a CQ, %d of a QP\n", dev.max_cqe, dev.max_qp_wr);
}

int main(int argc, char **argv)
{
	const struct kind *k = kinds;
	struct ibv_device **list;
	bool waits = false;
	int c;

	while ((c = getopt(argc, argv, "g:w")) != -1) {
		if (c == 'g')
			gid_index = atoi(optarg);
		waits |= c == 'w';
	}
	MUST("device list", (list = ibv_get_device_list(NULL)) && list[0]);
	MUST("open", ctx = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	MUST("query", !ibv_query_device(ctx, &dev));
	base.depth = 1;
	MUST("PD", base.pd = ibv_alloc_pd(ctx));
	MUST("CQ", base.cq = ibv_create_cq(ctx, 16, NULL, NULL, 0));
	while (k->name && strcmp(k->name, argv[optind] ? argv[optind] : ""))
		k++;
	if (k->name)
		one_kind(k);
	else
		depth();
	fflush(stdout);
	if (waits)
		getchar();
	return ibv_close_device(ctx) ? 1 : 0;
}
