// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "early.h"

#include "daemon/transport/engine.h"
#include "daemon/transport/waiting/kept.h"
#include "place.h"
#include "daemon/transport/qp.h"

static uint32_t psn_of(const struct xt_list *l)
{
	return ((const struct xt_kept_rx *)l)->psn;
}

static uint32_t expected_psn(const struct xt_qp *qp, enum xt_qp_side side)
{
	return side == XT_RESPONDER ? qp->resp.epsn : qp->req.unacked;
}

static enum xt_qp_side side_of(const struct xt_rx *rx)
{
	return rx->flags & XR_OPF_REQUEST ? XT_RESPONDER : XT_REQUESTER;
}

/* Returns the kept packet behind which one with a PSN belongs. */
static struct xt_list *last_before(struct xt_list *list, uint32_t psn)
{
	struct xt_list *before = list->prev;

	while (before != list && xt_diff(psn_of(before), psn) > 0)
		before = before->prev;
	return before;
}

/* Copies the first len bytes of a packet. Returns NULL if there is no block for it. */
static struct xt_kept_rx *early_add(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn,
				    uint32_t len, struct xt_list *before)
{
	struct xt_kept_rx *item;

	item = (struct xt_kept_rx *)xt_kept_take_block(qp, sizeof(*item) + len);
	if (!item)
		return NULL;
	xt_kept_copy(item, rx, len);
	item->psn = psn;
	xt_kept_put_in(qp, before->next, &item->head);
	return item;
}

void xt_early_keep(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn, xt_place_fn place)
{
	struct xt_list *list = &qp->waiting.kept[side_of(rx)], *before = last_before(list, psn);
	uint32_t len = rx->frame->len;
	struct xt_kept_rx *item;
	bool placed;

	if (rx->packets > 1) {
		xt_place_lose(qp);
		return;
	}
	if (before != list && psn_of(before) == psn)
		return;
	placed = place(qp, rx, psn);
	if (placed)
		len = rx->frame->meta.payload_off;
	item = early_add(qp, rx, psn, len, before);
	if (!item) {
		xt_place_lose(qp);
		return;
	}
	item->rx.placed = placed;
	XT_QP_COUNT(qp, rx_early, 1);
}

static uint32_t psn_of_held(const struct xt_qp *qp, const struct xt_rx *rx,
			    const struct xt_list *list)
{
	uint32_t expected = expected_psn(qp, side_of(rx));

	if (qp->info.type == XR_QPT_UC)
		return list->prev == list ? expected : psn_of(list->prev) + 1;
	return expected + xr_psn_diff(rx->psn, expected & XR_PSN_MASK);
}

void xt_early_hold(struct xt_qp *qp, const struct xt_rx *rx)
{
	enum xt_qp_side side = side_of(rx);
	struct xt_list *list = &qp->waiting.kept[side];
	uint32_t psn = psn_of_held(qp, rx, list);
	struct xt_list *before = last_before(list, psn);
	bool stored = rx->posted || rx->placed;

	if (before != list && psn_of(before) == psn)
		return;
	if (rx->packets > 1 ||
	    !early_add(qp, rx, psn, stored ? rx->frame->meta.payload_off : rx->frame->len, before))
		XT_QP_COUNT(qp, rx_held_lost, 1);
	else
		qp->waiting.held[side] = true;
}

static void drop_first(struct xt_qp *qp, struct xt_list *list)
{
	struct xt_kept *item = (struct xt_kept *)list->next;

	xt_kept_take_out(qp, item);
	xt_kept_free(qp, item);
	qp->waiting.held[list == &qp->waiting.kept[XT_REQUESTER]] = false;
}

/* No packets are left. */
static void early_end(struct xt_qp *qp, enum xt_qp_side side)
{
	if (side == XT_RESPONDER)
		xt_place_end(qp);
}

enum xt_early xt_early_check(struct xt_qp *qp, enum xt_qp_side side)
{
	struct xt_list *list = &qp->waiting.kept[side];
	uint32_t psn = expected_psn(qp, side);

	/* packets that were received again although they were kept */
	while (!xt_list_empty(list) && xt_diff(psn_of(list->next), psn) < 0)
		drop_first(qp, list);
	if (xt_list_empty(list)) {
		early_end(qp, side);
		return XT_EARLY_NONE;
	}
	if (psn_of(list->next) != psn)
		return XT_EARLY_GAP;
	if (!qp->waiting.held[side])
		xt_resume_later(qp);
	return XT_EARLY_DUE;
}

void xt_early_begin(const struct xt_qp *qp, enum xt_qp_side side, struct xt_early_gap *g)
{
	g->packet = qp->waiting.kept[side].next;
	g->psn = g->end = expected_psn(qp, side);
}

bool xt_early_next(const struct xt_qp *qp, enum xt_qp_side side, struct xt_early_gap *g)
{
	const struct xt_list *list = &qp->waiting.kept[side];

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

void xt_early_drop(struct xt_qp *qp, enum xt_qp_side side)
{
	while (!xt_list_empty(&qp->waiting.kept[side]))
		drop_first(qp, &qp->waiting.kept[side]);
	early_end(qp, side);
}
