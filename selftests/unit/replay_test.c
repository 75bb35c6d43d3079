// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Captured connections of the Linux rxe driver, one side replaced by ours: its
 * responder must answer the captured requests as rxe did, its requester
 * must send what rxe sent. QP numbers and keys are ours, so they are exchanged before.
 * Run from the top of the tree, or with the directory of the captures as argument.
 */
#include <stdio.h>

#include "harness.h"
#include "selftests/lib/pcap.h"
#include "selftests/lib/tap.h"

#define MAX_PACKETS 256
#define ARENA (1 << 20)
#define RECV_LEN 65536

struct packet {
	uint8_t data[XT_MAX_FRAME];
	uint32_t len;
	struct xr_meta meta;
	bool request;
};

static struct packet packets[MAX_PACKETS];
static unsigned count;
static uint8_t arena[ARENA];
static struct h_mr mr;
static uint32_t key;
static uint64_t base;		/* address that the captured requests call the arena's start */
static const char *dir = "selftests/pcaps";

/* ---- looking at packets ------------------------------------------------------ */

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

static uint8_t opcode(struct packet *p)
{
	return bth(p)[0];
}

static uint32_t psn(struct packet *p)
{
	return be32(bth(p) + 8) & XR_PSN_MASK;
}

static uint8_t *ext(struct packet *p, uint16_t which)
{
	uint16_t flags = xt_flags_of(opcode(p));

	return flags & which ? bth(p) + xt_ext_off(flags, which) : NULL;
}

static uint32_t msn(struct packet *p)
{
	return be32(ext(p, XR_EXT_AETH)) & XR_PSN_MASK;
}

/* The RETH or AtomicETH, which begin alike; NULL: none */
static uint8_t *remote(struct packet *p)
{
	uint8_t *at = ext(p, XR_EXT_RETH);

	return at ? at : ext(p, XR_EXT_ATOMICETH);
}

static bool parse(struct packet *p)
{
	struct xt_frame f = { .seg[0] = { p->data, p->len }, .nseg = 1, .len = p->len };

	if (xt_parse(&f) != XR_OK || !xt_icrc_ok(&f))
		return false;
	p->meta = f.meta;
	p->request = xt_flags_of(opcode(p)) & XR_OPF_REQUEST;
	return true;
}

static bool load(const char *name)
{
	char path[512];
	struct pcap pcap;
	uint8_t *data;
	uint32_t len;

	count = 0;
	snprintf(path, sizeof(path), "%s/%s.pcap", dir, name);
	if (!pcap_open(&pcap, path))
		return false;
	while (count < MAX_PACKETS && (data = pcap_next(&pcap, &len)) && len <= XT_MAX_FRAME) {
		struct packet *p = &packets[count];

		memcpy(p->data, data, len);
		p->len = len;
		count += parse(p);
	}
	pcap_close(&pcap);
	return count;
}

/* The capture's lowest remote address becomes the arena's start. */
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

static uint32_t ip_of(struct packet *p, bool source)
{
	return be32(p->data + p->meta.ip_off + (source ? 12 : 16));
}

static struct packet *first_request(void)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (packets[i].request)
			return &packets[i];
	return NULL;
}

/* Up to RTS, as the capture's responder or requester */
static void connect(struct h_qp *q, uint32_t mtu, bool responder)
{
	struct packet *p = first_request();
	struct xt_path path = h_path(ip_of(p, !responder), ip_of(p, responder));
	struct xr_qp_attr attr;
	uint32_t mask, state;

	for (state = XR_QPS_INIT; state <= XR_QPS_RTS; state++) {
		mask = h_attr(state, &attr);
		attr.path_mtu = mtu;
		attr.dest_qp_num = p->meta.qpn;
		attr.rq_psn = attr.sq_psn = psn(p);
		attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
		attr.timeout = 0;
		TAP_OK(!xt_qp_modify(q->qp, &attr, mask, &path, 4096, 0), "to state %u", state);
	}
}

/* The smallest that carries the longest payload */
static uint32_t path_mtu(void)
{
	uint32_t mtu = IBV_MTU_1024;
	unsigned i;

	for (i = 0; i < count; i++)
		while (128u << mtu < packets[i].meta.payload_len)
			mtu++;
	return mtu;
}

/* ---- our responder ----------------------------------------------------------- */

/* Memory as the captured answer to a READ or atomic shows it */
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
			number = xr_psn_add(number, 1);
		}
		if (xt_flags_of(op) & XR_OPF_END)
			return;
	}
}

/* An atomic's effect on what was preloaded */
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

/* What makes a request ours: the QP it is for, and its key */
static void retarget(struct packet *p, uint32_t qpn)
{
	struct xt_seg whole = { p->data, p->len };
	uint8_t *at = remote(p);

	put32(bth(p) + 4, qpn);
	if (at)
		put32(at + 8, key);
	xt_icrc_seal(&whole, 1, p->meta.ip_off, p->meta.bth_off);
}

/* The captured answer with this number of this kind; NULL: rxe did not send one. */
static struct packet *captured_answer(const struct packet *ours, uint8_t op, uint32_t number)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (!packets[i].request && opcode(&packets[i]) == op && psn(&packets[i]) == number)
			return &packets[i];
	return NULL;
}

static bool same_answer(struct packet *ours)
{
	struct packet *theirs = captured_answer(ours, opcode(ours), psn(ours));
	uint8_t *aeth;

	if (!theirs || theirs->meta.payload_len != ours->meta.payload_len)
		return false;
	if (memcmp(theirs->data + theirs->meta.payload_off, ours->data + ours->meta.payload_off,
		   ours->meta.payload_len))
		return false;
	aeth = ext(ours, XR_EXT_AETH);
	/* rxe gives no credits; duplicates are answered with the count of now */
	if (aeth &&
	    ((aeth[0] & XR_AETH_TYPE_MASK) != (ext(theirs, XR_EXT_AETH)[0] & XR_AETH_TYPE_MASK) ||
	     msn(ours) < msn(theirs)))
		return false;
	return opcode(ours) != XR_OP_ATOMIC_ACK ||
	       be64(ext(ours, XR_EXT_ATOMICACKETH)) == be64(ext(theirs, XR_EXT_ATOMICACKETH));
}

/* What a request must have put where: WRITEs into the arena, SENDs into receives */
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
	} else if (op <= XR_OP_SEND_ONLY_IMM) {
		if (xt_flags_of(op) & XR_OPF_START)
			received = 0;
		at = arena + ARENA - RECV_LEN + received;
		received += p->meta.payload_len;
	} else {
		return true;
	}
	if (p->meta.payload_len && memcmp(at, payload, p->meta.payload_len))
		return false;
	if (!(xt_flags_of(op) & XR_OPF_END) || !(op <= XR_OP_SEND_ONLY_IMM || ext(p, XR_EXT_IMMDT)))
		return true;
	return h_poll(h, &cqe) && cqe.status == IBV_WC_SUCCESS &&
	       (op > XR_OP_SEND_ONLY_IMM || cqe.byte_len == received) &&
	       (!ext(p, XR_EXT_IMMDT) || !memcmp(&cqe.imm_data, ext(p, XR_EXT_IMMDT), 4));
}

static void replay_to_responder(const char *name)
{
	struct harness *h = h_new(H_CQE);
	unsigned requests = 0, answers = 0, wrong = 0, misplaced = 0, i, k;
	uint32_t last = 0;
	struct h_qp q;

	h_create(h, &q);
	find_base();
	memset(arena, 0x5a, sizeof(arena));
	key = h_reg(h, &mr, arena, ARENA, base);
	connect(&q, path_mtu(), true);
	for (i = 0; i < count; i++) {
		struct packet *p = &packets[i];
		uint64_t before = 0;
		bool repeated;

		if (!p->request)
			continue;
		repeated = requests && xr_psn_diff(psn(p), last) <= 0;
		last = repeated ? last : psn(p);
		requests++;
		if (q.rq->producer - q.rq->consumer < 2)
			h_post_recv(&q, i, base + ARENA - RECV_LEN, RECV_LEN, key);
		if (!repeated && remote(p) && opcode(p) >= XR_OP_READ_REQUEST)
			preload(p);
		if (ext(p, XR_EXT_ATOMICETH))
			memcpy(&before, arena + (be64(remote(p)) - base), sizeof(before));
		retarget(p, q.qpn);
		h->sent_count = 0;
		h_receive(h, p->data, p->len);
		if (!repeated)
			misplaced += !placed(p, h);
		if (!repeated && ext(p, XR_EXT_ATOMICETH))
			misplaced += !took_effect(p, before);
		for (k = 0; k < h->sent_count; k++) {
			static struct packet ours;

			memcpy(ours.data, h->sent[k].data, h->sent[k].len);
			ours.len = h->sent[k].len;
			if (!parse(&ours) || !same_answer(&ours)) {
				printf("# answer to request %u: opcode %02x psn %06x\n", i,
				       opcode(&ours), psn(&ours));
				wrong++;
			}
			answers++;
		}
		/* rxe answers each request that asks for it */
		wrong += be32(bth(p) + 8) & XR_BTH_ACKREQ && !h->sent_count;
	}
	TAP_OK(requests && answers && !wrong, "%s: %u requests get the %u answers that rxe gave",
	       name, requests, answers);
	TAP_OK(!misplaced, "%s: all payload is where it belongs", name);
	h_destroy(&q);
	h_free(h);
}

/* ---- our requester ----------------------------------------------------------- */

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

/* Posts the message that begins with packet i; returns the packet behind its last one. */
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
		expected = xr_psn_add(expected, 1);
		has_imm = ext(p, XR_EXT_IMMDT);
		if (has_imm)
			memcpy(&imm, ext(p, XR_EXT_IMMDT), 4);
		if (xt_flags_of(opcode(p)) & XR_OPF_END)
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
		w->atomic.compare_add =
			opcode(first) == XR_OP_CMP_SWAP ? be64(at + 20) : be64(at + 12);
	}
	*off += len;
	return i + 1;
}

/* From the BTH to the end; destination QP and who asks for acknowledgements may differ. */
static bool same_request(struct packet *ours, struct packet *theirs)
{
	unsigned from = theirs->meta.bth_off;
	uint32_t len = theirs->meta.payload_off + theirs->meta.payload_len - from;

	if (ours->meta.payload_len != theirs->meta.payload_len ||
	    opcode(ours) != opcode(theirs) || psn(ours) != psn(theirs))
		return false;
	/* extended headers and payload */
	return !memcmp(bth(ours) + XT_BTH_LEN, bth(theirs) + XT_BTH_LEN, len - XT_BTH_LEN);
}

static struct packet *captured_request(uint32_t number)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (packets[i].request && psn(&packets[i]) == number)
			return &packets[i];
	return NULL;
}

/* Takes what our requester sent, and gives it the captured answers. */
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

static void replay_to_requester(const char *name)
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
		/* repetitions are posted once */
		if (!packets[i].request || psn(&packets[i]) != next) {
			i++;
			continue;
		}
		post_message(&q, i, &off);
		posted++;
		xt_qp_doorbell(q.qp, h->now);
		xt_engine_run(h->engine, h->now);
		/* the next message begins behind what was sent now */
		next = h->psns[xt_qp_info(q.qp)->slot].next;
		exchange(h, &q, &same, &wrong);
		while (h_poll(h, &cqe))
			done += cqe.status == IBV_WC_SUCCESS;
		i++;
	}
	TAP_OK(same && !wrong, "%s: our requester sends the same %u packets", name, same);
	TAP_OK(posted && done == posted, "%s: its %u requests complete by rxe's answers", name,
	       posted);
	h_destroy(&q);
	h_free(h);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
		"rc_send", "rc_send-m2048", "rc_write", "rc_write-m4096", "rc_read", "rc_atomic",
	};

	if (argc > 1)
		dir = argv[1];
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!load(names[i])) {
			TAP_OK(false, "%s: no packets", names[i]);
			continue;
		}
		replay_to_responder(names[i]);
		load(names[i]);
		replay_to_requester(names[i]);
	}
	return tap_end();
}
