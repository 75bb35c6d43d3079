// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Responder: packets that come early are kept, and each missing packet is asked for once. READ
 * responses are repeated as far as the peer asks for. Requester: the gaps in READ responses are
 * requested together, one of each READ request. More packets are sent again each time if the peer
 * drops what follows a lost one. A packet that was overtaken gives no round-trip time, and a NAK
 * that overtook a response counts after it. A packet that fills a gap leaves at
 * once if the window is nearly full. A probe is counted when it is sent, and costs no retry, nor
 * does what follows from its ACK. If the path becomes slower, probes end. A response is not
 * asked for if others came as late, unless packets are lost.
 */
#include "daemon/transport/engine.h"
#include "daemon/transport/waiting/waiting.h"
#include "daemon/transport/qp.h"
#include "made.h"

#define SEQ_NAK (XR_AETH_NAK | XR_NAK_PSN_SEQUENCE)
#define RNR_NAK (XR_AETH_RNR_NAK | 12)

/* A WRITE of one packet to a place of its own */
static void write_packet(struct h_qp *q, int psn)
{
	const struct made m = S(WRITE_ONLY, .psn = psn, .payload = 8, .len = 8,
				.va = BASE + 8 * (uint64_t)(psn + 1));

	receive(q, &m);
}

static bool written(int psn)
{
	return memory[8 * (psn + 1)] == 0x77;
}

static struct harness *start(struct h_qp *q)
{
	struct harness *h = begin(q);

	memset(memory, 0, sizeof(memory));
	h->sent_count = 0;
	return h;
}

static uint64_t early(struct harness *h)
{
	return xt_engine_counters(h->engine)->rx_early;
}

/* ---- requests --------------------------------------------------------------------- */

static void test_one_gap(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	write_packet(&q, 0);
	TAP_OK(sent_ack(h, 0, 0), "the expected packet is acknowledged");
	write_packet(&q, 2);
	TAP_OK(sent_ack(h, SEQ_NAK, 1) && !written(2), "an early packet: NAK for the missing one");
	write_packet(&q, 3);
	write_packet(&q, 3);
	TAP_OK(!h->sent_count && early(h) == 2, "later ones are kept, once, without another NAK");
	write_packet(&q, 1);
	TAP_OK(sent_ack(h, 0, 3), "the missing packet: all are acknowledged");
	TAP_OK(written(1) && written(2) && written(3), "and executed");
	write_packet(&q, 2);
	TAP_OK(sent_ack(h, 0, 3), "a kept packet that is received again is a duplicate");
	end(&q);
}

static void test_statistics(void)
{
	struct xt_qp_stats s;
	struct h_qp q;
	struct harness *h = start(&q);
	const struct made read = S(READ_REQUEST, .psn = 4, .va = BASE - 8, .len = 8);

	write_packet(&q, 0);
	write_packet(&q, 2);
	write_packet(&q, 1);
	write_packet(&q, 1);
	xt_qp_stats(q.qp, &s);
	TAP_OK(s.counters.rx_packets == 4 && s.counters.rx_messages == 3 &&
		       s.counters.rx_early == 1 && s.counters.rx_out_of_sequence == 1 &&
		       s.counters.rx_duplicates == 1 && s.counters.seq_naks_sent == 1,
	       "the counters of the QP have what happened");
	TAP_OK(s.counters.tx_packets == xt_engine_counters(h->engine)->tx_packets &&
		       s.counters.tx_bytes == xt_engine_counters(h->engine)->tx_bytes &&
		       s.counters.rx_bytes == xt_engine_counters(h->engine)->rx_bytes,
	       "those of the only QP are those of the engine");
	TAP_OK(s.rq_psn == ((PSN + 3) & 0xffffff) && !s.in_flight &&
		       s.failure.cause == XT_CAUSE_NONE,
	       "PSN, packets in flight, no failure");
	h->now += 5;
	write_packet(&q, 3);
	receive(&q, &read);
	xt_qp_stats(q.qp, &s);
	TAP_OK(s.failure.cause == XT_CAUSE_REFUSED && s.failure.status == XR_NAK_REMOTE_ACCESS &&
		       s.failure.at && s.counters.access_naks_sent == 1,
	       "a refused request is the cause of the failure");
	end(&q);
}

static void test_two_gaps(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	write_packet(&q, 4);
	write_packet(&q, 2);
	TAP_OK(sent_psn(h, 0) == 0 && h->sent_count == 1, "two gaps: NAK for the first");
	h->sent_count = 0;
	write_packet(&q, 0);
	TAP_OK(sent_ack_and_nak(h, 1), "an ACK, and the next missing packet is asked for at once");
	write_packet(&q, 1);
	TAP_OK(sent_ack_and_nak(h, 3) && written(2) && !written(4), "and the one behind");
	write_packet(&q, 3);
	TAP_OK(sent_ack(h, 0, 4) && written(4), "until nothing is missing");
	end(&q);
}

static void test_nak_lost(void)
{
	struct h_qp q;
	struct harness *h = start(&q);
	int psn, naks = 0;

	for (psn = 1; psn < 200; psn++) {
		write_packet(&q, psn);
		naks += h->sent_count && sent_psn(h, 0) == 0;
		h->sent_count = 0;
	}
	TAP_OK(naks == 13, "the NAK is repeated after 16 more early packets: %d of 13", naks);
	end(&q);
}

static void test_limit(void)
{
	struct h_qp q;
	struct harness *h = start(&q);
	const unsigned most = XT_KEPT_QP_MAX - 1; /* one block is for what is known of them */
	int psn;

	for (psn = 1; psn <= 2 * XT_KEPT_QP_MAX; psn++)
		write_packet(&q, psn);
	TAP_OK(early(h) == most, "a QP keeps %u packets", most);
	h->sent_count = 0;
	write_packet(&q, 0);
	while (xt_engine_run(h->engine, h->now) <= h->now)
		;
	TAP_OK(sent_psn(h, h->sent_count - 1) == (int)most,
	       "the missing packet: these are acknowledged, and those behind them are not");
	end(&q);
}

/* SENDs take receives in the order of PSNs. */
static void test_sends(void)
{
	static const struct made first = S(SEND_ONLY, .psn = 0, .payload = 8);
	static const struct made second = S(SEND_ONLY, .psn = 1, .payload = 16);
	struct h_qp q;
	struct harness *h = start(&q);
	struct xr_cqe cqe[2];

	h_post_recv(&q, 1, BASE, 64, key);
	h_post_recv(&q, 2, BASE, 64, key);
	receive(&q, &second);
	TAP_OK(!h_poll(h, cqe), "an early SEND completes nothing");
	receive(&q, &first);
	TAP_OK(h_poll(h, &cqe[0]) && h_poll(h, &cqe[1]) && cqe[0].byte_len == 8 &&
		       cqe[1].byte_len == 16,
	       "receives complete in the order of PSNs");
	end(&q);
}

static void test_rnr(void)
{
	static const struct made first = S(SEND_ONLY, .psn = 0, .payload = 8);
	static const struct made second = S(SEND_ONLY, .psn = 1, .payload = 8);
	struct h_qp q;
	struct harness *h = start(&q);

	receive(&q, &second);
	h->sent_count = 0;
	receive(&q, &first);
	TAP_OK(sent_ack(h, RNR_NAK, 0), "no receive is posted: RNR NAK");
	h_post_recv(&q, 1, BASE, 64, key);
	h_post_recv(&q, 2, BASE, 64, key);
	receive(&q, &first);
	TAP_OK(sent_ack(h, 0, 0), "what follows an RNR NAK is not kept");
	end(&q);
}

static void test_error(void)
{
	static const struct made wrong = S(WRITE_ONLY, .psn = 0, .payload = 8, .len = 8, .va = END);
	struct h_qp q;
	struct harness *h = start(&q);

	write_packet(&q, 1);
	h->sent_count = 0;
	receive(&q, &wrong);
	TAP_OK(sent_ack(h, XR_AETH_NAK | XR_NAK_REMOTE_ACCESS, 0) && !written(1),
	       "a request that is refused ends the QP, and early packets are dropped");
	end(&q);
}

/* ---- READ responses ----------------------------------------------------------------- */

static void read_request(struct h_qp *q, int psn, uint64_t off, uint32_t len)
{
	const struct made m = S(READ_REQUEST, .psn = psn, .va = BASE + off, .len = len);

	receive(q, &m);
}

/* Returns true if exactly these response packets were sent since the last call. */
static bool responses(struct harness *h, int first, unsigned n)
{
	bool ok = h->sent_count == n;

	for (unsigned i = 0; i < n && ok; i++)
		ok = sent_psn(h, i) == first + (int)i;
	h->sent_count = 0;
	return ok;
}

static void test_reads(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	read_request(&q, 0, 0, 4 * MTU);
	TAP_OK(responses(h, 0, 4), "a READ of four packets");
	read_request(&q, 4, 0, 2 * MTU);
	TAP_OK(responses(h, 4, 2), "another READ");
	read_request(&q, 1, MTU, MTU);
	TAP_OK(h->sent_count == 1 && sent_bth(h, 0)[0] == XR_OP_READ_RESP_ONLY &&
		       responses(h, 1, 1),
	       "a part of the first one again: only this part is sent");
	read_request(&q, 2, 2 * MTU, 2 * MTU);
	TAP_OK(responses(h, 2, 2), "the rest of the first one again: the second is not sent");
	read_request(&q, 1, MTU, 4 * MTU);
	read_request(&q, 1, 2 * MTU, MTU);
	read_request(&q, 2, 2 * MTU, 2 * MTU - 1);
	TAP_OK(responses(h, 0, 0), "other bytes than those of that PSN are not sent");
	end(&q);
}

/* ---- missing READ responses ----------------------------------------------------------- */

#define READ_PACKETS 8 /* of each READ */
#define READS 4	       /* in flight, RD_ATOMIC */

static void post_reads(struct h_qp *q, int n)
{
	for (int i = 0; i < n; i++)
		h_post_send(q, i, XR_WR_RDMA_READ, BASE, READ_PACKETS * MTU, key);
	xt_qp_doorbell(q->qp, q->h->now);
	xt_engine_run(q->h->engine, q->h->now);
}

static void response(struct h_qp *q, int psn)
{
	receive_response(q, psn, READ_PACKETS);
}

static uint32_t read_length(struct harness *h, unsigned i)
{
	return be32(sent_bth(h, i) + XR_BTH_HLEN + 12);
}

/* Returns true if one READ was sent since the last call, for these responses. */
static bool requested(struct harness *h, int psn, uint32_t packets)
{
	bool ok = h->sent_count == 1 && sent_bth(h, 0)[0] == XR_OP_READ_REQUEST &&
		  sent_psn(h, 0) == psn && read_length(h, 0) == packets * MTU;

	h->sent_count = 0;
	return ok;
}

static void receive_responses(struct h_qp *q, int from, int to)
{
	while (from < to)
		response(q, from++);
}

static void test_gaps(void)
{
	struct h_qp q;
	struct harness *h = start(&q);

	post_reads(&q, 3);
	h->sent_count = 0;
	receive_responses(&q, 0, 2);
	receive_responses(&q, 3, 4);
	TAP_OK(requested(h, 2, 1), "a response is missing: it is requested at once");
	receive_responses(&q, 5, 10);
	TAP_OK(!h->sent_count, "another one of the same READ request is not yet");
	receive_responses(&q, 12, 18);
	TAP_OK(requested(h, 10, 2), "two of the next READ are requested before the first has come");
	receive_responses(&q, 19, 24);
	TAP_OK(requested(h, 18, 1), "and one of the third");
	response(&q, 2);
	TAP_OK(requested(h, 4, 1), "the first has come: the other one of this READ is requested");
	response(&q, 11);
	TAP_OK(requested(h, 10, 1), "only the second of two comes: the first is requested again");
	response(&q, 18);
	TAP_OK(!h->sent_count, "those to earlier requests may be under way");
	response(&q, 10);
	TAP_OK(requested(h, 4, 1), "the response to a later request comes: the first was lost");
	response(&q, 4);
	TAP_OK(q.qp->sq.completed == 3 && !h->sent_count, "all READs complete");
	end(&q);
}

/* `rdma_rxe` drops a repeated READ that begins before an earlier repetition of the same READ. */
struct responder {
	int from[READS]; /* of the last repetition of each READ */
	int expected;
	unsigned dropped;
	uint32_t random;
	int queue[H_FRAMES];
	unsigned queued;
};

static void respond(struct responder *r, int psn, uint32_t len)
{
	int read = psn / READ_PACKETS, end = psn + (int)(len / MTU);

	if (psn > r->expected)
		return;
	if (psn == r->expected)
		r->expected = end;
	if (psn < r->from[read]) {
		r->dropped++;
		return;
	}
	r->from[read] = psn;
	for (; psn < end && r->queued < H_FRAMES; psn++) {
		r->random = r->random * 1103515245 + 12345;
		if (r->random >> 16 & 1)
			r->queue[r->queued++] = psn;
	}
}

static void take_requests(struct responder *r, struct harness *h)
{
	for (unsigned i = 0; i < h->sent_count; i++)
		if (sent_bth(h, i)[0] == XR_OP_READ_REQUEST)
			respond(r, sent_psn(h, i), read_length(h, i));
	h->sent_count = 0;
}

/*
 * Returns whether all READs complete in 40 ms while half of the responses are lost. Timeouts of 4
 * ms follow each other while no round-trip time is known. A timeout goes back to
 * the beginning of other READs, whose repetition the responder may drop without harm.
 */
static bool lossy_reads(uint32_t seed, unsigned *dropped)
{
	struct responder r = { .random = seed };
	struct h_qp q;
	struct harness *h = start(&q);
	bool done;

	post_reads(&q, READS);
	for (unsigned i = 0; i < 4000 && q.qp->sq.completed < READS; i++) {
		take_requests(&r, h);
		for (unsigned n = 0; n < r.queued; n++)
			response(&q, r.queue[n]);
		r.queued = 0;
		h->now += 10000;
		xt_engine_run(h->engine, h->now);
	}
	done = q.qp->sq.completed == READS;
	*dropped += q.qp->counters.timeouts ? 0 : r.dropped;
	end(&q);
	return done;
}

static void test_lossy_reads(void)
{
	unsigned done = 0, dropped = 0;

	for (uint32_t seed = 0; seed < 200; seed++)
		done += lossy_reads(seed, &dropped);
	TAP_OK(done == 200, "half of all responses are lost: READs complete (%u)", done);
	TAP_OK(!dropped, "no repetition of a READ begins before an earlier one (%u)", dropped);
}

static void post_writes(struct h_qp *q, unsigned n)
{
	while (n--)
		h_post_send(q, n, XR_WR_RDMA_WRITE, BASE, 8, key);
	xt_qp_doorbell(q->qp, q->h->now);
	xt_engine_run(q->h->engine, q->h->now);
	q->h->sent_count = 0;
}

/* ---- a peer that drops what follows a lost packet ------------------------------------- */

#define WINDOW 32
#define LOST 16 /* this packet of each window */

/* Acknowledges the packets before a PSN, or asks for it. */
static void respond_to(struct h_qp *q, int psn, bool nak)
{
	const struct made m = S(ACK, .psn = nak ? psn : psn - 1,
				.syndrome = nak ? SEQ_NAK : XR_AETH_ACK, .msn = psn);

	receive(q, &m);
}

/*
 * One packet of a window is lost. The peer drops what follows, and asks for it once until the
 * missing packet comes, as `rdma_rxe` does. Returns the number of round trips until the window has
 * arrived.
 */
static unsigned go_back_n(struct h_qp *q, int *expected, unsigned *again)
{
	struct harness *h = q->h;
	int end = *expected + WINDOW, lost = *expected + LOST;
	unsigned round_trips = 0;

	h->sent_count = 0;
	for (int i = *expected; i < end; i++)
		h_post_send(q, i, XR_WR_RDMA_WRITE, BASE, 8, key);
	xt_qp_doorbell(q->qp, h->now);
	xt_engine_run(h->engine, h->now);
	for (; *expected < end && round_trips < 100; round_trips++) {
		bool nak = false;
		unsigned n = h->sent_count;

		for (unsigned i = 0; i < n; i++) {
			int psn = sent_psn(h, i);

			if (psn == lost)
				lost = -1;
			else if (psn == *expected)
				(*expected)++;
			else
				nak |= psn > *expected;
		}
		h->sent_count = 0;
		h->now += 20000;
		*again += n;
		respond_to(q, *expected, nak);
		xt_engine_run(h->engine, h->now);
	}
	*again -= WINDOW;
	return round_trips;
}

static void test_go_back_n(void)
{
	unsigned first_again = 0, again = 0, first, second;
	int expected = 0;
	struct h_qp q;

	start(&q);
	first = go_back_n(&q, &expected, &first_again);
	second = go_back_n(&q, &expected, &again);
	TAP_OK(first <= 6,
	       "go back N: twice as many packets are sent again each time (%u round trips)", first);
	TAP_OK(first_again == WINDOW - LOST, "... and all once (%u)", first_again);
	TAP_OK(second == 2 && again == WINDOW - LOST, "the next loss: all at once (%u, %u)", second,
	       again);
	end(&q);
}

/* ---- PSNs --------------------------------------------------------------------------- */

/* They have 32 bits: what stays behind seems to be ahead after 2^31 packets. */
static void test_follows(void)
{
	const struct made ack = S(ACK, .psn = READ_PACKETS, .syndrome = XR_AETH_ACK, .msn = 2);
	const struct xt_requester *r;
	struct h_qp q;

	start(&q);
	r = &q.qp->req;
	post_reads(&q, 1);
	receive_responses(&q, 0, READ_PACKETS);
	TAP_OK(r->unacked == r->next && r->executed == r->unacked && r->lost == r->unacked,
	       "READ responses move the PSNs of what is lost");
	post_writes(&q, 1);
	receive(&q, &ack);
	TAP_OK(r->unacked == r->next && r->executed == r->unacked && r->lost == r->unacked,
	       "so do ACKs");
	end(&q);
}

/* ---- packets that were overtaken ------------------------------------------------------ */

static void test_overtaken(void)
{
	const struct made first = S(ACK, .psn = 0, .syndrome = XR_AETH_ACK, .msn = 1);
	const struct made nak = S(ACK, .psn = 1, .syndrome = SEQ_NAK, .msn = 1);
	const struct made both = S(ACK, .psn = 2, .syndrome = XR_AETH_ACK, .msn = 3);
	struct xt_qp_stats s;
	struct h_qp q;
	struct harness *h = start(&q);

	post_writes(&q, 1);
	h->now += 20000;
	receive(&q, &first);
	post_writes(&q, 2);
	h->now += 20000;
	receive_only(&q, &nak);
	receive_only(&q, &both);
	xt_engine_run(h->engine, h->now);
	xt_qp_stats(q.qp, &s);
	TAP_OK(!h->sent_count && !s.in_flight,
	       "an ACK follows a NAK at once: nothing is sent again");
	TAP_OK(s.rtt_least >= 20000, "no round-trip time is taken from it (%u ns)", s.rtt_least);
	end(&q);
}

/* A READ of one packet and a WRITE of one, to which the peer answers by a NAK; it arrives first. */
static struct harness *overtake(struct h_qp *q, uint8_t syndrome)
{
	const struct made nak = S(ACK, .psn = 1, .syndrome = syndrome, .msn = 1);
	struct harness *h = start(q);
	struct xr_cqe cqe;

	h_post_send(q, 0, XR_WR_RDMA_READ, BASE, MTU, key);
	post_writes(q, 1);
	receive(q, &nak);
	TAP_OK(requested(h, 0, 1) && !q->qp->sq.completed,
	       "a NAK overtakes a response: that is requested again");
	receive_response(q, 0, 1);
	TAP_OK(h_poll(h, &cqe) && !cqe.status, "it arrives: the READ completes");
	return h;
}

static void test_overtaking(void)
{
	struct xr_cqe cqe;
	struct h_qp q;
	struct harness *h = overtake(&q, RNR_NAK);

	TAP_OK(!h->sent_count && q.qp->req.wait == XT_WAIT_RNR,
	       "the RNR NAK counts then: the peer is waited for");
	end(&q);
	h = overtake(&q, XR_AETH_NAK | XR_NAK_REMOTE_ACCESS);
	TAP_OK(h_poll(h, &cqe) && cqe.status == IBV_WC_REM_ACCESS_ERR,
	       "an error counts then: the WRITE completes with it");
	end(&q);
}

/* A READ of one packet and a WRITE of one, whose response and request are lost. */
static void test_both_lost(void)
{
	const struct made nak = S(ACK, .psn = 1, .syndrome = SEQ_NAK, .msn = 1);
	struct h_qp q;
	struct harness *h = start(&q);

	h_post_send(&q, 0, XR_WR_RDMA_READ, BASE, MTU, key);
	post_writes(&q, 1);
	receive(&q, &nak);
	TAP_OK(h->sent_count == 2 && sent_psn(h, 0) == 0 && sent_psn(h, 1) == 1,
	       "a NAK before a READ response: both are sent again");
	h->sent_count = 0;
	receive_response(&q, 0, 1);
	TAP_OK(!h->sent_count && q.qp->sq.retired == 1, "... and once");
	end(&q);
}

/* ---- counters ---------------------------------------------------------------------------- */

#define MS 1000000u

static uint64_t again(const struct harness *h)
{
	return xt_engine_counters(h->engine)->tx_retransmits;
}

static uint64_t probes(const struct harness *h)
{
	return xt_engine_counters(h->engine)->tx_probes;
}

static void wait_ns(struct harness *h, uint64_t ns)
{
	h->now += ns;
	xt_engine_run(h->engine, h->now);
}

static void test_counters(void)
{
	const struct made first = S(ACK, .psn = 0, .syndrome = XR_AETH_ACK, .msn = 1);
	const struct made nak = S(ACK, .psn = 1, .syndrome = SEQ_NAK, .msn = 1);
	const struct made rest = S(ACK, .psn = 2, .syndrome = XR_AETH_ACK, .msn = 3);
	struct h_qp q;
	struct harness *h = start(&q);

	q.qp->attr.timeout = 16;
	post_writes(&q, 1);
	h->sent_count = H_FRAMES;
	wait_ns(h, 10 * MS);
	TAP_OK(!probes(h) && !again(h), "a probe that cannot be sent yet is not counted");
	receive(&q, &first);
	h->sent_count = 0;
	wait_ns(h, 1000);
	TAP_OK(!h->sent_count && !probes(h) && !again(h), "nor if the response comes first");
	post_writes(&q, 2);
	receive(&q, &nak);
	TAP_OK(h->sent_count == 1 && again(h) == 1 && !probes(h),
	       "a lost packet that is sent again is no probe");
	receive(&q, &rest);
	post_writes(&q, 1);
	wait_ns(h, 30 * MS);
	TAP_OK(h->sent_count == 1 && again(h) == 2 && probes(h) == 1,
	       "a probe counts as one, and as a packet that was sent again");
	end(&q);
}

/* ---- retries ----------------------------------------------------------------------------- */

/* Sets the retry count of a QP whose responses are late, but within the timeout of the program. */
static struct harness *start_late(struct h_qp *q, unsigned retry_cnt)
{
	struct harness *h = start(q);

	q->qp->attr.timeout = 16;
	q->qp->attr.retry_cnt = q->qp->req.retry_left = retry_cnt;
	return h;
}

static void check_late(struct h_qp *q, unsigned retry_cnt, unsigned least, unsigned posted)
{
	unsigned completed = 0, failed = 0;
	struct xr_cqe cqe;

	for (; h_poll(q->h, &cqe); completed++)
		failed += cqe.status != IBV_WC_SUCCESS;
	TAP_OK(completed == posted && !failed, "all complete (%u, %u failed)", completed, failed);
	TAP_OK(least == retry_cnt, "no retry was used (%u left)", least);
	end(q);
}

/*
 * The response to the first of some WRITEs is late, so a probe is sent. Then the ACKs arrive, one
 * for each WRITE. Neither has the program's timeout expired, nor has the peer asked for a packet.
 */
static void test_late_acks(unsigned retry_cnt)
{
	enum { WRITES = 4 };
	struct made ack = S(ACK, .syndrome = XR_AETH_ACK);
	unsigned least = retry_cnt;
	struct h_qp q;
	struct harness *h = start_late(&q, retry_cnt);

	post_writes(&q, WRITES);
	wait_ns(h, 30 * MS);
	TAP_OK(probes(h) == 1, "ACKs are late, retry_cnt %u: a probe is sent", retry_cnt);
	for (ack.psn = 0; ack.psn < WRITES; ack.psn++) {
		ack.msn = ack.psn + 1;
		receive(&q, &ack);
		if (q.qp->req.retry_left < least)
			least = q.qp->req.retry_left;
	}
	check_late(&q, retry_cnt, least, WRITES);
}

/* The same with READs, of which some packets have arrived before. The probe is answered last. */
static void test_late_responses(unsigned retry_cnt)
{
	unsigned least = retry_cnt;
	struct h_qp q;
	struct harness *h = start_late(&q, retry_cnt);

	post_reads(&q, READS);
	receive_responses(&q, 0, 3);
	wait_ns(h, 30 * MS);
	TAP_OK(probes(h) == 1, "responses are late, retry_cnt %u: a probe is sent", retry_cnt);
	for (int i = 3; i < READS * READ_PACKETS; i++) {
		response(&q, i);
		if (q.qp->req.retry_left < least)
			least = q.qp->req.retry_left;
	}
	receive_responses(&q, 3, READ_PACKETS);
	check_late(&q, retry_cnt, least, READS);
}

/* ---- a path that becomes slower ---------------------------------------------------------- */

/* Sends one packet, and receives its ACK after that time. Returns the probes of it. */
static uint64_t round_trip(struct h_qp *q, int psn, uint64_t ns)
{
	const struct made ack = S(ACK, .psn = psn, .syndrome = XR_AETH_ACK, .msn = psn + 1);
	uint64_t before = probes(q->h), at = q->h->now + ns;

	post_writes(q, 1);
	while (q->h->now < at)
		wait_ns(q->h, 10000);
	receive(q, &ack);
	q->h->sent_count = 0;
	return probes(q->h) - before;
}

/* A packet is lost on the slow path, and the peer asks for it. The next one is not probed again. */
static void test_slower_loss(void)
{
	struct h_qp q;
	struct harness *h = start(&q);
	const struct made nak = S(ACK, .psn = 102, .syndrome = SEQ_NAK, .msn = 102);
	const struct made ack = S(ACK, .psn = 103, .syndrome = XR_AETH_ACK, .msn = 104);
	uint64_t later = 0;
	int psn = 0;

	q.qp->attr.timeout = 16;
	while (psn < 100)
		round_trip(&q, psn++, 20000);
	while (psn < 102)
		round_trip(&q, psn++, 5 * MS);
	post_writes(&q, 2);
	wait_ns(h, 5 * MS);
	receive(&q, &nak);
	wait_ns(h, 5 * MS);
	receive(&q, &ack);
	h->sent_count = 0;
	for (psn = 104; psn < 200; psn++)
		later += round_trip(&q, psn, 5 * MS);
	TAP_OK(!later, "a loss does not end that (%lu probes)", later);
	end(&q);
}

static void test_slower(void)
{
	uint64_t before, first, second, later = 0, back = 0;
	struct h_qp q;
	struct harness *h = start(&q);
	int psn = 0;

	q.qp->attr.timeout = 16;
	while (psn < 100)
		round_trip(&q, psn++, 20000);
	before = probes(h);
	first = round_trip(&q, psn++, 5 * MS);
	second = round_trip(&q, psn++, 5 * MS);
	while (psn < 200)
		later += round_trip(&q, psn++, 5 * MS);
	while (psn < 300)
		back += round_trip(&q, psn++, 20000);
	TAP_OK(!before && first && first + second < 100,
	       "the path becomes slower: two responses are asked for (%lu, %lu)", first, second);
	TAP_OK(!later, "the next ones are waited for, as long as the path is slow (%lu)", later);
	TAP_OK(!back && q.qp->rtt.least < 30000 && !q.qp->rtt.backoff && again(h) == first + second,
	       "the path is as before: so are the times (%u ns)", q.qp->rtt.least);
	end(&q);
}

/* ---- responses that wait for a processor ------------------------------------------------- */

#define TIMES 60

/* Round trips of 20 us, some of which take longer, and then one of 400 us. Returns its probes. */
static uint64_t one_late(uint64_t some, bool after_loss)
{
	uint64_t before = 0, late;
	struct h_qp q;
	int psn = 0;

	start(&q);
	q.qp->attr.timeout = 16;
	while (psn < TIMES) {
		before += round_trip(&q, psn, psn % 3 ? 20000 : some);
		psn++;
	}
	wait_ns(q.h, 20 * MS);
	if (after_loss)
		xt_engine_lossy(q.h->engine);
	late = round_trip(&q, psn, 400000);
	TAP_OK(!before, "no probe if some responses take %u us (%lu)", (unsigned)(some / 1000),
	       before);
	end(&q);
	return late;
}

static void test_late(void)
{
	TAP_OK(one_late(20000, false), "all others took 20 us: a response of 400 us is asked for");
	TAP_OK(!one_late(290000, false), "others took 290 us: it is waited for");
	TAP_OK(one_late(290000, true), "... but not while packets are lost");
}

/* ---- packets that are sent again --------------------------------------------------------- */

/* Returns the number of packets that leave at once when the peer asks for the first one. */
static unsigned pushed(unsigned in_flight, unsigned window, unsigned largest)
{
	const struct made nak = S(ACK, .psn = 0, .syndrome = SEQ_NAK, .msn = 0);
	struct h_qp q;
	struct harness *h = start(&q);
	unsigned n;

	q.qp->req.most = largest;
	q.qp->req.window = window;
	post_writes(&q, in_flight);
	receive_only(&q, &nak);
	h_post_send(&q, in_flight, XR_WR_RDMA_WRITE, BASE, 8, key);
	xt_qp_doorbell(q.qp, h->now);
	xt_engine_run(h->engine, h->now);
	TAP_OK(h->sent_count >= 1 && sent_psn(h, 0) == 0,
	       "%u packets in a window of %u: the first one is sent again", in_flight, window);
	n = h->pushed;
	end(&q);
	return n;
}

static void test_push(void)
{
	TAP_OK(pushed(8, 8, 8) == 1, "in a full window it leaves at once");
	TAP_OK(pushed(7, 8, 8) == 1, "... and if one packet is left, not together with that one");
	TAP_OK(pushed(6, 8, 8) == 0, "otherwise it leaves together with the packets that follow");
	TAP_OK(pushed(8, 8, 16) == 1, "so it does in half of the largest window");
	TAP_OK(pushed(8, 8, 17) == 0, "... but not in a smaller one");
}

int main(void)
{
	test_one_gap();
	test_statistics();
	test_two_gaps();
	test_nak_lost();
	test_limit();
	test_sends();
	test_rnr();
	test_error();
	test_reads();
	test_gaps();
	test_lossy_reads();
	test_go_back_n();
	test_follows();
	test_overtaken();
	test_overtaking();
	test_both_lost();
	test_counters();
	test_late_acks(0);
	test_late_acks(1);
	test_late_acks(7);
	test_late_responses(0);
	test_late_responses(7);
	test_slower();
	test_late();
	test_slower_loss();
	test_push();
	return tap_end();
}
