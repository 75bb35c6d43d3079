// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QPs that wait for memory: packets that are held, reading ahead, and what ends an access. */
#include <errno.h>

#include "daemon/transport/queue/sq.h"
#include "daemon/transport/rc/resend.h"
#include "slow.h"

/* ---- the responder ----------------------------------------------------------------------- */

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

/* One step reads for one packet at a time: what is sent again goes before the next packet. */
static void test_sent_again(void)
{
	begin(false);
	post(&a, 1, XR_WR_ATOMIC_WRITE, SLOW, FAST + 4096, 8);
	xt_qp_doorbell(a.qp, h->now);
	xt_engine_run(h->engine, h->now);
	finish(0);
	xt_engine_run(h->engine, h->now);
	TAP_OK(h->sent_count == 1, "an ATOMIC WRITE is sent when its data is read");
	h_receive(h, h->sent[0].data, h->sent[0].len);
	xt_engine_run(h->engine, h->now);
	TAP_OK(h->sent_count == 2, "its response is sent, and lost");
	delivered = 2;
	post(&a, 2, XR_WR_RDMA_WRITE, FAST, FAST + 8192, 8);
	post(&a, 3, XR_WR_RDMA_WRITE, SLOW + 64, FAST + 12288, 8);
	ring(&a);
	TAP_OK(idle() && pending() == 1 && submissions <= 4,
	       "it is read again, and not a second time beside the next packet");
	finish_all();
	TAP_OK(completes(1, 0) && completes(2, 0) && completes(3, 0) &&
		       !memcmp(fast + 4096, slow, 8) && !memcmp(fast + 12288, slow + 64, 8),
	       "all complete");
	end("sent again");
}

/* In one round, memory can make a work request fail, and its last timeout can expire. */
static void test_first_failure(void)
{
	begin(false);
	post(&a, 1, XR_WR_RDMA_READ, FAST, FAST + 4096, 64);
	xt_qp_doorbell(a.qp, h->now);
	xt_engine_run(h->engine, h->now);
	xt_sq_fail(a.qp, (struct xt_wc_error){ IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY });
	for (unsigned i = 0; i < 3; i++)
		xt_req_timeout(a.qp);
	xt_sq_fail(a.qp, (struct xt_wc_error){ IBV_WC_RETRY_EXC_ERR, XR_VERR_TIMEOUT });
	delivered = h->sent_count;
	settle();
	TAP_OK(completes(1, IBV_WC_LOC_PROT_ERR) && idle() &&
		       !xt_engine_counters(h->engine)->timeouts,
	       "the first failure is that reported");
	end("first failure");
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

/* A QP that waits for room is destroyed: nothing refers to it afterwards. */
static void test_destroyed(void)
{
	begin(true);
	post(&a, 1, XR_WR_RDMA_WRITE, FAST, SLOW, 64);
	no_room = true;
	ring(&a);
	TAP_OK(!xt_list_empty(&pool.rooms), "over loopback, a WRITE waits for room");
	h_destroy(&a);
	TAP_OK(xt_list_empty(&pool.rooms), "a QP that is destroyed waits no more");
	h_create_type(h, &a, type);
	end("destroyed");
}

/* A receive of an SRQ would do as well: its data is stored before the rest is executed. */
static void test_copies(void)
{
	begin(false);
	h_post_recv(&b, 2, SLOW, 64, slow_key);
	post(&a, 1, XR_WR_SEND_WITH_INV, FAST, 0, 64)->invalidate_rkey = 0x7777;
	ring(&a);
	TAP_OK(pending() == 1 && b.qp->waiting.held[XT_RESPONDER], "a SEND is held");
	for (unsigned i = 0; i < 3; i++)
		h_receive(h, h->sent[0].data, h->sent[0].len);
	TAP_OK(pending() == 1 && submissions == 1 && b.qp->counters.rx_duplicates == 3,
	       "copies of it are dropped");
	finish_all();
	TAP_OK(completes(2, IBV_WC_REM_INV_REQ_ERR), "it is executed once");
	end("copies of a held packet");
}

/* UC: its packets are kept behind the first one that is held. */
static void test_limit(void)
{
	const struct xt_counters *c;
	struct xr_cqe cqe;
	unsigned i;

	type = XR_QPT_UC;
	begin(false);
	type = XR_QPT_RC;
	c = xt_engine_counters(h->engine);
	no_room = true;
	post(&a, 1, XR_WR_RDMA_WRITE, FAST, SLOW, MTU);
	ring(&a);
	for (i = 1; i < XT_KEPT_QP_MAX && !c->rx_held_lost; i++)
		h_receive(h, h->sent[0].data, h->sent[0].len);
	TAP_OK(!c->rx_held_lost && b.qp->waiting.blocks[XT_KEPT_LARGE] == XT_KEPT_QP_MAX,
	       "packets are kept while the first one has no staging memory");
	h_receive(h, h->sent[0].data, h->sent[0].len);
	TAP_OK(c->rx_held_lost == 1, "their number is limited");
	no_room = false;
	xt_mem_io_room(h->engine, &pool);
	finish_all();
	TAP_OK(h_poll(h, &cqe) && !memcmp(slow, fast, MTU) && !b.qp->waiting.busy,
	       "they are executed with room");
	end("limit");
}

/* Flows of other clients */
#define OTHERS 16
static uint32_t others[OTHERS][XT_KEPT_SIZES];

/* Takes blocks for small packets, for some flows in turn, until none of them gets more. */
static void take_blocks(struct xt_kept_pool *p, unsigned flows, struct xt_list *taken)
{
	struct xt_kept *block;
	unsigned i, got;

	do {
		for (i = got = 0; i < flows; i++) {
			block = xt_kept_pool_take(p, others[i], 1);
			if (!block)
				continue;
			xt_list_add_tail(taken, &block->link);
			got++;
		}
	} while (got);
}

static void put_blocks(struct xt_kept_pool *p, struct xt_list *taken)
{
	struct xt_kept *block;
	unsigned i = 0;

	while (!xt_list_empty(taken)) {
		block = (struct xt_kept *)taken->next;
		xt_list_del(&block->link);
		while (!others[i][XT_KEPT_SMALL])
			i++;
		others[i][XT_KEPT_SMALL]--;
		xt_kept_pool_put(p, block);
	}
}

static void test_pool(void)
{
	struct xt_kept_pool p;
	struct xt_list taken;
	bool fair = true;

	xt_list_init(&taken);
	TAP_OK(!xt_kept_pool_init(&p), "a pool is allocated");
	TAP_OK(!xt_kept_pool_take(&p, others[0], XT_KEPT_LARGE_BLOCK + 1),
	       "a packet that fits no block gets none");
	take_blocks(&p, 1, &taken);
	TAP_OK(others[0][XT_KEPT_SMALL] == XT_KEPT_SMALL_BLOCKS / 2,
	       "one flow gets half of the blocks");
	put_blocks(&p, &taken);
	take_blocks(&p, 3, &taken);
	for (unsigned i = 0; i < 3; i++)
		fair &= others[i][XT_KEPT_SMALL] >= XT_KEPT_SMALL_BLOCKS / 4;
	TAP_OK(fair && p.free[XT_KEPT_SMALL] >= XT_KEPT_SMALL_BLOCKS / 4 - 3,
	       "three flows get a quarter each, and leave one");
	put_blocks(&p, &taken);
	TAP_OK(p.free[XT_KEPT_SMALL] == XT_KEPT_SMALL_BLOCKS &&
		       p.fresh[XT_KEPT_SMALL] < XT_KEPT_SMALL_BLOCKS,
	       "blocks are used again");
	xt_kept_pool_free(&p);
}

/* Other flows hold all blocks for small packets. */
static void test_no_blocks(void)
{
	struct xt_list taken;

	begin(false);
	xt_list_init(&taken);
	for (unsigned i = 1; i <= OTHERS; i++)
		take_blocks(&h->engine->kept, i, &taken);
	no_room = true;
	post(&a, 2, XR_WR_RDMA_WRITE, FAST, SLOW, 64);
	ring(&a);
	TAP_OK(h->engine->counters.rx_held_lost == 1 && !allocated,
	       "a packet that can neither be written nor kept is lost");
	put_blocks(&h->engine->kept, &taken);
	no_room = false;
	xt_mem_io_room(h->engine, &pool);
	h->now += 2000000;
	finish_all();
	TAP_OK(completes(2, 0) && !memcmp(slow, fast, 64), "its retransmission is executed");
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
	segs[0].ptr = slow;
	segs[1] = (struct xt_mem_seg){
		.off = 4,
		.len = SIZE - 4,
		.addr = SLOW + 4,
		.writable = true,
	};
	slow_mr.mem.seg = segs;
	slow_mr.mem.nseg = 2;
	start(&u);
	TAP_OK(pending() == 1 && !memcmp(slow, fast, 4), "the mapped part is stored");
	memset(slow, 0x5a, 4);
	finish(0);
	settle();
	TAP_OK(all_done(&u) && !memcmp(slow + 4, fast + 4, 4) && slow[0] == 0x5a && slow[3] == 0x5a,
	       "it is not stored again after the end of the access");
	end("region that is mapped in part");
}

/* A rate limit makes pieces shorter, but not one whose writes have started. */
static void test_rate_limit(void)
{
	struct xr_qp_attr attr = { .rate_limit = RATE };

	begin(true);
	h_post_recv(&b, 2, SLOW, 4 * MTU, slow_key);
	post(&a, 1, XR_WR_SEND_WITH_INV, FAST, 0, 3 * MTU)->invalidate_rkey = 0x7777;
	ring(&a);
	TAP_OK(pending() == 1, "the data of a SEND with invalidation is posted");
	xt_qp_modify(a.qp, &attr, IBV_QP_RATE_LIMIT, NULL, 0, h->now);
	finish_all();
	TAP_OK(completes(2, IBV_WC_REM_INV_REQ_ERR) && submissions == 1 &&
		       !memcmp(fast, slow, 3 * MTU),
	       "the rest of it is executed afterwards, as a whole");
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
	test_read_and_atomic();
	test_requester();
	test_sent_again();
	test_first_failure();
	test_ahead();
	test_read_order(false);
	test_read_order(true);
	test_hang();
	test_room();
	test_limit();
	test_destroyed();
	test_copies();
	test_pool();
	test_no_blocks();
	test_loopback();
	return tap_end();
}
