// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Requester: which packets have AckReq set, and that an ACK has always been requested when a WR
 * waits for one. The time does not advance, so a local ACK timeout cannot hide a missing AckReq.
 */
#include "daemon/transport/qp.h"
#include "made.h"

#define BAD_LKEY 0x7700

static struct xr_send_wqe *post(struct h_qp *q, uint64_t wr_id, uint8_t opcode, uint32_t len,
				uint32_t flags)
{
	struct xr_send_wqe *w = h_post_send(q, wr_id, opcode, BASE, len, key);

	w->flags = flags;
	w->remote_addr = 0x5000;
	w->rkey = 0x100;
	return w;
}

static void run(struct h_qp *q)
{
	struct harness *h = q->h;

	h->sent_count = 0;
	xt_qp_doorbell(q->qp, h->now);
	while (xt_engine_run(h->engine, h->now) <= h->now && h->sent_count < H_FRAMES)
		;
}

/* Like run(), with room to send only @frames frames. */
static void run_with_room(struct h_qp *q, unsigned frames)
{
	struct harness *h = q->h;
	unsigned i;

	h->sent_count = H_FRAMES - frames;
	xt_qp_doorbell(q->qp, h->now);
	xt_engine_run(h->engine, h->now);
	h->sent_count = frames;
	for (i = 0; i < frames; i++)
		h->sent[i] = h->sent[H_FRAMES - frames + i];
}

/* The PSNs sent, relative to the initial one; "!" marks packets with AckReq. */
static const char *sent(const struct h_qp *q)
{
	static char text[1024];
	size_t n = 0;
	unsigned i;

	text[0] = 0;
	for (i = 0; i < q->h->sent_count; i++)
		n += snprintf(text + n, sizeof(text) - n, "%s%d%s", i ? " " : "", sent_psn(q->h, i),
			      be32(sent_bth(q->h, i) + 8) & XR_BTH_ACKREQ ? "!" : "");
	return text;
}

static void expect(const struct h_qp *q, const char *psns, const char *what)
{
	if (!TAP_OK(!strcmp(sent(q), psns), "%s", what))
		printf("# sent %s, not %s\n", sent(q), psns);
}

/* Receives an ACK for @psn without credits. */
static void ack(struct h_qp *q, int psn)
{
	const struct made m = S(ACK, .psn = psn, .syndrome = XR_AETH_ACK | 31);

	q->h->sent_count = 0;
	receive(q, &m);
}

/* Sends and acknowledges one message: the first after a start or retry always sets AckReq. */
static void start(struct h_qp *q)
{
	begin(q);
	post(q, 0, XR_WR_SEND, 8, 0);
	run(q);
	ack(q, 0);
}

static bool completed(struct h_qp *q, uint64_t wr_id, uint32_t status)
{
	struct xr_cqe cqe;

	return h_poll(q->h, &cqe) && cqe.wr_id == wr_id && cqe.status == status;
}

static void test_bursts(void)
{
	struct h_qp q;
	unsigned i;

	begin(&q);
	for (i = 0; i < 40; i++)
		post(&q, i, XR_WR_SEND, 8, 0);
	run(&q);
	expect(&q,
	       "0! 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16! 17 18 19 20 21 22 23 24 25 26 27 28 29 "
	       "30 "
	       "31! 32 33 34 35 36 37 38 39!",
	       "unsignalled SENDs set AckReq every 16 messages, at the end of a round and of the "
	       "queue");
	ack(&q, 39);
	for (i = 0; i < 4; i++)
		post(&q, i, XR_WR_SEND, 8, i == 1 ? XR_SEND_SIGNALED : 0);
	run(&q);
	expect(&q, "40 41! 42 43!", "a signalled SEND sets AckReq");
	end(&q);
}

/* As start(), but the ACK of the message says that one more message may take a receive. */
static void start_with_credit(struct h_qp *q)
{
	static const struct made one_credit = S(ACK, .syndrome = XR_AETH_ACK | 1, .msn = 1);

	begin(q);
	post(q, 0, XR_WR_SEND, 8, 0);
	run(q);
	q->h->sent_count = 0;
	receive(q, &one_credit);
}

/* One SEND without a credit may be in flight; it requests the ACK of the WRITEs before it. */
static void test_answer_without_credit(void)
{
	struct h_qp q;

	start_with_credit(&q);
	post(&q, 1, XR_WR_RDMA_WRITE, 8, 0);
	post(&q, 2, XR_WR_RDMA_WRITE, 8, 0);
	post(&q, 3, XR_WR_SEND, 8, 0);
	post(&q, 4, XR_WR_SEND, 8, 0);
	run(&q);
	expect(&q, "1 2 3!", "a SEND without a credit follows WRITEs, and the next one waits");
	ack(&q, 3);
	expect(&q, "4!", "it is sent after the ACK of the one before");
	end(&q);
}

/* Behind another one it is not sent, so it cannot request the ACK of a WRITE before it. */
static void test_credits(void)
{
	struct h_qp q;

	start_with_credit(&q);
	post(&q, 1, XR_WR_SEND, 8, 0);
	post(&q, 2, XR_WR_RDMA_WRITE, 8, 0);
	post(&q, 3, XR_WR_RDMA_WRITE, 8, 0);
	post(&q, 4, XR_WR_SEND, 8, 0);
	run(&q);
	expect(&q, "1! 2 3!", "a WRITE before a SEND without a credit sets AckReq");
	end(&q);
}

static void test_before_read_or_fence(void)
{
	struct h_qp q;

	start(&q);
	post(&q, 1, XR_WR_SEND, 8, 0);
	post(&q, 2, XR_WR_RDMA_WRITE, 3000, 0);
	post(&q, 3, XR_WR_SEND, 8, 0);
	run(&q);
	expect(&q, "1 2 3 4 5!", "only the last packet of a message may set AckReq");
	ack(&q, 5);
	post(&q, 1, XR_WR_SEND, 8, 0);
	post(&q, 2, XR_WR_RDMA_READ, 8, 0);
	post(&q, 3, XR_WR_SEND, 8, 0);
	post(&q, 4, XR_WR_SEND, 8, XR_SEND_FENCE);
	run(&q);
	expect(&q, "6! 7 8!", "the last packet before a READ or a fence sets AckReq");
	end(&q);
}

static void test_completion_errors(void)
{
	struct h_qp q;

	start(&q);
	post(&q, 1, XR_WR_SEND, 8, 0);
	h_post_send(&q, 2, XR_WR_SEND, BASE, 8, BAD_LKEY);
	run(&q);
	expect(&q, "1 1!",
	       "if the next WR cannot be built, the last packet is sent again with AckReq");
	TAP_OK(q.h->cq_ring->producer == 0, "the failed WR does not complete before the ACK");
	ack(&q, 1);
	TAP_OK(completed(&q, 2, IBV_WC_LOC_PROT_ERR), "the failed WR completes after the ACK");
	end(&q);

	start(&q);
	post(&q, 1, XR_WR_SEND, 8, 0);
	h_post_send(&q, 2, XR_WR_SEND, BASE, 3000, BAD_LKEY);
	run(&q);
	expect(&q, "1!", "the last packet before a WR that is known to fail sets AckReq");
	end(&q);

	start(&q);
	post(&q, 1, XR_WR_SEND, 8, 0);
	post(&q, 2, XR_WR_SEND, 3000, 0);
	run_with_room(&q, 2);
	expect(&q, "1 2", "sending stops in the middle of a message for lack of frames");
	mr.key->entry.state = XR_KEY_FREE;
	run(&q);
	expect(&q, "", "no packet is sent after the key of both WRs was freed");
	TAP_OK(completed(&q, 1, IBV_WC_LOC_PROT_ERR), "the oldest WR fails");
	end(&q);
}

static void test_error_in_message(void)
{
	struct h_qp q;
	struct h_mr other;
	uint32_t lkey;

	start(&q);
	lkey = h_reg(q.h, &other, memory, SIZE, BASE);
	post(&q, 1, XR_WR_SEND, 8, 0);
	h_post_send(&q, 2, XR_WR_SEND, BASE, 3000, lkey);
	run_with_room(&q, 2);
	other.key->entry.state = XR_KEY_FREE;
	run(&q);
	expect(&q, "1!",
	       "if a WR's key is freed in the middle, the packet before is sent again with AckReq");
	ack(&q, 1);
	TAP_OK(completed(&q, 2, IBV_WC_LOC_PROT_ERR),
	       "the WR fails when all earlier ones are acknowledged");
	end(&q);
}

static void test_drain(void)
{
	struct h_qp q;

	start(&q);
	post(&q, 1, XR_WR_SEND, 8, 0);
	post(&q, 2, XR_WR_SEND, 8, 0);
	run_with_room(&q, 1);
	expect(&q, "1", "no frame is left for the packet that would set AckReq");
	h_modify(&q, XR_QPS_SQD);
	run(&q);
	expect(&q, "1!", "SQD withholds the next WR, so the last packet is sent again with AckReq");
	ack(&q, 1);
	h_modify(&q, XR_QPS_RTS);
	run(&q);
	expect(&q, "2!", "RTS resumes sending");
	ack(&q, 2);
	post(&q, 3, XR_WR_SEND, 3000, 0);
	post(&q, 4, XR_WR_SEND, 8, 0);
	run_with_room(&q, 1);
	h_modify(&q, XR_QPS_SQD);
	run(&q);
	expect(&q, "4 5!", "SQD completes a message in progress and sets AckReq");
	end(&q);
}

int main(void)
{
	test_bursts();
	test_answer_without_credit();
	test_credits();
	test_before_read_or_fence();
	test_completion_errors();
	test_error_in_message();
	test_drain();
	return tap_end();
}
