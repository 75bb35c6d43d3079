// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine.h"
#include "rtt.h"

/* Shorter times would ask for responses of a peer that just waits for a processor. */
#define OVERDUE_NS 300000u
/* If no response has come yet */
#define UNKNOWN_NS 8000000u
#define LONGEST_NS 1000000000u

void xt_rtt_reset(struct xt_qp *qp)
{
	qp->rtt = (struct xt_rtt){ 0 };
}

void xt_rtt_sent(struct xt_qp *qp, uint32_t psn)
{
	if (qp->rtt.timed)
		return;
	qp->rtt.timed = true;
	qp->rtt.sent_at = qp->engine->now;
	qp->rtt.psn = psn;
}

/* Falls at once and rises slowly: queues make most round trips longer than the path. */
static void add_sample(struct xt_rtt *t, uint32_t ns)
{
	if (!t->least || ns < t->least)
		t->least = ns;
	else
		t->least += (ns - t->least) / 64;
	if (!t->usual) {
		t->usual = ns;
		t->deviation = ns / 2;
		return;
	}
	t->deviation = (3 * t->deviation + (ns > t->usual ? ns - t->usual : t->usual - ns)) / 4;
	t->usual = (uint32_t)((7ull * t->usual + ns) / 8);
}

void xt_rtt_acked(struct xt_qp *qp, uint32_t psn)
{
	struct xt_rtt *t = &qp->rtt;
	uint64_t ns = qp->engine->now - t->sent_at;

	if (!t->timed || xt_diff(psn, t->psn) <= 0)
		return;
	add_sample(t, ns < LONGEST_NS ? ns + 1 : LONGEST_NS);
	t->timed = false;
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
	uint64_t ns = qp->rtt.usual + 4ull * qp->rtt.deviation, most = xt_rtt_overdue(qp);

	return qp->rtt.usual && ns < most ? ns : most;
}
