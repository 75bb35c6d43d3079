// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Faults of packets: the rules that apply to a packet, and what they do to it. */
#include <string.h>

#include "fields.h"
#include "internal.h"
#include "random.h"

/* ---- whether a rule selects a packet ------------------------------------------------------ */

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

/* ---- what it does to the packet ----------------------------------------------------------- */

static void corrupt(struct xd_rule *r, struct xd_fault_action *a)
{
	const struct xd_fault_rule *rule = &r->rule;

	a->seal |= rule->seal;
	if (rule->field.width) {
		a->field = rule->field;
		return;
	}
	a->flips = rule->bits ? (uint8_t)rule->bits
			      : (uint8_t)(1 + xd_fault_draw(&r->random) % XD_FAULT_FLIPS);
	a->flip_seed = xd_fault_draw(&r->random);
}

/* Returns the time that a packet waits for those before it on a link of limited rate. */
static uint64_t queue_behind(struct xd_rule *r, const struct xd_fault_packet *p)
{
	uint64_t begin = r->free_at > p->now ? r->free_at : p->now;

	r->free_at = begin + p->frame->len * 8ull * 1000000000 / r->rule.rate;
	return r->free_at - p->now;
}

static bool packets_is_lost(const struct xd_rule *r, const struct xd_fault_packet *p)
{
	return r->active && selects(&r->rule.match, p) &&
	       (r->rule.kind != XD_FAULT_GID ||
		xd_frame_has_address(p->frame, p->direction == XD_FAULT_TX, &r->rule.match.gid));
}

static bool is_delay(const struct xd_rule *r)
{
	return r->rule.kind == XD_FAULT_DELAY || r->rule.kind == XD_FAULT_RATE ||
	       r->rule.kind == XD_FAULT_DUPLICATE;
}

static void packets_apply(struct xd_rule *r, const struct xd_fault_packet *p,
			  struct xd_fault_action *a)
{
	a->hit = true;
	switch (r->rule.kind) {
	case XD_FAULT_DROP:
		a->copies = 0;
		break;
	case XD_FAULT_DUPLICATE:
		a->copies = 2;
		a->delay_ns[1] += xd_rule_delay(r);
		break;
	case XD_FAULT_DELAY:
		for (int i = 0; i < a->copies; i++)
			a->delay_ns[i] += xd_rule_delay(r);
		break;
	case XD_FAULT_RATE:
		for (int i = 0; i < a->copies; i++)
			a->delay_ns[i] += queue_behind(r, p);
		break;
	case XD_FAULT_CORRUPT:
		corrupt(r, a);
		break;
	case XD_FAULT_INJECT:
		a->inject = r->rule.inject;
		break;
	default: /* not faults of packets */
		break;
	}
}

struct xd_fault_action xd_faults_next(struct xd_faults *f, const struct xd_fault_packet *p)
{
	struct xd_fault_action a = { .copies = 1, .delayed_by = XD_FAULT_NO_RULE };

	for (uint32_t i = 0; i < f->n && a.copies; i++) {
		struct xd_rule *r = &f->rule[i];

		if (!(p->rules >> i & 1))
			continue;
		if (xd_rule_is_timed(r)) {
			a.hit |= packets_is_lost(r, p);
			a.copies = packets_is_lost(r, p) ? 0 : a.copies;
		} else if (xd_rule_is_refusal(r)) {
			a.refusal |= selects(&r->rule.match, p);
		} else if (xd_rule_is_injection(r) && a.inject.kind != XT_INJECT_NONE) {
			continue; /* one error is enough for a packet */
		} else if (selects(&r->rule.match, p) && xd_rule_applies(r, p->now)) {
			packets_apply(r, p, &a);
			if (r->owner && is_delay(r))
				a.delayed_by = (uint8_t)i;
		}
	}
	return a;
}

struct xt_inject xd_faults_refusal(struct xd_faults *f, const struct xd_fault_packet *p)
{
	struct xt_inject refusal = { XT_INJECT_NONE, 0 };

	for (uint32_t i = 0; i < f->n && refusal.kind == XT_INJECT_NONE; i++) {
		struct xd_rule *r = &f->rule[i];

		if (xd_rule_is_refusal(r) && p->rules >> i & 1 && selects(&r->rule.match, p) &&
		    xd_rule_applies(r, p->now))
			refusal = r->rule.inject;
	}
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
