// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Replays captured connections of the Linux rxe driver with our engine in place of one side: our
 * responder must send the responses that rxe sent, our requester the requests that rxe sent. QP
 * numbers and keys in the captured packets are replaced by ours first. A table describes the
 * responder of each capture; a capture that is not in the table fails the test.
 * Run from the top of the tree, or with the directory of the captures as argument.
 */
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>

#include "harness.h"
#include "selftests/lib/pcap.h"
#include "selftests/lib/tap.h"

#define MAX_PACKETS 1024
#define ARENA (1 << 20)
#define RECV_LEN 65536

/* One direction of one connection, and the properties of its responder */
struct flow {
	const char *name;	  /* of the capture */
	uint32_t type;		  /* 0: RC */
	uint32_t qpn, peer;	  /* destination QPs of requests and of responses; 0: any */
	uint8_t from;		  /* last byte of the requester's address; 0: any */
	bool both_ways;		  /* replay to our requester, too */
	bool no_qp;		  /* the responder has no such QP */
	bool cut;		  /* the capture ends before the response to its last packet */
	bool fast;		  /* fast-registered region: the peer may invalidate it */
	uint32_t access;	  /* of the region; 0: all */
	uint32_t region, receive; /* bytes; 0: ARENA, RECV_LEN */
	unsigned late;		  /* number of requests before the first receive is posted */
	bool loss;		  /* rxe drops what follows a lost packet, and we keep it */
	uint8_t nak;		  /* our syndrome if it differs from the NAK of rxe */
};

/* clang-format off */
static const struct flow flows[] = {
	{ "rc_send", .both_ways = true },
	{ "rc_send-m2048", .both_ways = true },
	{ "rc_send-v6", .both_ways = true },
	{ "rc_send-tc-hop", .both_ways = true },
	{ "rc_write", .both_ways = true },
	{ "rc_write-m4096", .both_ways = true },
	{ "rc_read", .both_ways = true },
	{ "rc_read-v6-tc", .both_ways = true },
	{ "rc_atomic", .both_ways = true },
	{ "rc_loss", .qpn = 0x26, .loss = true },
	{ "rc_inv", .fast = true },
	{ "rc_rnr", .late = 7 },
	{ "rc_rnrfail", .late = 3 },
	{ "rc_nakacc", .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	{ "rc_nakrd", .region = 4096 },
	/*
	 * A SEND longer than its receive is an invalid request (IBTA 9.7.4.1.6, 9.7.5.2.8); rxe
	 * sends a NAK for a remote operational error.
	 */
	{ "rc_naklen", .receive = 16, .nak = XR_AETH_NAK | XR_NAK_INVALID_REQUEST },
	{ "rc_naklen2", .receive = 1500, .nak = XR_AETH_NAK | XR_NAK_INVALID_REQUEST },
	{ "rc_dead", .no_qp = true },
	{ "veth_noresp", .no_qp = true },
	{ "rc_pingpong", .qpn = 0x29, .peer = 0x2a },
	{ "rc_pingpong", .qpn = 0x2a, .peer = 0x29 },
	{ "rc_srq_pingpong", .qpn = 0x2a, .peer = 0x2b, .from = 1 },
	{ "rc_srq_pingpong", .qpn = 0x2b, .peer = 0x2c, .from = 1 },
	{ "rc_srq_pingpong", .qpn = 0x2b, .peer = 0x2a, .from = 2 },
	{ "rc_srq_pingpong", .qpn = 0x2c, .peer = 0x2b, .from = 2, .cut = true },
	{ "cm_rping", .qpn = 0x27, .peer = 0x27, .from = 1 },
	{ "cm_rping", .qpn = 0x27, .peer = 0x27, .from = 2 },
	{ "uc_send", .type = XR_QPT_UC },
	{ "uc_write", .type = XR_QPT_UC },
	{ "ud_send", .type = XR_QPT_UD },
	{ "ud_send-v6", .type = XR_QPT_UD },
	{ "ud_send-v6-tc", .type = XR_QPT_UD },
	{ "cm_udaddy", .type = XR_QPT_UD, .qpn = 0x28 },
	{ "cm_udaddy", .type = XR_QPT_UD, .qpn = 0x29 },
	{ "cm_mckey", .type = XR_QPT_UD },
	/* MADs of connection managers, from QP 1 to QP 1 */
	{ "cm_rping", .type = XR_QPT_UD, .qpn = XR_GSI_QPN, .peer = XR_GSI_QPN, .from = 1 },
	{ "cm_rping", .type = XR_QPT_UD, .qpn = XR_GSI_QPN, .peer = XR_GSI_QPN, .from = 2 },
	{ "cm_udaddy", .type = XR_QPT_UD, .qpn = XR_GSI_QPN, .from = 1 },
	{ "cm_udaddy", .type = XR_QPT_UD, .qpn = XR_GSI_QPN, .from = 2 },
	{ "cm_reject", .type = XR_QPT_UD, .qpn = XR_GSI_QPN, .from = 1 },
	{ "cm_reject", .type = XR_QPT_UD, .qpn = XR_GSI_QPN, .from = 2 },
	{ "veth_cmreq", .type = XR_QPT_UD, .qpn = XR_GSI_QPN },
};
/* clang-format on */

struct packet {
	uint8_t data[XT_MAX_FRAME];
	uint32_t len;
	struct xr_meta meta;
	bool request, matched;
};

static const struct flow *flow;
static struct packet packets[MAX_PACKETS];
static unsigned count;
static uint8_t arena[ARENA];
static struct h_mr mr;
static uint32_t key;
static uint64_t base; /* remote address of the captured requests that maps to arena[0] */
static const char *dir = "selftests/pcaps";

/* ---- packet fields ------------------------------------------------------- */

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static uint64_t be64(const uint8_t *p)
{
	return (uint64_t)be32(p) << 32 | be32(p + 4);
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static uint8_t *bth(struct packet *p)
{
	return p->data + p->meta.bth_off;
}

/* The opcode without the transport class */
static uint8_t opcode(struct packet *p)
{
	return bth(p)[0] & ~XR_CLASS_MASK;
}

static uint32_t psn(struct packet *p)
{
	return be32(bth(p) + 8) & XR_PSN_MASK;
}

static uint8_t *ext(struct packet *p, uint16_t which)
{
	uint16_t flags = xr_opcodes[bth(p)[0]].flags;

	return flags & which ? bth(p) + ext_off(flags, which) : NULL;
}

static uint32_t msn(struct packet *p)
{
	return be32(ext(p, XR_EXT_AETH)) & XR_PSN_MASK;
}

/* The RETH or AtomicETH, which start with the same fields; NULL: none */
static uint8_t *remote(struct packet *p)
{
	uint8_t *at = ext(p, XR_EXT_RETH);

	return at ? at : ext(p, XR_EXT_ATOMICETH);
}

static bool parse(struct packet *p)
{
	struct xt_frame f = { .seg[0] = { p->data, p->len }, .nseg = 1, .len = p->len };

	if (parse_frame(&f) != XR_OK || !xt_icrc_ok(&f))
		return false;
	p->meta = f.meta;
	p->request = xr_opcodes[bth(p)[0]].flags & XR_OPF_REQUEST;
	p->matched = false;
	return true;
}

static bool is_v6(const struct packet *p)
{
	return p->data[p->meta.ip_off] >> 4 == 6;
}

static struct xr_addr address(const struct packet *p, bool source)
{
	const uint8_t *ip = p->data + p->meta.ip_off;
	struct xr_addr a;
	__be32 word;

	memcpy(&word, ip + (source ? 12 : 16), sizeof(word));
	xr_gid_set_ipv4(&a, word);
	if (is_v6(p))
		memcpy(a.raw, ip + (source ? 8 : 24), 16);
	return a;
}

static bool of_flow(struct packet *p)
{
	uint32_t qpn = p->request ? flow->qpn : flow->peer;
	bool from_requester = address(p, true).raw[15] == flow->from;

	return (!qpn || qpn == p->meta.qpn) && (!flow->from || from_requester == p->request);
}

static bool load(void)
{
	char path[512];
	struct pcap pcap;
	uint8_t *data;
	uint32_t len;

	count = 0;
	snprintf(path, sizeof(path), "%s/%s.pcap", dir, flow->name);
	if (!pcap_open(&pcap, path))
		return false;
	while (count < MAX_PACKETS && (data = pcap_next(&pcap, &len)) && len <= XT_MAX_FRAME) {
		struct packet *p = &packets[count];

		memcpy(p->data, data, len);
		p->len = len;
		count += parse(p) && of_flow(p);
	}
	pcap_close(&pcap);
	return count;
}

/* Maps the lowest remote address of the capture, rounded down to a page, to arena[0]. */
static void find_base(void)
{
	unsigned i;

	base = UINT64_MAX;
	for (i = 0; i < count; i++) {
		uint8_t *at = remote(&packets[i]);

		if (at && be64(at) < base && be64(at))
			base = be64(at);
	}
	base = base == UINT64_MAX ? 0x10000 : base & ~4095ull;
}

static struct packet *first_request(void)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (packets[i].request)
			return &packets[i];
	return NULL;
}

/* The path of the packet, or of a response to it. @response swaps the addresses. */
static struct xt_path path_of(const struct packet *p, bool response)
{
	const uint8_t *ip = p->data + p->meta.ip_off;
	struct xt_path path = { .ip_version = is_v6(p) ? 6 : 4 };

	path.sgid = address(p, !response);
	path.dgid = address(p, response);
	path.hop_limit = is_v6(p) ? ip[7] : ip[8];
	path.traffic_class = is_v6(p) ? (uint8_t)(ip[0] << 4 | ip[1] >> 4) : ip[1];
	return path;
}

static uint32_t mask_of(uint32_t state, struct xr_qp_attr *attr)
{
	uint32_t mask = h_attr(state, attr);

	if (flow->type == XR_QPT_UC)
		mask &= ~(uint32_t)(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
				    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC);
	if (flow->type == XR_QPT_UD)
		mask = IBV_QP_STATE |
		       (state == XR_QPS_INIT  ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
			: state == XR_QPS_RTS ? IBV_QP_SQ_PSN
					      : 0);
	return mask;
}

/* Connects the QP in the role of the captured responder or requester. */
static void connect(struct h_qp *q, uint32_t mtu, bool responder)
{
	struct packet *p = first_request();
	struct xt_path path = path_of(p, responder);
	struct xr_qp_attr attr;
	uint32_t mask, state;

	for (state = XR_QPS_INIT; state <= XR_QPS_RTS; state++) {
		mask = mask_of(state, &attr);
		attr.path_mtu = mtu;
		attr.dest_qp_num = p->meta.qpn;
		attr.rq_psn = attr.sq_psn = psn(p);
		attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
		attr.timeout = 0;
		if (flow->type == XR_QPT_UD)
			attr.qkey = be32(ext(p, XR_EXT_DETH));
		TAP_OK(!xt_qp_modify(q->qp, &attr, mask, &path, 4096, 0), "modify to state %u",
		       state);
	}
}

static uint32_t mtu_of(uint32_t bytes, uint32_t least)
{
	while (128u << least < bytes)
		least++;
	return least;
}

/* Derives the path MTU from FIRST and MIDDLE packets, or else from the longest payload. */
static uint32_t path_mtu(void)
{
	uint32_t mtu = IBV_MTU_1024;
	unsigned i;

	for (i = 0; i < count; i++) {
		struct packet *p = &packets[i];

		if (xr_opcodes[bth(p)[0]].flags & XR_OPF_FULL_MTU)
			return mtu_of(p->meta.payload_len, IBV_MTU_256);
		mtu = mtu_of(p->meta.payload_len, mtu);
	}
	return mtu;
}

/* ---- our responder ------------------------------------------------------- */

/* Fills memory with the values of the captured response to a READ or atomic. */
static void preload(struct packet *request)
{
	uint32_t at = be64(remote(request)) - base, number = psn(request), i;
	uint64_t value;

	for (i = request - packets; i < count; i++) {
		struct packet *p = &packets[i];
		uint8_t op = opcode(p);

		if (p->request || psn(p) != number)
			continue;
		if (op == XR_OP_ATOMIC_ACK) {
			value = be64(ext(p, XR_EXT_ATOMICACKETH));
			memcpy(arena + at, &value, sizeof(value));
		} else if (op >= XR_OP_READ_RESP_FIRST && op <= XR_OP_READ_RESP_ONLY) {
			memcpy(arena + at, p->data + p->meta.payload_off, p->meta.payload_len);
			at += p->meta.payload_len;
			number = (number + 1) & XR_PSN_MASK;
		}
		if (xr_opcodes[op].flags & XR_OPF_END)
			return;
	}
}

/* True if the atomic changed the preloaded value @before as it should. */
static bool took_effect(struct packet *p, uint64_t before)
{
	uint8_t *at = ext(p, XR_EXT_ATOMICETH);
	uint64_t now, want = be64(at + 12);

	memcpy(&now, arena + (be64(at) - base), sizeof(now));
	if (opcode(p) == XR_OP_FETCH_ADD)
		want += before;
	else if (before != be64(at + 20))
		want = before;
	return now == want;
}

/* Replaces the destination QP and keys of a captured packet by ours. */
static void retarget(struct packet *p, uint32_t qpn)
{
	struct xt_seg whole = { p->data, p->len };
	uint8_t *at = remote(p), *invalidated = ext(p, XR_EXT_IETH);

	if (p->meta.qpn != XR_MULTICAST_QPN)
		put32(bth(p) + 4, qpn);
	if (at)
		put32(at + 8, key);
	if (invalidated)
		put32(invalidated, key);
	xt_icrc_seal(&whole, 1, p->meta.ip_off, p->meta.bth_off);
}

static uint8_t syndrome(struct packet *p)
{
	uint8_t *aeth = ext(p, XR_EXT_AETH);

	return aeth ? aeth[0] : 0;
}

/* Ignores credits, which rxe does not send, and allows for flow->nak. */
static bool same_syndrome(struct packet *ours, struct packet *theirs)
{
	uint8_t want = syndrome(theirs), got = syndrome(ours);

	if ((want & XR_AETH_TYPE_MASK) == XR_AETH_ACK)
		return (got & XR_AETH_TYPE_MASK) == XR_AETH_ACK;
	return got == ((want & XR_AETH_TYPE_MASK) == XR_AETH_NAK && flow->nak ? flow->nak : want);
}

/*
 * Returns the captured response that equals ours, or NULL if rxe sent none. The MSN of a response
 * to a duplicate is the current one.
 */
static struct packet *captured_response(struct packet *ours)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		struct packet *p = &packets[i];

		if (!p->request && opcode(p) == opcode(ours) && psn(p) == psn(ours) &&
		    same_syndrome(ours, p))
			return p;
	}
	return NULL;
}

static bool same_response(struct packet *ours)
{
	struct packet *theirs = captured_response(ours);
	struct xt_path path = path_of(ours, false), captured;

	if (!theirs || theirs->meta.payload_len != ours->meta.payload_len)
		return false;
	if (memcmp(theirs->data + theirs->meta.payload_off, ours->data + ours->meta.payload_off,
		   ours->meta.payload_len))
		return false;
	captured = path_of(theirs, false);
	if (memcmp(&path, &captured, sizeof(path)))
		return false;
	if (ext(ours, XR_EXT_AETH) && msn(ours) < msn(theirs))
		return false;
	theirs->matched = true;
	return opcode(ours) != XR_OP_ATOMIC_ACK ||
	       be64(ext(ours, XR_EXT_ATOMICACKETH)) == be64(ext(theirs, XR_EXT_ATOMICACKETH));
}

/* Number of captured responses that we did not send. Repeated ones count once. */
static unsigned missing_responses(void)
{
	unsigned i, missing = 0;

	for (i = 0; i < count; i++) {
		struct packet *p = &packets[i], *first = p;

		if (p->request)
			continue;
		for (first = packets; first < p; first++)
			if (!first->request && opcode(first) == opcode(p) && psn(first) == psn(p) &&
			    syndrome(first) == syndrome(p))
				break;
		if (!first->matched) {
			printf("# no response like packet %u: opcode %02x psn %06x syndrome %02x\n",
			       i, opcode(p), psn(p), syndrome(p));
			missing++;
		}
	}
	return missing;
}

static bool is_send(uint8_t op)
{
	return op <= XR_OP_SEND_ONLY_IMM || op == XR_OP_SEND_LAST_INV || op == XR_OP_SEND_ONLY_INV;
}

/*
 * Returns true if the 40 bytes before a datagram hold its IPv6 header, or its IPv4 header in the
 * last 20 bytes (IBTA A17.4.5).
 */
static bool header_placed(struct packet *p, const struct xr_cqe *cqe)
{
	uint32_t len = is_v6(p) ? 40 : 20;

	return !memcmp(arena + ARENA - RECV_LEN + XR_GRH_LEN - len, p->data + p->meta.ip_off,
		       len) &&
	       cqe->src_qpn == (be32(ext(p, XR_EXT_DETH) + 4) & XR_QPN_MASK);
}

/* True if the payload is in memory: WRITEs at their address, SENDs in a completed receive. */
static bool placed(struct packet *p, struct harness *h)
{
	static uint64_t va;
	static uint32_t received;
	const uint8_t *payload = p->data + p->meta.payload_off, *at;
	uint8_t op = opcode(p);
	struct xr_cqe cqe;

	if (op >= XR_OP_WRITE_FIRST && op <= XR_OP_WRITE_ONLY_IMM) {
		if (ext(p, XR_EXT_RETH))
			va = be64(remote(p));
		at = arena + (va - base);
		va += p->meta.payload_len;
	} else if (is_send(op)) {
		if (xr_opcodes[op].flags & XR_OPF_START)
			received = flow->type == XR_QPT_UD ? XR_GRH_LEN : 0;
		at = arena + ARENA - RECV_LEN + received;
		received += p->meta.payload_len;
	} else {
		return true;
	}
	if (p->meta.payload_len && memcmp(at, payload, p->meta.payload_len))
		return false;
	if (!(xr_opcodes[op].flags & XR_OPF_END) || !(is_send(op) || ext(p, XR_EXT_IMMDT)))
		return true;
	return h_poll(h, &cqe) && cqe.status == IBV_WC_SUCCESS &&
	       (!is_send(op) || cqe.byte_len == received) &&
	       (!ext(p, XR_EXT_IMMDT) || !memcmp(&cqe.imm_data, ext(p, XR_EXT_IMMDT), 4)) &&
	       (flow->type != XR_QPT_UD || header_placed(p, &cqe));
}

/* The PSN of the next request */
static uint32_t next_psn(struct packet *p, uint32_t mtu)
{
	uint32_t bytes = 128u << mtu, len = 0;

	if (opcode(p) == XR_OP_READ_REQUEST)
		len = be32(remote(p) + 12);
	return (psn(p) + (len ? (len + bytes - 1) / bytes : 1)) & XR_PSN_MASK;
}

struct replay {
	struct harness *h;
	struct h_qp q;
	uint32_t mtu, expected;
	uint32_t acked; /* PSN of our last response */
	unsigned requests, responses, wrong, misplaced;
};

static void begin_replay(struct replay *r)
{
	struct packet *first = first_request();
	struct xr_addr group = address(first, false);
	uint32_t region = flow->region ? flow->region : ARENA;

	r->h = h_new(H_CQE);
	r->mtu = path_mtu();
	r->expected = psn(first);
	h_create_type(r->h, &r->q, flow->type ? flow->type : XR_QPT_RC);
	find_base();
	memset(arena, 0x5a, sizeof(arena));
	key = h_reg(r->h, &mr, arena, region, base);
	if (flow->access)
		mr.key->entry.access = flow->access;
	if (flow->fast)
		mr.key->entry.flags |= XR_KEYF_FAST;
	connect(&r->q, r->mtu, true);
	if (first->meta.qpn == XR_MULTICAST_QPN)
		TAP_OK(!xt_group_attach(r->h->shared.groups, &group, r->q.qp), "%s: attached",
		       flow->name);
	if (flow->no_qp)
		h_destroy(&r->q);
}

static void end_replay(struct replay *r)
{
	struct xr_addr group = address(first_request(), false);

	if (first_request()->meta.qpn == XR_MULTICAST_QPN)
		xt_group_detach(r->h->shared.groups, &group, r->q.qp);
	if (!flow->no_qp)
		h_destroy(&r->q);
	h_free(r->h);
}

/* True if the request has the expected PSN and is not to be refused. */
static bool accepted(struct replay *r, struct packet *p)
{
	return (flow->type == XR_QPT_UD || psn(p) == r->expected) && r->requests > flow->late &&
	       !flow->no_qp && !flow->access && !flow->region && !flow->receive;
}

static void post_receive(struct replay *r, unsigned id)
{
	if (!flow->no_qp && r->requests > flow->late && r->q.rq->producer - r->q.rq->consumer < 2)
		h_post_recv(&r->q, id, base + ARENA - RECV_LEN,
			    flow->receive ? flow->receive : RECV_LEN, key);
}

static void check_responses(struct replay *r, unsigned request)
{
	static struct packet ours;
	unsigned k;

	for (k = 0; k < r->h->sent_count; k++) {
		memcpy(ours.data, r->h->sent[k].data, r->h->sent[k].len);
		ours.len = r->h->sent[k].len;
		if (!parse(&ours) || !(flow->loss || same_response(&ours))) {
			printf("# response to request %u: opcode %02x psn %06x syndrome %02x\n",
			       request, opcode(&ours), psn(&ours), syndrome(&ours));
			r->wrong++;
		}
		r->acked = psn(&ours);
		r->responses++;
	}
}

static void replay_request(struct replay *r, struct packet *p)
{
	uint64_t before = 0;
	bool takes_effect;

	r->requests++;
	takes_effect = accepted(r, p);
	post_receive(r, r->requests);
	if (takes_effect && remote(p) && opcode(p) >= XR_OP_READ_REQUEST)
		preload(p);
	if (ext(p, XR_EXT_ATOMICETH))
		memcpy(&before, arena + (be64(remote(p)) - base), sizeof(before));
	retarget(p, r->q.qpn);
	r->h->sent_count = 0;
	h_receive(r->h, p->data, p->len);
	if (takes_effect) {
		r->expected = next_psn(p, r->mtu);
		r->misplaced += !placed(p, r->h);
		if (ext(p, XR_EXT_ATOMICETH))
			r->misplaced += !took_effect(p, before);
	}
	if (!flow->cut || p != &packets[count - 1])
		check_responses(r, p - packets);
}

/* Our responses to lost packets differ from those of rxe, but in the end all is acknowledged. */
static bool same_end(const struct replay *r)
{
	unsigned i = count;

	while (packets[--i].request)
		;
	return r->acked == psn(&packets[i]);
}

static void replay_to_responder(void)
{
	struct replay r = { 0 };
	unsigned i;

	begin_replay(&r);
	for (i = 0; i < count; i++)
		if (packets[i].request)
			replay_request(&r, &packets[i]);
	TAP_OK(r.requests && !r.wrong && (flow->loss ? same_end(&r) : !missing_responses()),
	       "%s: responses to %u requests match the %u of rxe", flow->name, r.requests,
	       r.responses);
	TAP_OK(!r.misplaced, "%s: all payload is placed correctly", flow->name);
	if (flow->fast)
		TAP_OK(mr.key->entry.state == XR_KEY_FREE, "%s: the key is invalidated",
		       flow->name);
	end_replay(&r);
}

/* ---- our requester ------------------------------------------------------- */

static uint8_t wr_opcode(uint8_t op, bool imm)
{
	if (op <= XR_OP_SEND_ONLY_IMM)
		return imm ? XR_WR_SEND_WITH_IMM : XR_WR_SEND;
	if (op <= XR_OP_WRITE_ONLY_IMM)
		return imm ? XR_WR_RDMA_WRITE_WITH_IMM : XR_WR_RDMA_WRITE;
	if (op == XR_OP_READ_REQUEST)
		return XR_WR_RDMA_READ;
	return op == XR_OP_CMP_SWAP ? XR_WR_ATOMIC_CMP_AND_SWP : XR_WR_ATOMIC_FETCH_AND_ADD;
}

/* Posts the message that starts with packet i. Returns the index after its last packet. */
static unsigned post_message(struct h_qp *q, unsigned i, uint32_t *off)
{
	struct packet *first = &packets[i], *p;
	struct xr_send_wqe *w;
	uint8_t *at = remote(first);
	uint32_t len = 0, expected = psn(first);
	__be32 imm = 0;
	bool has_imm = false;

	for (; i < count; i++) {
		p = &packets[i];
		if (!p->request || psn(p) != expected)
			continue;
		memcpy(arena + *off + len, p->data + p->meta.payload_off, p->meta.payload_len);
		len += p->meta.payload_len;
		expected = (expected + 1) & XR_PSN_MASK;
		has_imm = ext(p, XR_EXT_IMMDT);
		if (has_imm)
			memcpy(&imm, ext(p, XR_EXT_IMMDT), 4);
		if (xr_opcodes[opcode(p)].flags & XR_OPF_END)
			break;
	}
	if (opcode(first) == XR_OP_READ_REQUEST)
		len = be32(at + 12);
	if (opcode(first) == XR_OP_CMP_SWAP || opcode(first) == XR_OP_FETCH_ADD)
		len = 8;
	w = h_post_send(q, i, wr_opcode(opcode(first), has_imm), base + *off, len, key);
	w->imm_data = imm;
	if (at) {
		w->remote_addr = be64(at);
		w->rkey = be32(at + 8);
	}
	if (ext(first, XR_EXT_ATOMICETH)) {
		w->atomic.swap = be64(at + 12);
		w->atomic.compare_add = opcode(first) == XR_OP_CMP_SWAP ? be64(at + 20)
									: be64(at + 12);
	}
	*off += len;
	return i + 1;
}

/* Compares opcode, PSN, extended headers and payload; destination QP and AckReq may differ. */
static bool same_request(struct packet *ours, struct packet *theirs)
{
	unsigned from = theirs->meta.bth_off;
	uint32_t len = theirs->meta.payload_off + theirs->meta.payload_len - from;

	if (ours->meta.payload_len != theirs->meta.payload_len || opcode(ours) != opcode(theirs) ||
	    psn(ours) != psn(theirs))
		return false;
	/* extended headers and payload */
	return !memcmp(bth(ours) + XR_BTH_HLEN, bth(theirs) + XR_BTH_HLEN, len - XR_BTH_HLEN);
}

static struct packet *captured_request(uint32_t number)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (packets[i].request && psn(&packets[i]) == number)
			return &packets[i];
	return NULL;
}

/* Compares the packets of our requester with the captured ones, then feeds it all responses. */
static void exchange(struct harness *h, struct h_qp *q, unsigned *same, unsigned *wrong)
{
	static struct packet ours;
	unsigned i, k;

	for (k = 0; k < h->sent_count; k++) {
		struct packet *theirs;

		memcpy(ours.data, h->sent[k].data, h->sent[k].len);
		ours.len = h->sent[k].len;
		theirs = parse(&ours) ? captured_request(psn(&ours)) : NULL;
		if (theirs && same_request(&ours, theirs))
			++*same;
		else
			++*wrong;
	}
	h->sent_count = 0;
	for (i = 0; i < count; i++)
		if (!packets[i].request) {
			retarget(&packets[i], q->qpn);
			h_receive(h, packets[i].data, packets[i].len);
		}
}

static void replay_to_requester(void)
{
	struct harness *h = h_new(H_CQE);
	unsigned same = 0, wrong = 0, posted = 0, done = 0, i = 0;
	uint32_t off = 0, next;
	struct xr_cqe cqe;
	struct h_qp q;

	h_create(h, &q);
	find_base();
	key = h_reg(h, &mr, arena, ARENA, base);
	connect(&q, path_mtu(), false);
	next = psn(first_request());
	while (i < count) {
		/* Retransmitted requests are posted once. */
		if (!packets[i].request || psn(&packets[i]) != next) {
			i++;
			continue;
		}
		post_message(&q, i, &off);
		posted++;
		xt_qp_doorbell(q.qp, h->now);
		xt_engine_run(h->engine, h->now);
		/* The next message starts after the PSNs sent so far. */
		next = h->psns[xt_qp_info(q.qp)->slot].next;
		exchange(h, &q, &same, &wrong);
		while (h_poll(h, &cqe))
			done += cqe.status == IBV_WC_SUCCESS;
		i++;
	}
	TAP_OK(same && !wrong, "%s: our requester sends the same %u packets", flow->name, same);
	TAP_OK(posted && done == posted, "%s: its %u requests complete with the responses of rxe",
	       flow->name, posted);
	h_destroy(&q);
	h_free(h);
}

/* ---- all captures -------------------------------------------------------- */

static bool is_capture(const char *file, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(file, name, len) && !strcmp(file + len, ".pcap");
}

static bool is_listed(const char *file)
{
	for (unsigned i = 0; i < sizeof(flows) / sizeof(flows[0]); i++)
		if (is_capture(file, flows[i].name))
			return true;
	return false;
}

static void test_every_capture_listed(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (!fnmatch("*.pcap", e->d_name, 0))
			TAP_OK(is_listed(e->d_name), "%s is in the table", e->d_name);
	TAP_OK(d != NULL, "%s can be read", dir);
	if (d)
		closedir(d);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		dir = argv[1];
	test_every_capture_listed();
	for (unsigned i = 0; i < sizeof(flows) / sizeof(flows[0]); i++) {
		flow = &flows[i];
		if (!load()) {
			TAP_OK(false, "%s: no packets", flow->name);
			continue;
		}
		replay_to_responder();
		if (flow->both_ways) {
			load();
			replay_to_requester();
		}
	}
	return tap_end();
}
