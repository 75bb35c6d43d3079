// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Writes the seed corpus of the control fuzzer (control_fuzz.c): exchanges like those
 * of the provider and of the xroce command.
 *
 *   seed_control selftests/fuzz/corpus/control
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_cm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/control.h>
#include <xroce/reason.h>
#include <xroce/wire.h>

#define SECOND 0x80
#define HAPPENING 127
#define PRIVATE_AT 0x200000000000ull
#define SHARED_AT 0x210000000000ull
#define READONLY_AT 0x220000000000ull
#define MEMORY_SIZE (1u << 20)
#define ANY_QPN 0x51515151u /* see control_fuzz.c */

enum fd_kind { FD_SEALED, FD_MEM = 2, FD_MAPS };

static FILE *out;

static void begin(const char *folder, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	out = fopen(path, "wb");
	if (!out) {
		perror(path);
		exit(1);
	}
}

static void say_fds(uint32_t type, const void *body, size_t len, const char *fds, uint8_t nfds)
{
	uint16_t n = (uint16_t)len;

	putc((int)type, out);
	putc(nfds, out);
	fwrite(&n, sizeof(n), 1, out);
	fwrite(body, len, 1, out);
	fwrite(fds, nfds, 1, out);
}

#define SAY(type, body) say_fds(type, &(body), sizeof(body), "", 0)

static void say_empty(uint32_t type)
{
	say_fds(type, "", 0, "", 0);
}

static void say_handle(uint32_t type, uint32_t handle)
{
	struct xr_handle_req req = { .handle = handle };

	SAY(type, req);
}

static void happen(uint8_t what)
{
	putc(HAPPENING, out);
	putc(what, out);
}

static void hello(uint32_t client, uint32_t flags)
{
	struct xr_hello_req req = { .version = XR_PROTOCOL_VERSION, .flags = flags };

	SAY(client | XR_MSG_HELLO, req);
}

static void make_cq_and_qp(void)
{
	struct xr_create_cq_req cq = { .depth = 100, .channel = 1, .cookie = 7 };
	struct xr_create_qp_req qp = {
		.type = 2,
		.pd = 1,
		.send_cq = 1,
		.recv_cq = 1,
		.max_send_wr = 10,
		.max_recv_wr = 10,
		.max_send_sge = 2,
		.max_recv_sge = 2,
		.max_inline = 64,
		.cookie = 9,
	};

	say_empty(XR_MSG_ALLOC_PD);
	say_empty(XR_MSG_CREATE_CHANNEL);
	SAY(XR_MSG_CREATE_CQ, cq);
	SAY(XR_MSG_CREATE_QP, qp);
}

static void modify(uint32_t state, uint32_t mask)
{
	struct xr_modify_qp_req req = {
		.handle = 1,
		.attr_mask = IBV_QP_STATE | mask,
		.attr = {
			.qp_state = state, .path_mtu = IBV_MTU_1024, .dest_qp_num = 77,
			.qp_access_flags = 0xf, .max_rd_atomic = 1, .max_dest_rd_atomic = 1,
			.min_rnr_timer = 12, .port_num = 1, .timeout = 14, .retry_cnt = 7,
			.rnr_retry = 7,
			.ah = { .dgid.raw = { 0xfd, [15] = 99 }, .hop_limit = 64, .port_num = 1,
				.is_global = 1 },
		},
	};

	SAY(XR_MSG_MODIFY_QP, req);
}

static void connect_qp(void)
{
	modify(XR_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(XR_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(XR_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC);
}

struct reg {
	struct xr_reg_mr_req head;
	struct xr_mr_segment segment[3];
};

static struct xr_mr_segment segment(uint32_t kind, uint64_t addr, uint64_t length)
{
	struct xr_mr_segment s = { .kind = kind, .addr = addr, .length = length };

	if (kind == XR_SEG_MAPPING) {
		s.map_start = SHARED_AT;
		s.map_end = SHARED_AT + MEMORY_SIZE;
		s.offset = addr - SHARED_AT;
	}
	return s;
}

static void reg_mr(struct reg *r, uint32_t access, const char *fds, uint8_t nfds)
{
	r->head.pd = 1;
	r->head.access = access;
	r->head.addr = r->head.iova = r->segment[0].addr;
	for (uint32_t i = 0; i < r->head.segments; i++)
		r->head.length += r->segment[i].length;
	say_fds(XR_MSG_REG_MR, r, sizeof(r->head) + r->head.segments * sizeof(r->segment[0]), fds,
		nfds);
}

static void private_mr(void)
{
	static const char fds[] = { FD_MEM, FD_MAPS };
	struct reg r = {
		.head = { .flags = XR_REGF_PROC_FDS, .segments = 1 },
		.segment = { segment(XR_SEG_PRIVATE, PRIVATE_AT + 100, 5000) },
	};

	reg_mr(&r, 0xf, fds, 2);
}

static void tiers(void)
{
	static const char fds[] = { FD_SEALED, FD_MEM, FD_MAPS };
	struct reg shared = { .head = { .segments = 1 },
			      .segment = { segment(XR_SEG_MAPPING, SHARED_AT + 4096, 65536) } };
	struct reg readonly = { .head = { .segments = 1 },
				.segment = { segment(XR_SEG_PRIVATE, READONLY_AT, 4096) } };
	struct reg mixed = {
		.head = { .flags = XR_REGF_PROC_FDS, .segments = 3 },
		.segment = { segment(XR_SEG_PRIVATE, PRIVATE_AT + 4000, 96),
			     segment(XR_SEG_FD, PRIVATE_AT + 4096, 8192),
			     segment(XR_SEG_PRIVATE, PRIVATE_AT + 12288, 10) },
	};
	struct reg empty = { .head = { .segments = 0 } };
	struct xr_rereg_mr_req rereg = { .handle = 1,
					 .rereg_flags = IBV_REREG_MR_CHANGE_ACCESS,
					 .reg = { .access = 1 } };

	hello(0, 0);
	say_empty(XR_MSG_ALLOC_PD);
	private_mr();
	reg_mr(&shared, 0xf, "", 0);
	readonly.segment[0].flags = XR_SEGF_READONLY;
	reg_mr(&readonly, XR_ACCESS_REMOTE_READ, "", 0);
	reg_mr(&mixed, 0xf, fds, 3);
	reg_mr(&empty, 0, "", 0);
	SAY(XR_MSG_REREG_MR, rereg);
	for (uint32_t i = 1; i < 4; i++)
		say_handle(XR_MSG_DEREG_MR, i);
}

/* Regions on demand, null regions, device memory, windows, fast registration; advice, import */
static void special(void)
{
	static const char fds[] = { FD_MEM, FD_MAPS };
	struct reg demand = { .head = { .pd = 1,
					.flags = XR_REGF_PROC_FDS,
					.length = UINT64_MAX,
					.access = 0xf | XR_ACCESS_ON_DEMAND } };
	struct reg null = { .head = { .segments = 1 },
			    .segment = { segment(XR_SEG_NULL, 0, UINT64_MAX) } };
	struct reg dm = { .head = { .segments = 1 }, .segment = { segment(XR_SEG_DM, 0, 4000) } };
	struct xr_alloc_dm_req alloc = { .length = 5000, .log_align = 6 };
	struct {
		struct xr_advise_mr_req head;
		struct xr_sge range;
	} advice = { { .pd = 1, .write = 1, .ranges = 1 }, { PRIVATE_AT, 4096, 0x100 } };
	struct xr_alloc_mw_req window = { .pd = 1, .type = IBV_MW_TYPE_1 };
	struct xr_alloc_fast_mr_req fast = { .pd = 1, .max_pages = 16 };
	struct xr_alloc_integrity_mr_req integrity = { .pd = 1, .max_pieces = 16 };
	struct xr_import_mr_req import = { .pd = 1, .handle = 1 };

	hello(0, 0);
	say_empty(XR_MSG_ALLOC_PD);
	say_fds(XR_MSG_REG_MR, &demand, sizeof(demand.head), fds, 2);
	SAY(XR_MSG_ADVISE_MR, advice);
	reg_mr(&null, XR_ACCESS_LOCAL_WRITE, "", 0);
	SAY(XR_MSG_ALLOC_DM, alloc);
	dm.segment[0].fd_index = 1;
	dm.segment[0].offset = 1000;
	reg_mr(&dm, 0xf, "", 0);
	say_handle(XR_MSG_FREE_DM, 1);
	say_handle(XR_MSG_DEREG_MR, 3);
	say_handle(XR_MSG_FREE_DM, 1);
	SAY(XR_MSG_ALLOC_MW, window);
	say_handle(XR_MSG_DEALLOC_MW, 1);
	SAY(XR_MSG_ALLOC_FAST_MR, fast);
	say_handle(XR_MSG_DEREG_MR, 3);
	SAY(XR_MSG_ALLOC_INTEGRITY_MR, integrity);
	say_handle(XR_MSG_DEREG_MR, 3);
	say_empty(XR_MSG_RESERVED_LKEY);
	hello(SECOND, XR_HELLO_IMPORT);
	say_handle(XR_MSG_IMPORT_PD, 1);
	SAY(XR_MSG_IMPORT_MR, import);
	say_handle(XR_MSG_IMPORT_DM, 1);
}

static void device(void)
{
	hello(0, 0);
	say_empty(XR_MSG_QUERY_DEVICE);
	say_empty(XR_MSG_QUERY_PORT);
	say_empty(XR_MSG_QUERY_GIDS);
	say_empty(XR_MSG_ALLOC_PD);
	private_mr();
	say_handle(XR_MSG_DEALLOC_PD, 1);
	say_handle(XR_MSG_DEREG_MR, 1);
	say_handle(XR_MSG_DEALLOC_PD, 1);
	happen(5 | 9 << 3);
}

static void queue_pair(void)
{
	struct xr_resize_cq_req resize = { .handle = 1, .depth = 500 };
	struct xr_create_ah_req ah = {
		.pd = 1,
		.attr = { .dgid.raw = { 0xfd, [15] = 9 }, .port_num = 1, .is_global = 1 },
	};

	hello(0, 0);
	make_cq_and_qp();
	connect_qp();
	say_handle(XR_MSG_QUERY_QP, 1);
	SAY(XR_MSG_RESIZE_CQ, resize);
	SAY(XR_MSG_CREATE_AH, ah);
	modify(XR_QPS_ERR, 0);
	modify(XR_QPS_RESET, 0);
	say_handle(XR_MSG_DESTROY_QP, 1);
	say_handle(XR_MSG_DESTROY_CQ, 1);
	say_handle(XR_MSG_DESTROY_CHANNEL, 1);
	say_handle(XR_MSG_DESTROY_AH, 1);
}

/* Next hops that are resolved after the request: found, not found, or after the client ended */
static void slow_network(void)
{
	hello(0, 0);
	make_cq_and_qp();
	happen(0 | 8);
	connect_qp();
	happen(3);
	modify(XR_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC);
	happen(4);
	happen(1 | 8);
	happen(3);
	happen(4);
	happen(6);
	hello(0, 0);
}

static void set_faults(uint32_t client)
{
	static const char rules[] = "drop tx prob 1%\ndelay 5us peer 10.77.0.1 after 3";
	struct {
		struct xr_set_fault_req req;
		char text[sizeof(rules) - 1];
	} set = { .req.length = sizeof(set.text) };

	memcpy(set.text, rules, sizeof(set.text));
	SAY(client | XR_MSG_SET_FAULT, set);
}

/* Pairs that some lists do not have, from the beginning and from a place in turns */
static void select_rows(void)
{
	static const char pairs[] = "qpn\0"
				    "2,0x11\0state\0RTS";
	struct {
		struct xr_show_req req;
		char text[sizeof(pairs)];
	} show = { .req = { .flags = XR_SHOW_PIECES, .length = sizeof(pairs) } };

	memcpy(show.text, pairs, sizeof(pairs));
	for (uint32_t what = XR_SHOW_QPS; what <= XR_SHOW_AH_DETAILS; what++) {
		show.req.what = what;
		SAY(XR_MSG_SHOW, show);
		show.req.from ^= 1ull << 32;
	}
}

static void operators(void)
{
	struct xr_capture_req capture = { .reasons = XR_REASON_COUNT,
					  .ring_size = XR_CAPTURE_RING_MIN };

	hello(0, XR_HELLO_OBSERVER);
	hello(SECOND, 0);
	for (uint32_t what = XR_SHOW_STATUS; what <= XR_SHOW_GROUPS; what++) {
		struct xr_show_req req = { .what = what };

		SAY(XR_MSG_SHOW, req);
		req.flags = XR_SHOW_PIECES;
		SAY(XR_MSG_SHOW, req);
	}
	select_rows();
	set_faults(0);
	set_faults(SECOND);
	SAY(XR_MSG_CAPTURE, capture);
	say_empty(XR_MSG_MONITOR);
	say_empty(XR_MSG_ALLOC_PD);
	say_empty(SECOND | XR_MSG_ALLOC_PD);
	say_handle(XR_MSG_DEALLOC_PD, 1);
}

/* ---- rdma_cm --------------------------------------------------------------------- */

#define CARRY (4 | 8) /* see happen() of control_fuzz.c */

static void command(uint32_t cmd, const void *body, size_t in, size_t room, size_t appended)
{
	struct xr_cm_req head = { .cmd = cmd, .in = (uint16_t)in, .out = (uint16_t)room };
	uint8_t buf[2048] = { 0 };

	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), body, in);
	say_fds(XR_MSG_CM, buf, sizeof(head) + in + appended, "", 0);
}
#define CM(name, q, out) command(RDMA_USER_CM_CMD_##name, &(q), sizeof(q), out, 0)

static struct sockaddr_in6 cm_address(uint8_t first, uint8_t last, uint16_t port)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6,
				      .sin6_port = htons(port),
				      .sin6_addr.s6_addr = { first, [15] = last } };
}

static void cm_events(int n)
{
	struct rdma_ucm_get_event q = { 0 };

	happen(CARRY);
	while (n--)
		CM(GET_EVENT, q, sizeof(struct rdma_ucm_event_resp));
}

static struct rdma_ucm_conn_param cm_param(uint32_t qpn)
{
	return (struct rdma_ucm_conn_param){ .qp_num = qpn,
					     .private_data_len = 4,
					     .responder_resources = 1,
					     .initiator_depth = 1,
					     .retry_count = 7,
					     .valid = 1 };
}

static void cm_qp_attr(uint32_t id)
{
	for (uint32_t state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct rdma_ucm_init_qp_attr q = { .id = id, .qp_state = state };

		CM(INIT_QP_ATTR, q, sizeof(struct ib_uverbs_qp_attr));
	}
}

static void cm_active(uint16_t ps)
{
	struct rdma_ucm_create_id create = { .uid = 7, .ps = ps };
	struct rdma_ucm_resolve_ip resolve = { .id = 2,
					       .dst_addr = cm_address(0xfd, 1, 2000),
					       .timeout_ms = 1000 };
	struct rdma_ucm_resolve_route route = { .id = 2, .timeout_ms = 1000 };
	struct rdma_ucm_connect connect = { .id = 2, .conn_param = cm_param(ANY_QPN) };

	CM(CREATE_ID, create, 4);
	CM(RESOLVE_IP, resolve, 0);
	CM(RESOLVE_ROUTE, route, 0);
	CM(CONNECT, connect, 0);
}

/* Ids 1 to 3: listener, active side, passive side */
static void cm_connection(uint16_t ps)
{
	struct rdma_ucm_create_id create = { .uid = 8, .ps = ps };
	struct rdma_ucm_bind_ip bind = { .id = 1, .addr = cm_address(0, 0, 2000) };
	struct rdma_ucm_listen listen = { .id = 1, .backlog = 3 };
	struct rdma_ucm_accept accept = { .id = 3, .uid = 9, .conn_param = cm_param(ANY_QPN + 1) };
	struct rdma_ucm_accept establish = { .id = 2 };
	struct rdma_ucm_disconnect disconnect = { .id = 2 };
	struct rdma_ucm_query query = { .id = 2 };

	hello(0, XR_HELLO_CM);
	CM(CREATE_ID, create, 4);
	CM(BIND_IP, bind, 0);
	CM(LISTEN, listen, 0);
	cm_active(ps);
	CM(QUERY_ROUTE, query, sizeof(struct rdma_ucm_query_route_resp));
	cm_events(3);
	cm_qp_attr(3);
	CM(ACCEPT, accept, 0);
	cm_events(1);
	cm_qp_attr(2);
	CM(ACCEPT, establish, 0);
	cm_events(1);
	CM(DISCONNECT, disconnect, 0);
	cm_events(2);
	disconnect.id = 3;
	CM(DISCONNECT, disconnect, 0);
	cm_events(2);
}

static void make_other_qp(void)
{
	struct xr_create_cq_req cq = { .depth = 16 };
	struct xr_create_qp_req qp = {
		.type = 2, .pd = 1, .send_cq = 1, .recv_cq = 1, .max_send_wr = 4, .max_send_sge = 1
	};

	hello(SECOND, 0);
	say_empty(SECOND | XR_MSG_ALLOC_PD);
	SAY(SECOND | XR_MSG_CREATE_CQ, cq);
	SAY(SECOND | XR_MSG_CREATE_QP, qp);
	SAY(SECOND | XR_MSG_CREATE_QP, qp);
}

static void cm_connect(void)
{
	make_other_qp();
	cm_connection(RDMA_PS_TCP);
}

static void cm_datagram(void)
{
	make_other_qp();
	cm_connection(RDMA_PS_UDP);
}

/* The other commands, with an id that is bound and one that is not */
static void cm_commands(void)
{
	struct rdma_ucm_create_id create = { .uid = 8, .ps = RDMA_PS_UDP };
	struct rdma_ucm_bind bind = { .id = 1, .addr_size = sizeof(struct sockaddr_in6) };
	struct rdma_ucm_set_option option = { .id = 2, .optname = 1, .optlen = 4 };
	struct rdma_ucm_join_ip_mcast join = { .id = 1, .addr = cm_address(0xff, 9, 0) };
	struct rdma_ucm_resolve_addr resolve = { .id = 2, .dst_size = sizeof(struct sockaddr_in6) };
	struct rdma_ucm_destroy_id destroy = { .id = 1 };
	struct rdma_ucm_migrate_id migrate = { .id = 1 };
	struct rdma_ucm_notify notify = { .id = 1, .event = IBV_EVENT_COMM_EST };
	struct rdma_ucm_reject reject = { .id = 1 };
	struct {
		uint32_t id, reserved, event, status;
		uint64_t arg;
	} user = { .id = 1, .event = 18 };
	struct sockaddr_in6 addr = cm_address(0xfd, 1, 3000);

	memcpy(&bind.addr, &addr, sizeof(addr));
	memcpy(&resolve.dst_addr, &addr, sizeof(addr));
	hello(0, XR_HELLO_CM);
	hello(SECOND, XR_HELLO_CM);
	CM(CREATE_ID, create, 4);
	CM(CREATE_ID, create, 4);
	CM(BIND, bind, 0);
	CM(JOIN_IP_MCAST, join, 4);
	command(RDMA_USER_CM_CMD_SET_OPTION, &option, sizeof(option), 0, 4);
	CM(RESOLVE_ADDR, resolve, 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct rdma_ucm_query query = { .id = 1 + i % 2, .option = i };

		CM(QUERY, query, 512);
	}
	CM(NOTIFY, notify, 0);
	CM(REJECT, reject, 0);
	command(24, &user, sizeof(user), 0, 0);
	command(RDMA_USER_CM_CMD_MIGRATE_ID, &migrate, sizeof(migrate), 4, XR_TOKEN_LEN);
	cm_events(3);
	CM(LEAVE_MCAST, destroy, 4);
	CM(DESTROY_ID, destroy, 4);
}

/* Two files: requests to the own port, and to the agent of the other file */
static void umad(void)
{
	struct xr_umad_register_req client = { .qpn = 1, .mgmt_class = 4, .mgmt_class_version = 1 };
	struct xr_umad_register_req server = { .qpn = 1,
					       .mgmt_class = 0x30,
					       .mgmt_class_version = 1,
					       .oui = { 1, 2, 3 },
					       .methods = { 2 } };
	struct {
		struct ib_user_mad_hdr hdr;
		uint8_t mad[256];
	} p = { .hdr = { .timeout_ms = 10,
			 .retries = 1,
			 .qpn = htonl(1),
			 .qkey = htonl(XR_GSI_QKEY) },
		.mad = { 1, 4, 1, 1, [17] = 1, [37] = 1, 2, 3 } };
	struct xr_umad_agent agent = { 0 };

	hello(0, XR_HELLO_UMAD);
	hello(SECOND, XR_HELLO_UMAD);
	SAY(XR_MSG_UMAD_REGISTER, client);
	SAY(SECOND | XR_MSG_UMAD_REGISTER, server);
	SAY(XR_MSG_UMAD_SEND, p);
	p.mad[1] = 0x30;
	p.mad[11] = 1;
	SAY(XR_MSG_UMAD_SEND, p);
	p.mad[3] = 0x81;
	SAY(SECOND | XR_MSG_UMAD_SEND, p);
	SAY(XR_MSG_UMAD_UNREGISTER, agent);
}

static void lend(void)
{
	struct xr_lend_req req = { 0 }, unknown = { .flags = 16 }, view = { .flags = XR_LEND_VIEW };
	struct xr_lend_req ring = { .flags = XR_LEND_RING, .ring = 3 };
	struct xr_lend_groups_req groups = { .on = 1 };
	struct xr_peer_req peer = { .qpn = 3 };
	struct xr_claim_req claim = { .kind = XR_KIND_QP, .count = 1 };
	struct xr_claim_req give_back = { .kind = XR_CLAIM_PAGES, .give_back = 1 };
	struct {
		struct xr_publish_req head;
		struct xr_publish_entry entry[2];
	} publish = { .head = { .flags = XR_PUBLISH_MORE_KEYS, .entries = 2 } };

	publish.entry[0] = (struct xr_publish_entry){
		.kind = XR_PUBLISH_QP,
		.place = 3,
		.number = 9,
		.qp = { .state = XR_QPS_RTR, .type = XR_QPT_RC, .slot = XR_NO_PSNS },
	};
	publish.entry[1] = (struct xr_publish_entry){
		.kind = XR_PUBLISH_KEY,
		.place = 1,
		.number = 0x1234,
		.key = { .state = XR_KEY_VALID, .type = XR_KEY_MR, .access = XR_ACCESS_REMOTE },
	};
	hello(0, 0);
	SAY(XR_MSG_PUBLISH, publish);
	SAY(XR_MSG_LEND, unknown);
	SAY(XR_MSG_LEND, view);
	SAY(XR_MSG_PEER, peer);
	SAY(XR_MSG_LEND, req);
	SAY(XR_MSG_LEND, req);
	SAY(XR_MSG_LEND_GROUPS, groups);
	SAY(XR_MSG_PEER, peer);
	SAY(XR_MSG_CLAIM, claim);
	SAY(XR_MSG_CLAIM, give_back);
	SAY(XR_MSG_PUBLISH, publish);
	publish.entry[0].number = 11;
	SAY(XR_MSG_PUBLISH, publish);
	publish.entry[0].number = publish.entry[1].number = 0;
	SAY(XR_MSG_PUBLISH, publish);
	hello(SECOND, 0);
	SAY(SECOND | XR_MSG_LEND, req);
	SAY(SECOND | XR_MSG_LEND, ring);
	SAY(SECOND | XR_MSG_LEND_GROUPS, groups);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*write)(void);
	} seeds[] = {
		{ "device", device },
		{ "tiers", tiers },
		{ "queue-pair", queue_pair },
		{ "slow-network", slow_network },
		{ "operators", operators },
		{ "special", special },
		{ "cm-connect", cm_connect },
		{ "cm-datagram", cm_datagram },
		{ "cm-commands", cm_commands },
		{ "umad", umad },
		{ "lend", lend },
	};

	if (argc != 2) {
		fprintf(stderr, "usage: seed_control FOLDER\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		begin(argv[1], seeds[i].name);
		seeds[i].write();
		fclose(out);
	}
	return 0;
}
