// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Posted writes to memory that has to be waited for: order, completions, errors and flush. */
#include <errno.h>

#include "slow.h"

/* ---- the responder ----------------------------------------------------------------------- */

static void test_posted(void)
{
	unsigned sent, i;

	begin(false);
	/* end-to-end credits for all messages */
	for (i = 0; i < 8; i++)
		h_post_recv(&b, 4 + i, FAST + 20000, 64, fast_key);
	post(&a, 1, XR_WR_RDMA_WRITE, FAST, SLOW, 3 * MTU);
	ring(&a);
	TAP_OK(pending() == 3, "packets of a WRITE are accepted while earlier ones are stored");
	sent = h->sent_count;
	TAP_OK(sent == 3, "no ACK is sent that acknowledges nothing");
	finish(0);
	finish(0);
	settle();
	TAP_OK(idle() && h->sent_count == sent, "a WRITE is not acknowledged before it is stored");
	finish(0);
	settle();
	TAP_OK(completes(1, IBV_WC_SUCCESS) && !memcmp(fast, slow, 3 * MTU),
	       "a WRITE completes when it is stored");

	post(&a, 2, XR_WR_RDMA_WRITE, FAST, SLOW, MTU);
	post(&a, 3, XR_WR_RDMA_WRITE, FAST + 1, FAST + 9000, 100);
	ring(&a);
	TAP_OK(fast[9000] != fast[1], "mapped memory is not written before earlier data is stored");
	finish_all();
	TAP_OK(fast[9000] == fast[1] && completes(2, 0) && completes(3, 0),
	       "mapped memory is written afterwards");

	post(&a, 6, XR_WR_RDMA_WRITE, FAST, SLOW, MTU);
	post(&a, 7, XR_WR_SEND, 0, 0, 0);
	ring(&a);
	TAP_OK(idle(), "an empty SEND completes no receive before earlier data is stored");
	finish_all();
	TAP_OK(completes(4, 0) && completes(6, 0) && completes(7, 0), "it does afterwards");
	post(&a, 8, XR_WR_RDMA_WRITE, FAST, SLOW, MTU);
	post(&a, 9, XR_WR_RDMA_WRITE_WITH_IMM, 0, SLOW, 0);
	ring(&a);
	TAP_OK(idle(), "nor does an empty WRITE with immediate");
	finish_all();
	TAP_OK(completes(5, 0) && completes(8, 0) && completes(9, 0), "it does afterwards");
	end("posted writes");
}

/* Region FAST may have the same memory as region SLOW, so its bytes are written in their turn. */
static void test_two_regions(void)
{
	begin(false);
	post(&a, 1, XR_WR_RDMA_WRITE, FAST, SLOW, 64);
	post(&a, 2, XR_WR_RDMA_WRITE, FAST, FAST + 9000, 3 * MTU);
	ring(&a);
	TAP_OK(pending() == 4 && memcmp(fast, fast + 9000, MTU),
	       "no packet to another region is stored while a write is posted");
	finish_all();
	TAP_OK(completes(1, 0) && completes(2, 0) && !memcmp(fast, fast + 9000, 3 * MTU),
	       "all are afterwards");
	end("two regions");
}

static void test_receive(void)
{
	begin(false);
	h_post_recv(&b, 1, SLOW + 100, 4 * MTU, slow_key);
	post(&a, 2, XR_WR_SEND, FAST, 0, 3 * MTU + 5);
	ring(&a);
	TAP_OK(idle() && pending() == 4, "a SEND completes no receive before it is stored");
	finish_all();
	TAP_OK(completes(1, 0) && completes(2, 0) && !memcmp(fast, slow + 100, 3 * MTU + 5),
	       "a SEND is received in memory that has to be waited for");

	h_post_recv(&b, 3, SLOW, MTU, slow_key);
	h_post_recv(&b, 4, FAST + 50000, MTU, fast_key);
	post(&a, 5, XR_WR_SEND, FAST, 0, 10);
	post(&a, 6, XR_WR_SEND, FAST, 0, 20);
	ring(&a);
	TAP_OK(idle(), "a later SEND waits for an earlier one");
	finish_all();
	TAP_OK(completes(3, 0) && completes(5, 0) && completes(4, 0) && completes(6, 0),
	       "both are received in order");
	end("receives");
}

/* Three receives, and SENDs for them whose data is posted */
static void begin_receives(bool loopback)
{
	begin(loopback);
	for (unsigned i = 0; i < 3; i++) {
		h_post_recv(&b, 1 + i, SLOW + i * 64, 64, slow_key);
		post(&a, 4 + i, XR_WR_SEND, FAST + i * 64, 0, 64 - i);
	}
	ring(&a);
}

/* Polls all completions. The receives must have these statuses, in order, and so must the SENDs. */
static bool all_complete(const uint32_t *receives, const uint32_t *sends)
{
	unsigned received = 0, sent = 0;
	bool ok = true;
	struct xr_cqe cqe;

	while (ok && h_poll(h, &cqe)) {
		if (cqe.is_recv)
			ok = received < 3 && cqe.wr_id == 1 + received &&
			     cqe.wqe_index == received && cqe.status == receives[received] &&
			     (cqe.status || cqe.byte_len == 64 - received);
		else
			ok = sent < 3 && cqe.wr_id == 4 + sent && cqe.status == sends[sent];
		received += cqe.is_recv;
		sent += !cqe.is_recv;
	}
	return ok && received == 3 && sent == 3;
}

static void test_posted_receives(bool loopback)
{
	static const uint32_t good[3];
	static const uint32_t failed[] = { 0, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR };
	static const uint32_t failed_sends[] = { 0, IBV_WC_REM_OP_ERR, IBV_WC_WR_FLUSH_ERR };
	static const uint32_t flushed[] = { IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR,
					    IBV_WC_WR_FLUSH_ERR };
	const char *how = loopback ? "over loopback" : "on the wire";
	struct xt_mem_io *second;

	begin_receives(loopback);
	TAP_OK(pending() == 3 && idle(), "%s: the data of three SENDs is posted", how);
	TAP_OK(!b.rq->consumer, "%s: their receives are not free yet", how);
	second = submitted[1];
	submitted[1] = NULL;
	take_effect(second);
	xt_mem_io_done(h->engine, second, 0);
	settle();
	TAP_OK(idle(), "%s: a receive does not complete before an earlier one", how);
	finish(0);
	settle();
	TAP_OK(b.rq->consumer == 2, "%s: both complete then, and are free", how);
	finish_all();
	TAP_OK(all_complete(good, good) && b.rq->consumer == 3 && !memcmp(slow, fast, 64 + 63),
	       "%s: each completes when its data is stored", how);
	end(how);

	begin_receives(loopback);
	finish(0);
	finish(-EFAULT);
	finish(0);
	settle();
	TAP_OK(all_complete(failed, failed_sends),
	       "%s: a receive fails whose data cannot be stored, and later ones are flushed", how);
	end(how);

	begin_receives(loopback);
	h_modify(&b, XR_QPS_ERR);
	TAP_OK(!allocated, "%s: ERR gives up the posted writes", how);
	h_modify(&a, XR_QPS_ERR);
	TAP_OK(all_complete(flushed, flushed), "%s: and flushes their receives", how);
	end(how);
}

/* The key is invalidated between the last byte and the completion, so the SEND is not posted. */
static void test_invalidate(bool loopback)
{
	begin(loopback);
	h_post_recv(&b, 1, SLOW, 64, slow_key);
	post(&a, 2, XR_WR_SEND_WITH_INV, FAST, 0, 64)->invalidate_rkey = 0x7777;
	ring(&a);
	TAP_OK(idle() && pending() == 1, "a SEND with invalidate waits for its data");
	finish_all();
	TAP_OK(completes(1, IBV_WC_REM_INV_REQ_ERR) && !memcmp(slow, fast, 64),
	       "its receive fails afterwards if the key is invalid");
	end("SEND with invalidate");
}

/* The SEND arrives while data of a WRITE is posted, so its receive is taken more than once. */
static void test_bad_receive(bool loopback, uint32_t len)
{
	struct xr_cqe cqe[4] = { 0 }, next;
	unsigned n;

	begin(loopback);
	h_post_recv(&b, 1, FAST + 20000, 64, fast_key);
	((struct xr_recv_wqe *)(b.rq + 1))->num_sge = H_SGE + 1;
	post(&a, 2, XR_WR_RDMA_WRITE, FAST, SLOW, 64);
	post(&a, 3, XR_WR_SEND, FAST, 0, len);
	ring(&a);
	TAP_OK(idle() && pending() == 1, "a SEND to an invalid receive waits for earlier data");
	finish_all();
	for (n = 0; h_poll(h, &next); n++)
		cqe[next.wr_id & 3] = next;
	TAP_OK(cqe[1].status == IBV_WC_LOC_QP_OP_ERR && cqe[1].vendor_err == XR_VERR_BAD_SGE_COUNT,
	       "the receive of a SEND of %u bytes fails then, for its own reason", len);
	TAP_OK(n == 3 && !cqe[2].status && cqe[3].status == IBV_WC_REM_OP_ERR,
	       "the WRITE succeeds, the SEND fails");
	end("invalid receive");
}

static void test_failed_write(void)
{
	begin(false);
	h_post_recv(&b, 1, SLOW, 4 * MTU, slow_key);
	post(&a, 2, XR_WR_RDMA_WRITE, FAST, SLOW, 3 * MTU);
	ring(&a);
	finish(0);
	finish(-EFAULT);
	finish(0);
	settle();
	TAP_OK(completes(1, IBV_WC_WR_FLUSH_ERR) && completes(2, IBV_WC_REM_OP_ERR),
	       "a WRITE fails if one of its posted writes fails");
	TAP_OK(h->events[IBV_EVENT_QP_FATAL], "the responder reports it by an event");
	end("failed WRITE");

	begin(false);
	h_post_recv(&b, 1, SLOW, 4 * MTU, slow_key);
	post(&a, 2, XR_WR_SEND, FAST, 0, 3 * MTU);
	ring(&a);
	finish(-EFAULT);
	settle();
	TAP_OK(completes(1, IBV_WC_LOC_PROT_ERR) && completes(2, IBV_WC_REM_OP_ERR),
	       "a receive fails if one of its posted writes fails");
	end("failed SEND");
}

/* ---- the requester ----------------------------------------------------------------------- */

/* READs of two packets and of one into slow memory, and a WRITE behind them */
static void begin_reads(bool write)
{
	begin(false);
	post(&a, 1, XR_WR_RDMA_READ, SLOW, FAST, 2 * MTU);
	post(&a, 2, XR_WR_RDMA_READ, SLOW + 2 * MTU, FAST + 2 * MTU, MTU);
	if (write)
		post(&a, 3, XR_WR_RDMA_WRITE, FAST, FAST + 8 * MTU, 8);
}

static void test_posted_reads(void)
{
	unsigned sent;

	begin_reads(true);
	ring(&a);
	TAP_OK(pending() == 3 && idle(), "all data of READs is posted");
	finish(0);
	settle();
	TAP_OK(idle(), "a READ does not complete before its last packet is stored");
	finish(0);
	settle();
	TAP_OK(completes(1, 0) && idle(), "it does afterwards, while later data is posted");
	pass_time();
	TAP_OK(idle(), "a WRITE behind a READ does not complete before that");
	finish(0);
	settle();
	TAP_OK(completes(2, 0) && completes(3, 0) && !memcmp(slow, fast, 3 * MTU),
	       "both complete when the data is stored");
	end("posted READs");

	begin_reads(false);
	post(&a, 3, XR_WR_RDMA_WRITE, FAST, FAST, 8)->rkey = 0x7777;
	ring(&a);
	pass_time();
	TAP_OK(pending() == 3 && idle(), "a NAK waits for the data of READs before it");
	finish_all();
	TAP_OK(completes(1, 0) && completes(2, 0) && completes(3, IBV_WC_REM_ACCESS_ERR),
	       "its request fails behind the READs");
	end("NAK behind READs");

	begin_reads(true);
	ring(&a);
	finish(0);
	finish(0);
	finish(-EFAULT);
	settle();
	TAP_OK(completes(1, 0) && completes(2, IBV_WC_LOC_PROT_ERR) &&
		       completes(3, IBV_WC_WR_FLUSH_ERR),
	       "a READ whose last packet cannot be stored fails behind an earlier one");
	end("failed posted READ");

	begin_reads(true);
	ring(&a);
	h_modify(&a, XR_QPS_ERR);
	TAP_OK(!pending() && completes(1, IBV_WC_WR_FLUSH_ERR) &&
		       completes(2, IBV_WC_WR_FLUSH_ERR) && completes(3, IBV_WC_WR_FLUSH_ERR),
	       "ERR flushes READs whose data is posted, and what is behind them");
	end("flushed posted READs");

	begin_reads(false);
	post(&a, 3, XR_WR_RDMA_WRITE, FAST, FAST + 8 * MTU, 8)->flags |= XR_SEND_FENCE;
	ring(&a);
	sent = h->sent_count;
	finish(0);
	finish(0);
	settle();
	TAP_OK(h->sent_count == sent,
	       "a WRITE with a fence is not sent before READ data is stored");
	finish_all();
	TAP_OK(h->sent_count > sent && completes(1, 0) && completes(2, 0) && completes(3, 0),
	       "it is sent afterwards");
	end("fence behind posted READs");
}

/* ---- loopback ---------------------------------------------------------------------------- */

/* A QP over loopback whose writes are posted */
static void test_loopback_posted(void)
{
	begin(true);
	post(&a, 1, XR_WR_RDMA_WRITE, FAST, SLOW, 64);
	post(&a, 2, XR_WR_RDMA_WRITE, FAST + 64, SLOW + 64, 64);
	ring(&a);
	TAP_OK(idle() && pending() == 2, "WRITEs over loopback post their writes");
	finish(0);
	settle();
	TAP_OK(completes(1, 0) && idle(), "each completes when its data is stored");
	post(&a, 3, XR_WR_RDMA_READ, FAST + 128, FAST, 64);
	ring(&a);
	h_modify(&a, XR_QPS_SQD);
	settle();
	TAP_OK(idle() && !a.qp->drained, "in SQD, a posted write must end first");
	finish_all();
	TAP_OK(completes(2, 0) && idle() && a.qp->drained, "then the send queue is drained");
	h_modify(&a, XR_QPS_RTS);
	finish_all();
	TAP_OK(completes(3, 0) && !memcmp(slow, fast, 128), "in RTS, the next WR is begun");
	end("posted writes over loopback");

	begin(true);
	post(&a, 1, XR_WR_RDMA_WRITE, FAST, SLOW, 64);
	ring(&a);
	h_modify(&a, XR_QPS_SQD);
	h_modify(&b, XR_QPS_ERR);
	settle();
	TAP_OK(idle() && !allocated, "a peer in ERR gives up the writes that are posted");
	pass_time();
	TAP_OK(completes(1, IBV_WC_RETRY_EXC_ERR), "in SQD, too, their WR is repeated and fails");
	end("posted writes in SQD to a QP in error");
}

int main(void)
{
	test_posted();
	first_psn = 0x700000;
	test_posted();
	test_two_regions();
	test_receive();
	test_posted_receives(false);
	test_posted_receives(true);
	test_invalidate(false);
	test_invalidate(true);
	for (unsigned i = 0; i < 4; i++)
		test_bad_receive(i & 1, i & 2 ? 16 : 0);
	test_failed_write();
	test_posted_reads();
	test_loopback_posted();
	return tap_end();
}
