// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "early.h"

#include "daemon/transport/engine.h"
#include "daemon/transport/waiting/parked.h"
#include "place.h"
#include "daemon/transport/qp.h"

static uint32_t psn_of(const struct xt_list *l)
{
	return ((const struct xt_parked_rx *)l)->psn;
}

static uint32_t expected_psn(const struct xt_qp *qp, enum xt_park_side side)
{
	return side == XT_PARK_RESPONDER ? qp->resp.epsn : qp->req.unacked;
}

void xt_early_keep(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn, xt_place_fn place)
{
	struct xt_list *list = &qp->park.early[xt_park_side_of(rx)], *before = list->prev;
	uint32_t len = rx->frame->len;
	struct xt_parked_rx *item;
	bool placed;

	if (rx->packets > 1) {
		xt_place_lose(qp);
		return;
	}
	while (before != list && xt_diff(psn_of(before), psn) > 0)
		before = before->prev;
	if (before != list && psn_of(before) == psn)
		return;
	placed = place(qp, rx, psn);
	if (placed)
		len = rx->frame->meta.payload_off;
	item = (struct xt_parked_rx *)xt_parked_take_block(qp, sizeof(*item) + len);
	if (!item) {
		xt_place_lose(qp);
		return;
	}
	xt_parked_copy(item, rx, len);
	item->rx.placed = placed;
	item->psn = psn;
	xt_parked_put_in(qp, before->next, &item->head);
	XT_QP_COUNT(qp, rx_early, 1);
}

static void drop_first(struct xt_qp *qp, struct xt_list *list)
{
	struct xt_parked *item = (struct xt_parked *)list->next;

	xt_parked_take_out(qp, item);
	xt_parked_free(qp, item);
}

/* No packets are left. */
static void end(struct xt_qp *qp, enum xt_park_side side)
{
	if (side == XT_PARK_RESPONDER)
		xt_place_end(qp);
}

enum xt_early xt_early_check(struct xt_qp *qp, enum xt_park_side side)
{
	struct xt_list *list = &qp->park.early[side];
	uint32_t psn = expected_psn(qp, side);

	/* packets that were received again although they were kept */
	while (!xt_list_empty(list) && xt_diff(psn_of(list->next), psn) < 0)
		drop_first(qp, list);
	if (xt_list_empty(list)) {
		end(qp, side);
		return XT_EARLY_NONE;
	}
	if (psn_of(list->next) != psn)
		return XT_EARLY_GAP;
	xt_resume_later(qp);
	return XT_EARLY_DUE;
}

void xt_early_begin(const struct xt_qp *qp, enum xt_park_side side, struct xt_early_gap *g)
{
	g->packet = qp->park.early[side].next;
	g->psn = g->end = expected_psn(qp, side);
}

bool xt_early_next(const struct xt_qp *qp, enum xt_park_side side, struct xt_early_gap *g)
{
	const struct xt_list *list = &qp->park.early[side];

	for (g->psn = g->end; g->packet != list; g->packet = g->packet->next) {
		g->end = psn_of(g->packet);
		if (xt_diff(g->end, g->psn) > 0)
			return true;
		/* earlier ones were received again, and are dropped soon */
		if (g->end == g->psn)
			g->psn++;
	}
	return false;
}

void xt_early_drop(struct xt_qp *qp, enum xt_park_side side)
{
	while (!xt_list_empty(&qp->park.early[side]))
		drop_first(qp, &qp->park.early[side]);
	end(qp, side);
}
