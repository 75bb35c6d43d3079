// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The network: delivers MADs after some time, in order unless a fault delays one, and adds MADs
 * that must have no effect and floods of REQs.
 */
#include <stdio.h>

#include "cm_sim.h"

/* ---- faults --------------------------------------------------------------------- */

static bool happens(struct world *w, unsigned per_mille)
{
	return per_mille && rng_below(&w->sched, 1000) < per_mille;
}

static void trace(struct world *w, const char *verb, const struct frame *f)
{
	unsigned attr = mad_attr(f->mad);

	TRACE(w, "  %-8s %-8s #%-4llu to %u, ids %08x %08x tid %llx", verb,
	      attr >= MAD_REQ && attr < MAD_END ? xc_kind_name(attr - MAD_REQ) : "?",
	      (unsigned long long)f->flight.seq, f->to->index, mad_local_id(f->mad),
	      mad_remote_id(f->mad), (unsigned long long)mad_tid(f->mad));
}

static void launch(struct world *w, struct frame *f)
{
	f->flight.when = w->now + w->latency;
	if (happens(w, w->faults.delay))
		f->flight.when += rng_below(&w->sched, w->faults.max_delay);
	f->flight.seq = w->frame_seq++;
	flights_add(&w->flights, &f->flight);
}

static struct frame *copy_of(const struct frame *f)
{
	struct frame *c = malloc(sizeof(*c));

	*c = *f;
	return c;
}

/*
 * Makes the header invalid: base version, class, class version, method or attribute. A request of
 * another class version would be rejected.
 */
static void break_header(struct world *w, struct frame *f)
{
	static const uint8_t at[] = { 0, 1, 3, 16, 17, 2 };
	bool request = mad_attr(f->mad) == MAD_REQ || mad_attr(f->mad) == MAD_SIDR_REQ;
	unsigned i = at[rng_below(&w->sched, sizeof(at) - request)];

	f->mad[i] ^= i == 17 ? 0x80 : 1 << rng_below(&w->sched, 8);
}

/*
 * Sends a copy that must have no effect: with an invalid header; or from the address of a host that
 * does not take part in the exchange. A REQ or SIDR_REQ from there would be a new request.
 */
static void add_foreign(struct world *w, const struct frame *f)
{
	unsigned attr = mad_attr(f->mad);
	struct frame *c = copy_of(f);

	if (w->hosts < 3 || attr == MAD_REQ || attr == MAD_SIDR_REQ || rng_chance(&w->sched, 30)) {
		break_header(w, c);
	} else {
		unsigned i = rng_below(&w->sched, w->hosts);

		while (xr_gid_equal(&w->host[i].gid, &f->path.peer) || &w->host[i] == f->to)
			i = (i + 1) % w->hosts;
		c->path.peer = w->host[i].gid;
	}
	c->foreign = true;
	w->totals.count[TOTAL_FOREIGN]++;
	launch(w, c);
	/* The foreign copy may be the first to arrive. */
	if (rng_chance(&w->sched, 50))
		c->flight.when = w->now + w->latency / 2;
}

static void damage(struct world *w, struct frame *f)
{
	unsigned n = rng_between(&w->sched, 1, 4);

	while (n--)
		f->mad[rng_chance(&w->sched, 70) ? rng_between(&w->sched, 8, 200)
						 : rng_below(&w->sched, XC_MAD_LEN)] ^=
			1 << rng_below(&w->sched, 8);
}

static void transmit(struct world *w, struct frame *f)
{
	if (happens(w, w->faults.foreign))
		add_foreign(w, f);
	if (happens(w, w->faults.duplicate))
		launch(w, copy_of(f));
	if (happens(w, w->faults.lose)) {
		trace(w, "LOST", f);
		w->totals.count[TOTAL_LOST]++;
		free(f);
		return;
	}
	if (happens(w, w->faults.damage))
		damage(w, f);
	launch(w, f);
	trace(w, "sent", f);
}

void net_send(struct host *h, const struct xc_path *path, const uint8_t *mad)
{
	struct world *w = h->w;
	struct end *sender = verify_mad(h, path, mad);
	struct host *to = host_by_gid(w, &path->peer);
	struct frame *f;

	w->totals.count[TOTAL_MADS]++;
	if (!to)
		return; /* the forger of a request */
	f = calloc(1, sizeof(*f));
	f->to = to;
	f->sender = sender && sender->conn ? sender : NULL;
	f->path = *path;
	f->path.local = path->peer;
	f->path.peer = path->local;
	memcpy(f->mad, mad, XC_MAD_LEN);
	transmit(w, f);
}

/* ---- floods ----------------------------------------------------------------------- */

/* Sends a REQ with random contents to a service, from one of some addresses. */
static void flood(struct world *w)
{
	struct host *to = &w->host[rng_below(&w->sched, w->hosts)];
	struct frame *f = calloc(1, sizeof(*f));
	bool sidr = rng_chance(&w->sched, 20);
	const struct service *s = &to->service[rng_below(&w->sched, to->services)];
	uint64_t id = s->id;
	unsigned i;

	rng_bytes(&w->sched, f->mad, sizeof(f->mad));
	memset(f->mad, 0, 24);
	f->mad[0] = 1;
	f->mad[1] = 7;
	f->mad[2] = 2;
	f->mad[3] = 3;
	f->mad[17] = sidr ? MAD_SIDR_REQ : MAD_REQ;
	for (i = 0; i < 8; i++)
		f->mad[24 + 8 + i] = id >> (56 - 8 * i);
	f->to = to;
	f->path.local = to->gid;
	f->path.peer.raw[0] = 0xfd;
	f->path.peer.raw[15] = 0x80 | rng_below(&w->sched, 6);
	/* In most REQs the GIDs of the path and the transport are valid. */
	if (!sidr && rng_chance(&w->sched, 90)) {
		f->mad[24 + 43] &= ~6;
		f->mad[24 + 50] = 3 << 4;
		memcpy(f->mad + 24 + 56, &f->path.peer, 16);
		memcpy(f->mad + 24 + 72, &f->path.local, 16);
	}
	launch(w, f);
}

/* ---- receiving -------------------------------------------------------------------- */

/* A message that reports the end of a connection has reached a peer that is connected. */
static void note_told(const struct frame *f)
{
	unsigned attr = mad_attr(f->mad);
	struct end *e = f->sender, *peer;

	if (!e || f->foreign || (attr != MAD_DREQ && attr != MAD_REJ))
		return;
	peer = end_by_comm_id(f->to, mad_remote_id(f->mad));
	if (peer && peer == e->peer && (peer->state == END_UP || peer->state == END_REPLIED))
		e->told = true;
}

/* An MRA for the last REQ or REP that the receiver sent. Further MRAs change nothing. */
static void note_mra(const struct frame *f)
{
	struct end *e = end_by_comm_id(f->to, mad_remote_id(f->mad));
	unsigned message = f->mad[24 + 8] >> 6, code = f->mad[24 + 9] >> 3;
	enum xc_kind kind = message == XC_MESSAGE_REQ ? XC_REQ : XC_REP;

	if (f->foreign || mad_attr(f->mad) != MAD_MRA || !e || e->life != f->to->life ||
	    e->state != (kind == XC_REQ ? END_CONNECTING : END_ACCEPTED))
		return;
	if (e->patient <= e->sent[kind].at)
		e->patient = f->to->w->now + (4096ull << code) * 9 / 10;
}

/* Makes the REJ of a REQ, as it was sent before the REP. */
static void make_rej(struct frame *f)
{
	f->mad[17] = MAD_REJ;
	memset(f->mad + 24, 0, 4);
	memset(f->mad + 24 + 8, 0, XC_MAD_LEN - 24 - 8);
	f->mad[REJ_REASON_AT + 1] = XC_REJ_CONSUMER;
}

/* Changes the communication ID of the sender, or the QPN of a DREQ. */
static void change_number(struct world *w, struct frame *f)
{
	bool qpn = mad_attr(f->mad) == MAD_DREQ && rng_chance(&w->sched, 50);
	unsigned at = 24 + (qpn ? 8 + rng_below(&w->sched, 3) : rng_below(&w->sched, 4));

	f->mad[at] ^= 1 << rng_below(&w->sched, 8);
}

/*
 * Delivers a copy that must have no effect on the receiver: with a communication ID or QPN of
 * another connection; or a late REJ of the REQ before a copy of the REP. A receiver that does not
 * have the communication ID of its peer cannot notice a wrong one.
 */
static void deliver_altered(struct world *w, const struct frame *f)
{
	unsigned attr = mad_attr(f->mad);
	struct end *e = end_by_comm_id(f->to, mad_remote_id(f->mad));
	bool knows_peer = e && e->id && xc_info(e->id)->remote_id;
	struct frame *c;

	if (w->weak || f->foreign)
		return;
	if (attr != MAD_RTU && attr != MAD_DREQ && attr != MAD_DREP &&
	    !(knows_peer && (attr == MAD_REJ || attr == MAD_REP)))
		return;
	c = copy_of(f);
	if (attr == MAD_REP)
		make_rej(c);
	else
		change_number(w, c);
	c->foreign = true;
	trace(w, "ALTERED", c);
	host_receive(c->to, c);
	w->totals.count[TOTAL_FOREIGN]++;
	free(c);
}

/*
 * True if the engine must respond to a DREQ itself: it has no id, or the connection has ended. If
 * it has not, the program responds.
 */
static bool needs_drep(const struct frame *f)
{
	struct end *e = end_by_comm_id(f->to, mad_remote_id(f->mad));

	return mad_attr(f->mad) == MAD_DREQ && !f->foreign && !f->to->w->weak &&
	       (!e || e->life != f->to->life ||
		(e->state != END_UP && e->state != END_ACCEPTED && e->state != END_ASKED));
}

/* The REQ or REP was rejected as stale: the older connection with the same QP must be ended. */
static void check_stale(const struct frame *f)
{
	const struct end *s = f->sender, *e;
	uint32_t qpn;

	if (!s || f->to->w->weak)
		return;
	/* A copy of a REQ whose exchange has ended is rejected as stale, too. */
	if (s->active && s->conn->passive && s->conn->passive->life == f->to->life)
		return;
	qpn = s->active ? s->req.qpn : s->rep.qpn;
	for (e = f->to->ends; e; e = e->next) {
		const struct xc_info *info = e->id ? xc_info(e->id) : NULL;

		CHECK(e->w,
		      !info || info->state != XC_ESTABLISHED || info->remote_qpn != qpn ||
			      !xr_gid_equal(&info->path.peer, &f->path.peer),
		      "host %u, id %08x: a stale connection is not disconnected", f->to->index,
		      e->comm_id);
	}
}

/* The end whose connection a DREQ ends: NULL if there is none. */
static struct end *ended_by(const struct frame *f)
{
	struct end *e = end_by_comm_id(f->to, mad_remote_id(f->mad));

	if (mad_attr(f->mad) != MAD_DREQ || f->foreign || f->to->w->weak || !e || !e->id ||
	    xc_info(e->id)->remote_id != mad_local_id(f->mad))
		return NULL;
	return e->state == END_ACCEPTED || e->state == END_REPLIED || e->state == END_UP ? e : NULL;
}

static void deliver(struct world *w, struct frame *f)
{
	const struct xc_counters *counters = xc_counters(f->to->cm);
	uint64_t dreps = counters->sent[XC_DREP], stale = counters->rej_sent[XC_REJ_STALE];
	bool needed = needs_drep(f);
	struct end *e = ended_by(f);
	enum end_state before = e ? e->state : END_GONE;

	host_receive(f->to, f);
	CHECK(w, !e || e->state != before, "host %u, id %08x: still %s after a DREQ", f->to->index,
	      e->comm_id, end_names[before]);
	CHECK(w, !needed || counters->sent[XC_DREP] == dreps + 1, "host %u: no DREP for a DREQ",
	      f->to->index);
	if (counters->rej_sent[XC_REJ_STALE] != stale)
		check_stale(f);
}

static void arrive(struct world *w, struct frame *f)
{
	if (f->to->cm) {
		trace(w, f->foreign ? "FOREIGN" : "arrived", f);
		note_told(f);
		note_mra(f);
		if (f->sender && f->sender->active)
			f->sender->conn->arrivals++;
		if (happens(w, w->faults.foreign))
			deliver_altered(w, f);
		deliver(w, f);
	} else {
		trace(w, "DOWN", f);
	}
	free(f);
}

uint64_t net_next(const struct world *w)
{
	const struct flight *f = flights_first(&w->flights);

	return earliest(f ? f->when : NEVER, w->faults.flood_gap ? w->flood_at : NEVER);
}

void net_run(struct world *w)
{
	const struct flight *f;

	while ((f = flights_first(&w->flights)) && f->when <= w->now)
		arrive(w, flights_take(&w->flights));
	if (w->faults.flood_gap && w->flood_at <= w->now) {
		flood(w);
		w->flood_at = w->now + rng_between(&w->sched, 1, 2 * w->faults.flood_gap);
	}
}
