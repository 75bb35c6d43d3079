// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Requester: responder behaviour that the standard allows (IBTA 9.7.5, 9.7.6) but our responder
 * does not show. Each row has the WRs, the packets received one by one, and the packets sent and
 * WRs completed after each.
 */
#include "made.h"

#define WORK 5
#define STEPS 6
#define TIMEOUT_NS (4096ull << 10) /* timeout 10, as set by begin() */
#define PROBE_NS 300000		   /* after a short round trip */

struct work {
	uint8_t op; /* enum xr_wr_opcode */
	uint32_t len;
};

struct step {
	struct made in;
	const char *sent; /* OPCODE@PSN ... */
	unsigned done;	  /* number of WRs that complete, in order and with success */
	uint64_t wait;	  /* ns to wait before the packet */
};

#define STEP(packet, opcodes, n)                                                                   \
	{                                                                                          \
		.in = packet, .sent = opcodes, .done = n                                           \
	}
#define QUIET(packet)                                                                              \
	{                                                                                          \
		.in = packet                                                                       \
	}
/* A wait, then a CNP, which has no effect on the requester */
#define AFTER(ns, opcodes)                                                                         \
	{                                                                                          \
		.in = { .opcode = XR_OPCODE_CNP, .payload = 16 }, .sent = opcodes, .wait = ns      \
	}
#define SEQ_NAK (XR_AETH_NAK | XR_NAK_PSN_SEQUENCE)
#define NO_CREDITS XR_AETH_CREDITS_INVALID

/* clang-format off */
static const struct row {
	const char *what;
	struct work work[WORK];
	const char *sent;
	struct step step[STEPS];
} rows[] = {
	{ "an ACK for each packet",
	  { { XR_WR_RDMA_WRITE, 3 * MTU } }, "WRITE_FIRST@0 WRITE_MIDDLE@1 WRITE_LAST@2",
	  { QUIET(S(ACK)), QUIET(S(ACK, .psn = 1)), STEP(S(ACK, .psn = 2, .msn = 1), "", 1) } },
	{ "one ACK for three messages, and its duplicate",
	  { { XR_WR_RDMA_WRITE, 8 }, { XR_WR_SEND, 8 }, { XR_WR_RDMA_WRITE, 8 } },
	  "WRITE_ONLY@0 SEND_ONLY@1 WRITE_ONLY@2",
	  { STEP(S(ACK, .psn = 2, .msn = 3), "", 3), QUIET(S(ACK, .psn = 2, .msn = 3)) } },
	{ "a READ response acknowledges earlier requests",
	  { { XR_WR_RDMA_WRITE, 8 }, { XR_WR_RDMA_READ, 8 }, { XR_WR_SEND, 8 } },
	  "WRITE_ONLY@0 READ_REQUEST@1 SEND_ONLY@2",
	  { STEP(S(READ_RESP_ONLY, .psn = 1, .payload = 8, .msn = 3), "", 2),
	    STEP(S(ACK, .psn = 2, .msn = 3), "", 1) } },
	{ "an ATOMIC ACKNOWLEDGE acknowledges earlier requests",
	  { { XR_WR_SEND, 8 }, { XR_WR_ATOMIC_FETCH_AND_ADD, 8 } }, "SEND_ONLY@0 FETCH_ADD@1",
	  { STEP(S(ATOMIC_ACK, .psn = 1, .msn = 2), "", 2) } },
	{ "the response to an ATOMIC WRITE acknowledges earlier requests",
	  { { XR_WR_SEND, 8 }, { XR_WR_ATOMIC_WRITE, 8 } }, "SEND_ONLY@0 ATOMIC_WRITE@1",
	  { STEP(S(READ_RESP_ONLY, .psn = 1, .msn = 2), "", 2) } },
	{ "the response to a FLUSH acknowledges earlier requests",
	  { { XR_WR_RDMA_WRITE, 8 }, { XR_WR_FLUSH, 8 } }, "WRITE_ONLY@0 FLUSH@1",
	  { STEP(S(READ_RESP_ONLY, .psn = 1, .msn = 2), "", 2) } },
	{ "an ACK beyond a FLUSH: the FLUSH is retransmitted",
	  { { XR_WR_FLUSH, 8 }, { XR_WR_RDMA_WRITE, 8 } }, "FLUSH@0 WRITE_ONLY@1",
	  { STEP(S(ACK, .psn = 1, .msn = 2), "FLUSH@0", 0),
	    STEP(S(READ_RESP_ONLY, .msn = 2), "", 2) } },
	{ "an ACK beyond a READ: the READ is retransmitted",
	  { { XR_WR_RDMA_READ, 8 }, { XR_WR_RDMA_WRITE, 8 } }, "READ_REQUEST@0 WRITE_ONLY@1",
	  { STEP(S(ACK, .psn = 1, .msn = 2), "READ_REQUEST@0", 0),
	    STEP(S(READ_RESP_ONLY, .payload = 8, .msn = 2), "", 2) } },
	{ "two ACKs beyond an atomic: the atomic is retransmitted once",
	  { { XR_WR_ATOMIC_CMP_AND_SWP, 8 }, { XR_WR_SEND, 8 } }, "CMP_SWAP@0 SEND_ONLY@1",
	  { STEP(S(ACK, .psn = 1, .msn = 2), "CMP_SWAP@0", 0),
	    QUIET(S(ACK, .psn = 1, .msn = 2)),
	    STEP(S(ATOMIC_ACK, .msn = 2), "", 2) } },
	{ "a lost READ response packet: it is requested again, and the one behind it is kept",
	  { { XR_WR_RDMA_READ, 3 * MTU } }, "READ_REQUEST@0",
	  { QUIET(S(READ_RESP_FIRST, .payload = MTU)),
	    STEP(S(READ_RESP_LAST, .psn = 2, .payload = MTU), "READ_REQUEST@1", 0),
	    STEP(S(READ_RESP_ONLY, .psn = 1, .payload = MTU, .msn = 1), "", 1) } },
	{ "an ACK of a WRITE that was sent again, not of all before it: the next one was lost",
	  { { XR_WR_RDMA_WRITE, 8 }, { XR_WR_RDMA_WRITE, 8 }, { XR_WR_RDMA_WRITE, 8 },
	    { XR_WR_RDMA_WRITE, 8 } },
	  "WRITE_ONLY@0 WRITE_ONLY@1 WRITE_ONLY@2 WRITE_ONLY@3",
	  { STEP(S(ACK, .psn = 0, .syndrome = XR_AETH_NAK | XR_NAK_PSN_SEQUENCE), "WRITE_ONLY@0",
		 0),
	    STEP(S(ACK, .psn = 1, .msn = 2), "WRITE_ONLY@2", 2),
	    STEP(S(ACK, .psn = 3, .msn = 4), "", 2) } },
	{ "a peer that repeats the rest of a READ",
	  { { XR_WR_RDMA_READ, 3 * MTU } }, "READ_REQUEST@0",
	  { QUIET(S(READ_RESP_FIRST, .payload = MTU)),
	    STEP(S(READ_RESP_LAST, .psn = 2, .payload = MTU), "READ_REQUEST@1", 0),
	    STEP(S(READ_RESP_FIRST, .psn = 1, .payload = MTU), "", 1),
	    QUIET(S(READ_RESP_LAST, .psn = 2, .payload = MTU, .msn = 1)) } },
	{ "a lost response to the first of two READs: only that READ is requested again",
	  { { XR_WR_RDMA_READ, 8 }, { XR_WR_RDMA_READ, 8 } }, "READ_REQUEST@0 READ_REQUEST@1",
	  { STEP(S(READ_RESP_ONLY, .psn = 1, .payload = 8, .msn = 2), "READ_REQUEST@0", 0),
	    STEP(S(READ_RESP_ONLY, .payload = 8, .msn = 2), "", 2) } },
	{ "READ responses restart from the first packet",
	  { { XR_WR_RDMA_READ, 2 * MTU } }, "READ_REQUEST@0",
	  { QUIET(S(READ_RESP_FIRST, .payload = MTU)),
	    QUIET(S(READ_RESP_FIRST, .payload = MTU)),
	    STEP(S(READ_RESP_LAST, .psn = 1, .payload = MTU, .msn = 1), "", 1),
	    QUIET(S(READ_RESP_LAST, .psn = 1, .payload = MTU, .msn = 1)) } },
	{ "an ACK for part of a message: the rest is retransmitted",
	  { { XR_WR_RDMA_WRITE, 3 * MTU } }, "WRITE_FIRST@0 WRITE_MIDDLE@1 WRITE_LAST@2",
	  { QUIET(S(ACK, .psn = 1)), AFTER(TIMEOUT_NS, "WRITE_LAST@2"),
	    STEP(S(ACK, .psn = 2, .msn = 1), "", 1) } },
	{ "two sequence error NAKs for one gap, one for the next gap",
	  { { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 } },
	  "SEND_ONLY@0 SEND_ONLY@1 SEND_ONLY@2",
	  { STEP(S(ACK, .psn = 1, .msn = 1, .syndrome = SEQ_NAK), "SEND_ONLY@1", 1),
	    QUIET(S(ACK, .psn = 1, .msn = 1, .syndrome = SEQ_NAK)),
	    STEP(S(ACK, .psn = 2, .msn = 2, .syndrome = SEQ_NAK), "SEND_ONLY@2", 1),
	    STEP(S(ACK, .psn = 2, .msn = 3), "", 1) } },
	{ "a peer that keeps what follows a lost packet: one packet is sent again",
	  { { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 } },
	  "SEND_ONLY@0 SEND_ONLY@1 SEND_ONLY@2 SEND_ONLY@3",
	  { STEP(S(ACK, .psn = 1, .msn = 1, .syndrome = SEQ_NAK), "SEND_ONLY@1", 1),
	    STEP(S(ACK, .psn = 3, .msn = 4), "", 3) } },
	{ "a peer that drops what follows a lost packet: 1, 2, 4 packets are sent again",
	  { { XR_WR_RDMA_WRITE, 8 * MTU } },
	  "WRITE_FIRST@0 WRITE_MIDDLE@1 WRITE_MIDDLE@2 WRITE_MIDDLE@3 "
	  "WRITE_MIDDLE@4 WRITE_MIDDLE@5 "
	  "WRITE_MIDDLE@6 WRITE_LAST@7",
	  { STEP(S(ACK, .psn = 0, .syndrome = SEQ_NAK), "WRITE_FIRST@0", 0),
	    STEP(S(ACK, .psn = 0), "WRITE_MIDDLE@1 WRITE_MIDDLE@2", 0),
	    STEP(S(ACK, .psn = 2),
		 "WRITE_MIDDLE@3 WRITE_MIDDLE@4 WRITE_MIDDLE@5 WRITE_MIDDLE@6", 0),
	    STEP(S(ACK, .psn = 6), "WRITE_LAST@7", 0),
	    STEP(S(ACK, .psn = 7, .msn = 1), "", 1) } },
	{ "the last packet is lost: it is sent again long before the timeout",
	  { { XR_WR_RDMA_WRITE, 2 * MTU } }, "WRITE_FIRST@0 WRITE_LAST@1",
	  { QUIET(S(ACK, .psn = 0)), AFTER(PROBE_NS, "WRITE_LAST@1"),
	    AFTER(2 * PROBE_NS, "WRITE_LAST@1"),
	    STEP(S(ACK, .psn = 1, .msn = 1), "", 1) } },
	{ "NAKs for acknowledged packets are ignored",
	  { { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 } }, "SEND_ONLY@0 SEND_ONLY@1",
	  { STEP(S(ACK, .msn = 1), "", 1), QUIET(S(ACK, .syndrome = SEQ_NAK)),
	    QUIET(S(ACK, .syndrome = XR_AETH_RNR_NAK | 1)),
	    QUIET(S(ACK, .syndrome = XR_AETH_NAK | XR_NAK_REMOTE_ACCESS)),
	    STEP(S(ACK, .psn = 1, .msn = 2), "", 1) } },
	{ "RNR NAK for the last packet: only this packet is retransmitted",
	  { { XR_WR_RDMA_WRITE_WITH_IMM, 2 * MTU } }, "WRITE_FIRST@0 WRITE_LAST_IMM@1",
	  { QUIET(S(ACK, .psn = 1, .syndrome = XR_AETH_RNR_NAK | 1)),
	    QUIET(S(ACK, .psn = 1, .syndrome = XR_AETH_RNR_NAK | 1)),
	    AFTER(10000, "WRITE_LAST_IMM@1"),
	    STEP(S(ACK, .psn = 1, .msn = 1), "", 1) } },
	{ "RNR NAK for a READ",
	  { { XR_WR_RDMA_READ, 8 } }, "READ_REQUEST@0",
	  { QUIET(S(ACK, .syndrome = XR_AETH_RNR_NAK | 1)),
	    AFTER(10000, "READ_REQUEST@0"),
	    STEP(S(READ_RESP_ONLY, .payload = 8, .msn = 1), "", 1) } },
	{ "without credits one packet is sent, the rest after its ACK",
	  { { XR_WR_SEND, 8 }, { XR_WR_RDMA_READ, MTU }, { XR_WR_SEND, 2 * MTU },
	    { XR_WR_SEND, 8 } },
	  "SEND_ONLY@0 READ_REQUEST@1 SEND_FIRST@2 SEND_LAST@3 SEND_ONLY@4",
	  { STEP(S(ACK, .msn = 1), "", 1),
	    STEP(S(READ_RESP_ONLY, .psn = 1, .payload = MTU, .msn = 2), "", 1),
	    AFTER(TIMEOUT_NS, "SEND_FIRST@2"),
	    STEP(S(ACK, .psn = 2, .msn = 2), "SEND_LAST@3", 0),
	    STEP(S(ACK, .psn = 3, .msn = 3, .syndrome = 1), "SEND_ONLY@4", 1),
	    STEP(S(ACK, .psn = 4, .msn = 4), "", 1) } },
	{ "a duplicate ACK with new credits",
	  { { XR_WR_SEND, 8 }, { XR_WR_RDMA_READ, 8 }, { XR_WR_SEND, 8 } },
	  "SEND_ONLY@0 READ_REQUEST@1 SEND_ONLY@2",
	  { STEP(S(ACK, .msn = 1), "", 1), AFTER(TIMEOUT_NS, "READ_REQUEST@1"),
	    STEP(S(ACK, .msn = 1, .syndrome = 2), "SEND_ONLY@2", 0),
	    STEP(S(READ_RESP_ONLY, .psn = 1, .payload = 8, .msn = 3), "", 1),
	    STEP(S(ACK, .psn = 2, .msn = 3), "", 1) } },
	{ "ACKs switch to invalid credits",
	  { { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 }, { XR_WR_SEND, 8 } },
	  "SEND_ONLY@0 SEND_ONLY@1 SEND_ONLY@2",
	  { STEP(S(ACK, .msn = 1), "", 1), AFTER(TIMEOUT_NS, "SEND_ONLY@1"),
	    STEP(S(ACK, .psn = 1, .msn = 2, .syndrome = NO_CREDITS), "SEND_ONLY@2", 1),
	    STEP(S(ACK, .psn = 2, .msn = 3, .syndrome = NO_CREDITS), "", 1) } },
};
/* clang-format on */

static const char *name_of(uint8_t op)
{
	static const char *const names[XR_OP_COUNT] = {
#define X(name, flags, classes) [XR_OP_##name] = #name,
		XR_OPERATIONS(X)
#undef X
	};

	return op < XR_OP_COUNT && names[op] ? names[op] : "?";
}

/* True if exactly the packets @want have been sent since the last call. */
static bool sent(struct harness *h, const char *want)
{
	char got[1024] = "";
	size_t len = 0;

	for (unsigned i = 0; i < h->sent_count && len < sizeof(got); i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s@%d", i ? " " : "",
					name_of(sent_bth(h, i)[0]), sent_psn(h, i));
	h->sent_count = 0;
	if (!strcmp(got, want ? want : ""))
		return true;
	printf("# sent: %s\n", got);
	return false;
}

/* True if exactly @more WRs have completed, in order, since the last call. */
static bool completed(struct harness *h, unsigned *done, unsigned more)
{
	struct xr_cqe cqe;
	bool ok = true;

	for (; h_poll(h, &cqe); ++*done) {
		ok = ok && more && cqe.wr_id == *done && cqe.status == IBV_WC_SUCCESS;
		more -= more > 0;
	}
	return ok && !more;
}

static bool run_step(struct h_qp *q, const struct step *s, unsigned *done)
{
	struct harness *h = q->h;

	h->now += s->wait;
	receive(q, &s->in);
	if (!sent(h, s->sent))
		return false;
	return completed(h, done, s->done);
}

static void run_row(const struct row *r)
{
	unsigned done = 0, i;
	struct h_qp q;
	struct harness *h = begin(&q);
	bool ok;

	for (i = 0; i < WORK && r->work[i].len; i++)
		h_post_send(&q, i, r->work[i].op, BASE, r->work[i].len, key)->remote_addr = 0x9000;
	xt_qp_doorbell(q.qp, h->now);
	xt_engine_run(h->engine, h->now);
	ok = sent(h, r->sent);
	for (i = 0; i < STEPS && r->step[i].in.opcode; i++) {
		if (run_step(&q, &r->step[i], &done))
			continue;
		printf("# step %u\n", i + 1);
		ok = false;
	}
	TAP_OK(ok && i && xt_qp_info(q.qp)->state == XR_QPS_RTS, "%s", r->what);
	end(&q);
}

int main(void)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&rows[i]);
	return tap_end();
}
