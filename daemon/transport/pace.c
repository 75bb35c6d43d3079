// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Packet pacing of a QP's send queue: a token bucket in units of time. Each packet costs its
 * duration at the rate limit; `paid_until` is the time at which all packets sent would have passed
 * at that rate. It may be ahead of the clock by the duration of a burst.
 */
#include "engine.h"
#include "pace.h"
#include "packet.h"
#include "qp.h"
#include "timer.h"

/* Default burst: lets a worker that wakes up late catch up */
#define BURST_NS 1000000ull
#define BURST_FRAMES 4

/*
 * Returns the duration of bytes at the rate limit in ns; rounded up, so that the rate is never
 * exceeded.
 */
static uint64_t duration(const struct xt_qp *qp, uint64_t bytes)
{
	return (bytes * 8000000 + qp->attr.rate_limit - 1) / qp->attr.rate_limit;
}

void xt_pace_set(struct xt_qp *qp, uint32_t burst)
{
	struct xt_pace *p = &qp->pace;
	uint64_t frame;

	xt_timer_set_rate(qp, XT_NEVER);
	p->paid_until = 0;
	if (!qp->attr.rate_limit)
		return;
	frame = duration(qp, XT_TEMPLATE_LEN + XT_MAX_EXT + qp->mtu + XR_ICRC_LEN);
	p->ahead = duration(qp, burst);
	if (!burst)
		p->ahead = BURST_NS > BURST_FRAMES * frame ? BURST_NS : BURST_FRAMES * frame;
	/* the last packet of a burst starts before the burst is over */
	p->ahead = p->ahead > frame ? p->ahead - frame : 0;
}

static bool may_send(const struct xt_qp *qp)
{
	return qp->pace.paid_until <= qp->engine->now + qp->pace.ahead;
}

bool xt_pace_limited_open(struct xt_qp *qp)
{
	if (may_send(qp))
		return true;
	xt_timer_set_rate(qp, qp->pace.paid_until - qp->pace.ahead);
	return false;
}

void xt_pace_limited_spend(struct xt_qp *qp, uint32_t bytes)
{
	struct xt_pace *p = &qp->pace;

	if (p->paid_until < qp->engine->now)
		p->paid_until = qp->engine->now;
	p->paid_until += duration(qp, bytes);
}

bool xt_pace_limited_last(const struct xt_qp *qp, uint32_t bytes)
{
	uint64_t from = qp->pace.paid_until, now = qp->engine->now;

	return (from > now ? from : now) + duration(qp, bytes) > now + qp->pace.ahead;
}
