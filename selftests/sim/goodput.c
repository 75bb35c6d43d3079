// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Goodput under loss, reordering and overload, in virtual time. Each row of the table is a network
 * with its requirements, and runs with many seeds.
 *
 *     goodput [-n SEEDS] [-s SEED] [-r TEXT] [-v]    -r: only rows with this text in their names
 *
 * Hosts with one engine each stream messages. Sending and receiving cost time. Arriving frames wait
 * in a queue of limited depth until the next round of the host's worker, which stands still now and
 * then. A seed determines the speeds, the latency, the faults, and the program:
 *
 *     seed % 6    0      1      2      3      4      5
 *                 WRITE  SEND   READ   WRITE  SEND   READ
 *                 64 KiB 64 KiB 64 KiB 8 MiB  8 MiB  8 MiB
 *
 * For each run:
 * - All messages arrive intact, and nothing completes with an error.
 * - Work is conserved:
 *       sent <= delivered * (1 + 3 * faults / packets) * (1 + HEADERS) + LAST * QPs
 *   sent: bytes of all frames of all hosts; delivered: bytes of messages; packets: delivered / MTU;
 *   faults: frames that were lost, delayed or doubled.
 * - Goodput (delivered bytes in a time) is at least a share of that of the same seed without
 *   faults, with one sender and a deep queue. Where the engine misses the aim for some seeds, the
 *   row requires less, and names the aim.
 */
#include <stdio.h>
#include <unistd.h>

#include "check.h"
#include "rng.h"
#include "selftests/lib/flights.h"
#include "selftests/lib/tap.h"
#include "selftests/unit/harness.h"

#define MTU 4096u
#define HEADERS 0.025 /* headers of 74 bytes for each packet of 4096, and ACKs */
#define LAST (16 * MTU)
#define DEEP 2048 /* packets of two frames, with the default of --ring-size */
#define MAX_HOSTS 9
#define MAX_STREAMS 8
#define BATCH 64	  /* frames that a worker receives at once */
#define BATCHES 4	  /* in a round, unless rounds are short */
#define TOTAL (32u << 20) /* bytes of all messages of a run */
#define SHORT (64u << 10)
#define LONG (8u << 20)
#define SLOTS 16	       /* messages in flight; of LONG ones 2 */
#define PATTERN (LONG + SHIFT) /* random bytes; each message is a part of them */
#define SHIFT (1u << 20)
#define BASE 0x10000000ull
#define PATTERN_BASE 0x40000000ull
#define LATEST 5000000000ull

struct row {
	const char *what;
	unsigned loss;	   /* per mille of frames */
	unsigned burst;	   /* mean length of a burst of losses; 0: losses are independent */
	unsigned late;	   /* per mille of frames that are overtaken by others */
	unsigned twice;	   /* per mille of frames that arrive twice */
	bool responses;	   /* only frames of the responders are lost */
	unsigned slower;   /* after a quarter of the bytes, us that each frame takes longer */
	unsigned queue;	   /* frames; 0: DEEP */
	unsigned senders;  /* hosts; 0: 1 */
	unsigned qps;	   /* of each sender; 0: 1 */
	bool uc;	   /* both ways, WRITE of 64 KiB */
	unsigned goodput;  /* percent of that without faults; 0: not required */
	unsigned aim;	   /* percent that the project aims at; 0: goodput */
	unsigned bytes;	   /* percent of the limit of bytes sent; 0: 100 */
	unsigned fairness; /* percent: least index of R. Jain; 0: not required */
	bool full;	   /* frames may be lost because a queue is full */
};

/* clang-format off */
static const struct row rows[] = {
	{ "no loss", .goodput = 99 },
	{ "loss of 0.1 %", .loss = 1, .goodput = 93, .aim = 95 },
	{ "loss of 1 %", .loss = 10, .goodput = 80 },
	{ "loss of 5 %", .loss = 50, .goodput = 36, .aim = 40 },
	{ "loss of 1 % in bursts of 4", .loss = 10, .burst = 4, .goodput = 45, .aim = 80 },
	{ "loss of 5 % of the responses", .loss = 50, .responses = true, .goodput = 65 },
	{ "1 % overtaken by others", .late = 10, .goodput = 90 },
	{ "5 % arrive twice", .twice = 50, .goodput = 90 },
	{ "a path that becomes slower by 5 ms", .slower = 5000, .bytes = 110 },
	{ "a path that becomes slower by 20 ms", .slower = 20000, .bytes = 120 },
	{ "a path that becomes slower by 5 ms, loss of 1 %", .slower = 5000, .loss = 10,
	  .bytes = 130 },
	{ "queue of 128", .queue = 128, .goodput = 90, .full = true },
	{ "queue of 64", .queue = 64, .goodput = 80, .full = true },
	{ "8 QPs", .qps = 8, .goodput = 95, .fairness = 90 },
	{ "2 senders, queue of 1024", .senders = 2, .queue = 1024, .goodput = 90, .fairness = 90,
	  .full = true },
	{ "2 senders, queue of 128", .senders = 2, .queue = 128, .goodput = 70, .aim = 90,
	  .fairness = 60, .full = true },
	{ "8 senders, queue of 1024", .senders = 8, .queue = 1024, .goodput = 80, .aim = 90,
	  .fairness = 70, .full = true },
	{ "8 senders, queue of 128", .senders = 8, .queue = 128, .goodput = 75, .aim = 90,
	  .fairness = 75, .full = true },
	{ "UC both ways", .uc = true },
};
/* clang-format on */
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct frame {
	struct flight flight;
	unsigned to;
	uint32_t len;
	uint8_t data[XT_MAX_FRAME];
};

struct host {
	struct harness *h;
	struct frame *queue[DEEP];
	unsigned first, queued, depth;
	uint64_t busy_until, timer, line_free, stall_at;
	bool bad; /* in a burst of losses of frames to this host */
	uint8_t *area;
	struct h_mr mr, pattern_mr;
	uint32_t key, pattern_key;
};

/* Messages of one QP to its peer, or for READ from it */
struct stream {
	struct h_qp from, to;
	unsigned from_host, to_host;
	unsigned index;
	uint32_t total; /* messages */
	uint32_t posted, done, arrived, receives;
};

struct world {
	const struct row *row;
	struct rng faults, stalls;
	uint8_t opcode;
	uint32_t len, slots;
	uint64_t now, order;
	uint64_t latency, round_ns, packet_ns, stall_every;
	double byte_ns, line_ns;
	struct host host[MAX_HOSTS];
	struct stream stream[MAX_STREAMS];
	unsigned hosts, streams;
	struct flights flights;
	uint64_t sent, delivered, lost, overflowed, late, twice;
	double fairness; /* when the first stream ended */
	const char *wrong;
};

struct result {
	double goodput, sent, fairness; /* goodput: bytes/ns; sent: as a share of the limit */
	double lost;			/* or late, as a share of the packets */
	uint64_t overflowed, again, probes, timeouts;
	const char *wrong;
};

static uint8_t *pattern;

/* ---- the network ----------------------------------------------------------------------------- */

/* E. N. Gilbert's model: all frames are lost in the bad state, none in the good one. */
static bool burst_lost(struct world *w, struct host *to)
{
	const struct row *row = w->row;

	if (to->bad)
		to->bad = rng_below(&w->faults, row->burst) != 0;
	else
		to->bad = rng_below(&w->faults, 1000 * row->burst) < row->loss;
	return to->bad;
}

static bool is_lost(struct world *w, unsigned to)
{
	const struct row *row = w->row;

	if (row->responses && to == (w->opcode == XR_WR_RDMA_READ ? 1 : 0))
		return false;
	if (row->burst)
		return burst_lost(w, &w->host[to]);
	return rng_below(&w->faults, 1000) < row->loss;
}

static void fly(struct world *w, const struct h_frame *data, unsigned to, uint64_t when)
{
	struct frame *f = malloc(sizeof(*f));

	f->flight = (struct flight){ when, w->order++ };
	f->to = to;
	f->len = data->len;
	memcpy(f->data, data->data, data->len);
	flights_add(&w->flights, &f->flight);
}

/* The destination is the last byte of the IPv4 address, 10.0.0.1 is host 0. */
static unsigned destination(const struct h_frame *f)
{
	return f->data[14 + 19] - 1u;
}

/* Frame @data leaves the host's worker at time @when. */
static void send_frame(struct world *w, struct host *from, const struct h_frame *data,
		       uint64_t when)
{
	unsigned to = destination(data);

	if (from->line_free < when)
		from->line_free = when;
	from->line_free += (uint64_t)(data->len * w->line_ns);
	when = from->line_free + w->latency;
	w->sent += data->len;
	if (w->sent > TOTAL / 4)
		when += 1000ull * w->row->slower;
	if (is_lost(w, to)) {
		w->lost++;
		return;
	}
	if (rng_below(&w->faults, 1000) < w->row->late) {
		when += rng_between(&w->faults, 2000, 100000);
		w->late++;
	}
	fly(w, data, to, when);
	if (rng_below(&w->faults, 1000) < w->row->twice) {
		w->twice++;
		fly(w, data, to, when + rng_below(&w->faults, 100000));
	}
}

static void arrive(struct world *w)
{
	struct frame *f = flights_take(&w->flights);
	struct host *h = &w->host[f->to];

	if (h->queued == h->depth) {
		w->overflowed++;
		free(f);
		return;
	}
	h->queue[(h->first + h->queued++) % DEEP] = f;
}

/* ---- programs -------------------------------------------------------------------------------- */

static uint32_t slot_offset(const struct world *w, const struct stream *s, uint32_t i)
{
	return (s->index * w->slots + i % w->slots) * w->len;
}

static uint32_t content_offset(const struct stream *s, uint32_t i)
{
	return (uint32_t)(4099ull * (i + 31 * s->index) % SHIFT);
}

static uint64_t wr_id(const struct stream *s, bool receive, uint32_t i)
{
	return (uint64_t)s->index << 32 | (uint64_t)receive << 31 | i;
}

static void post_receives(struct world *w, struct stream *s)
{
	const struct host *to = &w->host[s->to_host];

	if (w->opcode != XR_WR_SEND)
		return;
	for (; s->receives < s->total && s->receives - s->arrived < w->slots; s->receives++)
		h_post_recv(&s->to, wr_id(s, true, s->receives),
			    BASE + slot_offset(w, s, s->receives), w->len, to->key);
}

static void post_sends(struct world *w, struct stream *s)
{
	const struct host *from = &w->host[s->from_host], *to = &w->host[s->to_host];
	bool read = w->opcode == XR_WR_RDMA_READ;
	struct xr_send_wqe *wqe;
	uint64_t content, slot;

	for (; s->posted < s->total && s->posted - s->done < w->slots; s->posted++) {
		content = PATTERN_BASE + content_offset(s, s->posted);
		slot = BASE + slot_offset(w, s, s->posted);
		wqe = h_post_send(&s->from, wr_id(s, false, s->posted), w->opcode,
				  read ? slot : content, w->len,
				  read ? from->key : from->pattern_key);
		wqe->remote_addr = read ? content : slot;
		wqe->rkey = read ? to->pattern_key : to->key;
	}
	if (xt_qp_doorbell(s->from.qp, w->now))
		w->host[s->from_host].timer = w->now;
}

static void check_contents(struct world *w, const struct stream *s, uint32_t i)
{
	const struct host *h = &w->host[w->opcode == XR_WR_RDMA_READ ? s->from_host : s->to_host];

	CHECK(w, !memcmp(h->area + slot_offset(w, s, i), pattern + content_offset(s, i), w->len),
	      "a message has wrong contents");
}

/* Computes (sum of x)^2 / (n * sum of x^2) of the messages that each stream has completed. */
static double jain(const struct world *w)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < w->streams; i++) {
		sum += w->stream[i].done;
		squares += (double)w->stream[i].done * w->stream[i].done;
	}
	return sum * sum / (w->streams * squares);
}

static void completed(struct world *w, const struct xr_cqe *cqe)
{
	struct stream *s = &w->stream[cqe->wr_id >> 32];
	uint32_t i = cqe->wr_id & 0x7fffffff;
	bool receive = cqe->wr_id >> 31 & 1;

	CHECK(w, cqe->status == IBV_WC_SUCCESS, "a completion with an error");
	if (receive) {
		CHECK(w, i == s->arrived, "receives complete out of order");
		CHECK(w, cqe->byte_len == w->len, "a message has the wrong length");
		check_contents(w, s, i);
		s->arrived++;
		post_receives(w, s);
		return;
	}
	CHECK(w, i == s->done, "messages complete out of order");
	if (w->opcode != XR_WR_SEND && !w->row->uc)
		check_contents(w, s, i);
	s->done++;
	w->delivered += w->len;
	if (s->done == s->total && !w->fairness)
		w->fairness = jain(w);
	post_sends(w, s);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void receive_batch(struct world *w, struct host *h, uint64_t *ns)
{
	unsigned most = xt_engine_short_rounds(h->h->engine) ? BATCH : BATCHES * BATCH;

	for (unsigned n = 0; n < most && h->queued; n++, h->queued--) {
		struct frame *f = h->queue[h->first++ % DEEP];
		struct xt_frame frame = { .seg[0] = { f->data, f->len }, .nseg = 1, .len = f->len };

		if (parse_frame(&frame) == XR_OK)
			xt_engine_rx(h->h->engine, &frame, 1, w->now);
		*ns += w->packet_ns + (uint64_t)(f->len * w->byte_ns);
		free(f);
	}
}

static void send_batch(struct world *w, struct host *h, uint64_t *ns)
{
	for (unsigned i = 0; i < h->h->sent_count; i++) {
		*ns += w->packet_ns + (uint64_t)(h->h->sent[i].len * w->byte_ns);
		send_frame(w, h, &h->h->sent[i], w->now + *ns);
	}
	h->h->sent_count = 0;
}

static void run_round(struct world *w, struct host *h)
{
	uint64_t ns = w->round_ns;
	struct xr_cqe cqe;

	if (h->stall_at <= w->now) {
		h->busy_until = w->now + rng_between(&w->stalls, 20000, 300000);
		h->stall_at = h->busy_until + rng_below(&w->stalls, 2 * w->stall_every);
		return;
	}
	h->h->now = w->now;
	receive_batch(w, h, &ns);
	h->timer = xt_engine_run(h->h->engine, w->now);
	send_batch(w, h, &ns);
	h->busy_until = w->now + ns;
	while (!w->wrong && h_poll(h->h, &cqe))
		completed(w, &cqe);
}

static uint64_t next_round(const struct host *h)
{
	uint64_t at = h->queued ? 0 : h->timer;

	return at > h->busy_until ? at : h->busy_until;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void bring_up(struct world *w, struct h_qp *q, const struct h_qp *peer, unsigned from,
		     unsigned to)
{
	struct xt_path path = h_path(0x0a000001 + from, 0x0a000001 + to);
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		if (w->row->uc)
			mask &= state == XR_QPS_RTR
					? ~(uint32_t)(IBV_QP_MAX_DEST_RD_ATOMIC |
						      IBV_QP_MIN_RNR_TIMER)
					: ~(uint32_t)(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
		attr.dest_qp_num = peer->qpn;
		attr.sq_psn = attr.rq_psn = 0xfffe00;
		attr.path_mtu = IBV_MTU_4096;
		attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
		if (w->row->uc)
			attr.qp_access_flags = XR_ACCESS_REMOTE_WRITE;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, 0);
	}
	CHECK(w, !err, "modify to RTS failed");
}

/* As the daemon does: packets in flight to the host itself fit its queue. */
static void tune(struct harness *h, uint32_t queue)
{
	struct xt_tuning t = XT_TUNING_DEFAULT;

	if (t.engine_window > queue)
		t.engine_window = queue;
	if (t.window > queue)
		t.window = queue;
	if (t.short_window > queue)
		t.short_window = queue;
	xt_engine_tune(h->engine, &t);
}

static void add_host(struct world *w)
{
	struct host *h = &w->host[w->hosts++];
	size_t size = (size_t)MAX_STREAMS * SLOTS * SHORT;

	if (size < 2 * LONG)
		size = 2 * LONG;
	h->depth = w->hosts == 1 && w->row->queue ? w->row->queue : DEEP;
	h->h = h_new(H_CQE);
	tune(h->h, h->depth);
	h->timer = XT_NEVER;
	h->stall_at = rng_below(&w->stalls, 2 * w->stall_every);
	h->area = calloc(1, size);
	h->key = h_reg(h->h, &h->mr, h->area, size, BASE);
	h->pattern_key = h_reg(h->h, &h->pattern_mr, pattern, PATTERN, PATTERN_BASE);
}

static void add_stream(struct world *w, unsigned from, unsigned to)
{
	struct stream *s = &w->stream[w->streams];
	uint32_t type = w->row->uc ? XR_QPT_UC : XR_QPT_RC;

	s->index = w->streams++;
	s->from_host = from;
	s->to_host = to;
	CHECK(w,
	      !h_create_type(w->host[from].h, &s->from, type) &&
		      !h_create_type(w->host[to].h, &s->to, type),
	      "creating the QPs failed");
	bring_up(w, &s->from, &s->to, from, to);
	bring_up(w, &s->to, &s->from, to, from);
}

static void plan(struct world *w, uint64_t seed)
{
	static const uint8_t opcodes[] = { XR_WR_RDMA_WRITE, XR_WR_SEND, XR_WR_RDMA_READ };
	const struct row *row = w->row;
	struct rng rng = { seed };
	bool is_long;

	w->faults.state = seed + 1000000;
	w->stalls.state = seed + 2000000;
	w->opcode = row->uc ? XR_WR_RDMA_WRITE : opcodes[seed % 3];
	is_long = seed / 3 % 2 && !row->uc && row->senders < 2 && row->qps < 2;
	w->len = is_long ? LONG : SHORT;
	w->slots = is_long ? 2 : SLOTS;
	w->latency = rng_between(&rng, 2000, 20000);
	w->round_ns = rng_between(&rng, 500, 4000);
	w->packet_ns = rng_between(&rng, 300, 600);
	w->byte_ns = (double)rng_between(&rng, 20, 50) / 100;
	w->line_ns = (double)rng_between(&rng, 8, 40) / 100;
	w->stall_every = rng_between(&rng, 2000000, 8000000);
}

/* READs go the other way: the data of all streams goes to host 0, or from its requests. */
static void build(struct world *w)
{
	unsigned senders = w->row->senders ? w->row->senders : 1;
	unsigned qps = w->row->qps ? w->row->qps : 1;
	bool read = w->opcode == XR_WR_RDMA_READ;

	while (w->hosts <= senders)
		add_host(w);
	for (unsigned i = 0; i < senders * qps; i++)
		add_stream(w, read ? 0 : 1 + i / qps, read ? 1 + i / qps : 0);
	if (w->row->uc)
		add_stream(w, 0, 1);
	for (unsigned i = 0; i < w->streams; i++)
		w->stream[i].total = TOTAL / w->len / w->streams;
}

static bool ended(const struct world *w)
{
	for (unsigned i = 0; i < w->streams; i++)
		if (w->stream[i].done != w->stream[i].total)
			return false;
	return true;
}

/* Moves to the next event: a round, or the arrival of a frame. */
static void step(struct world *w)
{
	const struct flight *f = flights_first(&w->flights);
	struct host *first = &w->host[0];

	for (unsigned i = 1; i < w->hosts; i++)
		if (next_round(&w->host[i]) < next_round(first))
			first = &w->host[i];
	if (f && f->when <= next_round(first)) {
		if (f->when > w->now)
			w->now = f->when;
		arrive(w);
		return;
	}
	if (next_round(first) > w->now)
		w->now = next_round(first);
	CHECK(w, w->now < LATEST, "messages do not complete");
	if (!w->wrong)
		run_round(w, first);
}

/* Messages of UC complete when they are sent: checks those whose slots were not used again. */
static void check_unreliable(struct world *w)
{
	for (unsigned i = 0; i < w->streams; i++)
		for (uint32_t m = w->stream[i].total - w->slots; m < w->stream[i].total; m++)
			check_contents(w, &w->stream[i], m);
}

static bool at_rest(const struct world *w)
{
	for (unsigned i = 0; i < w->hosts; i++)
		if (w->host[i].queued)
			return false;
	return !w->flights.len;
}

static void free_world(struct world *w)
{
	for (unsigned i = 0; i < w->streams; i++) {
		h_destroy(&w->stream[i].from);
		h_destroy(&w->stream[i].to);
	}
	for (unsigned i = 0; i < w->hosts; i++) {
		struct host *h = &w->host[i];

		for (; h->queued; h->queued--)
			free(h->queue[h->first++ % DEEP]);
		h_free(h->h);
		free(h->area);
	}
	flights_free(&w->flights);
	free(w);
}

static struct result result_of(struct world *w, uint64_t ended_at)
{
	double packets = (double)w->delivered / MTU;
	double faults = (double)(w->lost + w->overflowed + w->late + w->twice);
	double most = (double)w->delivered * (1 + 3 * faults / packets) * (1 + HEADERS) +
		      (double)LAST * w->streams;
	struct result r = {
		.goodput = (double)w->delivered / (double)ended_at,
		.sent = (double)w->sent / most,
		.fairness = w->fairness,
		.lost = faults / packets,
		.overflowed = w->overflowed,
		.wrong = w->wrong,
	};

	for (unsigned i = 0; i < w->hosts; i++) {
		const struct xt_counters *c = xt_engine_counters(w->host[i].h->engine);

		r.probes += c->tx_probes;
		r.timeouts += c->timeouts;
		r.again += c->tx_retransmits;
	}
	return r;
}

static struct result run(const struct row *row, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	struct result r;
	uint64_t end;

	w->row = row;
	plan(w, seed);
	build(w);
	for (unsigned i = 0; i < w->streams; i++) {
		post_receives(w, &w->stream[i]);
		post_sends(w, &w->stream[i]);
	}
	while (!w->wrong && !ended(w))
		step(w);
	end = w->now;
	while (!w->wrong && row->uc && !at_rest(w))
		step(w);
	if (row->uc)
		check_unreliable(w);
	CHECK(w, row->full || !w->overflowed, "a queue was full");
	r = result_of(w, end);
	free_world(w);
	return r;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct worst {
	double goodput, sent, fairness;
	double lost;
	unsigned failed;
};

static bool passed(const struct row *row, const struct result *r, double goodput)
{
	return !r->wrong && 100 * r->sent <= (row->bytes ? row->bytes : 100) &&
	       100 * goodput >= row->goodput && 100 * r->fairness >= row->fairness;
}

/* Returns the goodput of the seed with one sender and without faults. */
static double ideal_goodput(uint64_t seed)
{
	static const struct row plain = { .what = "no faults" };
	static uint64_t known_seed;
	static double known;

	if (!known || seed != known_seed)
		known = run(&plain, seed).goodput;
	known_seed = seed;
	return known;
}

static void run_seed(const struct row *row, uint64_t seed, struct worst *worst, bool verbose)
{
	struct result r = run(row, seed);
	double ideal = ideal_goodput(seed), goodput = r.goodput / ideal;
	bool ok;

	ok = passed(row, &r, goodput);
	worst->failed += !ok;
	worst->goodput = goodput < worst->goodput ? goodput : worst->goodput;
	worst->sent = r.sent > worst->sent ? r.sent : worst->sent;
	worst->lost = r.lost > worst->lost ? r.lost : worst->lost;
	worst->fairness = r.fairness < worst->fairness ? r.fairness : worst->fairness;
	if (ok && !verbose)
		return;
	printf("# %sseed %llu: goodput %.3f of %.2f bytes/ns, sent %.3f of the limit, lost or late "
	       "%.4f, fairness %.3f%s%s; %llu full, %llu sent again, %llu probes, %llu timeouts; "
	       "replay: goodput -n 1 -s %llu -r '%s' -v\n",
	       ok ? "" : "FAILED: ", (unsigned long long)seed, goodput, ideal, r.sent, r.lost,
	       r.fairness, r.wrong ? "; " : "", r.wrong ? r.wrong : "",
	       (unsigned long long)r.overflowed, (unsigned long long)r.again,
	       (unsigned long long)r.probes, (unsigned long long)r.timeouts,
	       (unsigned long long)seed, row->what);
}

static void report(const struct row *row, const struct worst *worst)
{
	char goodput[100] = "";

	if (row->goodput)
		snprintf(goodput, sizeof(goodput), "goodput >= %u %% (worst %.1f %%, aim %u %%), ",
			 row->goodput, 100 * worst->goodput, row->aim ? row->aim : row->goodput);
	TAP_OK(!worst->failed,
	       "%s: %sfairness >= %u %% (%.1f %%), sent %.3f of the limit, lost or late up to %.2f "
	       "%%",
	       row->what, goodput, row->fairness, 100 * worst->fairness, worst->sent,
	       100 * worst->lost);
}

int main(int argc, char **argv)
{
	struct worst worst[ROWS];
	struct rng rng = { 1 };
	const char *text = "";
	uint64_t seed = 0;
	unsigned seeds = 6;
	bool verbose = false;
	int c;

	while ((c = getopt(argc, argv, "n:s:r:v")) != -1) {
		if (c == 'n')
			seeds = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'r')
			text = optarg;
		else if (c == 'v')
			verbose = true;
		else
			return 2;
	}
	pattern = malloc(PATTERN);
	rng_bytes(&rng, pattern, PATTERN);
	for (size_t i = 0; i < ROWS; i++)
		worst[i] = (struct worst){ .goodput = 9, .fairness = 1 };
	for (uint64_t end = seed + seeds; seed < end; seed++)
		for (size_t i = 0; i < ROWS; i++)
			if (strstr(rows[i].what, text))
				run_seed(&rows[i], seed, &worst[i], verbose);
	for (size_t i = 0; i < ROWS; i++)
		if (strstr(rows[i].what, text))
			report(&rows[i], &worst[i]);
	free(pattern);
	return tap_end();
}
