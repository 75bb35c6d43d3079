// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gaps.h"

#include "daemon/transport/engine.h"
#include "requester.h"
#include "rtt.h"
#include "daemon/transport/queue/wr_kind.h"

void xt_gaps_begin(struct xt_qp *qp, struct xt_gaps *g)
{
	const struct xt_requester *r = &qp->req;

	xt_early_begin(qp, XT_REQUESTER, &g->gap);
	g->psn = g->behind = r->unacked;
	g->index = r->retired;
}

/*
 * Returns false behind the last gap. Responses to requests before `executed` are missing as well,
 * and the request at it if the peer has asked for it.
 */
static bool find_gap(struct xt_qp *qp, struct xt_gaps *g)
{
	const struct xt_requester *r = &qp->req;

	if (xt_diff(g->psn, g->gap.end) < 0)
		return true;
	if (!xt_early_next(qp, XT_REQUESTER, &g->gap))
		g->gap.end = r->executed + r->nak;
	/* what follows `next` is requested anyway */
	if (xt_diff(g->gap.end, r->next) > 0)
		g->gap.end = r->next;
	g->psn = g->gap.psn;
	return xt_diff(g->psn, g->gap.end) < 0;
}

/* Drops what was answered, or belongs to PSNs of long ago. */
static bool is_over(const struct xt_requester *r, const struct xt_asked *a)
{
	return xt_diff(a->end, r->unacked) <= 0 || xt_diff(a->psn, r->max) >= 0;
}

static struct xt_asked *find_asked(struct xt_requester *r, uint32_t first)
{
	for (uint32_t i = 0; i < r->asked_count; i++)
		if (r->asked[i].first == first)
			return &r->asked[i];
	return NULL;
}

static void drop_answered(struct xt_requester *r)
{
	uint32_t i = 0;

	while (i < r->asked_count)
		if (is_over(r, &r->asked[i]))
			r->asked[i] = r->asked[--r->asked_count];
		else
			i++;
}

/*
 * Returns true if the response to the last request of a gap was lost: a part behind its beginning
 * has come, a later request of a gap or of other data was answered, or it is overdue.
 */
static bool lost_again(struct xt_qp *qp, const struct xt_asked *a, const struct xt_cursor *at)
{
	const struct xt_requester *r = &qp->req;

	return xt_diff(at->psn + at->span, a->end) < 0 || xt_diff(a->order, r->answered) < 0 ||
	       xt_diff(r->executed, a->next) > 0 || qp->engine->now - a->at >= xt_rtt_late(qp);
}

static bool may_request(struct xt_qp *qp, uint32_t first, const struct xt_cursor *at)
{
	struct xt_requester *r = &qp->req;
	const struct xt_asked *a = find_asked(r, first);

	if (!a)
		return r->asked_count < XT_ASKED;
	return xt_diff(at->psn, a->end) >= 0 || lost_again(qp, a, at);
}

bool xt_gaps_next(struct xt_qp *qp, struct xt_gaps *g, struct xt_cursor *at)
{
	const struct xt_swqe *w;
	uint32_t end;

	while (find_gap(qp, g)) {
		for (w = xt_swqe(qp, g->index); xt_diff(g->psn, w->psn + w->npsn) >= 0;)
			w = xt_swqe(qp, ++g->index);
		end = w->psn + w->npsn;
		g->first = w->psn;
		if (w->kind == XT_KIND_READ) {
			end = g->psn + xt_req_read_span(qp, w, g->psn);
			g->first = g->psn - (g->psn - w->psn) % qp->req.read_packets;
		}
		*at = (struct xt_cursor){ g->index, g->psn, end - g->psn };
		/* a request that was not executed is repeated as it was */
		if (xt_diff(g->psn, qp->req.executed) < 0 && xt_diff(g->gap.end, end) < 0)
			at->span = g->gap.end - g->psn;
		g->psn += at->span;
		if (!xt_kind_of(w)->rd_atomic || xt_diff(at->psn, g->behind) < 0)
			continue;
		g->behind = end;
		if (may_request(qp, g->first, at))
			return true;
	}
	return false;
}

void xt_gaps_requested(struct xt_qp *qp, const struct xt_gaps *g, const struct xt_cursor *at)
{
	struct xt_requester *r = &qp->req;
	struct xt_asked *a = find_asked(r, g->first);

	if (!a)
		a = &r->asked[r->asked_count++];
	*a = (struct xt_asked){
		.first = g->first,
		.psn = at->psn,
		.end = at->psn + at->span,
		.next = r->next,
		.order = ++r->asks,
		.at = qp->engine->now,
	};
}

void xt_gaps_answered(struct xt_qp *qp, uint32_t psn)
{
	struct xt_requester *r = &qp->req;
	const struct xt_asked *a;
	uint32_t order;

	drop_answered(r);
	for (uint32_t i = 0; i < r->asked_count; i++) {
		a = &r->asked[i];
		order = a->order;
		/* a later request was answered, so all up to this repetition were */
		if (xt_diff(psn, a->next) >= 0)
			order++;
		else if (psn - a->psn >= a->end - a->psn)
			continue;
		if (xt_diff(order, r->answered) > 0)
			r->answered = order;
	}
}

bool xt_gaps_repeats(struct xt_qp *qp, uint32_t psn)
{
	const struct xt_asked *a;

	drop_answered(&qp->req);
	a = find_asked(&qp->req, psn);
	return a && qp->engine->now - a->at < xt_rtt_late(qp);
}
