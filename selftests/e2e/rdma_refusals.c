// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * rdma_refusals -g GID-INDEX: makes calls that are refused, and checks what XROCE_DEBUG prints.
 *
 * Each row of the table is one call, with the words that its reason must have. Some reasons are of
 * the provider, some of the daemon. Prints a line for each row that is wrong.
 */
#include "verbs_util.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct objects {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	struct ibv_qp *qp, *ud; /* in RTS, in RESET */
	struct ibv_qp *init;	/* in INIT */
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	int gid_index;
	uint8_t buf[4096];
};

/* ---- calls -------------------------------------------------------------------------- */

static struct ibv_qp *make_qp(struct objects *o, struct ibv_qp_cap cap, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = o->cq,
		.recv_cq = o->cq,
		.qp_type = type,
		.cap = cap,
	};

	return ibv_create_qp(o->pd, &attr);
}

static void modify_rtr(struct objects *o, struct ibv_qp_attr change, int without)
{
	struct ibv_qp_attr attr = rc_attr(o->gid_index, own_gid(o->ctx, o->gid_index), 1);

	attr.qp_state = IBV_QPS_RTR;
	if (change.path_mtu)
		attr.path_mtu = change.path_mtu;
	if (change.ah_attr.is_global == 2)
		attr.ah_attr.is_global = 0;
	if (change.ah_attr.grh.sgid_index)
		attr.ah_attr.grh.sgid_index = change.ah_attr.grh.sgid_index;
	if (change.ah_attr.port_num)
		attr.ah_attr.port_num = change.ah_attr.port_num;
	if (change.max_dest_rd_atomic)
		attr.max_dest_rd_atomic = change.max_dest_rd_atomic;
	if (change.min_rnr_timer)
		attr.min_rnr_timer = change.min_rnr_timer;
	ibv_modify_qp(o->init, &attr,
		      (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) &
			      ~without);
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	ibv_modify_qp(qp, &attr, mask);
}

static void send_wr(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	ibv_post_send(qp, &wr, &bad);
}

static void recv_wr(struct ibv_qp *qp, int num_sge)
{
	struct ibv_recv_wr wr = { .num_sge = num_sge }, *bad;

	ibv_post_recv(qp, &wr, &bad);
}

static void fill_srq(struct objects *o)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	while (!ibv_post_srq_recv(o->srq, &wr, &bad))
		;
}

static void srq_recv(struct objects *o, int num_sge)
{
	struct ibv_recv_wr wr = { .num_sge = num_sge }, *bad;

	ibv_post_srq_recv(o->srq, &wr, &bad);
}

static void create_ah(struct objects *o, struct ibv_ah_attr attr)
{
	attr.port_num = attr.port_num ? attr.port_num : 1;
	ibv_create_ah(o->pd, &attr);
}

static void create_srq(struct objects *o, uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = max_wr, .max_sge = max_sge } };

	ibv_create_srq(o->pd, &attr);
}

static void modify_srq(struct objects *o, struct ibv_srq_attr attr, int mask)
{
	ibv_modify_srq(o->srq, &attr, mask);
}

static void create_cq_ex(struct objects *o, struct ibv_cq_init_attr_ex attr)
{
	ibv_create_cq_ex(o->ctx, &attr);
}

static void create_qp_ex(struct objects *o, struct ibv_qp_init_attr_ex attr)
{
	attr.send_cq = attr.recv_cq = o->cq;
	attr.qp_type = IBV_QPT_UD;
	ibv_create_qp_ex(o->ctx, &attr);
}

static void alloc_dm(struct objects *o, struct ibv_alloc_dm_attr attr)
{
	ibv_alloc_dm(o->ctx, &attr);
}

static void parent(struct objects *o, struct ibv_parent_domain_init_attr attr)
{
	ibv_alloc_parent_domain(o->ctx, &attr);
}

static void query_port(struct objects *o)
{
	struct ibv_port_attr attr;

	ibv_query_port(o->ctx, 2, &attr);
}

static void query_gid(struct objects *o)
{
	union ibv_gid gid;

	ibv_query_gid(o->ctx, 1, 256, &gid);
}

static void query_pkey(struct objects *o)
{
	__be16 pkey;

	ibv_query_pkey(o->ctx, 1, 1, &pkey);
}

static void advise(struct objects *o)
{
	struct ibv_sge sge = { (uintptr_t)o->buf, 4, o->mr->lkey };

	ibv_advise_mr(o->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
}

static void xrcd(struct objects *o, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	ibv_open_xrcd(o->ctx, &attr);
}

static void mcast(struct ibv_qp *qp, bool attach, uint8_t first)
{
	union ibv_gid gid = { .raw = { first, 0x0e, [15] = 9 } };

	if (attach)
		ibv_attach_mcast(qp, &gid, 0);
	else
		ibv_detach_mcast(qp, &gid, 0);
}

static void ah_from_wc(struct objects *o)
{
	struct ibv_wc wc = { 0 };
	struct ibv_grh grh = { 0 };

	ibv_create_ah_from_wc(o->pd, &wc, &grh, 1);
}

static void rate(struct objects *o)
{
	struct ibv_qp_rate_limit_attr attr = { .comp_mask = 1 };

	ibv_modify_qp_rate_limit(o->qp, &attr);
}

/* ---- the table ------------------------------------------------------------------------ */

#define CAP(...) ((struct ibv_qp_cap){ __VA_ARGS__ })
#define ATTR(...) ((struct ibv_qp_attr){ __VA_ARGS__ })
#define WR(...) ((struct ibv_send_wr){ __VA_ARGS__ })
#define EACH(X)                                                                                    \
	X(make_qp(o, CAP(.max_send_wr = 40000), IBV_QPT_RC), "max_send_wr 40000, limit 32768")     \
	X(make_qp(o, CAP(.max_recv_sge = 33), IBV_QPT_RC), "max_recv_sge 33, limit 32")            \
	X(make_qp(o, CAP(.max_inline_data = 1 << 20), IBV_QPT_RC),                                 \
	  "max_inline_data 1048576, limit")                                                        \
	X(make_qp(o, CAP(0), IBV_QPT_RAW_PACKET), "qp_type 8; RC, UC, UD and XRC")                 \
	X(create_qp_ex(o, (struct ibv_qp_init_attr_ex){ 0 }), "pd is missing")                     \
	X(create_qp_ex(o, (struct ibv_qp_init_attr_ex){ .comp_mask = 1 << 30 }), "comp_mask 0x40") \
	X(create_qp_ex(o,                                                                          \
		       (struct ibv_qp_init_attr_ex){ .comp_mask = IBV_QP_INIT_ATTR_PD |            \
								  IBV_QP_INIT_ATTR_CREATE_FLAGS,   \
						     .pd = o->pd,                                  \
						     .create_flags = 256 }),                       \
	  "create_flags 0x100, supported")                                                         \
	X(create_qp_ex(o,                                                                          \
		       (struct ibv_qp_init_attr_ex){                                               \
			       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, \
			       .pd = o->pd,                                                        \
			       .send_ops_flags = IBV_QP_EX_WITH_RDMA_READ }),                      \
	  "send_ops_flags 0x10, supported by qp_type 4")                                           \
	X(modify_rtr(o, ATTR(.ah_attr.is_global = 2), 0), "is_global is 0; RoCE needs a GRH")      \
	X(modify_rtr(o, ATTR(.ah_attr.grh.sgid_index = 200), 0), "sgid_index 200 has no GID")      \
	X(modify_rtr(o, ATTR(.ah_attr.port_num = 2), 0), "port_num 2; the device has port 1")      \
	X(modify_rtr(o, ATTR(.path_mtu = 9), 0), "path_mtu 9, limit 5")                            \
	X(modify_rtr(o, ATTR(.path_mtu = IBV_MTU_4096), 0),                                        \
	  "path_mtu is 4096 bytes, the interface")                                                 \
	X(modify_rtr(o, ATTR(.max_dest_rd_atomic = 255), 0), "max_dest_rd_atomic 255, limit")      \
	X(modify_rtr(o, ATTR(.min_rnr_timer = 32), 0), "min_rnr_timer 32, limit 31")               \
	X(modify_rtr(o, ATTR(0), IBV_QP_AV | IBV_QP_RQ_PSN),                                       \
	  "INIT to RTR: attr_mask lacks IBV_QP_AV IBV_QP_RQ_PSN")                                  \
	X(modify(o->init, ATTR(.qp_state = IBV_QPS_RTS), IBV_QP_STATE), "INIT to RTS: no such")    \
	X(modify(o->init, ATTR(.qp_state = 9), IBV_QP_STATE), "qp_state 9")                        \
	X(modify(o->init, ATTR(.qkey = 1), IBV_QP_QKEY),                                           \
	  "INIT to INIT: attr_mask must not have IBV_QP_QKEY")                                     \
	X(modify(o->init, ATTR(.qp_access_flags = 1 << 16), IBV_QP_ACCESS_FLAGS),                  \
	  "qp_access_flags 0x10000, supported")                                                    \
	X(modify(o->init, ATTR(0), IBV_QP_CAP), "IBV_QP_CAP")                                      \
	X(modify(o->qp, ATTR(.cur_qp_state = IBV_QPS_SQD), IBV_QP_CUR_STATE), "the QP is in RTS")  \
	X(modify(o->qp, ATTR(.alt_port_num = 1), IBV_QP_ALT_PATH), "path migration")               \
	X(rate(o), "ibv_modify_qp_rate_limit.*comp_mask 0x1")                                      \
	X(ibv_reg_mr(o->pd, o->buf, 64, IBV_ACCESS_REMOTE_WRITE), "need IBV_ACCESS_LOCAL_WRITE")   \
	X(ibv_reg_mr(o->pd, o->buf, 64, 1 << 14), "access 0x4000, supported")                      \
	X(ibv_reg_mr(o->pd, NULL, 64, 0), "not mapped or not accessible")                          \
	X(ibv_reg_mr(o->pd, o->buf, SIZE_MAX, 0), "exceeds the address space")                     \
	X(ibv_reg_dmabuf_mr(o->pd, 0, 0, 0, 0, 0), "length 0, not 0")                              \
	X(ibv_reg_dmabuf_mr(o->pd, 0, 4096, 0, 999, 0), "fd 999 is not open")                      \
	X(ibv_rereg_mr(o->mr, 64, o->pd, NULL, 0, 0), "flags 0x40, known 0x7")                     \
	X(ibv_rereg_mr(o->mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), "pd is missing")          \
	X(advise(o), "the region is not on demand")                                                \
	X(alloc_dm(o, (struct ibv_alloc_dm_attr){ 0 }), "length 0, log_align_req 0")               \
	X(alloc_dm(o, (struct ibv_alloc_dm_attr){ .length = 1ul << 50 }), "client-max-dm is")      \
	X(parent(o, (struct ibv_parent_domain_init_attr){ 0 }), "pd is missing")                   \
	X(parent(o, (struct ibv_parent_domain_init_attr){ .pd = o->pd, .comp_mask = 64 }),         \
	  "comp_mask 0x40, known")                                                                 \
	X(ibv_create_cq(o->ctx, 0, NULL, NULL, 0), "cqe is less than 1")                           \
	X(ibv_create_cq(o->ctx, 1 << 30, NULL, NULL, 0), "cqe 1073741824, limit")                  \
	X(ibv_create_cq(o->ctx, 1, NULL, NULL, 1 << 20), "comp_vector 1048576, limit")             \
	X(create_cq_ex(o, (struct ibv_cq_init_attr_ex){ .cqe = 1, .wc_flags = 1 << 30 }),          \
	  "wc_flags 0x40000000, supported")                                                        \
	X(ibv_resize_cq(o->cq, 0), "cqe 0 is less than 1")                                         \
	X(ibv_destroy_cq(o->cq), "ibv_destroy_cq.*QPs use the CQ")                                 \
	X(ibv_destroy_comp_channel(o->channel), "1 CQs use the channel")                           \
	X(ibv_dealloc_pd(o->pd), "objects use the PD")                                             \
	X(create_srq(o, 1 << 20, 1), "max_wr 1048576, limit 32768")                                \
	X(create_srq(o, 0, 1), "max_wr 0, 1 to 32768")                                             \
	X(modify_srq(o, (struct ibv_srq_attr){ .srq_limit = 99 }, IBV_SRQ_LIMIT), "srq_limit 99")  \
	X(srq_recv(o, 3), "ibv_post_srq_recv.*num_sge 3, limit 1")                                 \
	X(fill_srq(o), "ibv_post_srq_recv.*the queue is full: max_wr is")                          \
	X(create_ah(o, (struct ibv_ah_attr){ 0 }), "ibv_create_ah.*RoCE needs a GRH")              \
	X(create_ah(o, (struct ibv_ah_attr){ .is_global = 1, .grh.sgid_index = 77 }),              \
	  "sgid_index 77 has no GID")                                                              \
	X(create_ah(o,                                                                             \
		    (struct ibv_ah_attr){                                                          \
			    .is_global = 1,                                                        \
			    .grh = { .sgid_index = o->gid_index,                                   \
				     .dgid.raw = { [10] = 0xff, 0xff, 198, 51, 100, 7 } } }),      \
	  "no route from the GID of sgid_index")                                                   \
	X(ah_from_wc(o), "wc_flags 0x0; port 1, IBV_WC_GRH")                                       \
	X(xrcd(o, 0, 0), is_direct() ? "shares no XRC domain of a file" : "oflags lacks O_CREAT")  \
	X(mcast(o->qp, true, 0xff), "the QP is not of type UD")                                    \
	X(mcast(o->ud, true, 0xfe), "the GID is no multicast group")                               \
	X(mcast(o->ud, false, 0xff), "not attached to the group")                                  \
	X(ibv_alloc_mw(o->pd, 7), "type 7; IBV_MW_TYPE_1 or")                                      \
	X(query_port(o), "port 2; the device has port 1 only")                                     \
	X(query_gid(o), "index 256, limit 255")                                                    \
	X(query_pkey(o), "P_Key index 0 only")                                                     \
	X(recv_wr(o->ud, 0), "the QP is in RESET; IBV_QPS_INIT")                                   \
	X(recv_wr(o->init, 3), "ibv_post_recv.*num_sge 3, limit 1")                                \
	X(send_wr(o->init, WR(.num_sge = 0)), "ibv_post_send.*the QP is in state 1")               \
	X(send_wr(o->qp, WR(.num_sge = 9)), "ibv_post_send.*num_sge 9, limit 1")                   \
	X(send_wr(o->qp, WR(.send_flags = 1 << 9)), "send_flags 0x200, known")                     \
	X(send_wr(o->qp, WR(.opcode = 99)), "opcode 99 is not known")                              \
	X(send_wr(o->qp, WR(.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_INLINE)),           \
	  "opcode 4 with inline data")

/* Runs one call with stderr redirected, and returns what was printed. */
static const char *printed(int fd, int before)
{
	static char text[4096];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	dup2(before, 2);
	close(before);
	close(fd);
	return text;
}

/* Matches "a.*b" and plain text. */
static bool has_words(const char *text, const char *words)
{
	const char *any = strstr(words, ".*");
	char first[128];

	if (!any)
		return strstr(text, words);
	snprintf(first, sizeof(first), "%.*s", (int)(any - words), words);
	text = strstr(text, first);
	return text && strstr(text, any + 2);
}

#define ROW(refused, words)                                                                        \
	do {                                                                                       \
		int fd = memfd_create("stderr", MFD_CLOEXEC), before = dup(2);                     \
		const char *text;                                                                  \
                                                                                                   \
		dup2(fd, 2);                                                                       \
		(void)(refused);                                                                   \
		text = printed(fd, before);                                                        \
		rows++;                                                                            \
		if (!has_words(text, words)) {                                                     \
			printf("%s: \"%s\" has no \"%s\"\n", #refused, text, words);               \
			wrong++;                                                                   \
		}                                                                                  \
	} while (0);

static int check_rows(struct objects *o)
{
	unsigned int rows = 0, wrong = 0;

	EACH(ROW)
	printf("%u calls, %u without the expected reason\n", rows, wrong);
	return wrong != 0;
}

static void create(struct objects *o)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_cap cap = { 4, 4, 1, 1, 0 };
	struct ibv_qp_attr attr;

	o->ctx = open_device(NULL);
	MUST(o->ctx, "ibv_open_device");
	o->pd = ibv_alloc_pd(o->ctx);
	o->channel = ibv_create_comp_channel(o->ctx);
	o->cq = ibv_create_cq(o->ctx, 16, NULL, o->channel, 0);
	o->mr = ibv_reg_mr(o->pd, o->buf, sizeof(o->buf), IBV_ACCESS_LOCAL_WRITE);
	o->srq = ibv_create_srq(o->pd, &srq);
	o->qp = make_qp(o, cap, IBV_QPT_RC);
	o->init = make_qp(o, cap, IBV_QPT_RC);
	o->ud = make_qp(o, cap, IBV_QPT_UD);
	MUST(o->mr && o->srq && o->qp && o->init && o->ud, "objects");
	attr = rc_attr(o->gid_index, own_gid(o->ctx, o->gid_index), o->qp->qp_num);
	MUST(!reset_to_rts(o->qp, &attr) && !to_init(o->init, &attr), "ibv_modify_qp");
}

int main(int argc, char **argv)
{
	static struct objects o;
	struct sides s = { 0 };

	parse_sides(argc, argv, &s);
	o.gid_index = s.gid_index;
	create(&o);
	return check_rows(&o);
}
