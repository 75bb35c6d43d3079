/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Creates as many objects of one kind as the device reports, uses the first and the last one, and
 * expects ENOMEM for one more. Uses plain verbs; must be the only program on its device.
 *
 *   rdma_limits [-g GID-INDEX] [-d] [-u] [-w] KIND
 *
 *   KIND   pd, cq, qp, mr, mw, srq, ah, xrcd: objects (as many XRC domains as PDs)
 *          dm: pages of device memory
 *          event: QPs, each with an asynchronous event that nobody reads
 *          group: multicast groups joined by one QP
 *          member: QPs of one multicast group
 *          depth: the longest CQ and QP, filled
 *          list: the longest SGE lists, the most outstanding READs
 *          start: the start of a big program, 1000 CQs, QPs and regions, as fast as possible
 *   -d     on-demand regions
 *   -u     the limit is that of the user: expect EDQUOT
 *   -w     wait for a line on standard input before the end
 *
 * Prints the number of objects. Exit status 0 on success.
 */
#include "verbs_util.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define BUF 65536
#define PAGE 4096
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_MW_BIND)

/* Objects of a WRITE within one process, from the first half of buf to the second. */
struct set {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *from, *to;
	struct ibv_qp *qp[2];
	uint32_t depth, sge; /* of the QPs; 0 means 1 */
};

static struct ibv_context *ctx;
static struct ibv_device_attr dev;
static int dm_pages; /* of device memory */
static int gid_index = 1;
static bool on_demand;
static int refusal = ENOMEM; /* errno of one object more than the limit */
static uint8_t reads = 1;    /* outstanding READs */
static uint8_t buf[BUF] __attribute__((aligned(4096)));

/* ---- two QPs and a WRITE ------------------------ */

static struct ibv_qp *make_qp(const struct set *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.srq = s->srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = s->depth,
			 .max_recv_wr = s->srq ? 0 : 1,
			 .max_send_sge = s->sge ? s->sge : 1,
			 .max_recv_sge = s->sge ? s->sge : 1 },
	};

	return ibv_create_qp(s->pd, &init);
}

static struct ibv_qp_attr attr_to(uint32_t qpn)
{
	struct ibv_qp_attr attr = rc_attr(gid_index, own_gid(ctx, gid_index), qpn);

	attr.qp_access_flags = ACCESS & 0xf;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = reads;
	return attr;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = attr_to(peer->qp_num);

	MUST(!reset_to_rts(qp, &attr), "RTS");
}

static void completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	MUST(next_completion(cq, &wc, 20) == 1, "no completion");
	MUST(!wc.status, ibv_wc_status_str(wc.status));
}

static int post_write(const struct set *s, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buf, 4096, s->from->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)buf + BUF / 2, rkey },
	};

	return ibv_post_send(s->qp[0], &wr, &bad);
}

static void use_key(const struct set *s, uint32_t rkey)
{
	static uint8_t round;

	memset(buf, ++round, 4096);
	memset(buf + BUF / 2, 0, 4096);
	MUST(!post_write(s, rkey), "post");
	completion(s->cq);
	MUST(!memcmp(buf, buf + BUF / 2, 4096), "wrong data");
}

/* Creates the objects that the set lacks, connects its QPs and checks a WRITE. */
static void use(struct set *s)
{
	s->depth = s->depth ? s->depth : 1;
	if (!s->from)
		MUST(s->from = ibv_reg_mr(s->pd, buf, BUF, ACCESS), "region");
	if (!s->to)
		s->to = s->from;
	for (int i = 0; i < 2; i++)
		if (!s->qp[i])
			MUST(s->qp[i] = make_qp(s), "queue pair");
	connect_to(s->qp[0], s->qp[1]);
	connect_to(s->qp[1], s->qp[0]);
	use_key(s, s->to->rkey);
}

/* ---- kinds of objects ------------------------ */

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

/*
 * Regions of one page, alternating between the halves of buf: the first is the source of a WRITE,
 * the last its target.
 */
static void *make_mr(void)
{
	static bool odd;
	uint8_t *p = odd ? buf + BUF / 2 : buf;

	odd = !odd;
	return ibv_reg_mr(base.pd, p, 4096, ACCESS | (on_demand ? IBV_ACCESS_ON_DEMAND : 0));
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
	MUST(!ibv_bind_mw(s.qp[0], last, &bind), "bind");
	completion(s.cq);
	/* QPs, region and window are in one PD, so the same R_Key works for the peer */
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
	MUST(!ibv_post_srq_recv(last, &rr, &bad_rr), "receive");
	MUST(!ibv_post_send(s.qp[0], &wr, &bad), "send");
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
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .sgid_index = (uint8_t)gid_index, .hop_limit = 1 } };

	MUST(!ibv_query_gid(ctx, 1, gid_index, &attr.grh.dgid), "GID");
	return ibv_create_ah(base.pd, &attr);
}

static int free_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static void *make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(ctx, &attr);
}

static int free_xrcd(void *xrcd)
{
	return ibv_close_xrcd(xrcd);
}

static void *make_dm(void)
{
	return ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ .length = PAGE });
}

static void use_dms(void *first, void *last)
{
	uint8_t back[8] = { 0 };

	memset(buf, 0x5a, sizeof(back));
	MUST(!ibv_memcpy_to_dm(last, PAGE - 8, buf, 8), "write");
	MUST(!ibv_memcpy_from_dm(back, last, PAGE - 8, 8) && !memcmp(back, buf, 8), "read");
	MUST(!ibv_memcpy_from_dm(back, first, PAGE - 8, 8) && memcmp(back, buf, 8), "the first");
}

static int free_dm(void *dm)
{
	return ibv_free_dm(dm);
}

/* ---- events ---- */

/* A QP with an SRQ has an event in ERR: IBV_EVENT_QP_LAST_WQE_REACHED. */
static void *make_event(void)
{
	struct ibv_qp_attr init = attr_to(0), attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp;

	base.srq = base.srq ? base.srq : make_srq();
	qp = make_qp(&base);
	if (qp)
		MUST(!to_init(qp, &init) && !ibv_modify_qp(qp, &attr, IBV_QP_STATE), "ERR");
	return qp;
}

/* The first event is there; it and those behind it stay. */
static void use_events(void *first, void *last)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

	MUST(poll(&p, 1, 20000) == 1, "no event");
}

/* ---- multicast: the objects are memberships of a QP in a group ---- */

struct member {
	struct ibv_qp *qp;
	union ibv_gid gid;
	bool own; /* the QP has this membership only and is destroyed with it */
};

static struct ibv_qp *make_ud(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = base.cq,
		.recv_cq = base.cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(base.pd, &init);

	MUST(qp, "UD");
	MUST(!ud_reset_to_rts(qp, 1), "UD RTS");
	return qp;
}

static void *join(struct ibv_qp *qp, uint32_t group, bool own)
{
	struct member *m = calloc(1, sizeof(*m));

	*m = (struct member){ .qp = qp, .own = own };
	/* 239.1.x.y */
	memcpy(m->gid.raw + 10,
	       (uint8_t[]){ 0xff, 0xff, 239, 1, (uint8_t)(group >> 8), (uint8_t)group }, 6);
	errno = ibv_attach_mcast(qp, &m->gid, 0);
	if (!errno)
		return m;
	free(m);
	return NULL;
}

static void *make_group(void)
{
	static struct ibv_qp *qp;
	static uint32_t group;

	qp = qp ? qp : make_ud();
	return join(qp, group++, false);
}

static void *make_member(void)
{
	return join(make_ud(), 0, true);
}

static int free_member(void *obj)
{
	struct member *m = obj;
	int err = ibv_detach_mcast(m->qp, &m->gid, 0);

	if (!err && m->own)
		err = ibv_destroy_qp(m->qp);
	free(m);
	return err;
}

/*
 * The QP of the last membership receives a message that the QP of the first one sends to its group.
 * A QP does not get its own messages.
 */
static void use_members(void *first, void *last)
{
	struct member *to = last;
	struct ibv_qp *from = ((struct member *)first)->qp;
	struct ibv_ah_attr path = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = to->gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 1 }
	};
	struct ibv_mr *mr = ibv_reg_mr(base.pd, buf, BUF, ACCESS);
	struct ibv_sge in = { (uintptr_t)buf, 4096, mr ? mr->lkey : 0 };
	struct ibv_sge out = { (uintptr_t)buf + BUF / 2, 8, in.lkey };
	struct ibv_recv_wr rr = { .sg_list = &in, .num_sge = 1 }, *bad_rr;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED,
					.sg_list = &out,
					.num_sge = 1 };

	from = from == to->qp ? make_ud() : from;
	MUST(wr.wr.ud.ah = ibv_create_ah(base.pd, &path), "AH");
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = 1;
	memset(buf + BUF / 2, 0x5a, 8);
	MUST(!ibv_post_recv(to->qp, &rr, &bad_rr), "receive");
	MUST(!ibv_post_send(from, &wr, &bad), "send");
	completion(base.cq);
	completion(base.cq);
	/* after the 40 bytes of the GRH */
	MUST(!memcmp(buf + 40, buf + BUF / 2, 8), "wrong data");
	ibv_destroy_ah(wr.wr.ud.ah);
	ibv_dereg_mr(mr);
}

static const struct kind {
	const char *name;
	int *limit;
	int before; /* objects of this kind in base */
	void *(*make)(void);
	void (*use)(void *first, void *last);
	int (*free)(void *obj);
	int refusal; /* errno of one object more; 0: as of other kinds */
} kinds[] = {
	{ "pd", &dev.max_pd, 1, make_pd, use_pd, free_pd, 0 },
	{ "cq", &dev.max_cq, 1, make_cq, use_cq, free_cq, 0 },
	{ "qp", &dev.max_qp, 0, make_a_qp, use_qps, free_qp, 0 },
	{ "mr", &dev.max_mr, 0, make_mr, use_mrs, free_mr, 0 },
	{ "mw", &dev.max_mw, 0, make_mw, use_mws, free_mw, 0 },
	{ "srq", &dev.max_srq, 0, make_srq, use_srqs, free_srq, 0 },
	{ "ah", &dev.max_ah, 0, make_ah, NULL, free_ah, 0 },
	{ "xrcd", &dev.max_pd, 0, make_xrcd, NULL, free_xrcd, 0 },
	{ "dm", &dm_pages, 0, make_dm, use_dms, free_dm, 0 },
	{ "event", &dev.max_qp, 0, make_event, use_events, free_qp, 0 },
	{ "group", &dev.max_mcast_grp, 0, make_group, use_members, free_member, EDQUOT },
	{ "member", &dev.max_mcast_qp_attach, 0, make_member, use_members, free_member, EDQUOT },
	{ 0 },
};

static void one_kind(const struct kind *k)
{
	int n = *k->limit - k->before, i;
	void **obj = calloc((size_t)n, sizeof(*obj)), *more;

	for (i = 0; i < n; i++)
		MUST(obj[i] = k->make(), k->name);
	printf("%d %ss\n", n + k->before, k->name);
	if (k->use)
		k->use(obj[0], obj[n - 1]);
	errno = 0;
	more = k->make();
	if (more || errno != (k->refusal ? k->refusal : refusal)) {
		fprintf(stderr, "one %s more than the limit: %s\n", k->name,
			more ? "created" : strerror(errno));
		exit(1);
	}
	MUST(!k->free(obj[n / 2]), "free one");
	MUST(obj[n / 2] = k->make(), "create one again");
}

/* ---- queues ------------------------ */

static void full_queue(struct set *s)
{
	uint32_t i;

	for (i = 0; i < s->depth; i++)
		MUST(!post_write(s, s->to->rkey), "post");
	if (post_write(s, s->to->rkey) != ENOMEM)
		MUST(false, "a full queue accepted one more");
	for (i = 0; i < s->depth; i++)
		completion(s->cq);
}

static void depth(void)
{
	struct set s = { .pd = base.pd, .depth = (uint32_t)dev.max_qp_wr };

	MUST(s.cq = ibv_create_cq(ctx, dev.max_cqe, NULL, NULL, 0), "the longest CQ");
	if (s.cq->cqe < dev.max_cqe || ibv_create_cq(ctx, dev.max_cqe + 1, NULL, NULL, 0) ||
	    errno != EINVAL)
		MUST(false, "a CQ above the limit was created");
	use(&s);
	full_queue(&s);
	s.depth++;
	if (make_qp(&s) || errno != EINVAL)
		MUST(false, "a QP above the limit was created");
	printf("%d entries of a CQ, %d of a QP\n", dev.max_cqe, dev.max_qp_wr);
}

/* ---- lists ------------------------ */

/* 4096 bytes in as many SGEs as the device allows; also the limits of SRQs. */
static void longest_list(struct set *s)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1,
						    .max_sge = (uint32_t)dev.max_srq_sge } };
	uint32_t n = (uint32_t)dev.max_sge, len = 4096 / n, i;
	struct ibv_sge *sge = calloc(n, sizeof(*sge));
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = dev.max_sge,
		.wr.rdma = { (uintptr_t)buf + BUF / 2, s->to->rkey },
	};

	for (i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)buf + i * len, len, s->from->lkey };
		memset(buf + i * len, (int)i + 1, len);
	}
	MUST(!ibv_post_send(s->qp[0], &wr, &bad), "post");
	completion(s->cq);
	MUST(!memcmp(buf, buf + BUF / 2, n * len), "wrong data");
	wr.num_sge++;
	if (ibv_post_send(s->qp[0], &wr, &bad) != EINVAL)
		MUST(false, "an SGE list above the limit was posted");
	free(sge);
	MUST(s->srq = ibv_create_srq(s->pd, &attr), "SRQ");
	attr.attr.max_sge++;
	if (ibv_create_srq(s->pd, &attr) || errno != EINVAL)
		MUST(false, "an SRQ with too many SGEs was created");
	attr.attr = (struct ibv_srq_attr){ .max_wr = (uint32_t)dev.max_srq_wr + 1, .max_sge = 1 };
	if (ibv_create_srq(s->pd, &attr) || errno != EINVAL)
		MUST(false, "an SRQ above the limit was created");
	attr.attr.max_wr--;
	MUST(ibv_create_srq(s->pd, &attr), "the longest SRQ");
}

/* Posts twice as many READs as can be outstanding. */
static void most_reads(struct set *s)
{
	struct ibv_sge sge = { (uintptr_t)buf, 4096, s->from->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)buf + BUF / 2, s->to->rkey },
	};
	int i;

	for (i = 0; i < 2 * dev.max_qp_rd_atom; i++)
		MUST(!ibv_post_send(s->qp[0], &wr, &bad), "post");
	for (i = 0; i < 2 * dev.max_qp_rd_atom; i++)
		completion(s->cq);
}

/* RTR with more incoming READs than the device supports must fail. */
static void too_many_reads(struct set *s)
{
	struct ibv_qp_attr attr = attr_to(0);

	MUST(s->qp[1] = make_qp(s), "QP");
	attr.max_dest_rd_atomic = (uint8_t)(dev.max_qp_rd_atom + 1);
	MUST(!to_init(s->qp[1], &attr), "INIT");
	MUST(to_rtr(s->qp[1], &attr) && errno == EINVAL, "RTR with too many READs");
}

static void list(void)
{
	struct set s = { .pd = base.pd, .cq = base.cq, .depth = 256, .sge = (uint32_t)dev.max_sge };

	MUST(s.cq = ibv_create_cq(ctx, 256, NULL, NULL, 0), "CQ");
	reads = (uint8_t)dev.max_qp_rd_atom;
	use(&s);
	longest_list(&s);
	most_reads(&s);
	s.sge++;
	if (make_qp(&s) || errno != EINVAL)
		MUST(false, "a QP with too many SGEs was created");
	s.sge = 1;
	too_many_reads(&s);
	printf("%d elements, %d READs\n", dev.max_sge, dev.max_qp_rd_atom);
}

/* ---- start of a program ------------------------ */

#define START 1000

static void start(void)
{
	static struct ibv_qp *qp[START];
	static struct ibv_cq *cq[START];
	struct set s = { .pd = base.pd, .depth = 16 };
	int i;

	for (i = 0; i < START; i++) {
		MUST(s.cq = cq[i] = ibv_create_cq(ctx, 16, NULL, NULL, 0), "CQ");
		MUST(qp[i] = make_qp(&s), "QP");
		MUST(ibv_reg_mr(s.pd, buf, 4096, ACCESS), "region");
	}
	for (i = 0; i < START; i++)
		connect_to(qp[i], qp[i ^ 1]);
	s.cq = cq[0];
	s.qp[0] = qp[0];
	MUST(s.from = s.to = ibv_reg_mr(s.pd, buf, BUF, ACCESS), "region");
	use_key(&s, s.to->rkey);
	printf("%d QPs are connected\n", START);
}

int main(int argc, char **argv)
{
	const struct kind *k = kinds;
	struct ibv_device_attr_ex more;
	bool waits = false;
	int c;

	while ((c = getopt(argc, argv, "g:duw")) != -1) {
		if (c == 'g')
			gid_index = atoi(optarg);
		on_demand |= c == 'd';
		waits |= c == 'w';
		if (c == 'u')
			refusal = EDQUOT;
	}
	MUST(ctx = open_device(NULL), "no device");
	MUST(!ibv_query_device(ctx, &dev) && !ibv_query_device_ex(ctx, NULL, &more), "query");
	dm_pages = (int)(more.max_dm_size / PAGE);
	base.depth = 1;
	MUST(base.pd = ibv_alloc_pd(ctx), "PD");
	MUST(base.cq = ibv_create_cq(ctx, 16, NULL, NULL, 0), "CQ");
	while (k->name && strcmp(k->name, argv[optind] ? argv[optind] : ""))
		k++;
	if (k->name)
		one_kind(k);
	else if (!strcmp(argv[optind] ? argv[optind] : "", "list"))
		list();
	else if (!strcmp(argv[optind] ? argv[optind] : "", "start"))
		start();
	else
		depth();
	fflush(stdout);
	if (waits)
		getchar();
	return ibv_close_device(ctx) ? 1 : 0;
}
