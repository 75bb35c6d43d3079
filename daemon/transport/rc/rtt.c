// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rtt.h"

#include <string.h>

#include "daemon/transport/engine.h"

/* Shorter times would ask for responses of a peer that just waits for a processor. */
#define OVERDUE_NS 300000u
/* If no response has come yet */
#define UNKNOWN_NS 8000000u
/* Responses that were asked for before the path is taken for slower: one may be of a loss. */
#define DOUBTS 2
#define LONGEST_NS 1000000000u

/* Keeps the history, which is of the QP since it was created. */
void xt_rtt_reset(struct xt_qp *qp)
{
	struct xt_rtt *t = &qp->rtt;

	*t = (struct xt_rtt){ .history = t->history };
}

void xt_rtt_sent(struct xt_qp *qp, uint32_t psn, bool again)
{
	if (qp->rtt.timed)
		return;
	qp->rtt.timed = true;
	qp->rtt.asked = false;
	qp->rtt.again = again;
	qp->rtt.sent_at = qp->engine->now;
	qp->rtt.psn = psn;
}

/* As in RFC 6298 */
static void smooth(uint32_t *usual, uint32_t *deviation, uint32_t ns)
{
	if (!*usual) {
		*usual = ns;
		*deviation = ns / 2;
		return;
	}
	*deviation = (3 * *deviation + (ns > *usual ? ns - *usual : *usual - ns)) / 4;
	*usual = (uint32_t)((7ull * *usual + ns) / 8);
}

/* Falls at once and rises slowly: queues make most round trips longer than the path. */
static void add_sample(struct xt_rtt *t, uint32_t ns)
{
	uint32_t bits = 32 - (uint32_t)__builtin_clz(ns | 1);

	t->recent = t->recent ? (t->recent + ns) / 2 : ns;
	bits = bits > XT_RTT_FIRST_BITS ? bits - XT_RTT_FIRST_BITS : 0;
	t->history.sum += ns;
	t->history.bucket[bits < XT_RTT_BUCKETS ? bits : XT_RTT_BUCKETS - 1]++;
	if (!t->least || ns < t->least)
		t->least = ns;
	else
		t->least += (ns - t->least) / 64;
	if (t->again)
		smooth(&t->again_usual, &t->again_deviation, ns);
	else
		smooth(&t->usual, &t->deviation, ns);
}

static uint64_t rtt_overdue(const struct xt_rtt *t)
{
	uint64_t ns = 4ull * t->least;

	if (!ns)
		return UNKNOWN_NS;
	return ns > OVERDUE_NS ? ns : OVERDUE_NS;
}

/*
 * A response that was asked for is no sample, as it may be to either packet (P. Karn and C.
 * Partridge, 1987), but the path is not slower than that. One of them is a lost packet in most
 * cases. If the path has become slower, every response would be asked for, and there would never be
 * a sample again. So from the second one on without a NAK, which shows that packets are lost,
 * responses may take so much longer until there is a sample (as in RFC 6298, 5.5 to 5.7). If the
 * sample is late by the times from before, these are of another path.
 */
static void back_off(struct xt_rtt *t, uint64_t ns)
{
	if (++t->doubts >= DOUBTS && ns > t->backoff)
		t->backoff = (uint32_t)ns;
}

static void end_backoff(struct xt_rtt *t, uint64_t ns)
{
	if (t->backoff && ns > rtt_overdue(t)) {
		t->least = (uint32_t)ns;
		t->usual = 0;
	}
	t->backoff = t->doubts = 0;
}

void xt_rtt_acked(struct xt_qp *qp, uint32_t psn)
{
	struct xt_rtt *t = &qp->rtt;
	uint64_t ns = qp->engine->now - t->sent_at;

	if (!t->timed || xt_diff(psn, t->psn) <= 0)
		return;
	t->timed = false;
	ns = ns < LONGEST_NS ? ns : LONGEST_NS;
	if (t->asked) {
		back_off(t, ns);
		return;
	}
	/* to be sent again in this round, but the first one was not lost after all */
	if (!ns)
		return;
	if (!t->again)
		end_backoff(t, ns);
	add_sample(t, (uint32_t)ns);
}

uint64_t xt_rtt_overdue(const struct xt_qp *qp)
{
	return rtt_overdue(&qp->rtt) + qp->rtt.backoff;
}

uint64_t xt_rtt_late(const struct xt_qp *qp)
{
	const struct xt_rtt *t = &qp->rtt;
	uint64_t ns = t->usual + 4ull * t->deviation, most = xt_rtt_overdue(qp);

	if (t->again_usual)
		ns = 2ull * t->again_usual;
	return ns && ns < most ? ns : most;
}

uint64_t xt_rtt_varies(const struct xt_qp *qp)
{
	uint64_t ns = qp->rtt.usual + 4ull * qp->rtt.deviation;

	return ns < UNKNOWN_NS ? ns : UNKNOWN_NS;
}

void xt_rtt_stats(const struct xt_qp *qp, struct xt_qp_stats *s)
{
	s->rtt_least = qp->rtt.least;
	s->rtt_usual = qp->rtt.usual;
	memcpy(s->rtt, qp->rtt.history.bucket, sizeof(s->rtt));
}

void xt_rtt_add_history(const struct xt_qp *qp, struct xt_traffic *sum)
{
	sum->rtt_sum += qp->rtt.history.sum;
	for (uint32_t i = 0; i < XT_RTT_BUCKETS; i++)
		sum->rtt[i] += qp->rtt.history.bucket[i];
}

bool xt_rtt_queued(const struct xt_qp *qp)
{
	return qp->rtt.recent > 3ull * qp->rtt.least;
}
