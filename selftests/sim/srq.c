// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Shared receive queues. The assignment of receives to messages is known only from completions, so
 * each receive is large enough for any message, and each completes at most once.
 */
#include "ring.h"

#include "selftests/lib/resize.h"

/* ---- creation ------------------------------------------------------------ */

static void create(struct host *h, bool xrc)
{
	struct world *w = h->w;
	struct sim_srq *s = &h->srq[h->srqs];

	s->host = h;
	s->id = FIRST_SRQ_ID + h->srqs++;
	s->pd = rng_between(&w->rng, 1, 2);
	s->max_sge = rng_between(&w->rng, 1, 4);
	ring_new(&s->ring, 1 << rng_below(&w->rng, 5), xr_recv_stride(s->max_sge));
	xt_srq_init(&s->xt, s->ring.queue, s->ring.depth, s->max_sge, s->pd);
	s->xt.owner = s;
	s->xt.locked = h->engines > 1;
	/* Nothing is posted yet, so xt_srq_arm() would report the limit as reached. */
	s->limit = s->xt.limit = rng_below(&w->rng, s->ring.depth + 1);
	if (!xrc)
		return;
	s->cq = h->xrc_cq[s->id % 2];
	s->xt.cq = &s->cq->cq;
	s->xt.xrcd = XRC_DOMAIN;
	CHECK(w, xt_numbers_add(h->shared.srqs, &s->xt, &s->slot, &s->xt.number), "no SRQ number");
}

/* Half of the SRQs are for RC, UC and UD QPs, half for XRC. */
void srq_plan(struct host *h)
{
	unsigned i;

	for (i = 0; i < 2; i++)
		h->xrc_cq[i] = host_add_cq(h, 256);
	for (i = 0; i < MAX_SRQS; i++)
		create(h, i >= MAX_SRQS / 2);
}

struct sim_srq *srq_choose(struct host *h, bool xrc)
{
	return &h->srq[rng_below(&h->w->rng, MAX_SRQS / 2) + (xrc ? MAX_SRQS / 2 : 0)];
}

void srq_free(struct host *h)
{
	unsigned i;

	for (i = 0; i < h->srqs; i++) {
		free(h->srq[i].ring.queue);
		free(h->srq[i].recvs);
	}
}

/* ---- posting ------------------------------------------------------------- */

static const void *claimant(const struct sim_srq *s, unsigned index)
{
	return (void *)(uintptr_t)WR_ID(s, 1, index);
}

static bool post(struct sim_srq *s)
{
	struct rng *r = &s->host->w->sched;
	unsigned index = s->next;
	struct sim_recv *recv;

	if (index == s->room) {
		s->room = s->room ? 2 * s->room : 16;
		s->recvs = realloc(s->recvs, s->room * sizeof(*s->recvs));
	}
	recv = &s->recvs[index];
	*recv = (struct sim_recv){
		.state = OP_POSTED,
		.len = RECV_ROOM + rng_below(r, 100),
		.nsge = rng_between(r, 1, s->max_sge),
	};
	if (!host_claim_pieces(s->host, -1, s->pd, recv->len, recv->nsge, XR_ACCESS_LOCAL_WRITE,
			       true, claimant(s, index), recv->sge)) {
		host_release(s->host, claimant(s, index));
		return false;
	}
	ring_post_recv(s->host, &s->ring, recv, WR_ID(s, 1, index));
	s->next++;
	s->waiting++;
	return true;
}

/* Arms the limit event again. */
static void arm(struct sim_srq *s)
{
	s->limit = rng_below(&s->host->w->sched, s->ring.depth + 1);
	s->taken_at_arm = s->ring.queue->consumer;
	if (xt_srq_arm(&s->xt, s->limit))
		s->limit = 0;
}

static void resize(struct sim_srq *s)
{
	struct ring old = s->ring;
	uint32_t left = old.producer - old.queue->consumer;
	int err;

	ring_new(&s->ring, old.depth, old.stride);
	err = srq_resize(&s->xt, s->ring.queue, s->ring.depth);
	CHECK(s->host->w, !err, "resize of an SRQ: %d", err);
	/* Indices start at 0 in the new ring, also wqe_index of completions. */
	s->ring.producer = left;
	s->base = s->next - left;
	s->taken_at_arm = 0;
	s->limit = s->xt.limit;
	free(old.queue);
}

/*
 * Returns true if the program posts another receive. Receives that were taken and not polled count
 * as posted, because the CQs have room for s->ring.depth completions. Each QP may additionally keep
 * one receive for a message that continues later, or never.
 */
bool srq_wants(const struct sim_srq *s)
{
	unsigned kept = 2 * s->host->w->conns + s->lost;

	return ring_free(&s->ring) && s->waiting < s->ring.depth + kept;
}

bool srq_post(struct sim_srq *s)
{
	struct rng *r = &s->host->w->sched;
	unsigned budget = rng_between(r, 1, 8);

	if (!s->limit && rng_chance(r, 10))
		arm(s);
	if (rng_chance(r, 1))
		resize(s);
	while (budget-- && srq_wants(s))
		if (!post(s))
			return false;
	return true;
}

/* ---- expected events and completions ------------------------------------- */

void srq_limit_reached(struct sim_srq *s)
{
	struct world *w = s->host->w;
	uint32_t left = s->ring.producer - s->ring.queue->consumer;

	TRACE(w, "srq %u: limit event", s->id);
	CHECK(w, s->limit && left < s->limit, "srq %u: limit event, %u left and limit %u", s->id,
	      left, s->limit);
	s->limit = 0;
}

/* IBTA 10.2.9.3: the event is raised when a receive is used and fewer than the limit are left. */
static void verify_limit(struct sim_srq *s)
{
	uint32_t consumer = s->ring.queue->consumer;

	CHECK(s->host->w,
	      !s->limit || consumer == s->taken_at_arm || s->ring.producer - consumer >= s->limit,
	      "srq %u: no limit event, %u left and limit %u", s->id, s->ring.producer - consumer,
	      s->limit);
}

struct sim_recv *srq_completed(struct sim_srq *s, const struct xr_cqe *cqe)
{
	struct world *w = s->host->w;
	unsigned index = cqe->wr_id & 0x7fffffff;
	struct sim_recv *recv;

	CHECK(w, index < s->next, "srq %u: completion of receive %u of %u", s->id, index, s->next);
	recv = &s->recvs[index];
	CHECK(w, recv->state == OP_POSTED, "srq %u: receive %u completes twice", s->id, index);
	CHECK(w, index < s->base || cqe->wqe_index == index - s->base,
	      "srq %u: receive %u has wqe_index %u", s->id, index, cqe->wqe_index);
	s->waiting--;
	return recv;
}

void srq_lose(struct sim_srq *s)
{
	s->lost++;
}

/* Checks that used receives have completed, except those in use when their QP ended. */
void srq_verify_end(struct sim_srq *s)
{
	struct world *w = s->host->w;
	unsigned taken = s->base + s->ring.queue->consumer, missing = 0, i;

	verify_limit(s);
	for (i = 0; i < s->next; i++) {
		bool posted = s->recvs[i].state == OP_POSTED;

		CHECK(w, posted || i < taken,
		      "srq %u: receive %u completed, but is still in the queue", s->id, i);
		if (!posted || i >= taken)
			continue;
		missing++;
		host_lose(s->host, claimant(s, i));
	}
	CHECK(w, missing <= s->lost, "srq %u: %u receives lost, but %u QPs ended", s->id, missing,
	      s->lost);
}
