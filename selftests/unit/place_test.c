// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Payload of early packets is in the program's memory before the missing packet arrives, if it is
 * known where it belongs, and if no earlier packet will be stored there. The last packet of a
 * message is not.
 */
#include "daemon/transport/engine.h"
#include "daemon/transport/waiting/waiting.h"
#include "made.h"

#define ACCESS_NAK (XR_AETH_NAK | XR_NAK_REMOTE_ACCESS)
#define PACKETS 6 /* of a message */
#define BYTES (PACKETS * MTU)

static const uint8_t send_ops[] = { XR_OP_SEND_FIRST, XR_OP_SEND_MIDDLE, XR_OP_SEND_LAST };
static const uint8_t write_ops[] = { XR_OP_WRITE_FIRST, XR_OP_WRITE_MIDDLE, XR_OP_WRITE_LAST };
static const uint8_t write_imm_ops[] = { XR_OP_WRITE_FIRST, XR_OP_WRITE_MIDDLE,
					 XR_OP_WRITE_LAST_IMM };

/* Packet i of a message whose first packet has PSN psn. va: of a WRITE */
static void packet_of(struct h_qp *q, int psn, int i, const uint8_t *ops, uint64_t va)
{
	const struct made m = {
		.opcode = ops[i == PACKETS - 1 ? 2 : !!i],
		.psn = psn + i,
		.payload = MTU,
		.va = va,
		.len = BYTES,
	};

	receive(q, &m);
}

/* To the start of the region */
static void write_of(struct h_qp *q, int psn, int i)
{
	packet_of(q, psn, i, write_ops, BASE);
}

static void send_of(struct h_qp *q, int psn, int i)
{
	packet_of(q, psn, i, send_ops, 0);
}

/* Returns the packets of a message that are in memory, bit 0 for the first one. */
static unsigned placed_at(uint32_t off)
{
	const uint8_t *p = memory + off;
	unsigned mask = 0;

	for (int i = 0; i < PACKETS; i++)
		if (p[i * MTU] == 0x77 && p[i * MTU + MTU - 1] == 0x77)
			mask |= 1u << i;
	return mask;
}

static unsigned placed(void)
{
	return placed_at(0);
}

static struct harness *start(struct h_qp *q)
{
	struct harness *h = begin(q);

	memset(memory, 0, sizeof(memory));
	h->sent_count = 0;
	return h;
}

static void test_write(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	write_of(&q, 0, 0);
	write_of(&q, 0, 2);
	TAP_OK(placed() == 0x05, "WRITE: an early packet is placed");
	write_of(&q, 0, 5);
	TAP_OK(placed() == 0x05, "the last packet of a message is not");
	write_of(&q, 0, 4);
	TAP_OK(placed() == 0x15, "one behind a further gap is");
	memset(memory + 2 * MTU, 0x11, MTU);
	h->sent_count = 0;
	write_of(&q, 0, 1);
	TAP_OK(sent_psn(h, h->sent_count - 1) == 3 && placed() == 0x13 && memory[2 * MTU] == 0x11,
	       "the missing packet: the early one is executed, and not stored again");
	h->sent_count = 0;
	write_of(&q, 0, 3);
	TAP_OK(sent_ack(h, 0, 5) && placed() == 0x3b, "the next one: the message is complete");
	end(&q);
}

static void test_next_write(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	write_of(&q, 0, 0);
	for (int i = 2; i < PACKETS; i++)
		write_of(&q, 0, i);
	memset(memory, 0, sizeof(memory));
	write_of(&q, PACKETS, 0);
	TAP_OK(placed() == 0x01, "a packet of the next WRITE is placed");
	write_of(&q, PACKETS, 1);
	TAP_OK(placed() == 0x01, "but not to the bytes of the missing packet");
	memset(memory, 0x11, MTU);
	write_of(&q, 0, 1);
	TAP_OK(sent_psn(h, h->sent_count - 1) == PACKETS + 1 && placed() == 0x22,
	       "they are executed in their turn");
	end(&q);
}

/* Behind a WRITE of which packet 1 is missing. Returns true if the next one's first is placed. */
static bool places_write_behind(uint64_t va)
{
	struct h_qp q;
	bool found;

	start(&q);
	write_of(&q, 0, 0);
	for (int i = 2; i < PACKETS; i++)
		write_of(&q, 0, i);
	memset(memory, 0, sizeof(memory));
	packet_of(&q, PACKETS, 0, write_ops, va);
	found = memory[va - BASE + MTU / 2] == 0x77;
	end(&q);
	return found;
}

static void test_overlap(void)
{
	TAP_OK(places_write_behind(BASE + BYTES), "a WRITE to other bytes is placed");
	TAP_OK(places_write_behind(BASE + 2 * MTU), "just behind the missing packet as well");
	TAP_OK(!places_write_behind(BASE + 2 * MTU - 1), "not one byte before");
	TAP_OK(!places_write_behind(BASE + 1) && places_write_behind(BASE), "nor at its start");
	TAP_OK(!places_write_behind(BASE + (PACKETS - 1) * MTU),
	       "and not to the bytes of the last packet, which is kept");
	TAP_OK(!places_write_behind(END - BYTES + 1),
	       "a WRITE that does not fit the region is not placed: it will be refused");
}

static void test_refusal(void)
{
	struct h_qp q;

	start(&q);
	write_of(&q, 0, 0);
	for (int i = 2; i < PACKETS; i++)
		write_of(&q, 0, i);
	packet_of(&q, PACKETS, 0, write_ops, END - BYTES + 1);
	TAP_OK(!mr.key->refused.count, "an early packet with an invalid range is not refused yet");
	write_of(&q, 0, 1);
	TAP_OK(mr.key->refused.count == 1, "it is in its turn, and counted once");
	end(&q);
}

static void test_other_message(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	write_of(&q, 0, 1);
	TAP_OK(!placed(), "a packet of a WRITE that has not begun is not placed");
	write_of(&q, 0, 0);
	TAP_OK(placed() == 0x03, "it is executed in its turn");
	write_of(&q, 0, 5);
	for (int i = 2; i < 5; i++)
		write_of(&q, 0, i);
	TAP_OK(sent_psn(h, h->sent_count - 1) == 5 && placed() == 0x3f,
	       "a message whose last packet came first is complete");
	end(&q);
}

static void test_send(void)
{
	struct h_qp q;
	struct harness *h = start(&q);
	struct xr_cqe cqe;

	h_post_recv(&q, 1, BASE, 2 * PACKETS * MTU, key);
	send_of(&q, 0, 0);
	send_of(&q, 0, 2);
	TAP_OK(placed() == 0x05, "SEND: a packet behind one that is missing is placed");
	send_of(&q, 0, 4);
	TAP_OK(placed() == 0x15, "so is a packet behind another one that is missing");
	send_of(&q, 0, 3);
	send_of(&q, 0, 5);
	TAP_OK(placed() == 0x1d && !h_poll(h, &cqe), "but not the last one");
	send_of(&q, 0, 1);
	TAP_OK(placed() == 0x3f && h_poll(h, &cqe) && cqe.byte_len == PACKETS * MTU,
	       "the missing packet: the receive completes");
	send_of(&q, PACKETS, 1);
	TAP_OK(!memory[(PACKETS + 1) * MTU], "a packet of the next SEND, for which no receive is "
					     "posted, is not placed behind it");
	end(&q);
}

/* Receives of a message each, behind each other */
static struct harness *start_receives(struct h_qp *q, int n)
{
	struct harness *h = start(q);

	for (int i = 0; i < n; i++)
		h_post_recv(q, i, BASE + i * BYTES, BYTES, key);
	return h;
}

static bool completed(struct harness *h, unsigned n)
{
	struct xr_cqe cqe;

	for (unsigned i = 0; i < n; i++)
		if (!h_poll(h, &cqe) || cqe.wr_id != i || cqe.status != IBV_WC_SUCCESS ||
		    cqe.byte_len != BYTES)
			return false;
	return !h_poll(h, &cqe);
}

static void test_next_sends(void)
{
	struct h_qp q;
	struct harness *h = start_receives(&q, 3);

	send_of(&q, 0, 0);
	for (int psn = 2; psn < 3 * PACKETS; psn++)
		send_of(&q, psn / PACKETS * PACKETS, psn % PACKETS);
	TAP_OK(placed() == 0x1d && placed_at(BYTES) == 0x1f && placed_at(2 * BYTES) == 0x1f &&
		       completed(h, 0),
	       "packets of the next SENDs are placed in their receives");
	memset(memory + BYTES, 0x11, MTU);
	send_of(&q, 0, 1);
	TAP_OK(placed() == 0x3f && placed_at(BYTES) == 0x3e && placed_at(2 * BYTES) == 0x3f &&
		       completed(h, 3),
	       "the missing packet: all receives complete, and nothing is stored again");
	end(&q);
}

/* Which packet is missing follows from the opcode of the next one. */
static void test_missing_end(void)
{
	struct h_qp q;
	struct harness *h = start_receives(&q, 2);

	for (int i = 0; i < PACKETS - 1; i++)
		send_of(&q, 0, i);
	for (int i = 0; i < PACKETS; i++)
		send_of(&q, PACKETS, i);
	TAP_OK(placed_at(BYTES) == 0x1f,
	       "the last packet of a SEND is missing: the next is placed");
	send_of(&q, 0, PACKETS - 1);
	TAP_OK(completed(h, 2), "both complete");
	end(&q);
}

static void test_missing_start(void)
{
	struct h_qp q;
	struct harness *h = start_receives(&q, 2);

	for (int psn = 1; psn < 2 * PACKETS; psn++)
		send_of(&q, psn / PACKETS * PACKETS, psn % PACKETS);
	TAP_OK(placed() == 0x1e && placed_at(BYTES) == 0x1f,
	       "the first packet of a SEND is missing: those behind it are placed");
	send_of(&q, 0, 0);
	TAP_OK(completed(h, 2), "both complete");
	end(&q);
}

static void test_missing_only(void)
{
	static const struct made only = S(SEND_ONLY, .psn = 0, .payload = MTU);
	struct h_qp q;
	struct harness *h = start_receives(&q, 2);
	struct xr_cqe cqe;

	send_of(&q, 1, 0);
	send_of(&q, 1, 1);
	TAP_OK(!placed() && !placed_at(BYTES),
	       "a single packet is missing, which may take a receive: nothing is placed");
	receive(&q, &only);
	TAP_OK(h_poll(h, &cqe) && cqe.byte_len == MTU && placed_at(BYTES) == 0x03, "it was a SEND");
	send_of(&q, 1, 3);
	TAP_OK(placed_at(BYTES) == 0x0b, "packets behind the next gap are placed");
	end(&q);
}

/* A WRITE with immediate data takes a receive. Returns true if the SEND behind it is placed. */
static bool places_send_behind(const uint8_t *ops, int missing, uint32_t receive_off)
{
	struct h_qp q;
	bool found;

	start_receives(&q, 2);
	for (int i = 0; i < PACKETS; i++)
		if (i != missing)
			packet_of(&q, 0, i, ops, END - BYTES);
	send_of(&q, PACKETS, 0);
	found = placed_at(receive_off) == 0x01;
	end(&q);
	return found;
}

static void test_send_behind_write(void)
{
	TAP_OK(places_send_behind(write_ops, 1, 0), "SEND behind a WRITE: placed");
	TAP_OK(places_send_behind(write_imm_ops, 1, BYTES),
	       "behind one with immediate data: placed in the second receive");
	TAP_OK(!places_send_behind(write_ops, PACKETS - 1, 0) &&
		       !places_send_behind(write_imm_ops, PACKETS - 1, BYTES),
	       "not if it is unknown whether the WRITE has such data");
}

/* A READ is executed in its turn, so what follows must not change what it reads. */
static void test_read_between(void)
{
	static const struct made read = S(READ_REQUEST, .psn = PACKETS, .va = BASE, .len = MTU);
	static const struct made next = S(WRITE_FIRST, .psn = PACKETS + 1, .payload = MTU,
					  .va = BASE, .len = BYTES);
	struct h_qp q;

	start(&q);
	packet_of(&q, 0, 0, write_ops, END - BYTES);
	for (int i = 2; i < PACKETS; i++)
		packet_of(&q, 0, i, write_ops, END - BYTES);
	receive(&q, &read);
	receive(&q, &next);
	TAP_OK(!placed(), "a WRITE behind a READ is not placed");
	packet_of(&q, 0, 1, write_ops, END - BYTES);
	TAP_OK(placed() == 0x01, "it is executed in its turn");
	end(&q);
}

/* A WRITE of two packets */
static void short_write(struct h_qp *q, int psn, uint64_t va, bool first)
{
	const struct made m = {
		.opcode = first ? XR_OP_WRITE_FIRST : XR_OP_WRITE_LAST,
		.psn = psn,
		.payload = MTU,
		.va = va,
		.len = 2 * MTU,
	};

	receive(q, &m);
}

/*
 * A packet that is placed, but not kept, will be written again: then nothing behind it may be in
 * the same place.
 */
static void test_not_kept(void)
{
	const int missing[] = { 302, 304 };	/* the last packets of two WRITEs */
	const int end_psn = XT_KEPT_QP_MAX + 3; /* so all blocks but one are in use */
	static const struct made first = S(WRITE_FIRST, .psn = 0, .payload = MTU, .va = END - BYTES,
					   .len = 3 * MTU);
	static const struct made middle = S(WRITE_MIDDLE, .psn = 1, .payload = MTU);
	static const struct made last = S(WRITE_LAST, .psn = 2, .payload = MTU);
	struct h_qp q;
	struct harness *h = start(&q);
	int psn;

	receive(&q, &first);
	receive(&q, &last);
	for (psn = 3; psn < end_psn; psn++) {
		if (psn != missing[0] && psn != missing[1])
			short_write(&q, psn, BASE, psn % 2);
		h->sent_count = 0;
	}
	memset(memory, 0, MTU);
	short_write(&q, psn, BASE, true);
	TAP_OK(memory[0] == 0x77, "a packet is placed, but there is no block to keep it");
	receive(&q, &middle);
	while (xt_engine_run(h->engine, h->now) <= h->now)
		h->sent_count = 0;
	memset(memory, 0, MTU);
	short_write(&q, psn + 2, BASE, true);
	TAP_OK(!memory[0], "a later one, to the same bytes, is not placed");
	end(&q);
}

static bool blocks_are_free(struct harness *h)
{
	const struct xt_kept_pool *p = &h->engine->kept;

	return p->free[XT_KEPT_SMALL] == XT_KEPT_SMALL_BLOCKS &&
	       p->free[XT_KEPT_LARGE] == XT_KEPT_LARGE_BLOCKS;
}

static void test_blocks(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	write_of(&q, 0, 0);
	for (int i = 2; i < PACKETS; i++)
		write_of(&q, 0, i);
	TAP_OK(!blocks_are_free(h), "early packets take blocks");
	write_of(&q, 0, 1);
	xt_engine_run(h->engine, h->now);
	TAP_OK(blocks_are_free(h), "without gaps, all blocks are free");
	write_of(&q, PACKETS, 0);
	write_of(&q, PACKETS, 2);
	h_destroy(&q);
	xt_engine_run(h->engine, h->now);
	TAP_OK(blocks_are_free(h), "and when the QP is destroyed");
	h_free(h);
}

/* Many messages, each of which leaves its last packet to be stored */
static void test_many_ranges(void)
{
	static const struct made first = S(WRITE_FIRST, .psn = 0, .payload = MTU, .va = END - BYTES,
					   .len = BYTES);
	struct h_qp q;
	int n = 0;

	start(&q);
	receive(&q, &first);
	packet_of(&q, 0, 2, write_ops, 0);
	for (int i = 3; i < PACKETS; i++)
		packet_of(&q, 0, i, write_ops, 0);
	for (int i = 0; i < 20; i++) {
		short_write(&q, PACKETS + 2 * i, BASE + i * 2 * MTU, true);
		n += memory[i * 2 * MTU] == 0x77;
		short_write(&q, PACKETS + 2 * i + 1, 0, false);
	}
	TAP_OK(n == 15, "messages are placed as long as all ranges that are due are kept: %d of 15",
	       n);
	end(&q);
}

static void test_unknown_message(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	h_post_recv(&q, 1, BASE, PACKETS * MTU, key);
	send_of(&q, 0, 0);
	send_of(&q, 0, 3);
	send_of(&q, 0, 4);
	TAP_OK(placed() == 0x01,
	       "SEND: behind two missing packets, one may be of the next message: not placed");
	send_of(&q, 0, 2);
	TAP_OK(placed() == 0x05, "a packet that fills a part of this gap is placed");
	send_of(&q, 0, 1);
	TAP_OK(placed() == 0x1f && sent_psn(h, h->sent_count - 1) == 4, "all are executed");
	end(&q);
}

/* Posts the receive of this index with two SGEs. */
static void post_two_sges(struct h_qp *q, uint32_t index, uint64_t addr)
{
	struct xr_recv_wqe *w = (void *)((uint8_t *)(q->rq + 1) + index * xr_recv_stride(H_SGE));

	h_post_recv(q, index, addr, MTU, key);
	w->num_sge = 2;
	((struct xr_sge *)(w + 1))[1] = (struct xr_sge){ addr + MTU, PACKETS * MTU, key };
}

static void test_short_receive(void)
{
	static const struct made one = S(SEND_ONLY, .psn = 0);
	struct h_qp q;
	struct harness *h = start(&q);
	struct xr_cqe cqe;

	post_two_sges(&q, 0, BASE);
	/* must not use the second SGE of the one before */
	h_post_recv(&q, 2, BASE, 2 * MTU, key);
	receive(&q, &one);
	send_of(&q, 1, 0);
	send_of(&q, 1, 2);
	TAP_OK(h_poll(h, &cqe) && placed() == 0x01,
	       "SEND: a packet beyond the end of the receive is not placed");
	send_of(&q, 1, 1);
	TAP_OK(h_poll(h, &cqe) && cqe.status == IBV_WC_LOC_LEN_ERR && placed() == 0x03,
	       "the receive fails in its turn");
	end(&q);
}

static void test_scattered(void)
{
	struct h_qp q;
	struct harness *h = start_receives(&q, 1);

	post_two_sges(&q, 1, BASE + BYTES);
	h_post_recv(&q, 2, BASE + 3 * BYTES, BYTES, key);
	send_of(&q, 0, 0);
	for (int i = 2; i < PACKETS; i++)
		send_of(&q, 0, i);
	send_of(&q, PACKETS, 0);
	TAP_OK(!placed_at(BYTES), "the next receive has two SGEs: nothing is placed there");
	send_of(&q, 0, 1);
	TAP_OK(placed_at(BYTES) == 0x01, "the packet is stored in its turn");
	for (int i = 2; i < PACKETS; i++)
		send_of(&q, PACKETS, i);
	send_of(&q, 2 * PACKETS, 0);
	TAP_OK(placed_at(BYTES) == 0x1d && !placed_at(3 * BYTES),
	       "it is the present one: packets are placed there, but not in the one behind");
	send_of(&q, PACKETS, 1);
	for (int i = 1; i < PACKETS; i++)
		send_of(&q, 2 * PACKETS, i);
	TAP_OK(completed(h, 3), "all receives complete");
	end(&q);
}

static void test_short_write(void)
{
	static const struct made first = S(WRITE_FIRST, .psn = 0, .payload = MTU, .va = BASE,
					   .len = 3 * MTU);
	struct h_qp q;

	start(&q);
	receive(&q, &first);
	write_of(&q, 0, 2);
	TAP_OK(placed() == 0x01,
	       "WRITE: a packet in the middle that reaches the end is not placed");
	end(&q);
}

static void test_keys(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	write_of(&q, 0, 0);
	write_of(&q, 0, 2);
	xt_keys_release(h->shared.keys, mr.key);
	write_of(&q, 0, 4);
	TAP_OK(placed() == 0x05, "a packet is not placed in a region that was deregistered");
	h->sent_count = 0;
	write_of(&q, 0, 1);
	TAP_OK(sent_ack(h, ACCESS_NAK, 1), "and the region's next packet is refused");
	end(&q);
}

static void response(struct h_qp *q, int psn)
{
	receive_response(q, psn, PACKETS);
}

static void test_read(void)
{
	struct h_qp q;
	struct harness *h = start(&q);
	struct xr_cqe cqe;

	for (int i = 0; i < 2; i++)
		h_post_send(&q, i, XR_WR_RDMA_READ, BASE, PACKETS * MTU, key);
	xt_qp_doorbell(q.qp, h->now);
	xt_engine_run(h->engine, h->now);
	response(&q, 0);
	response(&q, 3);
	response(&q, 5);
	TAP_OK(placed() == 0x09, "READ: an early response is placed, but not the last one");
	memset(memory, 0, sizeof(memory));
	response(&q, PACKETS + 1);
	TAP_OK(!placed(), "one of the next READ, to the same bytes, is not placed");
	response(&q, 1);
	response(&q, 2);
	response(&q, 4);
	TAP_OK(placed() == 0x36 && h_poll(h, &cqe) && cqe.status == IBV_WC_SUCCESS,
	       "the READ completes, and the early response is not stored again");
	response(&q, PACKETS);
	TAP_OK(placed() == 0x37, "the early response of the next READ is stored in its turn");
	end(&q);
}

int main(void)
{
	test_write();
	test_next_write();
	test_overlap();
	test_refusal();
	test_other_message();
	test_send();
	test_next_sends();
	test_missing_end();
	test_missing_start();
	test_missing_only();
	test_send_behind_write();
	test_read_between();
	test_many_ranges();
	test_not_kept();
	test_blocks();
	test_unknown_message();
	test_short_receive();
	test_scattered();
	test_short_write();
	test_keys();
	test_read();
	return tap_end();
}
