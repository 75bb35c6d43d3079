// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A host: its engine, the callbacks of the engine, crash and restart. */
#include "cm_sim.h"

static void on_send(void *ctx, const struct xc_path *path, const uint8_t mad[XC_MAD_LEN])
{
	net_send(ctx, path, mad);
}

static void on_event(void *ctx, struct xc_id *id, const struct xc_event *event)
{
	program_event(ctx, id, event);
}

static uint64_t on_now(void *ctx)
{
	return ((struct host *)ctx)->w->now;
}

static void on_random(void *ctx, void *buf, size_t len)
{
	rng_bytes(&((struct host *)ctx)->random, buf, len);
}

/* The peer would get a DREQ if the host ended now without a crash. */
static uint32_t on_peer_connected(void *ctx, const struct xc_info *info, uint64_t dreq_tid,
				  uint32_t number)
{
	struct host *h = ctx;

	CHECK(h->w, number == XC_NO_NUMBER || number == info->local_id,
	      "host %u: peer %08x has number %08x", h->index, info->local_id, number);
	h->peers += number == XC_NO_NUMBER;
	return info->local_id;
}

static void on_peer_gone(void *ctx, uint32_t number)
{
	struct host *h = ctx;

	CHECK(h->w, number && h->peers, "host %u: peer_gone() without a peer", h->index);
	h->peers--;
}

static const struct xc_ops ops = {
	.send = on_send,
	.event = on_event,
	.now = on_now,
	.random = on_random,
	.peer_connected = on_peer_connected,
	.peer_gone = on_peer_gone,
};

struct host *host_by_gid(struct world *w, const struct xr_addr *gid)
{
	unsigned i;

	for (i = 0; i < w->hosts; i++)
		if (xr_gid_equal(&w->host[i].gid, gid))
			return &w->host[i];
	return NULL;
}

void host_start(struct host *h)
{
	h->cm = xc_new(&h->config, &ops, h);
	h->restart_at = NEVER;
	h->run_at = NEVER;
	CHECK(h->w, h->cm, "xc_new() failed");
	TRACE(h->w, "host %u starts", h->index);
}

/* The programs end with the host; nothing is sent. */
void host_crash(struct host *h)
{
	struct conn *c;
	struct end *e;
	unsigned i;

	TRACE(h->w, "host %u crashes", h->index);
	xc_free(h->cm);
	CHECK(h->w, !h->peers, "host %u: %u peers of ids that were freed", h->index, h->peers);
	h->cm = NULL;
	h->life++;
	h->crash_at = NEVER;
	h->restart_at = h->w->now + rng_below(&h->w->sched, 20 * SEC);
	if (rng_chance(&h->w->sched, 40))
		h->crash_at = h->restart_at + rng_below(&h->w->sched, 60 * SEC);
	for (e = h->ends; e; e = e->next) {
		e->state = END_GONE;
		e->id = NULL;
	}
	for (c = h->w->conns; c; c = c->next)
		c->crashed |= c->from == h || c->to == h;
	for (i = 0; i < h->services; i++)
		h->service[i].pending = 0;
	/* The same QPNs again make connections of before the crash stale. */
	if (rng_chance(&h->w->sched, 60))
		h->next_qpn = h->first_qpn;
	rng_bytes(&h->w->sched, &h->random.state, sizeof(h->random.state));
	h->w->totals.count[TOTAL_CRASHES]++;
}

/* The time of the next timer. A busy host runs its timers late. */
static uint64_t timer(struct host *h)
{
	uint64_t deadline = h->cm ? xc_deadline(h->cm) : XC_NEVER;

	if (deadline == XC_NEVER)
		return h->run_at = NEVER;
	if (h->run_at == NEVER || h->run_at < deadline || h->run_at > deadline + h->late)
		h->run_at = deadline + (h->late ? rng_below(&h->w->sched, h->late) : 0);
	return h->run_at;
}

uint64_t host_next(const struct host *h)
{
	return earliest(timer((struct host *)h), earliest(h->crash_at, h->restart_at));
}

void host_run(struct host *h)
{
	struct world *w = h->w;

	if (h->crash_at <= w->now && h->cm)
		host_crash(h);
	if (h->restart_at <= w->now && !h->cm)
		host_start(h);
	if (timer(h) > w->now)
		return;
	xc_run(h->cm);
	CHECK(w, xc_deadline(h->cm) > w->now, "host %u: a timer that has expired was not run",
	      h->index);
	h->run_at = NEVER;
}

/* The engine's state as far as a MAD can change it */
static uint64_t fingerprint(const struct host *h)
{
	uint64_t sum = xc_deadline(h->cm);
	struct xc_id *id = NULL;

	while ((id = xc_next(h->cm, id))) {
		const struct xc_info *info = xc_info(id);

		sum = (sum ^ info->state ^ (uint64_t)info->remote_id << 8 ^
		       (uint64_t)info->local_id << 32) *
		      0x9e3779b97f4a7c15ull;
	}
	return sum;
}

void host_receive(struct host *h, const struct frame *f)
{
	uint64_t print = f->foreign ? fingerprint(h) : 0;

	h->in_call = f->foreign;
	h->receiving = mad_attr(f->mad);
	xc_receive(h->cm, &f->path, f->mad, XC_MAD_LEN);
	h->receiving = 0;
	h->in_call = false;
	if (f->foreign)
		CHECK(h->w, fingerprint(h) == print,
		      "host %u: a MAD of a wrong source or with an invalid header has an effect",
		      h->index);
}
