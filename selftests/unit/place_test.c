// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Payload of early packets is in the program's memory before the missing packet arrives, but only
 * that of the message which is being received, and not its last packet.
 */
#include "made.h"

#define ACCESS_NAK (XR_AETH_NAK | XR_NAK_REMOTE_ACCESS)
#define PACKETS 6 /* of a message */

/* Packet i of a message whose first packet has PSN psn; WRITEs go to the start of the region. */
static void packet_of(struct h_qp *q, int psn, int i, bool write)
{
	static const uint8_t send[] = { XR_OP_SEND_FIRST, XR_OP_SEND_MIDDLE, XR_OP_SEND_LAST };
	static const uint8_t wr[] = { XR_OP_WRITE_FIRST, XR_OP_WRITE_MIDDLE, XR_OP_WRITE_LAST };
	int kind = i == PACKETS - 1 ? 2 : !!i;
	const struct made m = {
		.opcode = write ? wr[kind] : send[kind],
		.psn = psn + i,
		.payload = MTU,
		.va = BASE,
		.len = PACKETS * MTU,
	};

	receive(q, &m);
}

static void write_of(struct h_qp *q, int psn, int i)
{
	packet_of(q, psn, i, true);
}

static void send_of(struct h_qp *q, int psn, int i)
{
	packet_of(q, psn, i, false);
}

/* Returns the packets of a message that are in memory, bit 0 for the first one. */
static unsigned placed(void)
{
	unsigned mask = 0;

	for (int i = 0; i < PACKETS; i++)
		if (memory[i * MTU] == 0x77 && memory[i * MTU + MTU - 1] == 0x77)
			mask |= 1u << i;
	return mask;
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
	write_of(&q, PACKETS, 1);
	TAP_OK(!placed(), "packets of the next WRITE, to the same bytes, are not placed");
	write_of(&q, 0, 1);
	TAP_OK(sent_psn(h, h->sent_count - 1) == PACKETS + 1 && placed() == 0x23,
	       "they are executed in their turn");
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
	TAP_OK(!memory[(PACKETS + 1) * MTU],
	       "a packet of the next SEND, which has not begun, is not placed behind it");
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

/* Posts a receive of two SGEs, which the next one, of a single SGE, must not use. */
static void post_two_sges(struct h_qp *q)
{
	struct xr_recv_wqe *w = (void *)(q->rq + 1);

	h_post_recv(q, 1, BASE, MTU, key);
	w->num_sge = 2;
	((struct xr_sge *)(w + 1))[1] = (struct xr_sge){ BASE + MTU, PACKETS * MTU, key };
}

static void test_short_receive(void)
{
	static const struct made one = S(SEND_ONLY, .psn = 0);
	struct h_qp q;
	struct harness *h = start(&q);
	struct xr_cqe cqe;

	post_two_sges(&q);
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
	test_other_message();
	test_send();
	test_unknown_message();
	test_short_receive();
	test_short_write();
	test_keys();
	test_read();
	return tap_end();
}
