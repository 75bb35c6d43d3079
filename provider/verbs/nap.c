// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/verbs/nap.h"

static void nap_start(struct xp_nap *nap, uint64_t now)
{
	*nap = (struct xp_nap){ .from = now };
}

bool xp_nap_possible(struct xp_nap *nap, uint64_t now, uint64_t last)
{
	uint64_t elapsed = now - nap->from;

	/* the time in which the program did something else is not that of WRs */
	if (!nap->from || (now > last && now - last > XP_NAP_MEASURE_NS)) {
		nap_start(nap, now);
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

/* Returns a sleep that Linux prolongs to a part of a time. */
static uint32_t nap_part_of(uint64_t ns, uint32_t longest)
{
	uint64_t part = ns / XP_NAP_PARTS;

	if (part < XP_NAP_NS + XP_NAP_SLACK_NS)
		return XP_NAP_NS;
	return part < longest + XP_NAP_SLACK_NS ? part - XP_NAP_SLACK_NS : longest;
}

uint32_t xp_nap_due(struct xp_nap *nap, uint64_t now, const struct xp_nap_wrs *wrs)
{
	uint64_t drain_ns = nap->wr_ns * wrs->left, next_ns = 0;
	uint64_t least = XP_NAP_DRAIN_NS;

	/* idle time between bursts is not that of WRs either */
	if (wrs->outstanding < XP_NAP_MIN_WRS) {
		nap_start(nap, now);
		return 0;
	}
	if (nap->batch > wrs->executed)
		next_ns = nap->wr_ns * (nap->batch - wrs->executed);
	if (next_ns >= XP_NAP_NEXT_NS)
		least = XP_NAP_SHORT_DRAIN_NS;
	if (wrs->left < XP_NAP_MIN_WRS || drain_ns < least)
		return 0;
	return nap_part_of(drain_ns, XP_NAP_MAX_NS);
}

/* ---- receives ------------------------------------------------------------------ */

static void nap_restart(struct xp_recv_nap *nap, uint64_t now)
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
		nap_restart(nap, now);
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

/* Returns the longest sleep of a stream: a quarter of the time for a message, within limits. */
static uint64_t longest_of(uint64_t recv_ns)
{
	uint64_t ns = recv_ns / 4;

	if (ns < XP_NAP_NS)
		return XP_NAP_NS;
	return ns < XP_RECV_NAP_MAX_NS ? ns : XP_RECV_NAP_MAX_NS;
}

uint32_t xp_recv_nap_due(struct xp_recv_nap *nap, uint64_t now, uint64_t last)
{
	uint64_t ns, longest;

	/* the time in which the program did something else is not that of receives */
	if (!nap->from || (now > last && now - last > XP_NAP_MEASURE_NS)) {
		nap_restart(nap, now);
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
	longest = longest_of(nap->recv_ns);
	return ns < longest ? ns : longest;
}

/* ---- waits --------------------------------------------------------------------- */

/* Ends the measurement. Returns true if other threads have had the processor. */
static bool is_shared(struct xp_wait *w, uint64_t now, struct xp_usage usage)
{
	uint64_t elapsed = now - w->measure_from;

	w->measure_from = 0;
	return usage.sleeps == w->usage.sleeps &&
	       usage.cpu_ns - w->usage.cpu_ns < elapsed - elapsed / 32;
}

static void begin_wait(struct xp_wait *w, uint64_t now, uint32_t found)
{
	uint64_t naps_until = w->slept ? now + XP_WAIT_NAPS_NS : w->naps_until;

	*w = (struct xp_wait){ .from = now, .found = found, .naps_until = naps_until };
}

uint32_t xp_wait_nap_due(struct xp_wait *w, uint64_t now, uint32_t found,
			 struct xp_usage (*usage)(void))
{
	uint32_t phase = now % XP_WAIT_PERIOD_NS;

	if (!w->from || found != w->found)
		begin_wait(w, now, found);
	if (now < w->naps_until)
		return nap_part_of(now - w->from, XP_WAIT_NAP_MAX_NS);
	if (phase >= XP_WAIT_SLEEP_NS) {
		if (!w->measure_from && now - w->from >= XP_WAIT_NS / 8) {
			w->measure_from = now;
			w->usage = usage();
		}
		return 0;
	}
	if (!w->measure_from || now - w->from < XP_WAIT_NS || !is_shared(w, now, usage()))
		return 0;
	w->slept = true;
	return XP_WAIT_SLEEP_NS - phase;
}
