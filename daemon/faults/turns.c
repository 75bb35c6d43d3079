// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Faults of time: their turns begin and end without packets. */
#include "internal.h"

/* Returns when the rule changes next. bit: of the rule */
static uint64_t turns_tick(struct xd_rule *r, uint64_t now, uint64_t bit,
			   struct xd_fault_turns *turns)
{
	const struct xd_fault_when *when = &r->rule.when;

	if (r->active && now >= r->ends_at) {
		r->active = false;
		turns->changed |= bit;
	}
	if (now >= r->begins_at) {
		bool hit = xd_rule_applies(r, now);

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
		if (!xd_rule_is_timed(&f->rule[i]))
			continue;
		at = turns_tick(&f->rule[i], now, 1ull << i, turns);
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
