// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * UC and UD between two QPs of one engine. Sent frames are received unchanged, reordered, dropped,
 * duplicated or modified. Most tests run by loopback, too.
 */
#include <stdio.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/wire/group.h"
#include "daemon/transport/qp.h"
#include "harness.h"
#include "selftests/lib/tap.h"

#define BASE 0x100000
#define SIZE 65536
#define HALF (SIZE / 2) /* sources in the lower half, targets in the upper */
#define MTU 1024
#define PSN 0xfffffe /* wraps soon */
#define QKEY 0x11223344
#define ALICE 0x0a000001
#define BOB 0x0a000002

static uint8_t memory[SIZE];
static struct h_mr mr;
static uint32_t key;
static struct harness *h;
static struct h_qp qa, qb; /* qa sends, qb receives */

static void fill_memory(void)
{
	unsigned i;

	for (i = 0; i < HALF; i++)
		memory[i] = i * 7 + (i >> 8);
	memset(memory + HALF, 0, HALF);
}

static bool arrived(uint32_t to, uint32_t from, uint32_t len)
{
	return !memcmp(memory + HALF + to, memory + from, len);
}

/* ---- setting up ---------------------------------------------------------- */

static int connect_uc(struct h_qp *q, uint32_t to, bool local)
{
	struct xt_path path = q == &qa ? h_path(ALICE, BOB) : h_path(BOB, ALICE);
	uint32_t state, mask = 0;
	struct xr_qp_attr attr;
	int err = 0;

	path.loopback = local;
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		if (state == XR_QPS_RTR)
			mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
		else if (state == XR_QPS_RTS)
			mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
		attr.dest_qp_num = to;
		attr.rq_psn = attr.sq_psn = PSN;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, h->now);
	}
	return err;
}

static int ready_ud(struct h_qp *q, uint32_t qkey)
{
	static const uint32_t masks[] = {
		[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
		[XR_QPS_RTR] = 0,
		[XR_QPS_RTS] = IBV_QP_SQ_PSN,
	};
	uint32_t state;
	struct xr_qp_attr attr;
	int err = 0;

	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		h_attr(state, &attr);
		attr.qkey = qkey;
		attr.sq_psn = PSN;
		err = xt_qp_modify(q->qp, &attr, masks[state] | IBV_QP_STATE, NULL, MTU, h->now);
	}
	return err;
}

static void begin(uint32_t type, bool local)
{
	struct xt_path path = h_path(ALICE, local ? ALICE : BOB), six;

	h = h_new(H_CQE);
	fill_memory();
	key = h_reg(h, &mr, memory, SIZE, BASE);
	h_create_type(h, &qa, type);
	h_create_type(h, &qb, type);
	if (type == XR_QPT_UC) {
		connect_uc(&qa, qb.qpn, local);
		connect_uc(&qb, qa.qpn, local);
		return;
	}
	path.loopback = local;
	six = path;
	six.ip_version = 6;
	memset(six.sgid.raw, 0xfd, 16);
	memset(six.dgid.raw, 0xfe, 16);
	xt_ahs_set(h->ahs, 1, 1, &path);
	xt_ahs_set(h->ahs, 2, 1, &six);
	xt_ahs_set(h->ahs, 3, 2, &path); /* of another PD */
	ready_ud(&qa, QKEY + 1);
	ready_ud(&qb, QKEY);
}

static void end(void)
{
	h_destroy(&qa);
	h_destroy(&qb);
	h_free(h);
}

static void run(void)
{
	xt_qp_doorbell(qa.qp, ++h->now);
	while (xt_engine_run(h->engine, ++h->now) != XT_NEVER)
		;
}

static void pass(unsigned i)
{
	h_receive(h, h->sent[i].data, h->sent[i].len);
}

static void pass_all(void)
{
	unsigned i, n = h->sent_count;

	for (i = 0; i < n; i++)
		pass(i);
	h->sent_count = 0;
}

static uint64_t counter(size_t offset)
{
	return *(const uint64_t *)((const char *)xt_engine_counters(h->engine) + offset);
}
#define COUNTER(field) counter(offsetof(struct xt_counters, field))

static bool completes(uint64_t wr_id, uint32_t status, struct xr_cqe *cqe)
{
	if (!h_poll(h, cqe)) {
		printf("# no completion, not %llu\n", (unsigned long long)wr_id);
		return false;
	}
	if (cqe->wr_id == wr_id && cqe->status == status)
		return true;
	printf("# wr_id %llu status %u verr %u\n", (unsigned long long)cqe->wr_id, cqe->status,
	       cqe->vendor_err);
	return false;
}

static bool silent(void)
{
	struct xr_cqe cqe;

	return !h_poll(h, &cqe);
}

/* ---- UC ------------------------------------------------------------------ */

/* Sends a message of three packets, h->sent[0..2], and posts a receive at offset @to. */
static void send_three(uint32_t to)
{
	struct xr_cqe cqe;

	h_post_recv(&qb, 100 + to, BASE + HALF + to, 4096, key);
	h_post_send(&qa, 1, XR_WR_SEND, BASE + 64, 3000, key);
	run();
	TAP_OK(completes(1, IBV_WC_SUCCESS, &cqe) && h->sent_count == 3,
	       "UC: a send completes when its three packets are sent");
}

static void test_uc_whole(void)
{
	struct xr_cqe cqe;

	begin(XR_QPT_UC, false);
	send_three(0);
	pass_all();
	TAP_OK(completes(100, IBV_WC_SUCCESS, &cqe) && cqe.byte_len == 3000 &&
		       arrived(0, 64, 3000) && cqe.src_qpn == qa.qpn && !h->sent_count,
	       "UC: the message is received, and no response is sent");
	h_post_recv(&qb, 7, BASE + HALF, 4096, key);
	h_post_send(&qa, 2, XR_WR_SEND_WITH_IMM, 0, 0, 0)->imm_data = 0x12345678;
	run();
	pass_all();
	TAP_OK(completes(2, IBV_WC_SUCCESS, &cqe) && completes(7, IBV_WC_SUCCESS, &cqe) &&
		       cqe.imm_data == 0x12345678 && cqe.wc_flags == IBV_WC_WITH_IMM,
	       "UC: a SEND with immediate data is received");
	TAP_OK(h->events[IBV_EVENT_COMM_EST] == 0,
	       "UC: a packet received in RTS raises no COMM_EST event");
	end();
}

static void test_uc_gaps(void)
{
	struct xr_cqe cqe;
	unsigned missing;

	for (missing = 0; missing < 3; missing++) {
		begin(XR_QPT_UC, false);
		send_three(0);
		if (missing != 0)
			pass(0);
		if (missing != 1)
			pass(1);
		if (missing != 2)
			pass(2);
		TAP_OK(silent() && COUNTER(unreliable_drops) == 2 - missing,
		       "UC: a message without packet %u is dropped", missing);
		h->sent_count = 0;
		h_post_send(&qa, 2, XR_WR_SEND, BASE + 5, 2000, key);
		run();
		pass_all();
		TAP_OK(completes(2, IBV_WC_SUCCESS, &cqe) && completes(100, IBV_WC_SUCCESS, &cqe) &&
			       cqe.byte_len == 2000 && arrived(0, 5, 2000),
		       "UC: the next message uses the same receive");
		end();
	}
	begin(XR_QPT_UC, false);
	send_three(0);
	pass(0);
	pass(2);
	pass(1);
	TAP_OK(silent(), "UC: a message with reordered packets is dropped");
	pass(0);
	pass(1);
	pass(2);
	TAP_OK(completes(100, IBV_WC_SUCCESS, &cqe) && arrived(0, 64, 3000),
	       "UC: a FIRST packet with an old PSN starts a new message");
	end();
}

static void test_uc_refused(void)
{
	struct xr_cqe cqe;

	begin(XR_QPT_UC, false);
	h_post_send(&qa, 1, XR_WR_SEND, BASE, 100, key);
	run();
	pass_all();
	TAP_OK(completes(1, IBV_WC_SUCCESS, &cqe) && silent(),
	       "UC: a SEND without a receive is dropped");
	h_post_recv(&qb, 9, BASE + HALF, 50, key);
	h_post_send(&qa, 2, XR_WR_SEND, BASE, 100, key);
	run();
	pass_all();
	TAP_OK(completes(2, IBV_WC_SUCCESS, &cqe) && silent(),
	       "UC: a SEND longer than the receive is dropped");
	h_post_send(&qa, 3, XR_WR_SEND, BASE, 50, key);
	run();
	pass_all();
	TAP_OK(completes(3, IBV_WC_SUCCESS, &cqe) && completes(9, IBV_WC_SUCCESS, &cqe),
	       "UC: the next SEND uses the receive");
	h_post_send(&qa, 4, XR_WR_RDMA_WRITE, BASE, 3000, key)->rkey = key ^ 1;
	run();
	pass_all();
	TAP_OK(completes(4, IBV_WC_SUCCESS, &cqe) && xt_qp_info(qb.qp)->state == XR_QPS_RTS &&
		       !h->sent_count && !h->events[IBV_EVENT_QP_ACCESS_ERR] &&
		       !COUNTER(access_naks_sent),
	       "UC: a WRITE with a wrong R_Key is dropped without an error");
	end();
}

static void test_uc_write(bool local)
{
	struct xr_send_wqe *w;
	struct xr_cqe cqe;

	begin(XR_QPT_UC, local);
	w = h_post_send(&qa, 1, XR_WR_RDMA_WRITE, BASE + 3, 5000, key);
	w->rkey = key;
	w->remote_addr = BASE + HALF + 10;
	run();
	pass_all();
	TAP_OK(completes(1, IBV_WC_SUCCESS, &cqe) && arrived(10, 3, 5000), "UC: WRITE%s",
	       local ? ", loopback" : "");
	h_post_recv(&qb, 8, 0, 0, 0);
	w = h_post_send(&qa, 2, XR_WR_RDMA_WRITE_WITH_IMM, BASE + 9, 1024, key);
	w->rkey = key;
	w->remote_addr = BASE + HALF;
	w->imm_data = 77;
	run();
	pass_all();
	TAP_OK(h_poll(h, &cqe) && h_poll(h, &cqe) && silent() && arrived(0, 9, 1024),
	       "UC: WRITE with immediate data completes on both sides%s",
	       local ? ", loopback" : "");
	end();
}

static void test_uc_local(void)
{
	struct xr_cqe cqe;
	struct xr_qp_attr attr;

	begin(XR_QPT_UC, true);
	h_post_send(&qa, 1, XR_WR_SEND, BASE, 3000, key);
	run();
	TAP_OK(completes(1, IBV_WC_SUCCESS, &cqe) && silent() && !h->sent_count,
	       "UC loopback: a SEND without a receive is dropped");
	h_post_recv(&qb, 5, BASE + HALF, 3000, key);
	h_post_send(&qa, 2, XR_WR_SEND, BASE, 3000, key);
	run();
	TAP_OK(h_poll(h, &cqe) && h_poll(h, &cqe) && silent() && arrived(0, 0, 3000),
	       "UC loopback: the next SEND is received");
	h_post_recv(&qb, 6, BASE + HALF, 3000, key);
	h_attr(XR_QPS_ERR, &attr);
	xt_qp_modify(qb.qp, &attr, IBV_QP_STATE, NULL, 0, ++h->now);
	h_post_send(&qa, 3, XR_WR_SEND, BASE, 30, key);
	run();
	TAP_OK(completes(6, IBV_WC_WR_FLUSH_ERR, &cqe) && completes(3, IBV_WC_SUCCESS, &cqe) &&
		       silent(),
	       "UC loopback: a SEND to a QP in ERR is dropped");
	end();
}

/* A UC QP binds a window, its peer WRITEs through it, the QP invalidates it. */
static void test_uc_window(void)
{
	struct xt_key *window;
	struct xr_send_wqe *w;
	struct xr_cqe cqe;
	unsigned i;

	begin(XR_QPT_UC, false);
	mr.key->entry.access |= XR_ACCESS_MW_BIND;
	window = xt_keys_alloc(h->shared.keys);
	window->entry.pd = 1;
	window->entry.type = XR_KEY_MW;
	window->entry.flags = XR_KEYF_TYPE_2;
	w = h_post_send(&qb, 1, XR_WR_BIND_MW, 0, 0, 0);
	w->bind.mw_rkey = w->bind.new_rkey = xt_key_value(window);
	w->bind.mr_lkey = key;
	w->bind.access = XR_ACCESS_REMOTE_WRITE;
	w->remote_addr = BASE + HALF;
	w->bind_len = 1000;
	xt_qp_doorbell(qb.qp, ++h->now);
	run();
	TAP_OK(completes(1, IBV_WC_SUCCESS, &cqe) && window->entry.qpn == qb.qpn, "UC: BIND_MW");
	for (i = 0; i < 2; i++) {
		w = h_post_send(&qa, 2, XR_WR_RDMA_WRITE, BASE + 500 * i, 1000, key);
		w->rkey = xt_key_value(window);
		w->remote_addr = BASE + HALF;
		run();
		pass_all();
		TAP_OK(completes(2, IBV_WC_SUCCESS, &cqe) && arrived(0, 0, 1000),
		       i ? "UC: a WRITE through an invalidated window is dropped"
			 : "UC: WRITE through a window");
		h_post_send(&qb, 3, XR_WR_LOCAL_INV, 0, 0, 0)->invalidate_rkey =
			xt_key_value(window);
		xt_qp_doorbell(qb.qp, ++h->now);
		run();
		TAP_OK(completes(3, IBV_WC_SUCCESS, &cqe) && window->entry.state == XR_KEY_FREE,
		       "UC: LOCAL_INV of a %s window", i ? "free" : "bound");
	}
	end();
}

/* The error must not depend on whether the peer has a receive. */
static void sends_with_wrong_key(uint32_t type, bool local, bool receive)
{
	struct xr_cqe cqe;

	begin(type, local);
	if (receive)
		h_post_recv(&qb, 4, BASE + HALF, 4096, key);
	h_post_send(&qa, 1, XR_WR_SEND, BASE, 300, key ^ 1)->ud.ah = 1;
	xt_qp_doorbell(qa.qp, h->now);
	((struct xr_send_wqe *)(qa.sq + 1))->ud.remote_qpn = qb.qpn;
	((struct xr_send_wqe *)(qa.sq + 1))->ud.remote_qkey = QKEY;
	run();
	TAP_OK(completes(1, IBV_WC_LOC_PROT_ERR, &cqe) && !h->sent_count && silent() &&
		       xt_qp_info(qa.qp)->state == XR_QPS_SQE,
	       "type %u: a wrong L_Key fails%s%s", type, local ? ", loopback" : "",
	       receive ? "" : ", without a receive");
	end();
}

static void test_sender_errors(uint32_t type, bool local)
{
	static const uint8_t reads[] = {
		XR_WR_RDMA_READ,
		XR_WR_ATOMIC_CMP_AND_SWP,
		XR_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct xr_cqe cqe;
	unsigned i;

	for (i = 0; i < 3; i++) {
		begin(type, local);
		h_post_send(&qa, 1, reads[i], BASE, 8, key)->ud.ah = 1;
		run();
		TAP_OK(completes(1, IBV_WC_LOC_QP_OP_ERR, &cqe) && !h->sent_count &&
			       xt_qp_info(qa.qp)->state == XR_QPS_SQE,
		       "type %u: unsupported opcode %u fails", type, reads[i]);
		end();
	}
	sends_with_wrong_key(type, local, true);
	sends_with_wrong_key(type, local, false);
}

/* ---- UD ------------------------------------------------------------------ */

static struct xr_send_wqe *post(uint64_t wr_id, uint8_t opcode, uint32_t len)
{
	struct xr_send_wqe *w = h_post_send(&qa, wr_id, opcode, BASE + 1, len, key);

	w->ud.ah = 1;
	w->ud.remote_qpn = qb.qpn;
	w->ud.remote_qkey = QKEY;
	return w;
}

static bool ipv4_header_good(const uint8_t *ip, uint32_t len)
{
	uint32_t sum = 0, i;

	for (i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ip[0] == 0x45 && sum == 0xffff && (uint32_t)(ip[2] << 8 | ip[3]) == len &&
	       ip[9] == 17 && ip[12] == 10 && ip[15] == 1;
}

static void test_ud(bool local)
{
	static const uint8_t zeros[20];
	/* IP, UDP, BTH, DETH, payload, pad, ICRC */
	uint32_t ip_len = 20 + 8 + 12 + 8 + 500 + 4;
	struct xr_cqe cqe;

	begin(XR_QPT_UD, local);
	memset(memory + HALF, 0xee, 600);
	h_post_recv(&qb, 10, BASE + HALF, 600, key);
	post(1, XR_WR_SEND, 500);
	run();
	pass_all();
	if (local)
		TAP_OK(completes(10, IBV_WC_SUCCESS, &cqe),
		       "UD loopback: the datagram is received");
	TAP_OK(completes(1, IBV_WC_SUCCESS, &(struct xr_cqe){ 0 }), "UD: the send completes");
	if (!local)
		TAP_OK(completes(10, IBV_WC_SUCCESS, &cqe), "UD: the datagram is received");
	TAP_OK(cqe.byte_len == 540 && cqe.wc_flags == IBV_WC_GRH && cqe.src_qpn == qa.qpn &&
		       cqe.qpn == qb.qpn && cqe.opcode == IBV_WC_RECV && !cqe.pkey_index,
	       "UD: byte_len includes the 40 byte header, src_qp is the sender");
	TAP_OK(!memcmp(memory + HALF, zeros, 20) && ipv4_header_good(memory + HALF + 20, ip_len) &&
		       arrived(40, 1, 500) && memory[HALF + 540] == 0xee,
	       "UD: a receive has 20 zero bytes, the IPv4 header and the payload");
	TAP_OK(cqe.sl == 10, "UD: the completion reports an IPv4 header");

	h_post_recv(&qb, 11, BASE + HALF, 40, key);
	post(2, XR_WR_SEND_WITH_IMM, 0)->imm_data = 99;
	run();
	pass_all();
	while (h_poll(h, &cqe) && cqe.wr_id != 11)
		;
	TAP_OK(cqe.wr_id == 11 && cqe.byte_len == 40 && cqe.imm_data == 99 &&
		       cqe.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM),
	       "UD: a datagram may consist of immediate data only");
	TAP_OK(local == !COUNTER(rx_packets), "UD: %s",
	       local ? "loopback sends no packet" : "the wire carries packets");
	end();
}

static void test_ud_ipv6(void)
{
	struct xr_cqe cqe;

	begin(XR_QPT_UD, false);
	h_post_recv(&qb, 10, BASE + HALF, 600, key);
	post(1, XR_WR_SEND, 20)->ud.ah = 2;
	run();
	pass_all();
	TAP_OK(completes(1, IBV_WC_SUCCESS, &cqe) && completes(10, IBV_WC_SUCCESS, &cqe) &&
		       cqe.byte_len == 60 && cqe.sl == 9,
	       "UD: a datagram over IPv6 is received");
	TAP_OK(memory[HALF] == 0x60 && memory[HALF + 6] == 17 && memory[HALF + 8] == 0xfd &&
		       memory[HALF + 24] == 0xfe && arrived(40, 1, 20),
	       "UD: a receive has the IPv6 header and the payload");
	end();
}

static void test_ud_dropped(bool local)
{
	const char *how = local ? "UD loopback" : "UD";
	struct xr_cqe cqe;

	begin(XR_QPT_UD, local);
	post(1, XR_WR_SEND, 100);
	run();
	pass_all();
	TAP_OK(completes(1, IBV_WC_SUCCESS, &cqe) && silent() && COUNTER(no_receive) == 1,
	       "%s: a datagram without a receive is dropped", how);
	h_post_recv(&qb, 10, BASE + HALF, 139, key);
	post(2, XR_WR_SEND, 100);
	post(3, XR_WR_SEND, 10)->ud.remote_qkey = QKEY ^ 1;
	/* Selects the Q_Key of the sending QP, which differs from the receiver's. */
	post(4, XR_WR_SEND, 10)->ud.remote_qkey = XR_QKEY_PRIVILEGED | QKEY;
	post(5, XR_WR_SEND, 10)->ud.remote_qpn = qb.qpn + 7;
	run();
	pass_all();
	TAP_OK(completes(2, 0, &cqe) && completes(3, 0, &cqe) && completes(4, 0, &cqe) &&
		       completes(5, 0, &cqe) && silent(),
	       "%s: sends complete even if the datagrams are dropped", how);
	TAP_OK(COUNTER(unreliable_drops) == 1 && COUNTER(qkey_errors) == 2,
	       "%s: too long datagrams and wrong Q_Keys are counted", how);
	post(6, XR_WR_SEND, 99);
	run();
	pass_all();
	while (h_poll(h, &cqe) && cqe.wr_id != 10)
		;
	TAP_OK(cqe.wr_id == 10 && cqe.status == IBV_WC_SUCCESS && cqe.byte_len == 139,
	       "%s: the receive stays posted until a datagram fits", how);
	end();
}

static void test_ud_own_qkey(void)
{
	struct xr_cqe cqe;

	begin(XR_QPT_UD, false);
	/* To itself, with its own Q_Key. */
	h_post_recv(&qa, 10, BASE + HALF, 600, key);
	post(1, XR_WR_SEND, 5)->ud.remote_qkey = 0xffffffff;
	((struct xr_send_wqe *)(qa.sq + 1))->ud.remote_qpn = qa.qpn;
	run();
	pass_all();
	TAP_OK(completes(1, 0, &cqe) && completes(10, 0, &cqe) && !COUNTER(qkey_errors),
	       "UD: a Q_Key with the high bit set selects the QP's own");
	end();
}

static void test_ud_sender(void)
{
	static const struct {
		const char *what;
		uint32_t len, ah, status;
	} rows[] = {
		{ "longer than the path MTU", MTU + 1, 1, IBV_WC_LOC_LEN_ERR },
		{ "no address handle", 10, 0, IBV_WC_LOC_QP_OP_ERR },
		{ "nonexistent address handle", 10, 4000000000u, IBV_WC_LOC_QP_OP_ERR },
		{ "address handle of another PD", 10, 3, IBV_WC_LOC_QP_OP_ERR },
	};
	struct xr_cqe cqe;
	unsigned i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(XR_QPT_UD, false);
		post(1, XR_WR_SEND, rows[i].len)->ud.ah = rows[i].ah;
		post(2, XR_WR_SEND, 1);
		run();
		TAP_OK(completes(1, rows[i].status, &cqe) &&
			       completes(2, IBV_WC_WR_FLUSH_ERR, &cqe) && !h->sent_count &&
			       xt_qp_info(qa.qp)->state == XR_QPS_SQE,
		       "UD: the WR fails: %s", rows[i].what);
		end();
	}
	begin(XR_QPT_UD, false);
	xt_ahs_del(h->ahs, 1);
	post(1, XR_WR_SEND, 1);
	run();
	TAP_OK(completes(1, IBV_WC_LOC_QP_OP_ERR, &cqe),
	       "UD: the WR fails: destroyed address handle");
	end();
}

static void test_ud_bad_receive(bool local)
{
	struct xr_cqe cqe;

	begin(XR_QPT_UD, local);
	h_post_recv(&qb, 10, BASE + HALF, 600, key ^ 1);
	h_post_recv(&qb, 11, BASE + HALF, 600, key);
	post(1, XR_WR_SEND, 5);
	run();
	pass_all();
	while (h_poll(h, &cqe) && cqe.wr_id != 10)
		;
	TAP_OK(cqe.status == IBV_WC_LOC_PROT_ERR && h_poll(h, &cqe) &&
		       xt_qp_info(qb.qp)->state == XR_QPS_ERR &&
		       xt_qp_info(qa.qp)->state == XR_QPS_RTS,
	       "UD%s: a receive with a wrong L_Key is an error of the receiver",
	       local ? " loopback" : "");
	end();
}

/* ---- multicast ----------------------------------------------------------- */

static struct xr_addr group4(uint8_t last)
{
	return (struct xr_addr){ .raw = { [10] = 0xff, 0xff, 239, 1, 1, last } };
}

static void test_group_addresses(void)
{
	struct xr_addr a = group4(1);

	TAP_OK(xt_is_group(&a), "group: 239.1.1.1 is multicast");
	a.raw[12] = 240;
	TAP_OK(!xt_is_group(&a), "group: 240.1.1.1 is not multicast");
	a = (struct xr_addr){ .raw = { 0xff, 2, [15] = 1 } };
	TAP_OK(xt_is_group(&a), "group: ff02::1 is multicast");
	a.raw[0] = 0xfe;
	TAP_OK(!xt_is_group(&a), "group: fe02::1 is not multicast");
}

static unsigned engines_of(struct xt_groups *t, const struct xr_addr *gid)
{
	const struct xt_group *g = xt_group_find(t, gid);
	unsigned i, n = 0;

	for (i = 0; i < g->members; i++)
		n += xt_group_first_of_engine(g, i);
	return n;
}

static void test_group_table(void)
{
	struct xt_groups *t = xt_groups_new();
	struct xr_addr a = group4(1), b = { .raw = { 0xff, 2, [15] = 1, [14] = 1 } };
	struct xt_qp *qp = calloc(100, sizeof(*qp));
	unsigned i, wrong = 0;

	for (i = 0; i < H_DEPTH; i++) {
		/* Three engines; the pointers are only compared. */
		qp[i].engine = (struct xt_engine *)(uintptr_t)(8 + i % 3 * 8);
		wrong += xt_group_attach(t, &a, &qp[i]) != 0;
	}
	xt_group_attach(t, &b, &qp[0]);
	for (i = 0; i < 100; i += 2)
		xt_group_detach(t, &a, &qp[i]);
	for (i = 0; i < H_DEPTH; i++)
		wrong += xt_group_has(t, &a, &qp[i]) != (i & 1);
	TAP_OK(!wrong && xt_group_has(t, &b, &qp[0]),
	       "group: members are attached and every second one is detached");
	TAP_OK(engines_of(t, &a) == 3, "group: members of an engine are adjacent");
	xt_groups_free(t);
	free(qp);
}

/* qa sends to a group of qa, qb and qc; qb and qc get a copy by loopback and one from the wire. */
static void test_group(void)
{
	struct xr_addr gid = group4(1);
	struct xt_path path;
	struct xr_cqe cqe;
	struct h_qp qc;
	unsigned got = 0;

	begin(XR_QPT_UD, false);
	h_create_type(h, &qc, XR_QPT_UD);
	ready_ud(&qc, QKEY);
	path = h_path(ALICE, BOB);
	path.dgid = gid;
	xt_ahs_set(h->ahs, 1, 1, &path);
	post(1, XR_WR_SEND, 100)->ud.remote_qpn = XR_MULTICAST_QPN;
	run();
	pass_all();
	TAP_OK(completes(1, 0, &cqe) && silent() && COUNTER(rx_no_qp) == 1,
	       "group: without members a datagram is only sent");
	xt_group_attach(h->shared.groups, &gid, qa.qp);
	xt_group_attach(h->shared.groups, &gid, qb.qp);
	xt_group_attach(h->shared.groups, &gid, qc.qp);
	h_post_recv(&qa, 10, BASE + HALF, 200, key);
	h_post_recv(&qb, 11, BASE + HALF + 200, 200, key);
	h_post_recv(&qc, 12, BASE + HALF + 400, 200, key);
	post(2, XR_WR_SEND, 100)->ud.remote_qpn = XR_MULTICAST_QPN;
	run();
	while (h_poll(h, &cqe))
		got |= cqe.status ? 1u << 31 : 1u << cqe.wr_id;
	TAP_OK(got == (1u << 2 | 1u << 11 | 1u << 12) && h->sent_count == 1 &&
		       arrived(240, 1, 100) && arrived(440, 1, 100),
	       "group: all members but the sender get a copy by loopback");
	TAP_OK(memory[HALF + 200 + 36] == 239,
	       "group: the header of the copy has the group address");

	h_post_recv(&qb, 11, BASE + HALF + 200, 200, key);
	h_post_recv(&qc, 12, BASE + HALF + 400, 200, key);
	fill_memory();
	/* The Q_Key of qa differs. */
	pass_all();
	for (got = 0; h_poll(h, &cqe);)
		got |= cqe.status ? 1u << 31 : 1u << cqe.wr_id;
	TAP_OK(got == (1u << 11 | 1u << 12) && COUNTER(qkey_errors) == 1,
	       "group: a packet is copied to all members with its Q_Key");
	xt_group_detach(h->shared.groups, &gid, qb.qp);
	post(3, XR_WR_SEND, 100)->ud.remote_qpn = XR_MULTICAST_QPN;
	run();
	TAP_OK(completes(3, 0, &cqe) && silent() && COUNTER(no_receive) == 1,
	       "group: a detached member gets no copy");
	xt_group_detach(h->shared.groups, &gid, qc.qp);
	xt_group_detach(h->shared.groups, &gid, qa.qp);
	h_destroy(&qc);
	end();
}

/* ---- packets of another transport class ---------------------------------- */

static void test_class(uint32_t type, uint8_t class)
{
	struct h_frame *f;

	begin(type, false);
	if (type == XR_QPT_UD)
		post(1, XR_WR_SEND, 4);
	else
		h_post_send(&qa, 1, XR_WR_SEND, BASE, 4, key);
	h_post_recv(&qb, 10, BASE + HALF, 600, key);
	run();
	f = &h->sent[0];
	f->data[42] = class | XR_OP_SEND_ONLY;
	xt_icrc_seal(&(struct xt_seg){ f->data, f->len }, 1, 14, 42);
	pass(0);
	TAP_OK(COUNTER(rx_malformed) == 1, "type %u: a packet of class %#x is refused", type,
	       class);
	end();
}

/* ---- xt_qp_catch_up() ---------------------------------------------------- */

/* All posted WRs are processed at once; later rounds find nothing to do. */
static void test_catch_up(uint32_t type, bool local)
{
	struct xr_send_wqe *w;
	struct xr_cqe cqe;
	unsigned i, done = 0;
	uint32_t left;

	begin(type, local);
	for (i = 0; i < 7; i++) {
		w = h_post_send(&qa, i, XR_WR_SEND, BASE, type == XR_QPT_UC ? 3000 : 900, key);
		w->ud.ah = 1;
		w->ud.remote_qpn = qb.qpn;
	}
	left = xt_qp_catch_up(qa.qp, ++h->now, 64);
	while (h_poll(h, &cqe) && cqe.wr_id == done && !cqe.status)
		done++;
	TAP_OK(done == 7 && h->sent_count == (local		  ? 0
					      : type == XR_QPT_UC ? 21
								  : 7),
	       "%s%s: catch_up processes all WRs", type == XR_QPT_UC ? "UC" : "UD",
	       local ? ", loopback" : "");
	TAP_OK(left && left < 64, "catch_up needs few steps");
	TAP_OK(xt_engine_next(h->engine) == XT_NEVER, "no round is needed after catch_up");
	h->sent_count = 0;
	run();
	TAP_OK(silent() && !h->sent_count, "a round after catch_up finds nothing to do");
	end();
}

/* The number of steps is limited, because the caller delays all other QPs. */
static void test_catch_up_bounded(void)
{
	unsigned i, first;

	begin(XR_QPT_UC, false);
	for (i = 0; i < H_DEPTH; i++)
		h_post_send(&qa, i, XR_WR_SEND, BASE, 3000, key);
	TAP_OK(!xt_qp_catch_up(qa.qp, ++h->now, 2), "catch_up stops after two steps");
	first = h->sent_count;
	TAP_OK(first && first <= 2 * (XT_QP_BUDGET + 3), "two steps send %u of 192 packets", first);
	run();
	TAP_OK(h->sent_count == 3 * H_DEPTH, "the next round sends the rest");
	end();
}

/* ---- rate limits --------------------------------------------------------- */

/* At 100 Mbit/s (80 ns per byte) each frame is sent when the previous one has passed. */
static void test_paced(uint32_t type)
{
	struct xr_qp_attr attr = { .rate_limit = 100000 };
	uint64_t last = 0, next;
	unsigned i, seen = 0, wrong = 0;
	struct xr_send_wqe *w;

	begin(type, false);
	xt_qp_modify(qa.qp, &attr, IBV_QP_RATE_LIMIT, NULL, MTU, h->now);
	xt_qp_set_burst(qa.qp, 1);
	for (i = 0; i < 5; i++) {
		w = h_post_send(&qa, i, XR_WR_SEND, BASE, 900 + i, key);
		w->ud.ah = 1;
		w->ud.remote_qpn = qb.qpn;
	}
	xt_qp_doorbell(qa.qp, h->now);
	for (next = h->now; next != XT_NEVER; h->now = next) {
		next = xt_engine_run(h->engine, h->now);
		if (h->sent_count == seen)
			continue;
		wrong += h->sent_count != seen + 1;
		wrong += seen && h->now != last + 80 * h->sent[seen - 1].len;
		last = h->now;
		seen = h->sent_count;
		if (next == XT_NEVER)
			break;
	}
	TAP_OK(seen == 5 && !wrong, "%s keeps to its rate limit", type == XR_QPT_UC ? "UC" : "UD");
	end();
}

/* The UC QPs of an engine together keep to a rate, and to their turns. */
static void test_uc_rate(void)
{
	struct xt_tuning t = XT_TUNING_DEFAULT;
	uint64_t next, start, bytes = 0, early = 0, least = XT_NEVER, last = 0;
	unsigned i, seen = 0;

	begin(XR_QPT_UC, false);
	t.uc_rate = 100000; /* 100 Mbit/s: 80 ns a byte */
	xt_engine_tune(h->engine, &t);
	for (i = 0; i < H_DEPTH; i++) {
		h_post_send(&qa, i, XR_WR_SEND, BASE, MTU, key);
		h_post_send(&qb, i, XR_WR_SEND, BASE, MTU, key);
	}
	start = h->now;
	xt_qp_doorbell(qa.qp, h->now);
	xt_qp_doorbell(qb.qp, h->now);
	for (next = h->now; next != XT_NEVER; h->now = next) {
		next = xt_engine_run(h->engine, h->now);
		if (h->sent_count == seen)
			continue;
		if (last && h->now - last < least)
			least = h->now - last;
		last = h->now;
		/* a millisecond ahead at most, the length of a packet apart */
		early += bytes > (h->now - start + 1000000) / 80;
		for (; seen < h->sent_count; seen++)
			bytes += h->sent[seen].len;
		if (next == XT_NEVER)
			break;
	}
	TAP_OK(seen == 2 * H_DEPTH && !early, "UC QPs keep to the rate that they share");
	TAP_OK(last - start >= (bytes - 2 * MTU) * 80 - 1000000 - 250000 &&
		       last - start <= bytes * 80,
	       "and reach it");
	TAP_OK(least >= 250000, "they send in batches");
	t.uc_rate = XT_MAX_RATE + 1;
	TAP_OK(xt_engine_tune(h->engine, &t) == -EINVAL, "a rate above the maximum is refused");
	end();
}

static void test_uc_no_rate(void)
{
	struct xt_tuning t = XT_TUNING_DEFAULT;
	unsigned i;

	begin(XR_QPT_UC, false);
	t.uc_rate = 0;
	xt_engine_tune(h->engine, &t);
	for (i = 0; i < 8; i++)
		h_post_send(&qa, i, XR_WR_SEND, BASE, 30 * MTU, key);
	run();
	TAP_OK(h->sent_count == 8 * 30, "without a rate all packets are sent at once");
	end();
}

/* ---- QPs that receive ---------------------------------------------------- */

static void test_receivers(uint32_t type)
{
	struct xt_receivers *r;

	begin(type, false);
	r = &h->shared.receivers;
	TAP_OK(r->unreliable == 2 && !r->reliable, "QPs that receive are counted");
	xt_qp_error(qa.qp, false);
	TAP_OK(r->unreliable == 1, "a QP in ERR does not receive");
	h_modify(&qa, XR_QPS_RESET);
	TAP_OK(r->unreliable == 1, "nor does it in RESET");
	h_destroy(&qa);
	h_destroy(&qb);
	TAP_OK(r->unreliable == 0, "destroyed QPs are not counted");
	h_create_type(h, &qa, type);
	h_create_type(h, &qb, type);
	end();
}

int main(void)
{
	test_uc_whole();
	test_uc_gaps();
	test_uc_refused();
	test_uc_write(false);
	test_uc_write(true);
	test_uc_local();
	test_uc_window();
	test_sender_errors(XR_QPT_UC, false);
	test_sender_errors(XR_QPT_UC, true);
	test_sender_errors(XR_QPT_UD, false);
	test_sender_errors(XR_QPT_UD, true);
	test_ud(false);
	test_ud(true);
	test_ud_ipv6();
	test_ud_dropped(false);
	test_ud_dropped(true);
	test_ud_own_qkey();
	test_ud_sender();
	test_ud_bad_receive(false);
	test_ud_bad_receive(true);
	test_group_addresses();
	test_group_table();
	test_group();
	test_class(XR_QPT_UC, XR_CLASS_RC);
	test_class(XR_QPT_UD, XR_CLASS_RC);
	test_catch_up(XR_QPT_UC, false);
	test_catch_up(XR_QPT_UC, true);
	test_catch_up(XR_QPT_UD, false);
	test_catch_up(XR_QPT_UD, true);
	test_catch_up_bounded();
	test_paced(XR_QPT_UC);
	test_paced(XR_QPT_UD);
	test_uc_rate();
	test_uc_no_rate();
	test_receivers(XR_QPT_UC);
	test_receivers(XR_QPT_UD);
	return tap_end();
}
