// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lost.h"

#include "daemon/transport/engine.h"
#include "requester.h"
#include "rtt.h"
#include "sent.h"
#include "daemon/transport/queue/wr_kind.h"

void xt_lost_begin(struct xt_qp *qp, struct xt_lost *l)
{
	const struct xt_requester *r = &qp->req;

	xt_early_begin(qp, XT_REQUESTER, &l->gap);
	l->psn = l->behind = r->unacked;
	l->index = qp->sq.retired;
}

/* Returns false behind the last gap. */
static bool find_gap(struct xt_qp *qp, struct xt_lost *l)
{
	const struct xt_requester *r = &qp->req;

	if (xt_diff(l->psn, l->gap.end) < 0)
		return true;
	if (!xt_early_next(qp, XT_REQUESTER, &l->gap))
		l->gap.end = r->lost;
	/* what follows `next` is requested anyway */
	if (xt_diff(l->gap.end, r->next) > 0)
		l->gap.end = r->next;
	l->psn = l->gap.psn;
	return xt_diff(l->psn, l->gap.end) < 0;
}

/* Finds the work request of the next PSN. */
static const struct xt_swqe *find_wr(struct xt_qp *qp, struct xt_lost *l)
{
	const struct xt_swqe *w = xt_swqe(qp, l->index);

	while (xt_diff(l->psn, w->psn + w->npsn) >= 0)
		w = xt_swqe(qp, ++l->index);
	return w;
}

static uint32_t first_of(uint32_t a, uint32_t b)
{
	return xt_diff(a, b) < 0 ? a : b;
}

static bool may_send(struct xt_qp *qp, const struct xt_sent *old, const struct xt_cursor *at)
{
	const struct xt_requester *r = &qp->req;
	uint32_t end = at->psn + at->span;

	if (r->probe && at->psn == r->unacked)
		return true;
	if (!old)
		return r->sent.count < XT_SENT || at->psn == r->unacked;
	if (old->passed || qp->engine->now - old->at >= xt_rtt_late(qp))
		return true;
	/* another gap, or a part of the last one */
	return old->read && (xt_diff(at->psn, old->end) >= 0 || xt_diff(end, old->end) < 0);
}

/* The next responses of a READ, or the one of an atomic */
static bool lost_next_response(struct xt_qp *qp, struct xt_lost *l, const struct xt_swqe *w,
			       struct xt_cursor *at)
{
	uint32_t first = w->psn, end = w->psn + w->npsn;
	bool again;

	if (w->kind == XT_KIND_READ) {
		end = l->psn + xt_req_read_span(qp, w, l->psn);
		first = l->psn - (l->psn - w->psn) % qp->sq.read_packets;
	}
	*at = (struct xt_cursor){ l->index, l->psn, end - l->psn };
	/* a request that was not executed is repeated as it was */
	if (xt_diff(l->psn, qp->req.executed) < 0)
		at->span = first_of(l->gap.end, end) - l->psn;
	l->psn += at->span;
	again = xt_diff(at->psn, l->behind) < 0;
	l->behind = end;
	l->old = xt_sent_find(&qp->req.sent, first, end);
	return !again && may_send(qp, l->old, at);
}

bool xt_lost_next(struct xt_qp *qp, struct xt_lost *l, struct xt_cursor *at)
{
	const struct xt_requester *r = &qp->req;
	const struct xt_swqe *w;

	while (find_gap(qp, l)) {
		w = find_wr(qp, l);
		if (xt_kind_of(w)->rd_atomic) {
			if (lost_next_response(qp, l, w, at))
				return true;
			continue;
		}
		if (xt_diff(l->psn, r->executed) < 0) {
			l->psn = first_of(first_of(w->psn + w->npsn, r->executed), l->gap.end);
			continue;
		}
		*at = (struct xt_cursor){ l->index, l->psn++, 1 };
		l->old = xt_sent_find(&qp->req.sent, at->psn, l->psn);
		if (may_send(qp, l->old, at))
			return true;
	}
	return false;
}

void xt_lost_sent(struct xt_qp *qp, const struct xt_lost *l, const struct xt_cursor *at)
{
	struct xt_requester *r = &qp->req;
	bool read = xt_kind_of(xt_swqe(qp, at->index))->rd_atomic, probe = false;

	if (at->psn == r->unacked) {
		/* the first one was lost, so the response is to this one */
		if (!r->probe && !l->old)
			xt_rtt_sent(qp, at->psn, true);
		XT_QP_COUNT(qp, tx_probes, r->probe);
		probe = r->probe;
		r->probe = false;
	}
	xt_sent_add(&r->sent, l->old && l->old->read ? l->old : NULL,
		    &(struct xt_sent){
			    .psn = at->psn,
			    .end = at->psn + at->span,
			    .next = read ? r->next : r->horizon,
			    .read = read,
			    .probe = probe,
			    .at = qp->engine->now,
		    },
		    r->unacked);
}
