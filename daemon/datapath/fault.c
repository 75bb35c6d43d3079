// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fault injection: which rules apply to a packet, and what they do to it. */
#include "fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/transport/wire/icrc.h"
#include "fault_mads.h"
#include "frame.h"

#define FIRST_BYTE 12 /* a frame with damaged Ethernet addresses would not arrive at all */
#define MAX_FLIPS 3   /* the ICRC detects up to three bit errors in a packet */

struct rule {
	struct xd_fault_rule rule;
	struct xd_fault_hits hits;
	struct xd_fault_hits elsewhere; /* of direct programs */
	uint64_t owner;			/* client, 0: the operator */
	uint32_t pid, uid;		/* of that client */
	uint64_t random;		/* state of the generator */
	uint64_t started;		/* time of the first packet, for periods; 0: none yet */
	uint64_t free_at;		/* RATE: when all packets before have left */
	bool bad;			/* state of the Gilbert-Elliott model */

	/* faults of time; 0: none was begun yet */
	uint64_t begins_at, ends_at; /* of the next turn, of the present one */
	bool active;		     /* it is the rule's turn */
};

struct xd_faults {
	pthread_mutex_t lock;
	struct xd_fault_mads *mads;
	uint32_t n;
	uint32_t directions; /* of all rules */
	uint64_t any;	     /* rules that select QPs of no program as well */
	uint64_t seed;
	struct rule rule[XD_FAULT_RULES];
};

/* ---- random numbers ----------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static bool happens(struct rule *r, uint32_t probability)
{
	return probability >= XD_FAULT_CERTAIN ||
	       (probability && draw(&r->random) % XD_FAULT_CERTAIN < probability);
}

/* ---- the list of rules -------------------------------------------------------------------- */

struct xd_faults *xd_faults_new(void)
{
	struct xd_faults *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->mads = xd_fault_mads_new();
	if (!f->mads) {
		free(f);
		return NULL;
	}
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

void xd_faults_free(struct xd_faults *f)
{
	if (!f)
		return;
	pthread_mutex_destroy(&f->lock);
	xd_fault_mads_free(f->mads);
	free(f);
}

struct xd_fault_mads *xd_faults_mads(struct xd_faults *f)
{
	return f->mads;
}

/* Returns the number of rules of programs but this one: of all, or of its user's. */
static uint32_t count_others(const struct xd_faults *f, const struct xd_fault_program *p, bool user)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		const struct rule *r = &f->rule[i];

		n += r->owner && r->owner != p->client && (!user || r->uid == p->uid);
	}
	return n;
}

static void remove_rules(struct xd_faults *f, uint64_t owner)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < f->n; i++)
		if (f->rule[i].owner != owner)
			f->rule[kept++] = f->rule[i];
	f->n = kept;
}

static bool has_room(const struct xd_faults *f, const struct xd_fault_program *p, uint32_t n)
{
	if (!p)
		return n <= XD_FAULT_RULES - XD_FAULT_CLIENTS_RULES;
	return n <= XD_FAULT_CLIENT_RULES &&
	       (!n || p->is_operator || n + count_others(f, p, true) <= XD_FAULT_USER_RULES) &&
	       n + count_others(f, p, false) <= XD_FAULT_CLIENTS_RULES;
}

static bool names_program(const struct rule *r)
{
	const struct xd_fault_match *m = &r->rule.match;

	return r->owner || m->pid != XD_FAULT_ANY || m->uid != XD_FAULT_ANY || m->command[0];
}

static void summarize(struct xd_faults *f)
{
	f->directions = 0;
	f->any = 0;
	for (uint32_t i = 0; i < f->n; i++) {
		f->directions |= f->rule[i].rule.match.direction;
		f->any |= (uint64_t)!names_program(&f->rule[i]) << i;
	}
}

int xd_faults_set(struct xd_faults *f, const struct xd_fault_program *program, uint64_t seed,
		  const struct xd_fault_rule *rules, uint32_t n)
{
	uint64_t owner = program ? program->client : 0;

	if (!has_room(f, program, n))
		return -ENOSPC;
	remove_rules(f, owner);
	if (!owner)
		f->seed = seed;
	for (uint32_t i = 0; i < n; i++) {
		struct rule *r = &f->rule[f->n++];

		*r = (struct rule){ .rule = rules[i], .owner = owner, .random = seed + i };
		r->pid = program ? program->pid : 0;
		r->uid = program ? program->uid : 0;
		r->random = draw(&r->random);
	}
	summarize(f);
	return 0;
}

bool xd_faults_on(const struct xd_faults *f, uint32_t direction)
{
	return f->directions & direction;
}

bool xd_faults_of_user(const struct xd_faults *f, uint32_t uid)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->rule[i].rule.match.direction && (!f->rule[i].owner || f->rule[i].uid == uid))
			return true;
	return false;
}

bool xd_faults_by_program(const struct xd_faults *f)
{
	return f->any != (f->n < 64 ? (1ull << f->n) - 1 : UINT64_MAX);
}

static bool owns(const struct xd_fault_program *p, const struct rule *r)
{
	return r->owner == p->client || (p->is_channel && r->pid == p->pid && r->uid == p->uid);
}

static bool selects_program(const struct rule *r, const struct xd_fault_program *p)
{
	const struct xd_fault_match *m = &r->rule.match;

	return (!r->owner || owns(p, r)) && (m->pid == XD_FAULT_ANY || m->pid == p->pid) &&
	       (m->uid == XD_FAULT_ANY || m->uid == p->uid) &&
	       (!m->command[0] || !strcmp(m->command, p->command));
}

uint64_t xd_faults_of(const struct xd_faults *f, const struct xd_fault_program *program)
{
	uint64_t rules = f->any;

	for (uint32_t i = 0; program && i < f->n; i++)
		rules |= (uint64_t)selects_program(&f->rule[i], program) << i;
	return rules;
}

static bool is_timed(const struct rule *r)
{
	return r->rule.kind >= XD_FAULT_PORT;
}

static bool is_injection(const struct rule *r)
{
	return r->rule.kind == XD_FAULT_INJECT;
}

static bool is_refusal(const struct rule *r)
{
	return is_injection(r) &&
	       (r->rule.inject.kind == XT_INJECT_NAK || r->rule.inject.kind == XT_INJECT_RNR);
}

uint64_t xd_faults_of_mads(const struct xd_faults *f, uint64_t rules, bool self)
{
	for (uint32_t i = 0; i < f->n; i++) {
		const struct rule *r = &f->rule[i];

		if (is_injection(r) || (r->owner && r->rule.seal) || (self && is_timed(r)))
			rules &= ~(1ull << i);
	}
	return rules;
}

const struct xd_fault_rule *xd_faults_at(struct xd_faults *f, uint32_t index,
					 struct xd_fault_hits *hits, uint64_t *owner)
{
	struct rule *r = &f->rule[index];

	if (index >= f->n)
		return NULL;
	pthread_mutex_lock(&f->lock);
	*hits = r->hits;
	hits->seen += r->elsewhere.seen;
	hits->hits += r->elsewhere.hits;
	pthread_mutex_unlock(&f->lock);
	*owner = r->owner;
	return &r->rule;
}

void xd_faults_add_hits(struct xd_faults *f, uint32_t index, uint64_t seen, uint64_t hits)
{
	/* The turns of faults of time are the same everywhere, and are counted here. */
	if (index >= f->n || is_timed(&f->rule[index]))
		return;
	pthread_mutex_lock(&f->lock);
	f->rule[index].elsewhere.seen += seen;
	f->rule[index].elsewhere.hits += hits;
	pthread_mutex_unlock(&f->lock);
}

uint64_t xd_faults_seed(const struct xd_faults *f)
{
	return f->seed;
}

/* ---- whether a rule applies to a packet --------------------------------------------------- */

static bool selects(const struct xd_fault_match *m, const struct xd_fault_packet *p)
{
	uint8_t opcode;

	if (!(m->direction & p->direction) || (m->queue != XD_FAULT_ANY && m->queue != p->queue) ||
	    (m->qpn != XD_FAULT_ANY && m->qpn != p->frame->meta.qpn))
		return false;
	if (m->has_opcodes) {
		opcode = xd_frame_opcode(p->frame);
		if (!(m->opcodes[opcode / 64] >> opcode % 64 & 1))
			return false;
	}
	if (m->mads && !xd_frame_is_cm_mad(p->frame))
		return false;
	return !m->has_peer ||
	       xd_frame_has_address(p->frame, p->direction == XD_FAULT_RX, &m->peer);
}

/* Moves the Gilbert-Elliott model one step. Returns true in the bad state. */
static bool step_burst(struct rule *r)
{
	const struct xd_fault_when *when = &r->rule.when;

	if (!when->enter)
		return true;
	r->bad = r->bad ? !happens(r, when->leave) : happens(r, when->enter);
	return r->bad;
}

static bool in_period(struct rule *r, uint64_t now)
{
	const struct xd_fault_when *when = &r->rule.when;

	if (!r->started)
		r->started = now;
	return !when->period || is_timed(r) || (now - r->started) % when->period < when->length;
}

static bool applies(struct rule *r, uint64_t now)
{
	const struct xd_fault_when *when = &r->rule.when;
	uint64_t number = r->hits.seen++;
	bool burst = step_burst(r);

	if (number < when->after || (number - when->after) % when->every ||
	    (when->times && r->hits.hits >= when->times) || !burst || !in_period(r, now) ||
	    !happens(r, when->probability))
		return false;
	r->hits.hits++;
	return true;
}

/* ---- what it does to the packet ----------------------------------------------------------- */

static void corrupt(struct rule *r, struct xd_fault_action *a)
{
	const struct xd_fault_rule *rule = &r->rule;

	a->seal |= rule->seal;
	if (rule->field.width) {
		a->field = rule->field;
		return;
	}
	a->flips = rule->bits ? (uint8_t)rule->bits : (uint8_t)(1 + draw(&r->random) % MAX_FLIPS);
	a->flip_seed = draw(&r->random);
}

static uint64_t draw_delay(struct rule *r)
{
	const struct xd_fault_rule *rule = &r->rule;

	return rule->delay + (rule->jitter ? 1 + draw(&r->random) % rule->jitter : 0);
}

/* Returns the time that a packet waits for those before it on a link of limited rate. */
static uint64_t queue_behind(struct rule *r, const struct xd_fault_packet *p)
{
	uint64_t begin = r->free_at > p->now ? r->free_at : p->now;

	r->free_at = begin + p->frame->len * 8ull * 1000000000 / r->rule.rate;
	return r->free_at - p->now;
}

struct xd_fault_verb xd_faults_verb(struct xd_faults *f, uint32_t type, uint64_t rules,
				    uint64_t now)
{
	struct xd_fault_verb v = { 0 };

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->n && !v.error; i++) {
		struct rule *r = &f->rule[i];

		if (r->rule.kind != XD_FAULT_VERB || !(rules >> i & 1) ||
		    !(r->rule.verbs >> type & 1) || !applies(r, now))
			continue;
		v.error = r->rule.error;
		v.delay_ns += draw_delay(r);
	}
	pthread_mutex_unlock(&f->lock);
	return v;
}

/* ---- faults of time ----------------------------------------------------------------------- */

/* Returns when the rule changes next. bit: of the rule */
static uint64_t tick(struct rule *r, uint64_t now, uint64_t bit, struct xd_fault_turns *turns)
{
	const struct xd_fault_when *when = &r->rule.when;

	if (r->active && now >= r->ends_at) {
		r->active = false;
		turns->changed |= bit;
	}
	if (now >= r->begins_at) {
		bool hit = applies(r, now);

		turns->changed |= bit;
		if (hit && r->rule.kind == XD_FAULT_EVENT)
			turns->raised |= bit;
		r->active = hit && r->rule.kind != XD_FAULT_EVENT;
		r->ends_at = when->length ? now + when->length : XT_NEVER;
		r->begins_at = when->period ? now + when->period : XT_NEVER;
	}
	return r->active && r->ends_at < r->begins_at ? r->ends_at : r->begins_at;
}

uint64_t xd_faults_tick(struct xd_faults *f, uint64_t now, struct xd_fault_turns *turns)
{
	uint64_t next = XT_NEVER, at;

	*turns = (struct xd_fault_turns){ 0 };
	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->n; i++) {
		if (!is_timed(&f->rule[i]))
			continue;
		at = tick(&f->rule[i], now, 1ull << i, turns);
		if (at < next)
			next = at;
	}
	pthread_mutex_unlock(&f->lock);
	return next;
}

uint64_t xd_faults_active(struct xd_faults *f, enum xd_fault_kind kind)
{
	uint64_t rules = 0;

	for (uint32_t i = 0; i < f->n; i++)
		rules |= (uint64_t)(f->rule[i].active && f->rule[i].rule.kind == kind) << i;
	return rules;
}

bool xd_faults_hide(struct xd_faults *f, uint64_t rules, const struct xr_addr *gid)
{
	rules &= xd_faults_active(f, XD_FAULT_GID);
	for (uint32_t i = 0; i < f->n; i++)
		if (rules >> i & 1 && xr_gid_equal(&f->rule[i].rule.match.gid, gid))
			return true;
	return false;
}

static bool is_lost(const struct rule *r, const struct xd_fault_packet *p)
{
	return r->active && selects(&r->rule.match, p) &&
	       (r->rule.kind != XD_FAULT_GID ||
		xd_frame_has_address(p->frame, p->direction == XD_FAULT_TX, &r->rule.match.gid));
}

static bool is_delay(const struct rule *r)
{
	return r->rule.kind == XD_FAULT_DELAY || r->rule.kind == XD_FAULT_RATE ||
	       r->rule.kind == XD_FAULT_DUPLICATE;
}

static void apply(struct rule *r, const struct xd_fault_packet *p, struct xd_fault_action *a)
{
	a->hit = true;
	switch (r->rule.kind) {
	case XD_FAULT_DROP:
		a->copies = 0;
		break;
	case XD_FAULT_DUPLICATE:
		a->copies = 2;
		a->delay_ns[1] += draw_delay(r);
		break;
	case XD_FAULT_DELAY:
		for (int i = 0; i < a->copies; i++)
			a->delay_ns[i] += draw_delay(r);
		break;
	case XD_FAULT_RATE:
		for (int i = 0; i < a->copies; i++)
			a->delay_ns[i] += queue_behind(r, p);
		break;
	case XD_FAULT_CORRUPT:
		corrupt(r, a);
		break;
	default: /* not faults of packets */
		break;
	case XD_FAULT_INJECT:
		a->inject = r->rule.inject;
		break;
	}
}

void xd_faults_lock(struct xd_faults *f)
{
	pthread_mutex_lock(&f->lock);
}

void xd_faults_unlock(struct xd_faults *f)
{
	pthread_mutex_unlock(&f->lock);
}

struct xd_fault_action xd_faults_next(struct xd_faults *f, const struct xd_fault_packet *p)
{
	struct xd_fault_action a = { .copies = 1, .delayed_by = XD_FAULT_NO_RULE };

	for (uint32_t i = 0; i < f->n && a.copies; i++) {
		struct rule *r = &f->rule[i];

		if (!(p->rules >> i & 1))
			continue;
		if (is_timed(r)) {
			a.hit |= is_lost(r, p);
			a.copies = is_lost(r, p) ? 0 : a.copies;
		} else if (is_refusal(r)) {
			a.refusal |= selects(&r->rule.match, p);
		} else if (is_injection(r) && a.inject.kind != XT_INJECT_NONE) {
			continue; /* one error is enough for a packet */
		} else if (selects(&r->rule.match, p) && applies(r, p->now)) {
			apply(r, p, &a);
			if (r->owner && is_delay(r))
				a.delayed_by = (uint8_t)i;
		}
	}
	return a;
}

struct xt_inject xd_faults_refusal(struct xd_faults *f, const struct xd_fault_packet *p)
{
	struct xt_inject refusal = { XT_INJECT_NONE, 0 };

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->n && refusal.kind == XT_INJECT_NONE; i++) {
		struct rule *r = &f->rule[i];

		if (is_refusal(r) && p->rules >> i & 1 && selects(&r->rule.match, p) &&
		    applies(r, p->now))
			refusal = r->rule.inject;
	}
	pthread_mutex_unlock(&f->lock);
	return refusal;
}

void xd_path_to_self(struct xt_path *p)
{
	p->self = true;
	if (!p->loopback)
		return;
	p->loopback = false;
	memcpy(p->dmac, p->smac, sizeof(p->dmac));
}

/* ---- damage ------------------------------------------------------------------------------- */

static void flip(const struct xt_frame *frame, uint32_t bit)
{
	uint32_t off = bit / 8, i;

	for (i = 0; i < frame->nseg && off >= frame->seg[i].len; i++)
		off -= frame->seg[i].len;
	if (i < frame->nseg)
		frame->seg[i].data[off] ^= 1 << bit % 8;
}

/*
 * Returns true if the ICRC may not detect the damage. It detects three bits, and one field. A
 * program could look for a seed with which more of them deceive the peer.
 */
static bool can_deceive(const struct xd_fault_action *action)
{
	return action->flips > MAX_FLIPS || (action->flips && action->field.width);
}

/* The ICRC can only be right if what it does not cover is left alone: damage begins at the BTH. */
void xd_fault_damage(const struct xd_fault_action *action, const struct xt_frame *frame)
{
	uint32_t ip = xd_frame_ip(frame), bth = xd_frame_bth(frame), first = FIRST_BYTE,
		 end = frame->len, i;
	uint64_t random = action->flip_seed;

	if (action->seal) {
		first = bth;
		end -= XR_ICRC_LEN;
	}
	if (frame->len <= XR_ICRC_LEN || first >= end)
		return;
	if (bth + action->field.offset + action->field.width <= end)
		xd_frame_store(frame, bth + action->field.offset, action->field.value,
			       action->field.width);
	for (i = 0; i < action->flips; i++)
		flip(frame, first * 8 + (uint32_t)(draw(&random) % ((end - first) * 8)));
	if ((action->seal || can_deceive(action)) && bth + XR_BTH_HLEN <= frame->seg[0].len) {
		xt_icrc_seal(frame->seg, frame->nseg, ip, bth);
		if (!action->seal)
			flip(frame, frame->len * 8 - 1);
	}
}
