// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/verbs/nap.h"

static void start(struct xp_nap *nap, uint64_t now)
{
	*nap = (struct xp_nap){
		.from = now,
		.completed = nap->completed,
		.executed = nap->executed,
		.changed = nap->changed,
	};
}

bool xp_nap_possible(struct xp_nap *nap, uint64_t now, uint64_t last)
{
	uint64_t elapsed = now - nap->from;

	/* the time in which the program did something else is not that of WRs */
	if (!nap->from || (now > last && now - last > XP_NAP_MEASURE_NS)) {
		start(nap, now);
		nap->changed = now;
		return false;
	}
	if (elapsed >= XP_NAP_MEASURE_NS && nap->completions >= XP_NAP_MIN_WRS) {
		nap->wr_ns = nap->wrs ? elapsed / nap->wrs : 0;
		nap->batch = nap->wrs / nap->completions;
		nap->from = now;
		nap->wrs = nap->completions = 0;
	}
	return nap->wr_ns || now - nap->changed >= XP_NAP_STUCK_NS;
}

static bool is_stuck(struct xp_nap *nap, uint64_t now, const struct xp_nap_wrs *wrs)
{
	uint32_t executed = nap->completed + wrs->outstanding - wrs->left;

	if (now - nap->changed < XP_NAP_STUCK_NS)
		return false;
	if (wrs->left && executed == nap->executed)
		return true;
	nap->executed = executed;
	nap->changed = now;
	return false;
}

bool xp_nap_due(struct xp_nap *nap, uint64_t now, const struct xp_nap_wrs *wrs)
{
	uint64_t drain_ns = nap->wr_ns * wrs->left, next_ns = 0;

	if (is_stuck(nap, now, wrs))
		return true;
	/* idle time between bursts is not that of WRs either */
	if (wrs->outstanding < XP_NAP_MIN_WRS) {
		start(nap, now);
		return false;
	}
	if (nap->batch > wrs->executed)
		next_ns = nap->wr_ns * (nap->batch - wrs->executed);
	return wrs->left >= XP_NAP_MIN_WRS &&
	       drain_ns >= (next_ns < XP_NAP_LONGEST_NS ? XP_NAP_DRAIN_NS : XP_NAP_SHORT_DRAIN_NS);
}

/* ---- receives ------------------------------------------------------------------ */

static void restart(struct xp_recv_nap *nap, uint64_t now)
{
	*nap = (struct xp_recv_nap){
		.from = now,
		.failures = nap->failures,
		.not_until = nap->not_until,
	};
}

static bool is_answered(const struct xp_recv_nap *nap)
{
	return (uint64_t)nap->answered * XP_RECV_NAP_PER_SEND > nap->receives;
}

static bool is_stream(const struct xp_recv_nap *nap, uint64_t elapsed)
{
	return elapsed <= nap->bytes * XP_RECV_NAP_BYTE_NS && !is_answered(nap);
}

/* Returns true if less than a quarter was received of what the last measurement promises. */
static bool has_ended(const struct xp_recv_nap *nap, uint64_t elapsed)
{
	return elapsed >= nap->recv_ns * 4 && nap->receives * nap->recv_ns < elapsed / 4;
}

/* Ends the measurement if it is long enough. */
static void measure_receives(struct xp_recv_nap *nap, uint64_t now)
{
	uint64_t elapsed = now - nap->from;
	bool slept = nap->slept;

	if (elapsed < XP_RECV_NAP_MEASURE_NS)
		return;
	if (nap->recv_ns && has_ended(nap, elapsed)) {
		if (slept) {
			nap->not_until = now + ((uint64_t)XP_RECV_NAP_PAUSE_NS << nap->failures);
			nap->failures += nap->failures < XP_RECV_NAP_PAUSE_DOUBLINGS;
		}
		restart(nap, now);
	} else if (nap->receives >= XP_NAP_MIN_WRS) {
		nap->recv_ns = is_stream(nap, elapsed) ? elapsed / nap->receives : 0;
		nap->posted = nap->least;
		nap->failures = slept ? 0 : nap->failures;
		nap->slept = false;
		nap->from = now;
		nap->bytes = 0;
		nap->receives = nap->answered = 0;
	}
}

uint32_t xp_recv_nap_due(struct xp_recv_nap *nap, uint64_t now, uint64_t last)
{
	uint64_t ns;

	/* the time in which the program did something else is not that of receives */
	if (!nap->from || (now > last && now - last > XP_NAP_MEASURE_NS)) {
		restart(nap, now);
		return 0;
	}
	measure_receives(nap, now);
	if (!nap->recv_ns || now < nap->not_until || nap->posted < XP_NAP_MIN_WRS)
		return 0;
	/* the stream has ended or paused, or something else has begun */
	if ((nap->dry && nap->recv_ns < XP_NAP_NS / 4) || is_answered(nap))
		return 0;
	ns = nap->recv_ns * nap->posted / XP_RECV_NAP_SPARE;
	if (ns < XP_NAP_SLACK_NS + XP_RECV_NAP_MIN_NS)
		return 0;
	nap->slept = nap->dry = true;
	ns -= XP_NAP_SLACK_NS;
	return ns < XP_NAP_NS ? ns : XP_NAP_NS;
}
