// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory that has to be waited for: two RC QPs of one engine exchange packets, and the test decides
 * when accesses to a region finish. Region FAST is mapped, region SLOW is not.
 */
#include <errno.h>

#include "daemon/transport/engine.h"
#include "daemon/transport/park.h"
#include "daemon/transport/qp.h"
#include "harness.h"
#include "selftests/lib/tap.h"

#define FAST 0x100000
#define SLOW 0x200000
#define SIZE (256u << 10)
#define MTU 1024
#define MAX_IO 512
#define RATE 1000000 /* kbit/s */
/* Attributes that UC QPs do not have */
#define RELIABLE                                                                                   \
	(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |    \
	 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static uint8_t fast[SIZE], slow[SIZE];
static struct h_mr fast_mr, slow_mr;
static uint32_t fast_key, slow_key;
static struct harness *h;
static struct h_qp a, b;
static uint32_t type = XR_QPT_RC;
static unsigned delivered; /* frames */

/* ---- the slow memory ------------------------------------------------------------------- */

static struct xt_mem_pool pool;
static struct xt_mem_io *submitted[MAX_IO]; /* NULL: freed or finished */
static unsigned submissions, allocated;
static bool no_room;

static struct xt_mem_io *io_new(struct xt_mem *mem, void *ctx, uint32_t len,
				struct xt_mem_pool **out)
{
	struct xt_mem_io *io;

	*out = &pool;
	if (no_room)
		return NULL;
	io = calloc(1, sizeof(*io) + len);
	io->ops = mem->ops;
	io->pool = &pool;
	io->data = (uint8_t *)(io + 1);
	io->len = len;
	allocated++;
	return io;
}

static void io_submit(struct xt_mem_io *io)
{
	if (submissions < MAX_IO)
		submitted[submissions++] = io;
}

static void io_free(struct xt_mem_io *io)
{
	unsigned i;

	for (i = 0; i < submissions; i++)
		if (submitted[i] == io)
			submitted[i] = NULL;
	free(io);
	allocated--;
}

static const struct xt_mem_ops slow_ops = {
	.io_new = io_new,
	.io_submit = io_submit,
	.io_free = io_free,
};

static void take_effect(struct xt_mem_io *io)
{
	uint8_t *p = slow + io->at;
	uint64_t value;

	switch (io->op) {
	case XT_MEM_READ:
		memcpy(io->data, p, io->len);
		return;
	case XT_MEM_WRITE:
		memcpy(p, io->data, io->len);
		return;
	}
	memcpy(&io->old, p, 8);
	value = io->op == XT_MEM_FETCH_ADD ? io->old + io->value : io->value;
	if (io->op != XT_MEM_CMP_SWAP || io->old == io->compare)
		memcpy(p, &value, 8);
}

/* Finishes one access. Returns false if there is none. */
static bool finish(int err)
{
	struct xt_mem_io *io;
	unsigned i;

	for (i = 0; i < submissions; i++) {
		io = submitted[i];
		if (!io)
			continue;
		submitted[i] = NULL;
		if (!err)
			take_effect(io);
		xt_mem_io_done(h->engine, io, err);
		return true;
	}
	return false;
}

static unsigned pending(void)
{
	unsigned i, n = 0;

	for (i = 0; i < submissions; i++)
		n += submitted[i] != NULL;
	return n;
}

/* ---- the world ------------------------------------------------------------------------- */

static bool connect(struct h_qp *q, const struct h_qp *to, bool loopback)
{
	struct xt_path path = h_path(q == &a ? 0x0a000001 : 0x0a000002,
				     to == &a ? 0x0a000001 : 0x0a000002);
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	path.loopback = loopback;
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = to->qpn;
		attr.timeout = 8;
		attr.retry_cnt = 1;
		if (type == XR_QPT_UC)
			mask &= ~RELIABLE;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, h->now);
	}
	return !err;
}

static void begin(bool loopback)
{
	unsigned i;

	h = h_new(H_CQE);
	fast_key = h_reg(h, &fast_mr, fast, SIZE, FAST);
	slow_key = h_reg(h, &slow_mr, slow, SIZE, SLOW);
	slow_mr.seg.ptr = NULL;
	slow_mr.mem.ops = &slow_ops;
	xt_mem_pool_init(&pool);
	for (i = 0; i < SIZE; i++) {
		fast[i] = (uint8_t)(i * 7 + (i >> 8));
		slow[i] = (uint8_t)(i * 5 + (i >> 8));
	}
	submissions = delivered = 0;
	no_room = false;
	h_create_type(h, &a, type);
	h_create_type(h, &b, type);
	if (!connect(&a, &b, loopback) || !connect(&b, &a, loopback))
		TAP_OK(false, "QPs are connected");
}

static void end(const char *what)
{
	h_destroy(&a);
	h_destroy(&b);
	TAP_OK(!allocated, "%s: no access is left", what);
	h_free(h);
}

/* Runs the engine, and delivers the frames that it sends, until nothing is sent any more. */
static void settle(void)
{
	struct h_frame *f;
	unsigned i;

	for (i = 0; i < 20; i++)
		xt_engine_run(h->engine, h->now);
	while (delivered < h->sent_count) {
		f = &h->sent[delivered++];
		h_receive(h, f->data, f->len);
		for (i = 0; i < 20; i++)
			xt_engine_run(h->engine, h->now);
	}
}

static void ring(struct h_qp *q)
{
	xt_qp_doorbell(q->qp, h->now);
	settle();
}

static void finish_all(void)
{
	do
		settle();
	while (finish(0));
	settle();
}

static struct xr_send_wqe *post(struct h_qp *q, uint64_t wr_id, uint8_t opcode, uint64_t from,
				uint64_t to, uint32_t len)
{
	struct xr_send_wqe *w = h_post_send(q, wr_id, opcode, from, len,
					    from >= SLOW ? slow_key : fast_key);

	w->remote_addr = to;
	w->rkey = to >= SLOW ? slow_key : fast_key;
	return w;
}

static bool completes(uint64_t wr_id, uint32_t status)
{
	struct xr_cqe cqe;

	if (!h_poll(h, &cqe))
		return false;
	if (cqe.wr_id == wr_id && cqe.status == status)
		return true;
	printf("# wr_id %llu status %u\n", (unsigned long long)cqe.wr_id, cqe.status);
	return false;
}

static bool idle(void)
{
	return h->cq_consumer == h->cq_ring->producer;
}

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
	finish(0);
	settle();
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

static void test_read_and_atomic(void)
{
	uint64_t old, word;

	begin(false);
	memcpy(&word, slow + 800, 8);
	post(&a, 1, XR_WR_RDMA_READ, FAST + 4096, SLOW + 17, 100000);
	ring(&a);
	/* two requests; the data of the second one is read ahead */
	TAP_OK(idle() && pending() == 2, "a READ waits for memory");
	finish_all();
	TAP_OK(completes(1, 0) && !memcmp(fast + 4096, slow + 17, 100000), "its data is right");
	TAP_OK(submissions < 8, "a READ of 100 KB takes few accesses");

	post(&a, 2, XR_WR_ATOMIC_FETCH_AND_ADD, FAST, SLOW + 800, 8)->atomic.compare_add = 5;
	ring(&a);
	TAP_OK(idle(), "an atomic waits for memory");
	finish_all();
	memcpy(&old, fast, 8);
	TAP_OK(completes(2, 0) && old == word && !memcmp(slow + 800, &(uint64_t){ word + 5 }, 8),
	       "an atomic is executed once");

	post(&a, 3, XR_WR_RDMA_WRITE, FAST, SLOW + 4096, 16);
	post(&a, 4, XR_WR_RDMA_READ, FAST + 64, SLOW + 4096, 16);
	ring(&a);
	finish_all();
	TAP_OK(completes(3, 0) && completes(4, 0) && !memcmp(fast, fast + 64, 16),
	       "a READ sees an earlier WRITE");
	end("READ and atomic");
}

/* ---- the requester ----------------------------------------------------------------------- */

/* Lets the ACK timeout of connect() pass several times. */
static void pass_time(void)
{
	unsigned i;

	for (i = 0; i < 10; i++) {
		h->now += 2000000;
		settle();
	}
}

static void test_requester(void)
{
	uint64_t again;

	begin(false);
	post(&a, 1, XR_WR_RDMA_WRITE, SLOW, FAST + 4096, 100000);
	ring(&a);
	TAP_OK(!h->sent_count && pending() == 2, "a WRITE waits for its data, and reads ahead");
	finish_all();
	TAP_OK(completes(1, 0) && !memcmp(fast + 4096, slow, 100000), "its data is right");

	post(&a, 2, XR_WR_RDMA_READ, SLOW, FAST, 3 * MTU);
	ring(&a);
	TAP_OK(idle() && pending() == 3, "a READ does not complete before its data is stored");
	pass_time();
	TAP_OK(idle(), "the ACK timeout does not expire meanwhile");
	finish_all();
	TAP_OK(completes(2, 0) && !memcmp(slow, fast, 3 * MTU), "it does afterwards");

	post(&a, 3, XR_WR_ATOMIC_FETCH_AND_ADD, SLOW, FAST, 8);
	ring(&a);
	TAP_OK(idle(), "an atomic does not complete before its result is stored");
	finish_all();
	TAP_OK(completes(3, 0), "it does afterwards");

	/* the first one requests no ACK, as the second one does for both */
	post(&a, 4, XR_WR_RDMA_WRITE, FAST, FAST + 4096, 8)->flags = 0;
	post(&a, 5, XR_WR_RDMA_WRITE, SLOW, FAST + 4096, 8);
	again = xt_engine_counters(h->engine)->timeouts;
	ring(&a);
	pass_time();
	TAP_OK(idle() && xt_engine_counters(h->engine)->timeouts == again,
	       "no ACK timeout while the packet that requests the ACK waits for memory");
	finish_all();
	TAP_OK(completes(5, 0), "it completes afterwards");

	post(&a, 6, XR_WR_RDMA_READ, SLOW, FAST, 3 * MTU);
	ring(&a);
	finish(-EFAULT);
	settle();
	TAP_OK(completes(6, IBV_WC_LOC_PROT_ERR), "a READ fails if its data cannot be stored");
	end("requester");
}

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

/* ---- ends -------------------------------------------------------------------------------- */

/* Lets accesses finish, always all that are under way at once. Returns how often. */
static unsigned round_trips(void)
{
	unsigned i, n, trips = 0;

	for (settle(); (n = pending()); settle(), trips++)
		for (i = 0; i < n; i++)
			finish(0);
	return trips;
}

static void post_messages(unsigned n, uint8_t opcode)
{
	unsigned i;

	for (i = 0; i < n; i++)
		post(&a, i, opcode, SLOW + 64 * i, FAST + 64 * i, 64);
	ring(&a);
}

static bool all_complete(unsigned n, uint8_t status)
{
	bool ok = true;
	unsigned i;

	for (i = 0; i < n; i++)
		ok &= completes(i, status);
	return ok && idle() && !memcmp(fast, slow, 64 * n);
}

#define MESSAGES 48

static void test_ahead(void)
{
	unsigned trips;

	begin(false);
	post_messages(MESSAGES, XR_WR_RDMA_WRITE);
	TAP_OK(pending() == 17, "16 messages are read ahead, and not more");
	trips = round_trips();
	TAP_OK(all_complete(MESSAGES, 0), "WRITEs of 64 bytes from memory that waits");
	TAP_OK(trips <= MESSAGES / 16 + 1, "%u messages take %u round trips", MESSAGES, trips);
	end("reading ahead");

	begin(false);
	post(&a, 0, XR_WR_RDMA_WRITE, SLOW, FAST, 64);
	post(&a, 1, XR_WR_RDMA_READ, SLOW + 64, FAST + 4096, 64);
	post(&a, 2, XR_WR_RDMA_WRITE, SLOW + 64, FAST + 64, 64)->flags |= XR_SEND_FENCE;
	ring(&a);
	TAP_OK(pending() == 1, "nothing is read ahead behind a READ");
	finish_all();
	TAP_OK(completes(0, 0) && completes(1, 0) && completes(2, 0) &&
		       !memcmp(fast + 64, fast + 4096, 64),
	       "a WRITE with a fence sends what the READ before it brought");
	end("fence");

	begin(false);
	post_messages(4, XR_WR_RDMA_WRITE);
	finish(0);
	finish(-EFAULT);
	finish_all();
	TAP_OK(completes(0, 0) && completes(1, IBV_WC_LOC_PROT_ERR) &&
		       completes(2, IBV_WC_WR_FLUSH_ERR) && completes(3, IBV_WC_WR_FLUSH_ERR),
	       "memory that cannot be read ahead fails its own message only");
	end("failed read ahead");

	begin(false);
	post_messages(10, XR_WR_RDMA_WRITE);
	finish_all();
	all_complete(10, 0);
	h_modify(&a, XR_QPS_RESET);
	h_modify(&b, XR_QPS_RESET);
	connect(&a, &b, false);
	connect(&b, &a, false);
	post_messages(2, XR_WR_RDMA_WRITE);
	TAP_OK(pending() == 2, "after RESET only what is posted is read ahead");
	finish_all();
	TAP_OK(all_complete(2, 0), "WRITEs after RESET");
	end("RESET");

	begin(false);
	post_messages(4, XR_WR_RDMA_WRITE);
	h_modify(&a, XR_QPS_ERR);
	TAP_OK(!allocated, "ERR gives up what is read ahead");
	end("ERR while reading ahead");
}

/* READs are executed in order. */
static void test_read_order(bool loopback)
{
	bool ok = true;
	unsigned i;

	begin(loopback);
	for (i = 0; i < 3; i++)
		post(&a, i, XR_WR_RDMA_READ, FAST + 4096 + 64 * i, SLOW + 64 * i, 64);
	post(&a, 3, XR_WR_RDMA_READ, FAST + 8192, FAST, 64);
	post(&a, 4, XR_WR_RDMA_READ, FAST + 4096 + 64 * 3, SLOW + 64 * 3, 64);
	ring(&a);
	TAP_OK(idle() && pending() == 3, "READs are read ahead, but not of a mapped one");
	finish_all();
	for (i = 0; i < 5; i++)
		ok &= completes(i, 0);
	TAP_OK(ok && !memcmp(fast + 4096, slow, 256), "they complete");
	end("order of READs");
}

static void test_hang(void)
{
	unsigned i;

	begin(false);
	h_post_recv(&b, 1, SLOW, 4 * MTU, slow_key);
	for (i = 0; i < 3; i++)
		post(&a, 2 + i, XR_WR_SEND, SLOW + MTU, 0, MTU);
	ring(&a);
	finish(0);
	settle();
	TAP_OK(pending(), "a SEND between memory that hangs");
	h_modify(&b, XR_QPS_ERR);
	TAP_OK(completes(1, IBV_WC_WR_FLUSH_ERR), "ERR flushes the receive queue at once");
	h_modify(&a, XR_QPS_ERR);
	TAP_OK(completes(2, IBV_WC_WR_FLUSH_ERR) && completes(3, IBV_WC_WR_FLUSH_ERR) &&
		       completes(4, IBV_WC_WR_FLUSH_ERR),
	       "ERR flushes the send queue at once");
	TAP_OK(!allocated, "accesses are given up in ERR");
	end("hanging memory");
}

static void test_room(void)
{
	begin(false);
	no_room = true;
	post(&a, 1, XR_WR_RDMA_WRITE, SLOW, SLOW + 4096, 3 * MTU);
	ring(&a);
	TAP_OK(!h->sent_count && !allocated, "without staging memory a WRITE waits");
	no_room = false;
	xt_mem_io_room(h->engine, &pool);
	finish_all();
	TAP_OK(completes(1, 0) && !memcmp(slow, slow + 4096, 3 * MTU), "it goes on with room");
	end("staging memory");
}

static void test_limit(void)
{
	const struct xt_counters *c;
	uint64_t now;
	unsigned i;

	begin(false);
	c = xt_engine_counters(h->engine);
	h_post_recv(&b, 1, SLOW, MTU, slow_key);
	post(&a, 2, XR_WR_SEND, FAST, 0, MTU);
	ring(&a);
	now = h->now;
	for (i = 0; i < XT_PARK_QP_MAX && !c->rx_park_lost; i++)
		h_receive(h, h->sent[0].data, h->sent[0].len);
	h->now = now; /* all arrive before the ACK timeout */
	TAP_OK(c->rx_park_lost, "the packets that wait are limited");
	finish_all();
	TAP_OK(completes(1, 0) && completes(2, 0) && idle(), "those that are lost do no harm");
	end("limit");
}

/* Flows of other clients */
#define OTHERS 16
static uint32_t others[OTHERS][XT_PARK_SIZES];

/* Takes blocks for small packets, for some flows in turn, until none of them gets more. */
static void take_blocks(struct xt_park_pool *p, unsigned flows, struct xt_list *taken)
{
	struct xt_parked *block;
	unsigned i, got;

	do {
		for (i = got = 0; i < flows; i++) {
			block = xt_park_pool_take(p, others[i], 1);
			if (!block)
				continue;
			xt_list_add_tail(taken, &block->link);
			got++;
		}
	} while (got);
}

static void put_blocks(struct xt_park_pool *p, struct xt_list *taken)
{
	struct xt_parked *block;
	unsigned i = 0;

	while (!xt_list_empty(taken)) {
		block = (struct xt_parked *)taken->next;
		xt_list_del(&block->link);
		while (!others[i][XT_PARK_SMALL])
			i++;
		others[i][XT_PARK_SMALL]--;
		xt_park_pool_put(p, block);
	}
}

static void test_pool(void)
{
	struct xt_park_pool p;
	struct xt_list taken;
	bool fair = true;

	xt_list_init(&taken);
	TAP_OK(!xt_park_pool_init(&p), "a pool is allocated");
	TAP_OK(!xt_park_pool_take(&p, others[0], XT_PARK_LARGE_BLOCK + 1),
	       "a packet that fits no block gets none");
	take_blocks(&p, 1, &taken);
	TAP_OK(others[0][XT_PARK_SMALL] == XT_PARK_SMALL_BLOCKS / 2,
	       "one flow gets half of the blocks");
	put_blocks(&p, &taken);
	take_blocks(&p, 3, &taken);
	for (unsigned i = 0; i < 3; i++)
		fair &= others[i][XT_PARK_SMALL] >= XT_PARK_SMALL_BLOCKS / 4;
	TAP_OK(fair && p.free[XT_PARK_SMALL] >= XT_PARK_SMALL_BLOCKS / 4 - 3,
	       "three flows get a quarter each, and leave one");
	put_blocks(&p, &taken);
	TAP_OK(p.free[XT_PARK_SMALL] == XT_PARK_SMALL_BLOCKS &&
		       p.fresh[XT_PARK_SMALL] < XT_PARK_SMALL_BLOCKS,
	       "blocks are used again");
	xt_park_pool_free(&p);
}

/* Other flows hold all blocks for small packets. */
static void test_no_blocks(void)
{
	struct xt_list taken;

	begin(false);
	xt_list_init(&taken);
	for (unsigned i = 1; i <= OTHERS; i++)
		take_blocks(&h->engine->parked, i, &taken);
	h_post_recv(&b, 1, SLOW, 64, slow_key);
	post(&a, 2, XR_WR_SEND, FAST, 0, 64);
	ring(&a);
	TAP_OK(h->engine->counters.rx_park_lost == 1 && !allocated,
	       "a packet that cannot be parked is lost");
	put_blocks(&h->engine->parked, &taken);
	h->now += 2000000;
	finish_all();
	TAP_OK(completes(1, 0) && completes(2, 0) && !memcmp(slow, fast, 64),
	       "its retransmission is executed");
	for (unsigned i = 1; i <= OTHERS; i++)
		take_blocks(&h->engine->parked, i, &taken);
	post(&a, 3, XR_WR_ATOMIC_FETCH_AND_ADD, FAST, SLOW + 800, 8)->atomic.compare_add = 5;
	ring(&a);
	TAP_OK(b.qp->info.state == XR_QPS_ERR && h->events[IBV_EVENT_QP_FATAL] == 1,
	       "an atomic that cannot be parked must not be repeated: its QP goes to ERR");
	put_blocks(&h->engine->parked, &taken);
	end("no blocks");
}

static void test_loopback(void)
{
	uint64_t word, old;

	begin(true);
	post(&a, 1, XR_WR_RDMA_WRITE, SLOW, SLOW + 110000, 100000);
	ring(&a);
	TAP_OK(idle() && pending() == 2, "loopback reads its source");
	finish_all();
	TAP_OK(completes(1, 0) && !memcmp(slow, slow + 110000, 100000), "and writes its target");
	h_post_recv(&b, 2, SLOW, 64, slow_key);
	post(&a, 3, XR_WR_SEND, FAST, 0, 64);
	ring(&a);
	TAP_OK(idle(), "a SEND over loopback waits for the receive's memory");
	finish_all();
	TAP_OK(completes(2, 0) && completes(3, 0) && !memcmp(slow, fast, 64), "it completes then");
	memcpy(&word, fast + 64, 8);
	post(&a, 4, XR_WR_ATOMIC_FETCH_AND_ADD, SLOW, FAST + 64, 8)->atomic.compare_add = 3;
	ring(&a);
	finish_all();
	memcpy(&old, slow, 8);
	TAP_OK(completes(4, 0) && old == word && !memcmp(fast + 64, &(uint64_t){ word + 3 }, 8),
	       "an atomic whose result waits for memory is executed once");
	end("loopback");

	begin(true);
	h_post_recv(&b, 1, SLOW, 64, slow_key);
	post(&a, 2, XR_WR_SEND, FAST, 0, 64);
	ring(&a);
	TAP_OK(pending() == 1, "a SEND over loopback is under way");
	h_modify(&b, XR_QPS_ERR);
	TAP_OK(completes(1, IBV_WC_WR_FLUSH_ERR) && !allocated,
	       "nothing is written to a receive that was flushed");
	pass_time();
	TAP_OK(completes(2, IBV_WC_RETRY_EXC_ERR), "the SEND fails");
	end("loopback to a QP in error");
}

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

/* ---- keys that become invalid while accesses are under way ----------------------------------- */

struct use {
	const char *name;
	uint8_t opcode;
	uint64_t from, to;
	bool receive;
};

/* The slow memory is the target. */
static const struct use uses[] = {
	{ "WRITE", XR_WR_RDMA_WRITE, FAST, SLOW, false },
	{ "WRITE with immediate", XR_WR_RDMA_WRITE_WITH_IMM, FAST, SLOW, true },
	{ "SEND", XR_WR_SEND, FAST, 0, true },
	{ "READ", XR_WR_RDMA_READ, SLOW, FAST, false },
	{ "FETCH ADD", XR_WR_ATOMIC_FETCH_AND_ADD, FAST, SLOW, false },
	{ "result of a FETCH ADD", XR_WR_ATOMIC_FETCH_AND_ADD, SLOW, FAST, false },
	{ "ATOMIC WRITE", XR_WR_ATOMIC_WRITE, FAST, SLOW, false },
};

static void start(const struct use *u)
{
	if (u->receive)
		h_post_recv(&b, 2, SLOW, 64, slow_key);
	post(&a, 1, u->opcode, u->from, u->to, 8);
	ring(&a);
}

/* The region is gone, and its memory description is overwritten. */
static void deregister(void)
{
	xt_keys_release(h->shared.keys, slow_mr.key);
	memset(&slow_mr.seg, 0xee, sizeof(slow_mr.seg));
	memset(&slow_mr.mem, 0xee, sizeof(slow_mr.mem));
}

/* Returns true if the work request and its receive complete, in any order. */
static bool all_done(const struct use *u)
{
	struct xr_cqe cqe;
	unsigned n = 0;

	while (h_poll(h, &cqe) && !cqe.status)
		n++;
	return n == 1u + u->receive && a.qp->info.state == XR_QPS_RTS &&
	       b.qp->info.state == XR_QPS_RTS;
}

static void test_deregister(const struct use *u, bool loopback)
{
	const char *how = loopback ? "over loopback" : "on the wire";

	begin(loopback);
	start(u);
	TAP_OK(pending() == 1 && idle(), "%s %s: under way", u->name, how);
	deregister();
	finish(0);
	settle();
	TAP_OK(all_done(u), "%s %s: completes after the key is gone", u->name, how);
	end(u->name);

	begin(loopback);
	no_room = true;
	start(u);
	TAP_OK(!allocated && idle(), "%s %s: waits to start", u->name, how);
	deregister();
	no_room = false;
	xt_mem_io_room(h->engine, &pool);
	settle();
	pass_time();
	TAP_OK(!allocated && !all_done(u), "%s %s: fails if the key is gone then", u->name, how);
	end(u->name);
}

/* A SEND to a region that is mapped in part: what is stored is not stored again. */
static void test_stored_once(void)
{
	struct xt_mem_seg segs[2];
	struct use u = { "SEND", XR_WR_SEND, FAST, 0, true };

	begin(true);
	segs[0] = slow_mr.seg;
	segs[0].len = 4;
	segs[1] = (struct xt_mem_seg){
		.off = 4,
		.len = SIZE - 4,
		.ptr = slow + 4,
		.addr = SLOW + 4,
		.writable = true,
	};
	slow_mr.mem.seg = segs;
	slow_mr.mem.nseg = 2;
	start(&u);
	TAP_OK(pending() == 1 && !memcmp(slow + 4, fast + 4, 4), "the mapped part is stored");
	memset(slow + 4, 0x5a, 4);
	finish(0);
	settle();
	TAP_OK(all_done(&u) && !memcmp(slow, fast, 4) && slow[4] == 0x5a && slow[7] == 0x5a,
	       "it is not stored again after the end of the access");
	end("region that is mapped in part");
}

/* A rate limit makes pieces shorter. One of an unreliable QP has started before the limit ends. */
static void test_rate_limit(void)
{
	struct xr_qp_attr attr = { .rate_limit = RATE };

	type = XR_QPT_UC;
	begin(true);
	type = XR_QPT_RC;
	xt_qp_modify(a.qp, &attr, IBV_QP_RATE_LIMIT, NULL, 0, h->now);
	h_post_recv(&b, 2, SLOW, 4 * MTU, slow_key);
	post(&a, 1, XR_WR_SEND, FAST, 0, 3 * MTU);
	ring(&a);
	TAP_OK(pending() == 1, "a short piece is under way");
	attr.rate_limit = 0;
	xt_qp_modify(a.qp, &attr, IBV_QP_RATE_LIMIT, NULL, 0, h->now);
	finish_all();
	TAP_OK(completes(2, 0) && completes(1, 0) && !memcmp(fast, slow, 3 * MTU),
	       "the rest of the message follows it when the limit is gone");
	end("rate limit");
}

int main(void)
{
	for (unsigned i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		test_deregister(&uses[i], false);
		test_deregister(&uses[i], true);
	}
	test_stored_once();
	test_rate_limit();
	test_posted();
	test_posted_reads();
	test_receive();
	test_failed_write();
	test_read_and_atomic();
	test_requester();
	test_ahead();
	test_read_order(false);
	test_read_order(true);
	test_hang();
	test_room();
	test_limit();
	test_pool();
	test_no_blocks();
	test_loopback();
	test_loopback_posted();
	return tap_end();
}
