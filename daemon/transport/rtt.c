// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rtt.h"

#include <string.h>

#include "engine.h"

/* Shorter times would ask for responses of a peer that just waits for a processor. */
#define OVERDUE_NS 300000u
/* If no response has come yet */
#define UNKNOWN_NS 8000000u
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

void xt_rtt_acked(struct xt_qp *qp, uint32_t psn)
{
	struct xt_rtt *t = &qp->rtt;
	uint64_t ns = qp->engine->now - t->sent_at;

	if (!t->timed || xt_diff(psn, t->psn) <= 0)
		return;
	t->timed = false;
	/* to be sent again in this round, but the first one was not lost after all */
	if (ns)
		add_sample(t, ns < LONGEST_NS ? ns : LONGEST_NS);
}

uint64_t xt_rtt_overdue(const struct xt_qp *qp)
{
	uint64_t ns = 4ull * qp->rtt.least;

	if (!ns)
		return UNKNOWN_NS;
	return ns > OVERDUE_NS ? ns : OVERDUE_NS;
}

uint64_t xt_rtt_late(const struct xt_qp *qp)
{
	const struct xt_rtt *t = &qp->rtt;
	uint64_t ns = t->usual + 4ull * t->deviation, most = xt_rtt_overdue(qp);

	if (t->again_usual)
		ns = 2ull * t->again_usual;
	return ns && ns < most ? ns : most;
}

bool xt_rtt_queued(const struct xt_qp *qp)
{
	return qp->rtt.recent > 3ull * qp->rtt.least;
}
