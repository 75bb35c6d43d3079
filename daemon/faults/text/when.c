// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When a rule of fault injection applies to the packets that it selects. */
#include "parse.h"

#define PERIOD_MAX_NS 86400000000000ull /* a day */

bool xd_fault_set_prob(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_probability(w, &r->when.probability);
}

bool xd_fault_set_burst(struct xd_words *w, struct xd_fault_rule *r)
{
	if (!xd_words_probability(w, &r->when.enter) || !xd_words_probability(w, &r->when.leave))
		return false;
	return r->when.enter || xd_words_wrong(w, "0", "two probabilities, the first one above 0");
}

bool xd_fault_set_after(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number(w, 0, INT64_MAX, &r->when.after);
}

bool xd_fault_set_every(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number(w, 1, INT64_MAX, &r->when.every);
}

bool xd_fault_set_times(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_number(w, 1, INT64_MAX, &r->when.times);
}

bool xd_fault_set_period(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_time(w, PERIOD_MAX_NS, &r->when.period) &&
	       (r->when.period || xd_words_wrong(w, "0", "a time above 0"));
}

bool xd_fault_set_length(struct xd_words *w, struct xd_fault_rule *r)
{
	return xd_words_time(w, PERIOD_MAX_NS, &r->when.length);
}
