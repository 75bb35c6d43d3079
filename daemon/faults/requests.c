// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Faults of verbs: requests of programs fail, or take long. */
#include "internal.h"

struct xd_fault_verb xd_faults_verb(struct xd_faults *f, uint32_t type, uint64_t rules,
				    uint64_t now)
{
	struct xd_fault_verb v = { 0 };

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->n && !v.error; i++) {
		struct xd_rule *r = &f->rule[i];

		if (r->rule.kind != XD_FAULT_VERB || !(rules >> i & 1) ||
		    !(r->rule.verbs >> type & 1) || !xd_rule_applies(r, now))
			continue;
		v.error = r->rule.error;
		v.delay_ns += xd_rule_delay(r);
	}
	pthread_mutex_unlock(&f->lock);
	return v;
}
