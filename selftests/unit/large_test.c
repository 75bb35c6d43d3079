// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Large frames (struct xt_frame): what a QP makes of them when it sends to a peer of its host, and
 * when it receives them, also from a hostile one.
 */
#include "made.h"

#define LARGE XT_LARGE_PACKETS
#define LENGTH (20 * MTU + 100) /* 21 packets */

static struct h_qp q;
static struct harness *h;

/* ---- sending ------------------------------------------------------------------------------ */

/* Returns when the engine wants to be called again. */
static uint64_t run(void)
{
	h->sent_count = 0;
	h->now += 1000;
	return xt_engine_run(h->engine, h->now);
}

/* Returns true if frame i has so many packets from this PSN on, and this opcode. */
static bool is_frame(unsigned i, uint8_t opcode, int psn, uint32_t packets)
{
	bool ok = i < h->sent_count && sent_bth(h, i)[0] == opcode && sent_psn(h, i) == psn &&
		  h->sent[i].packets == packets;

	if (!ok && i < h->sent_count)
		printf("# frame %u: opcode %02x, psn %+d, %u packets\n", i, sent_bth(h, i)[0],
		       sent_psn(h, i), h->sent[i].packets);
	return ok;
}

static bool requests_ack(unsigned i)
{
	return be32(sent_bth(h, i) + 8) & XR_BTH_ACKREQ;
}

static void post(uint8_t opcode, uint32_t length)
{
	struct xr_send_wqe *w = h_post_send(&q, 1, opcode, BASE, length, key);

	w->remote_addr = BASE;
	w->rkey = key;
	xt_qp_doorbell(q.qp, h->now);
}

static void start(uint32_t large)
{
	for (uint32_t i = 0; i < SIZE; i++)
		memory[i] = (uint8_t)(i / 251);
	h = begin(&q);
	h->large = large;
}

static void acknowledge(int psn)
{
	receive(&q, &(struct made)S(ACK, .psn = psn, .msn = 1,
				    .syndrome = XR_AETH_ACK | XR_AETH_CREDITS_INVALID));
}

static void test_write(void)
{
	struct xr_cqe cqe;

	start(LARGE);
	post(XR_WR_RDMA_WRITE, LENGTH);
	run();
	TAP_OK(h->sent_count == 3 && is_frame(0, XR_OP_WRITE_FIRST, 0, LARGE) &&
		       is_frame(1, XR_OP_WRITE_MIDDLE, LARGE, 5) &&
		       is_frame(2, XR_OP_WRITE_LAST, 20, 1),
	       "all packets of a WRITE but the last one are sent in large frames");
	TAP_OK(requests_ack(0) && !requests_ack(1) && requests_ack(2),
	       "they request ACKs as often as their packets would");
	TAP_OK(!memcmp(h->large_payload, memory + LARGE * MTU, 5 * MTU),
	       "a large frame has the payload of its packets");
	acknowledge(20);
	TAP_OK(h_poll(h, &cqe) && cqe.status == IBV_WC_SUCCESS, "the WRITE completes");
	end(&q);

	start(LARGE);
	post(XR_WR_SEND, 2 * MTU);
	post(XR_WR_SEND, MTU);
	run();
	TAP_OK(h->sent_count == 3 && is_frame(0, XR_OP_SEND_FIRST, 0, 1) &&
		       is_frame(1, XR_OP_SEND_LAST, 1, 1) && is_frame(2, XR_OP_SEND_ONLY, 2, 1),
	       "single packets are packets");
	end(&q);
}

static void test_no_room(void)
{
	uint64_t next;

	start(0);
	post(XR_WR_RDMA_WRITE, LENGTH);
	next = run();
	TAP_OK(next <= h->now && !h->sent_count,
	       "while the peer has no room, nothing is sent, and the engine is called again");
	h->large = LARGE;
	run();
	TAP_OK(is_frame(0, XR_OP_WRITE_FIRST, 0, LARGE), "then large frames are sent");
	end(&q);

	start(LARGE);
	h->large_fails = true;
	post(XR_WR_RDMA_WRITE, LENGTH);
	run();
	TAP_OK(h->sent_count == 21 && is_frame(0, XR_OP_WRITE_FIRST, 0, 1) &&
		       is_frame(20, XR_OP_WRITE_LAST, 20, 1),
	       "what cannot be sent in a large frame is sent in packets");
	end(&q);
}

static void test_lost(void)
{
	start(LARGE);
	post(XR_WR_RDMA_WRITE, LENGTH);
	run();
	h->sent_count = 0;
	receive(&q, &(struct made)S(ACK, .psn = 3, .syndrome = XR_AETH_NAK | XR_NAK_PSN_SEQUENCE));
	TAP_OK(h->sent_count >= 1 && is_frame(0, XR_OP_WRITE_MIDDLE, 3, 1) &&
		       !memcmp(h->sent[0].data + 42 + XR_BTH_HLEN, memory + 3 * MTU, MTU),
	       "a packet of a large frame can be sent again by itself");
	acknowledge(14);
	for (unsigned i = 0; i < h->sent_count; i++)
		if (h->sent[i].packets != 1)
			TAP_OK(false, "packets that were sent before are sent again one by one");
	end(&q);
}

static void test_pieces(void)
{
	static struct xt_mem_seg seg[2];

	start(LARGE);
	seg[0] = seg[1] = mr.seg;
	seg[0].len = seg[1].off = 4 * MTU;
	seg[1].ptr += seg[1].off;
	seg[1].addr += seg[1].off;
	seg[1].len -= seg[1].off;
	mr.mem.seg = seg;
	mr.mem.nseg = 2;
	post(XR_WR_RDMA_WRITE, LENGTH);
	run();
	TAP_OK(h->sent_count == 21 && is_frame(0, XR_OP_WRITE_FIRST, 0, 1) &&
		       is_frame(20, XR_OP_WRITE_LAST, 20, 1),
	       "payload that is not in one piece of mapped memory is sent in packets");
	end(&q);
}

/* ---- receiving ---------------------------------------------------------------------------- */

/* Receives a large frame: a packet, with the payload of as many. Its ICRC is not computed. */
static void receive_large(const struct made *m, uint32_t packets, uint32_t payload)
{
	static uint8_t bytes[XT_MAX_HEADERS + LARGE * 4096];
	static struct packet first;
	uint32_t more = (packets - 1) * payload;
	struct xt_frame f = { .nseg = 1, .packets = (uint8_t)packets, .unsealed = true };

	make(&q, m, &first);
	f.seg[0] = (struct xt_seg){ first.bytes, first.len };
	f.len = first.len;
	if (parse_frame(&f) != XR_OK) {
		TAP_OK(false, "the first packet is valid");
		return;
	}
	memcpy(bytes, first.bytes, f.meta.payload_off);
	memset(bytes + f.meta.payload_off, 0x55, sizeof(bytes) - f.meta.payload_off);
	f.seg[0] = (struct xt_seg){ bytes, first.len + more };
	f.len += more;
	f.meta.payload_len += (uint16_t)more;
	h->sent_count = 0;
	xt_engine_rx(h->engine, &f, 1, h->now += 1000);
	xt_engine_run(h->engine, h->now);
}

static bool filled(uint32_t from, uint32_t bytes)
{
	for (uint32_t i = 0; i < SIZE; i++)
		if (memory[i] != (i >= from && i < from + bytes ? 0x55 : (uint8_t)(i / 251)))
			return false;
	return true;
}

static uint64_t malformed(void)
{
	return xt_engine_counters(h->engine)->rx_malformed;
}

static void test_requests(void)
{
	const struct made write = S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = LENGTH);
	const struct made rest = S(WRITE_MIDDLE, .psn = LARGE, .payload = MTU);

	start(1);
	receive_large(&write, LARGE, MTU);
	TAP_OK(filled(0, LARGE * MTU) && sent_ack(h, 0, LARGE - 1),
	       "a large frame is executed, and acknowledged with the PSN of its last packet");
	receive_large(&write, LARGE, MTU);
	TAP_OK(sent_ack(h, 0, LARGE - 1), "so is one that was received before");
	receive_large(&rest, 5, MTU);
	TAP_OK(filled(0, 20 * MTU) && sent_ack(h, 0, 19), "the next one continues the message");
	TAP_OK(xt_engine_counters(h->engine)->rx_packets == 2 * LARGE + 5, "packets are counted");
	end(&q);

	start(1);
	receive_large(&rest, 5, MTU);
	TAP_OK(filled(0, 0) && sent_ack_and_nak(h, 0) == false && h->sent_count == 0,
	       "one that is ahead of sequence is not executed");
	end(&q);

	start(1);
	receive_large(&(struct made)S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = 5 * MTU),
		      LARGE, MTU);
	TAP_OK(filled(0, 0) && sent_ack(h, XR_AETH_NAK | XR_NAK_INVALID_REQUEST, 0),
	       "one that is longer than its message is refused");
	end(&q);
}

static void test_send(void)
{
	struct xr_cqe cqe;

	start(1);
	h_post_recv(&q, 1, BASE, 3 * MTU, key);
	receive_large(&(struct made)S(SEND_FIRST, .payload = MTU), LARGE, MTU);
	TAP_OK(filled(0, 0) && h_poll(h, &cqe) && cqe.status == IBV_WC_LOC_LEN_ERR,
	       "a large frame that is longer than the receive is refused");
	end(&q);

	start(1);
	receive_large(&(struct made)S(SEND_FIRST, .payload = MTU), LARGE, MTU);
	TAP_OK((sent_bth(h, 0)[XR_BTH_HLEN] & XR_AETH_TYPE_MASK) == XR_AETH_RNR_NAK,
	       "without a receive, it is not ready");
	h_post_recv(&q, 1, BASE, LENGTH, key);
	receive_large(&(struct made)S(SEND_FIRST, .payload = MTU), 3, MTU);
	receive(&q, &(struct made)S(SEND_LAST, .psn = 3, .payload = MTU, .fill = 0x55));
	TAP_OK(filled(0, 4 * MTU) && h_poll(h, &cqe) && cqe.byte_len == 4 * MTU,
	       "a SEND fills the receive");
	end(&q);
}

static void test_hostile(void)
{
	static const struct {
		const char *what;
		struct made m;
		uint32_t packets, payload;
	} rows[] = {
		{ "LAST", S(WRITE_LAST, .payload = MTU), 3, MTU },
		{ "ONLY", S(SEND_ONLY, .payload = MTU), 3, MTU },
		{ "READ request", S(READ_REQUEST, .va = BASE, .len = 8), 2, MTU },
		{ "ACK", S(ACK, .syndrome = XR_AETH_ACK), 2, MTU },
		{ "atomic", S(FETCH_ADD, .va = BASE), 2, 4096 },
		{ "FIRST whose others have another length",
		  S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = LENGTH), 4, 512 },
		{ "FIRST whose others have none",
		  S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = LENGTH), 4, 0 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start(1);
		receive_large(&rows[i].m, rows[i].packets, rows[i].payload);
		TAP_OK(malformed() == 1 && !h->sent_count && filled(0, 0),
		       "a large frame that begins with %s is dropped", rows[i].what);
		end(&q);
	}
}

/* ---- READs -------------------------------------------------------------------------------- */

static void test_read(void)
{
	struct xr_cqe cqe;

	start(LARGE);
	h->sent_count = 0;
	receive(&q, &(struct made)S(READ_REQUEST, .va = BASE, .len = LENGTH));
	TAP_OK(h->sent_count == 3 && is_frame(0, XR_OP_READ_RESP_FIRST, 0, LARGE) &&
		       is_frame(1, XR_OP_READ_RESP_MIDDLE, LARGE, 5) &&
		       is_frame(2, XR_OP_READ_RESP_LAST, 20, 1),
	       "all responses to a READ but the last one are sent in large frames");
	h->sent_count = 0;
	receive(&q, &(struct made)S(READ_REQUEST, .psn = 2, .va = BASE + 2 * MTU,
				    .len = LENGTH - 2 * MTU));
	TAP_OK(h->sent_count == 19 && is_frame(0, XR_OP_READ_RESP_FIRST, 2, 1),
	       "those that were sent before are sent again one by one");
	end(&q);

	start(1);
	post(XR_WR_RDMA_READ, LENGTH);
	run();
	receive_large(&(struct made)S(READ_RESP_FIRST, .payload = MTU,
				      .syndrome = XR_AETH_ACK | XR_AETH_CREDITS_INVALID),
		      LARGE, MTU);
	TAP_OK(filled(0, LARGE * MTU), "a large response is stored");
	receive_large(&(struct made)S(READ_RESP_MIDDLE, .psn = LARGE, .payload = MTU), 5, MTU);
	receive(&q, &(struct made)S(READ_RESP_LAST, .psn = 20, .payload = 100, .fill = 0x55,
				    .syndrome = XR_AETH_ACK | XR_AETH_CREDITS_INVALID));
	TAP_OK(filled(0, LENGTH) && h_poll(h, &cqe) && cqe.status == IBV_WC_SUCCESS,
	       "the READ completes with its last response");
	end(&q);

	start(1);
	post(XR_WR_RDMA_READ, 4 * MTU);
	run();
	receive_large(&(struct made)S(READ_RESP_FIRST, .payload = MTU,
				      .syndrome = XR_AETH_ACK | XR_AETH_CREDITS_INVALID),
		      4, MTU);
	TAP_OK(filled(0, 0) && h_poll(h, &cqe) && cqe.status == IBV_WC_BAD_RESP_ERR,
	       "one with the last response as well is refused");
	end(&q);
}

int main(void)
{
	test_write();
	test_no_room();
	test_lost();
	test_pieces();
	test_requests();
	test_send();
	test_hostile();
	test_read();
	return tap_end();
}
