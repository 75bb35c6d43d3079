// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/verbs/nap.h"

static void start(struct xp_nap *nap, uint64_t now)
{
	*nap = (struct xp_nap){ .from = now };
}

bool xp_nap_possible(struct xp_nap *nap, uint64_t now, uint64_t last)
{
	uint64_t elapsed = now - nap->from;

	/* the time in which the program did something else is not that of WRs */
	if (!nap->from || (now > last && now - last > XP_NAP_MEASURE_NS)) {
		start(nap, now);
		return false;
	}
	if (elapsed >= XP_NAP_MEASURE_NS && nap->completions >= XP_NAP_MIN_WRS) {
		nap->wr_ns = nap->wrs ? elapsed / nap->wrs : 0;
		nap->batch = nap->wrs / nap->completions;
		nap->from = now;
		nap->wrs = nap->completions = 0;
	}
	return nap->wr_ns;
}

bool xp_nap_due(struct xp_nap *nap, uint64_t now, uint32_t outstanding)
{
	/* as many may have been executed already, and their completion is about to come */
	uint32_t left = outstanding > nap->batch ? outstanding - nap->batch : 0;

	/* idle time between bursts is not that of WRs either */
	if (outstanding < XP_NAP_MIN_WRS) {
		start(nap, now);
		return false;
	}
	return left >= XP_NAP_MIN_WRS && nap->wr_ns * left >= XP_NAP_DRAIN_NS;
}
