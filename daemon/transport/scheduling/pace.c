// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Packet pacing: a token bucket in units of time. Each packet costs its duration at the rate;
 * `paid_until` is the time at which all packets sent would have passed at that rate. It may be
 * ahead of the clock by the duration of a burst.
 */
#include "daemon/transport/engine.h"
#include "pace.h"
#include "daemon/transport/wire/packet.h"
#include "daemon/transport/qp.h"
#include "timer.h"

/* Default burst: lets a worker that wakes up late catch up */
#define BURST_NS 1000000ull
#define BURST_FRAMES 4

/* Returns the duration of bytes in ns; rounded up, so that the rate is never exceeded. */
static uint64_t duration(const struct xt_pace *p, uint64_t bytes)
{
	return (bytes * 8000000 + p->rate - 1) / p->rate;
}

void xt_pace_set(struct xt_qp *qp, uint32_t burst)
{
	struct xt_pace *p = &qp->pace;
	uint64_t frame;

	xt_timer_set_rate(qp, XT_NEVER);
	*p = (struct xt_pace){ .rate = qp->attr.rate_limit };
	if (!p->rate)
		return;
	frame = duration(p, XT_TEMPLATE_LEN + XT_MAX_EXT + qp->mtu + XR_ICRC_LEN);
	p->ahead = duration(p, burst);
	if (!burst)
		p->ahead = BURST_NS > BURST_FRAMES * frame ? BURST_NS : BURST_FRAMES * frame;
	/* the last packet of a burst starts before the burst is over */
	p->ahead = p->ahead > frame ? p->ahead - frame : 0;
}

void xt_pace_set_uc(struct xt_engine *e, uint32_t rate)
{
	e->uc_pace = (struct xt_pace){ .rate = rate, .ahead = BURST_NS, .pause = BURST_NS / 4 };
}

bool xt_pace_limited_open(struct xt_qp *qp, const struct xt_pace *p)
{
	if (p->paid_until <= qp->engine->now + p->ahead)
		return true;
	xt_timer_set_rate(qp, p->paid_until - p->ahead + p->pause);
	return false;
}

void xt_pace_limited_spend(struct xt_pace *p, uint32_t bytes, uint64_t now)
{
	if (p->paid_until < now)
		p->paid_until = now;
	p->paid_until += duration(p, bytes);
}

bool xt_pace_limited_last(const struct xt_qp *qp, uint32_t bytes)
{
	const struct xt_pace *p = &qp->pace;
	uint64_t from = p->paid_until, now = qp->engine->now;

	return (from > now ? from : now) + duration(p, bytes) > now + p->ahead;
}
