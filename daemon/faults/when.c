// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When a rule applies: counts, probabilities, bursts, periods. */
#include "internal.h"
#include "random.h"

static bool happens(struct xd_rule *r, uint32_t probability)
{
	return probability >= XD_FAULT_CERTAIN ||
	       (probability && xd_fault_draw(&r->random) % XD_FAULT_CERTAIN < probability);
}

/* Moves the Gilbert-Elliott model one step. Returns true in the bad state. */
static bool step_burst(struct xd_rule *r)
{
	const struct xd_fault_when *when = &r->rule.when;

	if (!when->enter)
		return true;
	r->bad = r->bad ? !happens(r, when->leave) : happens(r, when->enter);
	return r->bad;
}

static bool in_period(struct xd_rule *r, uint64_t now)
{
	const struct xd_fault_when *when = &r->rule.when;

	if (!r->started)
		r->started = now;
	return !when->period || xd_rule_is_timed(r) ||
	       (now - r->started) % when->period < when->length;
}

bool xd_rule_applies(struct xd_rule *r, uint64_t now)
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

uint64_t xd_rule_delay(struct xd_rule *r)
{
	const struct xd_fault_rule *rule = &r->rule;

	return rule->delay + (rule->jitter ? 1 + xd_fault_draw(&r->random) % rule->jitter : 0);
}
