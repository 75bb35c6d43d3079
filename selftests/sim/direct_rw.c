// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * RW contexts. A storage target moves data between scattered memory of its own and memory of an
 * initiator, several transfers at a time on one QP with a short send queue: with L_Keys, or with
 * regions that the transfer registers and invalidates, alone or with a chain that announces the
 * end. Each transfer has one completion for each part that was posted. It moves exactly its bytes,
 * and leaves no key valid. At the end a transfer with a wrong R_Key fails, and the QP is drained.
 */
#include <errno.h>
#include <string.h>

#include "direct.h"
#include "provider/verbs/cq.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/post.h"

#define SLOTS 3 /* transfers at a time */
#define AREA (64u << 10)
#define USES 8 /* of each slot */
#define MAX_PIECES 40
#define REGIONS 4
#define RECVS 64

/* Areas of each slot: the target's and the initiator's, as they are and as they must be */
enum area { LOCAL, REMOTE, AREAS };
/* Behind them two words of each slot: a chained WRITE copies the first to the second. */
_Static_assert(SLOTS *(AREAS *AREA + 16) <= RW_MEMORY, "areas and words");

enum mode { LKEYS, PAGES, PIECES, MODES };
enum chain { NO_CHAIN, CHAIN_SEND, CHAIN_WRITE_SEND, CHAINS };
enum state { IDLE, UNPOSTED, PART_POSTED, POSTED, FINISHED };

struct slot {
	enum state state;
	enum mode mode;
	enum chain chain;
	struct xrocedv_rw_attr attr;
	struct xrocedv_rw *rw;
	struct ibv_sge sg[MAX_PIECES];
	struct ibv_mr *mr[REGIONS];
	uint32_t len;	    /* bytes that are moved */
	uint32_t at[AREA];  /* offset in the local area of each of them */
	uint32_t remote;    /* offset in the remote area of the first of them */
	unsigned uses, due; /* due: completions */
	bool completed, announced;
};

struct target {
	struct world *w;
	struct ibv_pd *pd, *peer_pd;
	struct ibv_cq *cq, *peer_cq;
	struct ibv_qp *qp, *peer;
	struct slot slot[SLOTS];
	unsigned slots;
	unsigned failed, last; /* completions of the bad transfer, of the marker */
	bool bad_posted;
	uint8_t model[SLOTS][AREAS][AREA];
};

enum wr { WR_TRANSFER, WR_CHAIN, WR_BAD, WR_MARKER };
#define WR_ID(wr, slot) ((uint64_t)(slot) << 8 | (wr))

static uint8_t *area(const struct target *t, unsigned slot, enum area a)
{
	return t->w->memory + (size_t)(slot * AREAS + a) * AREA;
}

static uint64_t *words(const struct target *t, unsigned slot)
{
	return (uint64_t *)area(t, SLOTS, LOCAL) + 2 * slot;
}

static unsigned index_of(const struct target *t, const struct slot *s)
{
	return (unsigned)(s - t->slot);
}

/* ---- planning ---------------------------------------------------------------------------- */

/* Pieces of whole pages, in any order; the first and the last may be cut. */
static void cut_pages(struct target *t, struct slot *s)
{
	uint32_t page[AREA / DIRECT_PAGE], n = AREA / DIRECT_PAGE, i, j, tmp;
	struct rng *r = &t->w->rng;
	uint64_t base = world_address(t->w, area(t, index_of(t, s), LOCAL));

	for (i = 0; i < n; i++)
		page[i] = i;
	for (i = n - 1; i; i--) {
		j = (uint32_t)rng_below(r, i + 1);
		tmp = page[i], page[i] = page[j], page[j] = tmp;
	}
	s->attr.nents = 1 + (int)rng_below(r, n);
	for (i = 0; i < (uint32_t)s->attr.nents; i++)
		s->sg[i] = (struct ibv_sge){ base + page[i] * DIRECT_PAGE, DIRECT_PAGE, 0 };
	i = (uint32_t)rng_below(r, DIRECT_PAGE / 2);
	s->sg[0].addr += i;
	s->sg[0].length -= i;
	s->sg[s->attr.nents - 1].length -= (uint32_t)rng_below(r, DIRECT_PAGE / 2);
}

/* Pieces of any length that follow each other with gaps, in any order */
static void cut_pieces(struct target *t, struct slot *s)
{
	struct rng *r = &t->w->rng;
	uint64_t base = world_address(t->w, area(t, index_of(t, s), LOCAL));
	uint32_t longest = 1u << rng_below(r, 12), off = 0, i, j;
	struct ibv_sge tmp;

	s->attr.nents = 1 + (int)rng_below(r, MAX_PIECES);
	for (i = 0; i < (uint32_t)s->attr.nents; i++) {
		uint32_t room = AREA / MAX_PIECES, len = 1 + (uint32_t)rng_below(r, longest);

		off = i * room + (uint32_t)rng_below(r, room / 2);
		s->sg[i] = (struct ibv_sge){ base + off, len < room / 2 ? len : room / 2,
					     t->w->key };
		j = (uint32_t)rng_below(r, i + 1);
		tmp = s->sg[i], s->sg[i] = s->sg[j], s->sg[j] = tmp;
	}
}

/* Notes where each byte of the transfer is. */
static void map_bytes(struct target *t, struct slot *s)
{
	uint64_t base = world_address(t->w, area(t, index_of(t, s), LOCAL)), all = 0, skip;

	for (int i = 0; i < s->attr.nents; i++)
		all += s->sg[i].length;
	s->attr.sg_offset = skip = rng_chance(&t->w->rng, 30) ? rng_below(&t->w->rng, all) : 0;
	s->len = 0;
	for (int i = 0; i < s->attr.nents; i++)
		for (uint32_t k = 0; k < s->sg[i].length; k++) {
			if (skip)
				skip--;
			else
				s->at[s->len++] = (uint32_t)(s->sg[i].addr + k - base);
		}
}

static void plan(struct target *t, struct slot *s)
{
	uint32_t key = s->mr[0]->rkey;
	struct rng *r = &t->w->rng;

	s->mode = (enum mode)rng_below(r, MODES);
	s->chain = (enum chain)rng_below(r, CHAINS);
	s->attr = (struct xrocedv_rw_attr){
		.direction = rng_below(r, 2) ? XROCEDV_RW_READ : XROCEDV_RW_WRITE,
		.rkey = t->w->key,
		.sg = s->sg,
	};
	if (s->mode == PAGES)
		cut_pages(t, s);
	else
		cut_pieces(t, s);
	map_bytes(t, s);
	s->remote = (uint32_t)rng_below(r, AREA - s->len + 1);
	s->attr.remote_addr = world_address(t->w, area(t, index_of(t, s), REMOTE)) + s->remote;
	if (s->mode != LKEYS) {
		s->attr.mr = s->mr;
		s->attr.num_mr = REGIONS;
		s->attr.page_size = s->mode == PAGES ? DIRECT_PAGE : XROCEDV_SG_GAPS;
	}
	s->due = 0;
	s->completed = false;
	s->announced = s->chain == NO_CHAIN;
	s->uses++;
	s->rw = xrocedv_rw_create(t->qp, &s->attr);
	s->state = s->rw ? UNPOSTED : IDLE;
	CHECK(t->w, s->rw || (s->mode != LKEYS && errno == ENOSPC), "a context was not created");
	CHECK(t->w, (s->mode == LKEYS) == (s->mr[0]->rkey == key),
	      "the first region has the same key as in its last use, or another one without use");
}

/* Other data for the next transfer: late packets must not change it. */
static void fill(struct target *t, unsigned slot, enum area a)
{
	rng_bytes(&t->w->rng, area(t, slot, a), AREA);
	memcpy(t->model[slot][a], area(t, slot, a), AREA);
}

/* ---- posting ----------------------------------------------------------------------------- */

static void post(struct target *t, struct slot *s)
{
	unsigned i = index_of(t, s);
	uint64_t *word = words(t, i);
	struct ibv_sge sge = { world_address(t->w, word), sizeof(*word), t->w->key };
	struct ibv_send_wr send = {
		.wr_id = WR_ID(WR_CHAIN, i),
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.imm_data = htobe32(i),
	};
	struct ibv_send_wr write = {
		.wr_id = WR_ID(WR_CHAIN, i),
		.next = &send,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { sge.addr + sizeof(*word), t->w->key },
	};
	uint32_t before = xrocedv_rw_wrs(s->rw);
	int err;

	word[0] = rng_next(&t->w->rng);
	err = xrocedv_rw_post(s->rw, WR_ID(WR_TRANSFER, i),
			      s->chain == NO_CHAIN     ? NULL
			      : s->chain == CHAIN_SEND ? &send
						       : &write);

	if (err == ENOMEM) {
		CHECK(t->w, xrocedv_rw_wrs(s->rw) == before, "ENOMEM, but WRs were posted");
		return;
	}
	CHECK(t->w, !err || err == EINPROGRESS, "a transfer was not posted");
	CHECK(t->w, xrocedv_rw_wrs(s->rw) < before && !err == !xrocedv_rw_wrs(s->rw),
	      "a wrong number of WRs is left");
	s->due++;
	s->state = err ? PART_POSTED : POSTED;
}

/* ---- completions ------------------------------------------------------------------------- */

/* Returns what the transfer must have moved: bytes of the side that it comes from. */
static uint8_t moved(const struct target *t, const struct slot *s, uint32_t k)
{
	unsigned i = index_of(t, s);

	return s->attr.direction == XROCEDV_RW_READ ? t->model[i][REMOTE][s->remote + k]
						    : t->model[i][LOCAL][s->at[k]];
}

/* The data has arrived, and nothing else has changed. */
static void check_data(struct target *t, struct slot *s)
{
	unsigned i = index_of(t, s);
	bool read = s->attr.direction == XROCEDV_RW_READ;

	for (uint32_t k = 0; k < s->len; k++)
		t->model[i][read ? LOCAL : REMOTE][read ? s->at[k] : s->remote + k] = moved(t, s,
											    k);
	CHECK(t->w, !memcmp(t->model[i][LOCAL], area(t, i, LOCAL), AREA),
	      "the target's memory is wrong");
	CHECK(t->w, !memcmp(t->model[i][REMOTE], area(t, i, REMOTE), AREA),
	      "the initiator's memory is wrong");
}

static void check_regions(struct target *t, struct slot *s)
{
	for (unsigned k = 0; k < REGIONS; k++)
		CHECK(t->w, host_key(&t->w->host[0], s->mr[k])->entry.state == XR_KEY_FREE,
		      "a region is registered after the transfer");
}

static void finish(struct target *t, struct slot *s)
{
	unsigned i = index_of(t, s);

	if (!s->completed || !s->announced)
		return;
	CHECK(t->w, !s->due, "a transfer ended before its parts");
	check_regions(t, s);
	xrocedv_rw_destroy(s->rw);
	fill(t, i, LOCAL);
	fill(t, i, REMOTE);
	t->w->done++;
	s->state = s->uses < USES ? IDLE : FINISHED;
}

static void failed(struct target *t, const struct ibv_wc *wc)
{
	enum wr wr = wc->wr_id & 0xff;

	if (wr == WR_MARKER) {
		CHECK(t->w, wc->status == IBV_WC_WR_FLUSH_ERR && !t->last, "a wrong marker");
		t->last = t->failed;
		return;
	}
	CHECK(t->w, t->bad_posted && wr == WR_BAD, "a completion with an error");
	CHECK(t->w,
	      t->failed ? wc->status == IBV_WC_WR_FLUSH_ERR
			: wc->status == IBV_WC_REM_ACCESS_ERR ||
				  (lossy_loses(&t->w->net) && wc->status == IBV_WC_RETRY_EXC_ERR),
	      "a transfer with a wrong R_Key failed with the wrong status");
	t->failed++;
}

static void completed(struct target *t, const struct ibv_wc *wc)
{
	enum wr wr = wc->wr_id & 0xff;
	struct slot *s = &t->slot[wc->wr_id >> 8];

	if (wc->status != IBV_WC_SUCCESS) {
		failed(t, wc);
		return;
	}
	CHECK(t->w, wr == WR_TRANSFER || wr == WR_CHAIN, "a transfer with a wrong R_Key succeeded");
	CHECK(t->w, s->due && (s->state == PART_POSTED || s->state == POSTED),
	      "a completion that nothing was posted for");
	if (!s->due || t->w->wrong)
		return;
	s->due--;
	if (s->state == PART_POSTED) {
		CHECK(t->w, wr == WR_TRANSFER, "a part completed as a chain");
		s->state = UNPOSTED;
		return;
	}
	CHECK(t->w, (wr == WR_CHAIN) == (s->chain != NO_CHAIN),
	      "chain or transfer completed, but not the signaled one");
	/* After the announcement of a READ the initiator has used its memory for something else. */
	if (s->chain == NO_CHAIN)
		check_data(t, s);
	s->completed = true;
	finish(t, s);
}

static int poll_target(struct target *t)
{
	struct ibv_wc wc[4];
	int got = xp_poll_cq(t->cq, 1 + (int)rng_below(&t->w->rng, 4), wc);

	for (int i = 0; i < got && !t->w->wrong; i++)
		completed(t, &wc[i]);
	return got;
}

/* ---- the initiator ----------------------------------------------------------------------- */

static void post_recvs(struct target *t, unsigned n)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 0 };

	while (n--)
		CHECK(t->w, !xp_post_recv(t->peer, &wr, &bad), "a receive was not posted");
}

/*
 * The announcement of a transfer is behind it: what was written is there, and what was read may be
 * overwritten.
 */
static void poll_initiator(struct target *t)
{
	struct ibv_wc wc;
	struct slot *s;

	while (!t->w->wrong && xp_poll_cq(t->peer_cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			CHECK(t->w, t->bad_posted, "a receive failed");
			continue;
		}
		s = &t->slot[be32toh(wc.imm_data) % SLOTS];
		CHECK(t->w, s->chain != NO_CHAIN && s->state == POSTED && !s->announced,
		      "an unexpected announcement");
		if (t->w->wrong)
			return;
		check_data(t, s);
		CHECK(t->w,
		      s->chain != CHAIN_WRITE_SEND ||
			      words(t, index_of(t, s))[0] == words(t, index_of(t, s))[1],
		      "the chained WRITE has not arrived");
		s->announced = true;
		fill(t, index_of(t, s), REMOTE);
		post_recvs(t, 1);
		finish(t, s);
	}
}

/* ---- a run --------------------------------------------------------------------------------- */

static void step(struct target *t)
{
	for (struct slot *s = t->slot; s < t->slot + t->slots; s++) {
		if (s->state == IDLE && rng_chance(&t->w->rng, 30))
			plan(t, s);
		if (s->state == UNPOSTED && rng_chance(&t->w->rng, 50))
			post(t, s);
	}
	if (rng_chance(&t->w->rng, 30))
		poll_target(t);
	poll_initiator(t);
	world_step(t->w);
}

static bool all_finished(const struct target *t)
{
	for (unsigned i = 0; i < t->slots; i++)
		if (t->slot[i].state != FINISHED)
			return false;
	return true;
}

static int poll_in_drain(struct ibv_cq *cq, void *arg)
{
	struct target *t = arg;

	poll_initiator(t);
	world_step(t->w);
	return t->w->wrong ? -ECANCELED : poll_target(t);
}

/* All WRs complete with an error, except a registration in front of the first transfer. */
static void fail_and_drain(struct target *t)
{
	struct xrocedv_drain_attr drain = {
		.send_wr_id = WR_ID(WR_MARKER, 0),
		.recv_wr_id = WR_ID(WR_MARKER, 1),
		.timeout_ms = -1,
		.poll = poll_in_drain,
		.arg = t,
	};
	struct slot *s = t->slot;
	uint32_t all, posted;
	int err;

	do
		plan(t, s);
	while (!s->rw && !t->w->wrong);
	if (t->w->wrong)
		return;
	xrocedv_rw_destroy(s->rw);
	s->attr.rkey ^= 0x100;
	s->rw = xrocedv_rw_create(t->qp, &s->attr);
	all = xrocedv_rw_wrs(s->rw);
	t->bad_posted = true;
	err = xrocedv_rw_post(s->rw, WR_ID(WR_BAD, 0), NULL);
	posted = all - xrocedv_rw_wrs(s->rw);
	CHECK(t->w, !err || err == EINPROGRESS, "a transfer with a wrong R_Key was not posted");
	if (posted > (s->mode != LKEYS))
		while (!t->failed && !t->w->wrong)
			poll_in_drain(t->cq, t);
	err = xrocedv_drain_sq(t->qp, &drain);
	CHECK(t->w, !err, "the QP cannot be drained");
	CHECK(t->w, t->failed == posted - (s->mode != LKEYS) && t->last == t->failed,
	      "not all WRs of a failed transfer completed before the marker");
	xrocedv_rw_destroy(s->rw);
	for (unsigned n = 0; n < 200 && !t->w->wrong; n++) {
		world_step(t->w);
		poll_target(t);
	}
	CHECK(t->w, t->failed == t->last, "a completion follows the end of draining");
	CHECK(t->w, !memcmp(t->model[0][LOCAL], area(t, 0, LOCAL), AREA),
	      "a refused transfer changed memory");
}

static struct ibv_qp *make_qp(struct target *t, bool peer)
{
	struct rng *r = &t->w->rng;
	struct ibv_qp_init_attr init = {
		.send_cq = peer ? t->peer_cq : t->cq,
		.recv_cq = peer ? t->peer_cq : t->cq,
		.cap = { .max_send_wr = 4u << rng_below(r, 5),
			 .max_recv_wr = RECVS,
			 .max_send_sge = 1 + (uint32_t)rng_below(r, 5) },
		.qp_type = IBV_QPT_RC,
	};

	return xp_create_qp(peer ? t->peer_pd : t->pd, &init);
}

static void set_up(struct target *t)
{
	struct ibv_context *ctx[2] = { &t->w->host[0].ibctx, &t->w->host[1].ibctx };

	t->pd = xp_alloc_pd(ctx[0]);
	t->peer_pd = xp_alloc_pd(ctx[1]);
	t->cq = xp_create_cq(ctx[0], 256, NULL, NULL, 0);
	t->peer_cq = xp_create_cq(ctx[1], 256, NULL, NULL, 0);
	t->qp = make_qp(t, false);
	t->peer = make_qp(t, true);
	world_connect(t->w, t->qp, t->peer);
	t->slots = 1 + (unsigned)rng_below(&t->w->rng, SLOTS);
	for (unsigned i = 0; i < t->slots; i++) {
		fill(t, i, LOCAL);
		fill(t, i, REMOTE);
		for (unsigned k = 0; k < REGIONS; k++)
			t->slot[i].mr[k] =
				xrocedv_alloc_mr(t->pd, 2 + (uint32_t)rng_below(&t->w->rng, 20));
	}
	post_recvs(t, RECVS);
}

static void tear_down(struct target *t)
{
	for (unsigned i = 0; i < t->slots; i++)
		for (unsigned k = 0; k < REGIONS; k++)
			host_free_mr(t->slot[i].mr[k]);
	xp_destroy_qp(t->qp);
	xp_destroy_qp(t->peer);
	xp_destroy_cq(t->cq);
	xp_destroy_cq(t->peer_cq);
	xp_dealloc_pd(t->pd);
	xp_dealloc_pd(t->peer_pd);
	host_close(&t->w->host[0]);
	host_close(&t->w->host[1]);
}

void direct_rw(struct world *w)
{
	struct target *t = calloc(1, sizeof(*t));

	t->w = w;
	set_up(t);
	while (!w->wrong && !all_finished(t))
		step(t);
	if (!w->wrong)
		fail_and_drain(t);
	if (!w->wrong)
		tear_down(t);
	free(t);
}
