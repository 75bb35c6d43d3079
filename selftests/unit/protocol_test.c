// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hand-made packets of a hostile or defective peer to one QP: responses of the responder (IBTA
 * 9.7.4), handling of responses by the requester (9.7.5), timeouts (9.7.6).
 */
#include "made.h"

/* ---- invalid requests ---------------------------------------------------- */

#define NAK_INVALID (XR_AETH_NAK | XR_NAK_INVALID_REQUEST)
#define NAK_ACCESS (XR_AETH_NAK | XR_NAK_REMOTE_ACCESS)

/* clang-format off */
static const struct invalid_row {
	const char *what;
	uint8_t nak;
	struct made m[4];	/* the last one is refused */
	unsigned n;
} invalid_requests[] = {
	{ "SEND MIDDLE without FIRST", NAK_INVALID, { S(SEND_MIDDLE, .payload = MTU) }, 1 },
	{ "SEND LAST without FIRST", NAK_INVALID, { S(SEND_LAST, .payload = 8) }, 1 },
	{ "WRITE MIDDLE without FIRST", NAK_INVALID,
	  { S(WRITE_MIDDLE, .payload = MTU) }, 1 },
	{ "WRITE LAST without FIRST", NAK_INVALID, { S(WRITE_LAST, .payload = 8) }, 1 },
	{ "SEND ONLY within a SEND", NAK_INVALID,
	  { S(SEND_FIRST, .payload = MTU), S(SEND_ONLY, .psn = 1) }, 2 },
	{ "SEND FIRST within a SEND", NAK_INVALID,
	  { S(SEND_FIRST, .payload = MTU), S(SEND_FIRST, .psn = 1, .payload = MTU) }, 2 },
	{ "WRITE MIDDLE within a SEND", NAK_INVALID,
	  { S(SEND_FIRST, .payload = MTU), S(WRITE_MIDDLE, .psn = 1, .payload = MTU) }, 2 },
	{ "SEND LAST within a WRITE", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = 2 * MTU),
	    S(SEND_LAST, .psn = 1, .payload = MTU) }, 2 },
	{ "READ within a SEND", NAK_INVALID,
	  { S(SEND_FIRST, .payload = MTU),
	    S(READ_REQUEST, .psn = 1, .va = BASE, .len = 8) }, 2 },
	{ "atomic within a WRITE", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = 2 * MTU),
	    S(FETCH_ADD, .psn = 1, .va = BASE) }, 2 },
	{ "FIRST shorter than the path MTU", NAK_INVALID,
	  { S(SEND_FIRST, .payload = 512) }, 1 },
	{ "FIRST longer than the path MTU", NAK_INVALID,
	  { S(SEND_FIRST, .payload = 2048) }, 1 },
	{ "ONLY longer than the path MTU", NAK_INVALID,
	  { S(SEND_ONLY, .payload = MTU + 4) }, 1 },
	{ "LAST longer than the path MTU", NAK_INVALID,
	  { S(SEND_FIRST, .payload = MTU),
	    S(SEND_LAST, .psn = 1, .payload = MTU + 4) }, 2 },
	{ "WRITE ONLY shorter than its RETH length", NAK_INVALID,
	  { S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 9) }, 1 },
	{ "WRITE ONLY longer than its RETH length", NAK_INVALID,
	  { S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 7) }, 1 },
	{ "WRITE ONLY with payload and RETH length 0", NAK_INVALID,
	  { S(WRITE_ONLY, .payload = 8, .va = BASE) }, 1 },
	{ "WRITE FIRST with the complete RETH length", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = MTU) }, 1 },
	{ "WRITE MIDDLE exceeding the RETH length", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = MTU + 8),
	    S(WRITE_MIDDLE, .psn = 1, .payload = MTU) }, 2 },
	{ "WRITE LAST exceeding the RETH length", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = MTU + 8),
	    S(WRITE_LAST, .psn = 1, .payload = 9) }, 2 },
	{ "WRITE LAST before the RETH length is reached", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = 3 * MTU),
	    S(WRITE_LAST, .psn = 1, .payload = MTU) }, 2 },
	{ "WRITE of more than 2^31 bytes", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = 0x80000001) }, 1 },
	{ "READ of more than 2^31 bytes", NAK_INVALID,
	  { S(READ_REQUEST, .va = BASE, .len = 0x80000001) }, 1 },
	{ "misaligned atomic", NAK_INVALID, { S(CMP_SWAP, .va = BASE + 4) }, 1 },
	{ "FLUSH without a placement type", NAK_INVALID,
	  { S(FLUSH, .va = BASE, .len = 8) }, 1 },
	{ "FLUSH with an unknown placement type", NAK_INVALID,
	  { S(FLUSH, .feth = 5, .va = BASE, .len = 8) }, 1 },
	{ "FLUSH with an unknown selectivity level", NAK_INVALID,
	  { S(FLUSH, .feth = 0x21, .va = BASE, .len = 8) }, 1 },
	{ "FLUSH within a WRITE", NAK_INVALID,
	  { S(WRITE_FIRST, .payload = MTU, .va = BASE, .len = 2 * MTU),
	    S(FLUSH, .psn = 1, .feth = 1, .va = BASE, .len = 8) }, 2 },
	{ "FLUSH with a stale key", NAK_ACCESS,
	  { S(FLUSH, .feth = 1, .va = BASE, .len = 8, .key_xor = 1) }, 1 },
	{ "FLUSH past the end of the region", NAK_ACCESS,
	  { S(FLUSH, .feth = 1, .va = END - 7, .len = 8) }, 1 },
	{ "FLUSH of a whole region with a stale key", NAK_ACCESS,
	  { S(FLUSH, .feth = 0x11, .key_xor = 1) }, 1 },
	{ "FLUSH to persistence without access by the QP", NAK_INVALID,
	  { S(FLUSH, .feth = 3, .va = BASE, .len = 8) }, 1 },
	{ "ATOMIC WRITE with a wrong RETH length", NAK_INVALID,
	  { S(ATOMIC_WRITE, .payload = 8, .va = BASE, .len = 16) }, 1 },
	{ "misaligned ATOMIC WRITE", NAK_INVALID,
	  { S(ATOMIC_WRITE, .payload = 8, .va = BASE + 4, .len = 8) }, 1 },
	{ "ATOMIC WRITE with a stale key", NAK_ACCESS,
	  { S(ATOMIC_WRITE, .payload = 8, .va = BASE, .len = 8, .key_xor = 1) }, 1 },
	{ "WRITE with a stale key", NAK_ACCESS,
	  { S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 8, .key_xor = 1) }, 1 },
	{ "WRITE past the end of the region", NAK_ACCESS,
	  { S(WRITE_ONLY, .payload = 8, .va = END - 7, .len = 8) }, 1 },
	{ "WRITE FIRST with a RETH length past the end of the region", NAK_ACCESS,
	  { S(WRITE_FIRST, .payload = MTU, .va = END - 2 * MTU, .len = 2 * MTU + 1) }, 1 },
	{ "READ before the region", NAK_ACCESS,
	  { S(READ_REQUEST, .va = BASE - 1, .len = 8) }, 1 },
	{ "READ wrapping around the address space", NAK_ACCESS,
	  { S(READ_REQUEST, .va = -8ull, .len = 16) }, 1 },
	{ "atomic with a nonexistent key", NAK_ACCESS,
	  { S(FETCH_ADD, .va = BASE, .key_xor = 0xffff00) }, 1 },
};
/* clang-format on */

static void check_invalid_request(const struct invalid_row *r)
{
	unsigned k, before;
	struct h_qp q;
	struct harness *h = begin(&q);
	int at = r->m[r->n - 1].psn;

	memset(memory, 0, SIZE);
	h_post_recv(&q, 1, BASE + 32768, 8192, key);
	for (k = 0; k + 1 < r->n; k++)
		receive(&q, &r->m[k]);
	h->sent_count = 0;
	for (k = before = 0; k < SIZE; k++)
		before += memory[k] == 0x77;
	receive(&q, &r->m[r->n - 1]);
	for (k = 0; k < SIZE; k++)
		before -= memory[k] == 0x77;
	TAP_OK(sent_ack(h, r->nak, at) && !before && xt_qp_info(q.qp)->state == XR_QPS_ERR &&
		       h->events[r->nak == NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR
						      : IBV_EVENT_QP_REQ_ERR] == 1,
	       "%s", r->what);
	receive(&q, &r->m[r->n - 1]);
	if (h->sent_count)
		TAP_OK(false, "%s: a QP in ERR sends no response", r->what);
	end(&q);
}

static void test_invalid_requests(void)
{
	for (size_t i = 0; i < sizeof(invalid_requests) / sizeof(invalid_requests[0]); i++)
		check_invalid_request(&invalid_requests[i]);
}

/* IBTA annex A19: the response is an empty READ response; duplicates are not executed. */
static void test_atomic_write(void)
{
	static const struct made write = S(ATOMIC_WRITE, .payload = 8, .va = BASE, .len = 8);
	struct h_qp q;
	struct harness *h = begin(&q);

	for (int again = 0; again <= 1; again++) {
		memset(memory, 0, 16);
		h->sent_count = 0;
		receive(&q, &write);
		TAP_OK(h->sent_count == 1 && sent_bth(h, 0)[0] == XR_OP_READ_RESP_ONLY &&
			       sent_psn(h, 0) == 0 &&
			       h->sent[0].len ==
				       42 + XR_BTH_HLEN + sizeof(struct xr_aeth) + XR_ICRC_LEN &&
			       memory[0] == (again ? 0 : 0x77) && memory[7] == memory[0] &&
			       !memory[8],
		       again ? "a duplicate ATOMIC WRITE is acknowledged, not executed"
			     : "ATOMIC WRITE");
	}
	end(&q);
}

/* True if only empty READ responses for PSNs @first to @last and at most an ACK were sent. */
static bool sent_empty_responses(struct harness *h, int first, int last)
{
	unsigned i, n = last - first + 1;
	bool ok = h->sent_count == n || (h->sent_count == n + 1 && sent_bth(h, n)[0] == XR_OP_ACK &&
					 sent_psn(h, n) == last);

	for (i = 0; i < n && ok; i++)
		ok = sent_bth(h, i)[0] == XR_OP_READ_RESP_ONLY &&
		     sent_psn(h, i) == first + (int)i &&
		     h->sent[i].len == 42 + XR_BTH_HLEN + sizeof(struct xr_aeth) + XR_ICRC_LEN;
	h->sent_count = 0;
	return ok;
}

/* IBTA annex A19: the responder handles FLUSH like a READ without data. */
static void test_flush(void)
{
	/* clang-format off */
	static const struct made
		range = S(FLUSH, .feth = 1, .va = BASE, .len = 4096),
		whole = S(FLUSH, .psn = 1, .feth = 0x11, .va = 5, .len = 0xffffffff),
		nothing = S(FLUSH, .psn = 2, .feth = 1, .key_xor = 1),
		write = S(WRITE_ONLY, .psn = 3, .payload = 8, .va = BASE, .len = 8),
		second = S(FLUSH, .psn = 4, .feth = 1, .va = BASE, .len = 8);
	/* clang-format on */
	struct h_qp q;
	struct harness *h = begin(&q);

	receive(&q, &range);
	TAP_OK(sent_empty_responses(h, 0, 0),
	       "the response to a FLUSH of a range is an empty READ response");
	receive(&q, &whole);
	TAP_OK(sent_empty_responses(h, 1, 1), "a FLUSH of a region ignores the range of the RETH");
	receive(&q, &nothing);
	TAP_OK(sent_empty_responses(h, 2, 2), "a FLUSH of length 0 needs no valid key");
	receive(&q, &range);
	TAP_OK(sent_empty_responses(h, 0, 0), "a duplicate FLUSH is acknowledged again");

	receive(&q, &second);
	TAP_OK(sent_ack(h, XR_AETH_NAK | XR_NAK_PSN_SEQUENCE, 3),
	       "a FLUSH after a lost WRITE is not executed");
	receive_only(&q, &write);
	receive_only(&q, &second);
	xt_engine_run(h->engine, h->now);
	TAP_OK(memory[0] == 0x77 && sent_empty_responses(h, 4, 4),
	       "the response to a FLUSH acknowledges the WRITE before it");
	end(&q);
}

/* More FLUSHes than max_dest_rd_atomic, with no response sent yet */
static void test_flush_resources(void)
{
	struct made flush = S(FLUSH, .feth = 1, .va = BASE, .len = 8);
	struct h_qp q;
	struct harness *h = begin(&q);

	for (; flush.psn < RD_ATOMIC; flush.psn++)
		receive_only(&q, &flush);
	TAP_OK(xt_qp_info(q.qp)->state == XR_QPS_RTS, "max_dest_rd_atomic FLUSHes are accepted");
	receive_only(&q, &flush);
	TAP_OK(h->events[IBV_EVENT_QP_REQ_ERR] == 1 && xt_qp_info(q.qp)->state == XR_QPS_ERR,
	       "one more FLUSH is an invalid request");
	end(&q);
}

/* Both the region and the QP must grant the access. */
static void test_flush_access(void)
{
	struct made flush = S(FLUSH, .feth = 1, .va = BASE, .len = 8);
	struct xr_qp_attr attr = { .qp_access_flags = XR_ACCESS_REMOTE | XR_ACCESS_FLUSH_PERSISTENT,
				   .qp_state = XR_QPS_RTS };
	struct h_qp q;
	struct harness *h = begin(&q);

	mr.key->entry.access &= ~XR_ACCESS_FLUSH_GLOBAL;
	receive(&q, &flush);
	TAP_OK(sent_ack(h, NAK_ACCESS, 0), "FLUSH of a region without the access flag is refused");
	end(&q);

	h = begin(&q);
	TAP_OK(!xt_qp_modify(q.qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, NULL, 4096, h->now),
	       "a QP may grant FLUSH to persistence");
	flush.feth = 2;
	receive(&q, &flush);
	TAP_OK(sent_ack(h, NAK_ACCESS, 0),
	       "FLUSH to persistence is refused, as no region grants it");
	end(&q);
}

/*
 * A request whose access the QP does not grant is an invalid request (IBTA 11.6.2), not an access
 * error, whatever the key and the length. rxe and hfi1 do the same.
 */
static void test_qp_access(void)
{
	/* clang-format off */
	static const struct made requests[] = {
		S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 8),
		S(READ_REQUEST, .va = BASE, .len = 8),
		S(FETCH_ADD, .va = BASE),
		S(ATOMIC_WRITE, .payload = 8, .va = BASE, .len = 8),
		S(WRITE_ONLY, .va = BASE),
		S(READ_REQUEST, .va = BASE, .key_xor = 1),
		S(FLUSH, .feth = 1, .va = BASE, .len = 8),
	};
	/* clang-format on */
	static const uint32_t bits[] = { XR_ACCESS_REMOTE_WRITE,  XR_ACCESS_REMOTE_READ,
					 XR_ACCESS_REMOTE_ATOMIC, XR_ACCESS_REMOTE_WRITE,
					 XR_ACCESS_REMOTE_WRITE,  XR_ACCESS_REMOTE_READ,
					 XR_ACCESS_FLUSH_GLOBAL };

	for (unsigned i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		struct h_qp q;
		struct harness *h = begin(&q);
		struct xr_qp_attr attr = { .qp_access_flags = XR_ACCESS_REMOTE & ~bits[i],
					   .qp_state = XR_QPS_RTS };

		xt_qp_modify(q.qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, NULL, 4096, h->now);
		receive(&q, &requests[i]);
		TAP_OK(sent_ack(h, NAK_INVALID, 0) && h->events[IBV_EVENT_QP_REQ_ERR] == 1,
		       "access %x not granted by the QP: opcode %02x is an invalid request",
		       bits[i], requests[i].opcode);
		end(&q);
	}
}

static void test_sequence(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	struct made write = S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 8);

	receive(&q, &write);
	TAP_OK(sent_ack(h, 0, 0), "a request is acknowledged");
	receive(&q, &write);
	TAP_OK(sent_ack(h, 0, 0), "a duplicate is acknowledged again");
	write.psn = 3;
	receive(&q, &write);
	TAP_OK(sent_ack(h, XR_AETH_NAK | XR_NAK_PSN_SEQUENCE, 1),
	       "a gap is reported by a NAK with the missing PSN");
	write.psn = 4;
	receive(&q, &write);
	TAP_OK(!h->sent_count, "only one NAK is sent for a gap");
	write.psn = 1;
	receive(&q, &write);
	TAP_OK(sent_ack_and_nak(h, 2), "another gap is reported by another NAK, behind an ACK");
	write.psn = 2;
	receive(&q, &write);
	TAP_OK(sent_ack(h, 0, 4), "the last missing packet: all are acknowledged");
	write.psn = 1 - 0x700000;
	receive(&q, &write);
	TAP_OK(sent_ack(h, 0, 4), "a very old PSN is a duplicate");
	end(&q);
}

static void test_rnr(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	struct made send = S(SEND_ONLY, .payload = 8);
	struct xr_cqe cqe;

	receive(&q, &send);
	TAP_OK(sent_ack(h, XR_AETH_RNR_NAK | 12, 0),
	       "without a receive: RNR NAK with the QP's timer");
	send.psn = 1;
	receive(&q, &send);
	TAP_OK(!h->sent_count, "packets after an RNR NAK are dropped without response");
	h_post_recv(&q, 5, BASE, 8, key);
	send.psn = 0;
	receive(&q, &send);
	TAP_OK(sent_ack(h, 0, 0) && h_poll(h, &cqe) && cqe.wr_id == 5 && !cqe.status,
	       "a retransmission is accepted once a receive is posted");
	end(&q);
}

/* Packets received before the RNR NAK is sent */
static void test_packets_before_rnr_nak(void)
{
	/* clang-format off */
	static const struct row {
		const char *what;
		struct made then;
		bool ready;		/* a receive is posted before the second packet */
		uint8_t syndrome;
	} rows[] = {
		{ "RNR NAK after a duplicate of an earlier packet",
		  S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 8), false, XR_AETH_RNR_NAK | 12 },
		{ "RNR NAK after the next message", S(SEND_ONLY, .psn = 2, .payload = 8), false,
		  XR_AETH_RNR_NAK | 12 },
		{ "one RNR NAK for two copies", S(SEND_ONLY, .psn = 1, .payload = 8), false,
		  XR_AETH_RNR_NAK | 12 },
		{ "no RNR NAK if a retransmission found a receive",
		  S(SEND_ONLY, .psn = 1, .payload = 8), true, 0 },
	};
	/* clang-format on */

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct h_qp q;
		struct harness *h = begin(&q);

		receive(&q, &(struct made)S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 8));
		h->sent_count = 0;
		receive_only(&q, &(struct made)S(SEND_ONLY, .psn = 1, .payload = 8));
		if (r->ready)
			h_post_recv(&q, 1, BASE, 8, key);
		receive_only(&q, &r->then);
		xt_engine_run(h->engine, h->now);
		TAP_OK(sent_ack(h, r->syndrome, 1), "%s", r->what);
		end(&q);
	}
}

/* Packets after a message without a receive were dropped, so a NAK must request them. */
static void test_dropped_after_rnr(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);

	receive_only(&q, &(struct made)S(SEND_ONLY, .payload = 8));
	receive_only(&q, &(struct made)S(SEND_ONLY, .psn = 1, .payload = 8));
	h_post_recv(&q, 1, BASE, 8, key);
	receive_only(&q, &(struct made)S(SEND_ONLY, .payload = 8));
	xt_engine_run(h->engine, h->now);
	TAP_OK(sent_ack_and_nak(h, 1),
	       "packets dropped after a message that is now accepted are requested by a NAK");
	end(&q);
}

/* More READs and atomics at once than max_dest_rd_atomic (IBTA 9.4.4) */
static void test_too_many_reads(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	struct made read = S(READ_REQUEST, .va = BASE, .len = 8);

	/* No frame is free, so no response can be sent. */
	h->sent_count = H_FRAMES;
	for (read.psn = 0; read.psn < RD_ATOMIC; read.psn++)
		receive(&q, &read);
	TAP_OK(xt_qp_info(q.qp)->state == XR_QPS_RTS, "%d READs at once are accepted", RD_ATOMIC);
	receive(&q, &read);
	TAP_OK(xt_qp_info(q.qp)->state == XR_QPS_ERR, "one more READ is refused");
	end(&q);
}

/*
 * The first responses to a READ are lost, and the peer repeats it before the last ones were sent.
 * The repetition completes the READ, and the peer may have the next READ in its place.
 */
static void test_repetition_completes_read(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	struct made read = S(READ_REQUEST, .va = BASE, .len = 4 * MTU), again = read;
	unsigned i, packets = 0;

	h->sent_count = H_FRAMES - 2;
	for (i = 0; i < RD_ATOMIC; i++, read.psn += 4)
		receive(&q, &read);
	h->sent_count = H_FRAMES - 4;
	receive(&q, &again);
	receive(&q, &read);
	TAP_OK(xt_qp_info(q.qp)->state == XR_QPS_RTS,
	       "a READ that was completed by a repetition makes room for another one");
	h->sent_count = 0;
	xt_engine_run(h->engine, h->now);
	for (i = 0; i < h->sent_count; i++)
		packets += sent_bth(h, i)[0] != XR_OP_ACK;
	TAP_OK(packets == 4 * RD_ATOMIC && sent_bth(h, 0)[0] == XR_OP_READ_RESP_FIRST,
	       "its responses are not sent once more (%u)", packets);
	end(&q);
}

/* The response to a duplicate atomic is the saved one; the word does not change again. */
static void test_duplicate_atomics(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	struct made add = S(FETCH_ADD, .va = BASE);
	uint64_t word = 7, now;
	unsigned i, same = 0;

	memcpy(memory, &word, 8);
	for (i = 0; i < 3; i++) {
		add.psn = i;
		receive(&q, &add);
	}
	memcpy(&word, memory, 8);
	h->sent_count = 0;
	for (i = 0; i < 3; i++) {
		add.psn = i;
		receive(&q, &add);
	}
	memcpy(&now, memory, 8);
	for (i = 0; i < h->sent_count; i++)
		same += sent_bth(h, i)[0] == XR_OP_ATOMIC_ACK;
	TAP_OK(now == word && same >= 3, "duplicate atomics are acknowledged, not executed");
	end(&q);
}

/* ---- invalid responses --------------------------------------------------- */

static void test_responses(void)
{
	/* clang-format off */
	static const struct row {
		const char *what;
		uint8_t wr;
		uint32_t len;
		struct made m;
		int status;		/* -1: no completion */
	} rows[] = {
		{ "ACK", XR_WR_RDMA_WRITE, 8, S(ACK, .msn = 1), IBV_WC_SUCCESS },
		{ "ACK of a PSN that was not sent", XR_WR_RDMA_WRITE, 8,
		  S(ACK, .psn = 1, .msn = 2), -1 },
		{ "ACK of an old PSN", XR_WR_RDMA_WRITE, 8, S(ACK, .psn = -100), -1 },
		{ "ACK of the first of two packets", XR_WR_RDMA_WRITE, 2 * MTU, S(ACK), -1 },
		{ "invalid request NAK", XR_WR_RDMA_WRITE, 8,
		  S(ACK, .syndrome = 0x61), IBV_WC_REM_INV_REQ_ERR },
		{ "remote access error NAK", XR_WR_RDMA_WRITE, 8,
		  S(ACK, .syndrome = 0x62), IBV_WC_REM_ACCESS_ERR },
		{ "remote operational error NAK", XR_WR_RDMA_WRITE, 8,
		  S(ACK, .syndrome = 0x63), IBV_WC_REM_OP_ERR },
		{ "invalid RD request NAK", XR_WR_RDMA_WRITE, 8, S(ACK, .syndrome = 0x64),
		  IBV_WC_REM_INV_RD_REQ_ERR },
		{ "reserved NAK code", XR_WR_RDMA_WRITE, 8, S(ACK, .syndrome = 0x7f),
		  IBV_WC_BAD_RESP_ERR },
		{ "NAK of a PSN that was not sent", XR_WR_RDMA_WRITE, 8,
		  S(ACK, .psn = 9, .syndrome = 0x62), -1 },
		{ "reserved syndrome", XR_WR_RDMA_WRITE, 8, S(ACK, .syndrome = 0x40), -1 },
		{ "READ response", XR_WR_RDMA_READ, 8,
		  S(READ_RESP_ONLY, .payload = 8), IBV_WC_SUCCESS },
		{ "READ response too short", XR_WR_RDMA_READ, 8, S(READ_RESP_ONLY, .payload = 4),
		  IBV_WC_BAD_RESP_ERR },
		{ "READ response too long", XR_WR_RDMA_READ, 8, S(READ_RESP_ONLY, .payload = 12),
		  IBV_WC_BAD_RESP_ERR },
		{ "READ response FIRST to a READ of one packet", XR_WR_RDMA_READ, MTU,
		  S(READ_RESP_FIRST, .payload = MTU), IBV_WC_BAD_RESP_ERR },
		{ "READ response to a WRITE", XR_WR_RDMA_WRITE, 8, S(READ_RESP_ONLY, .payload = 8),
		  IBV_WC_BAD_RESP_ERR },
		{ "atomic response to a READ", XR_WR_RDMA_READ, 8,
		  S(ATOMIC_ACK), IBV_WC_BAD_RESP_ERR },
		{ "READ response to an atomic", XR_WR_ATOMIC_FETCH_AND_ADD, 8,
		  S(READ_RESP_ONLY, .payload = 8), IBV_WC_BAD_RESP_ERR },
		{ "atomic response", XR_WR_ATOMIC_FETCH_AND_ADD, 8, S(ATOMIC_ACK), IBV_WC_SUCCESS },
		{ "bare ACK to a READ", XR_WR_RDMA_READ, 8, S(ACK, .msn = 1), -1 },
		{ "bare ACK to an atomic", XR_WR_ATOMIC_CMP_AND_SWP, 8, S(ACK, .msn = 1), -1 },
	};
	/* clang-format on */

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct xr_send_wqe *w;
		struct xr_cqe cqe = { 0 };
		struct h_qp q;
		struct harness *h = begin(&q);
		int got;

		w = h_post_send(&q, 1, r->wr, BASE, r->len, key);
		w->remote_addr = 0x9000;
		w->rkey = 0x1234;
		xt_qp_doorbell(q.qp, h->now);
		xt_engine_run(h->engine, h->now);
		receive(&q, &r->m);
		got = h_poll(h, &cqe) ? (int)cqe.status : -1;
		if (!TAP_OK(got == r->status, "requester: %s", r->what))
			printf("# status %d instead of %d\n", got, r->status);
		end(&q);
	}
}

/* ---- timeouts ------------------------------------------------------------ */

/* RNR NAK timer codes of IBTA table 46, in units of 10 us */
static const uint32_t rnr_ms100[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static void test_rnr_timers(void)
{
	unsigned wrong = 0;

	for (unsigned code = 0; code < 32; code++) {
		struct h_qp q;
		struct harness *h = begin(&q);
		struct made nak = S(ACK, .syndrome = XR_AETH_RNR_NAK | code);
		uint64_t due;

		h_post_send(&q, 1, XR_WR_SEND, BASE, 8, key);
		xt_qp_doorbell(q.qp, h->now);
		xt_engine_run(h->engine, h->now);
		h->sent_count = 0;
		receive(&q, &nak);
		due = h->now + rnr_ms100[code] * 10000ull;
		wrong += xt_engine_run(h->engine, due - 1) != due || h->sent_count;
		xt_engine_run(h->engine, due);
		wrong += h->sent_count != 1;
		end(&q);
	}
	TAP_OK(!wrong, "all 32 RNR timers are exact to the nanosecond");
}

static void test_ack_timeout(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	uint64_t timeout = 4096ull << 10, due = h->now + timeout;
	unsigned wrong = 0, tries;
	struct xr_cqe cqe;

	h_post_send(&q, 1, XR_WR_RDMA_WRITE, BASE, 8, key)->rkey = 1;
	xt_qp_doorbell(q.qp, h->now);
	wrong += xt_engine_run(h->engine, h->now) != due;
	for (tries = 1; tries <= 3; tries++) {
		wrong += xt_engine_run(h->engine, due - 1) != due || h->sent_count != tries;
		xt_engine_run(h->engine, due);
		wrong += h->sent_count != tries + 1;
		due += timeout;
	}
	TAP_OK(!wrong, "a request is retried three times at intervals of 4.194304 ms");
	xt_engine_run(h->engine, due);
	TAP_OK(h_poll(h, &cqe) && cqe.status == IBV_WC_RETRY_EXC_ERR &&
		       xt_qp_info(q.qp)->state == XR_QPS_ERR,
	       "the request fails after the retries");
	TAP_OK(xt_engine_run(h->engine, due) == XT_NEVER, "no timer is left after the failure");
	end(&q);
}

static void test_rnr_retries(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	struct made nak = S(ACK, .syndrome = XR_AETH_RNR_NAK | 1);
	struct xr_cqe cqe;
	unsigned i;

	h_post_send(&q, 1, XR_WR_SEND, BASE, 8, key);
	xt_qp_doorbell(q.qp, h->now);
	xt_engine_run(h->engine, h->now);
	for (i = 0; i < 3; i++) {
		receive(&q, &nak);
		h->now += 1000000;
		xt_engine_run(h->engine, h->now);
	}
	TAP_OK(h->sent_count == 3 && h_poll(h, &cqe) && cqe.status == IBV_WC_RNR_RETRY_EXC_ERR,
	       "rnr_retry 2: the request fails after three transmissions");
	end(&q);
}

static unsigned sent_ackreqs(const struct harness *h)
{
	unsigned i, n = 0;

	for (i = 0; i < h->sent_count; i++)
		n += h->sent[i].data[42 + 8] >> 7;
	return n;
}

/*
 * Each ACK makes room for a few packets in a full window. If each of these packets had AckReq set,
 * half of all packets would be ACKs.
 */
static void test_ackreq(void)
{
	struct h_qp q;
	struct harness *h = begin(&q);
	struct made ack = { .opcode = XR_OP_ACK, .psn = -1 };
	unsigned i, packets, ackreqs;

	for (i = 0; i < 20; i++)
		h_post_send(&q, i, XR_WR_RDMA_WRITE, BASE, 60 * MTU, key)->remote_addr = BASE;
	xt_qp_doorbell(q.qp, h->now);
	while (xt_engine_run(h->engine, h->now) <= h->now)
		;
	packets = h->sent_count;
	ackreqs = sent_ackreqs(h);
	TAP_OK(packets == 256 && ackreqs >= 256 / 16 && ackreqs <= 256 / 16 + 4,
	       "a window of 256 packets has AckReq every 16 packets and at ends of messages: %u",
	       ackreqs);
	for (packets = ackreqs = i = 0; i < 200; i++) {
		h->sent_count = 0;
		ack.psn += 3;
		receive(&q, &ack);
		packets += h->sent_count;
		ackreqs += sent_ackreqs(h);
	}
	TAP_OK(packets == 600 && ackreqs < packets / 10,
	       "AckReq is not set in every packet of a full window: %u of %u", ackreqs, packets);
	end(&q);
}

static void test_window(uint32_t path_mtu, unsigned most)
{
	static const struct xt_tuning t = {
		.window = 64, .short_window = 128, .engine_window = 1024, .read_packets = 64
	};
	const struct made ack = { .opcode = XR_OP_ACK, .psn = 63 };
	struct h_qp q;
	struct harness *h = begin(&q);

	xt_engine_tune(h->engine, &t);
	h_modify(&q, XR_QPS_RESET);
	connect_qp(&q, path_mtu);
	for (unsigned i = 0; i < 20; i++)
		h_post_send(&q, i, XR_WR_RDMA_WRITE, BASE, SIZE, key)->remote_addr = BASE;
	xt_qp_doorbell(q.qp, h->now);
	while (xt_engine_run(h->engine, h->now) <= h->now)
		;
	TAP_OK(h->sent_count == 64, "path MTU %u: the first window has 64 packets",
	       128 << path_mtu);
	h->sent_count = 0;
	receive(&q, &ack);
	while (xt_engine_run(h->engine, h->now) <= h->now)
		;
	TAP_OK(h->sent_count == most, "... and the next one %u: %u", most, h->sent_count);
	end(&q);
}

static void test_windows(void)
{
	test_window(IBV_MTU_256, 128);
	test_window(IBV_MTU_1024, 128);
	test_window(IBV_MTU_2048, 64);
	test_window(IBV_MTU_4096, 64);
}

/* SE is set only in the last packet of a message that completes a receive (IBTA 9.2.3). */
static void test_solicited(void)
{
	/* clang-format off */
	static const struct row {
		const char *what;
		uint8_t wr;
		bool last;
	} rows[] = {
		{ "SEND", XR_WR_SEND, true },
		{ "SEND with immediate data", XR_WR_SEND_WITH_IMM, true },
		{ "SEND with Invalidate", XR_WR_SEND_WITH_INV, true },
		{ "WRITE with immediate data", XR_WR_RDMA_WRITE_WITH_IMM, true },
		{ "WRITE", XR_WR_RDMA_WRITE, false },
		{ "READ", XR_WR_RDMA_READ, false },
	};
	/* clang-format on */

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct h_qp q;
		struct harness *h = begin(&q);
		unsigned k, wrong = 0;

		h_post_send(&q, 1, r->wr, BASE, 3 * MTU, key)->flags |= XR_SEND_SOLICITED;
		xt_qp_doorbell(q.qp, h->now);
		xt_engine_run(h->engine, h->now);
		for (k = 0; k < h->sent_count; k++)
			wrong += !(sent_bth(h, k)[1] & XR_BTH_SE) ==
				 (r->last && k + 1 == h->sent_count);
		TAP_OK(h->sent_count && !wrong, "SE of a solicited %s", r->what);
		end(&q);
	}
}

/* ---- SQD ----------------------------------------------------------------- */

static void to_sqd(struct h_qp *q, struct xr_qp_attr *attr, uint32_t mask)
{
	int err;

	attr->qp_state = XR_QPS_SQD;
	err = xt_qp_modify(q->qp, attr, mask | IBV_QP_STATE, NULL, 4096, q->h->now);
	if (err)
		TAP_OK(false, "to SQD: %d", err);
}

/* max_dest_rd_atomic grows while READs and atomics are kept for duplicates. */
static void test_more_reads(void)
{
	struct xr_qp_attr attr = { .max_dest_rd_atomic = XT_MAX_RD_ATOMIC };
	struct made add = S(FETCH_ADD, .va = BASE), read = S(READ_REQUEST, .va = BASE, .len = 8);
	struct h_qp q;
	struct harness *h = begin(&q);
	uint64_t word = 7;
	unsigned i, same = 0;

	memcpy(memory, &word, 8);
	for (add.psn = 0; add.psn < RD_ATOMIC; add.psn++)
		receive(&q, &add);
	to_sqd(&q, &attr, 0);
	TAP_OK(xt_qp_more_bytes(q.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC) > 0,
	       "more READs and atomics need more memory");
	to_sqd(&q, &attr, IBV_QP_MAX_DEST_RD_ATOMIC);
	TAP_OK(!xt_qp_more_bytes(q.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC),
	       "that memory is allocated once");
	h_modify(&q, XR_QPS_RTS);
	h->sent_count = 0;
	for (add.psn = 0; add.psn < RD_ATOMIC; add.psn++)
		receive(&q, &add);
	for (i = 0; i < h->sent_count; i++)
		same += sent_bth(h, i)[0] == XR_OP_ATOMIC_ACK && sent_psn(h, i) == (int)i;
	memcpy(&word, memory, 8);
	TAP_OK(h->sent_count == RD_ATOMIC && same == RD_ATOMIC,
	       "max_dest_rd_atomic grows: kept atomics are still repeated");

	h->sent_count = H_FRAMES;
	for (i = 0; i < XT_MAX_RD_ATOMIC; i++) {
		memory[8 * i] = (uint8_t)i;
		read.va = BASE + 8 * i;
		read.psn = (int)(RD_ATOMIC + i);
		receive(&q, &read);
	}
	TAP_OK(xt_qp_info(q.qp)->state == XR_QPS_RTS, "%d READs at once are accepted",
	       XT_MAX_RD_ATOMIC);
	h->sent_count = same = 0;
	while (xt_engine_run(h->engine, h->now) <= h->now)
		;
	for (i = 0; i < h->sent_count; i++)
		same += sent_psn(h, i) == (int)(RD_ATOMIC + i) && sent_bth(h, i)[16] == i;
	TAP_OK(h->sent_count == XT_MAX_RD_ATOMIC && same == XT_MAX_RD_ATOMIC,
	       "%d READs at once are responded to in order", XT_MAX_RD_ATOMIC);
	h->sent_count = H_FRAMES;
	for (i = 0; i <= XT_MAX_RD_ATOMIC; i++) {
		read.psn++;
		receive(&q, &read);
	}
	TAP_OK(xt_qp_info(q.qp)->state == XR_QPS_ERR, "one more READ is refused then, too");
	end(&q);
}

/* IBTA 10.3.1: SQD does not start WRs, even if they can only fail. */
static void test_failure_waits(void)
{
	struct xr_qp_attr attr = { .en_sqd_async_notify = 1 };
	struct h_qp q;
	struct harness *h = begin(&q);
	struct xr_cqe cqe;

	h_post_send(&q, 1, XR_WR_RDMA_WRITE, BASE, 8, key);
	h_post_send(&q, 2, 255, BASE, 8, key);
	xt_qp_doorbell(q.qp, h->now);
	xt_engine_run(h->engine, h->now);
	to_sqd(&q, &attr, IBV_QP_EN_SQD_ASYNC_NOTIFY);
	receive(&q, &(struct made)S(ACK, .msn = 1));
	TAP_OK(h_poll(h, &cqe) && cqe.wr_id == 1 && !h_poll(h, &cqe) &&
		       xt_qp_info(q.qp)->state == XR_QPS_SQD &&
		       h->events[IBV_EVENT_SQ_DRAINED] == 1,
	       "SQD drains and does not start an invalid WR");
	h_modify(&q, XR_QPS_RTS);
	xt_engine_run(h->engine, h->now);
	TAP_OK(h_poll(h, &cqe) && cqe.wr_id == 2 && cqe.status == IBV_WC_LOC_QP_OP_ERR &&
		       xt_qp_info(q.qp)->state == XR_QPS_ERR,
	       "the invalid WR fails in RTS");
	end(&q);
}

/* READs loaded before max_rd_atomic became 0 are sent; later ones fail. */
static void test_no_more_reads(void)
{
	struct made response = S(READ_RESP_ONLY, .payload = 8);
	struct xr_qp_attr attr = { .max_rd_atomic = 0 };
	struct h_qp q;
	struct harness *h = begin(&q);
	unsigned i, done = 0;
	struct xr_cqe cqe;

	for (i = 0; i < RD_ATOMIC + 2; i++)
		h_post_send(&q, i, XR_WR_RDMA_READ, BASE, 8, key);
	xt_qp_doorbell(q.qp, h->now);
	xt_engine_run(h->engine, h->now);
	to_sqd(&q, &attr, 0);
	to_sqd(&q, &attr, IBV_QP_MAX_QP_RD_ATOMIC);
	h->sent_count = 0;
	h->now += 4096ull << 10;
	xt_engine_run(h->engine, h->now);
	TAP_OK(h->sent_count == 1 && sent_psn(h, 0) == 0, "one READ is retransmitted");
	h_modify(&q, XR_QPS_RTS);
	for (i = 0; i < RD_ATOMIC + 1; i++) {
		response.psn = i;
		receive(&q, &response);
		done += h_poll(h, &cqe) && cqe.status == IBV_WC_SUCCESS;
	}
	TAP_OK(done == RD_ATOMIC + 1 && h_poll(h, &cqe) && cqe.wr_id == RD_ATOMIC + 1 &&
		       cqe.status == IBV_WC_LOC_QP_OP_ERR,
	       "%u loaded READs succeed, the next one fails: %u", RD_ATOMIC + 1, done);
	end(&q);
}

/* ---- UDP checksum --------------------------------------------------------- */

static void test_udp_checksum(void)
{
	static const struct made write = S(WRITE_ONLY, .payload = 8, .va = BASE, .len = 8);
	static struct packet p;
	struct h_qp q;
	struct harness *h = begin(&q);

	make(&q, &write, &p);
	put16(p.bytes + 40, 0x1234);
	memset(memory, 0, 8);
	h_receive(h, p.bytes, p.len);
	TAP_OK(!memory[0] && !h->sent_count &&
		       xt_engine_counters(h->engine)->rx_udp_checksum_errors == 1,
	       "a packet with a wrong UDP checksum is dropped and counted");
	receive(&q, &write);
	TAP_OK(memory[0] == 0x77, "the repeated packet without a checksum is executed");
	end(&q);
}

int main(void)
{
	test_udp_checksum();
	test_invalid_requests();
	test_atomic_write();
	test_flush();
	test_flush_resources();
	test_flush_access();
	test_qp_access();
	test_sequence();
	test_rnr();
	test_packets_before_rnr_nak();
	test_dropped_after_rnr();
	test_too_many_reads();
	test_more_reads();
	test_repetition_completes_read();
	test_duplicate_atomics();
	test_responses();
	test_rnr_timers();
	test_ack_timeout();
	test_rnr_retries();
	test_ackreq();
	test_windows();
	test_solicited();
	test_failure_waits();
	test_no_more_reads();
	return tap_end();
}
