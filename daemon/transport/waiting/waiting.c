// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "daemon/transport/engine.h"
#include "daemon/transport/qp.h"
#include "kept.h"
#include "posted.h"

void xt_waiting_init(struct xt_qp *qp)
{
	struct xt_waiting *p = &qp->waiting;

	p->stopped = true;
	xt_list_init(&p->known);
	for (unsigned i = 0; i < XT_QP_SIDES; i++)
		xt_list_init(&p->kept[i]);
}

void xt_waiting_begin(struct xt_qp *qp)
{
	qp->waiting.stopped = false;
}

static void note_stop(struct xt_waiting *p, uint32_t done_psn)
{
	if (p->stopped)
		return;
	p->stopped = true;
	p->stops++;
	p->stopped_psn = done_psn;
}

void xt_waiting_stop(struct xt_qp *qp, uint32_t done_psn)
{
	struct xt_waiting *p = &qp->waiting;
	unsigned i;

	note_stop(p, done_psn);
	xt_accesses_stop(qp);
	for (i = 0; i < XT_QP_SIDES; i++) {
		xt_posted_free(qp, i);
		xt_list_move_all(&qp->engine->dropped, &p->kept[i]);
		p->held[i] = false;
	}
	xt_list_move_all(&qp->engine->dropped, &p->known);
	for (i = 0; i < XT_KEPT_SIZES; i++) {
		qp->flow->kept[i] -= p->blocks[i];
		p->blocks[i] = 0;
	}
	p->busy = false;
}

void xt_kept_free_dropped(struct xt_engine *e, unsigned most)
{
	struct xt_kept *item;

	for (; most && !xt_list_empty(&e->dropped); most--) {
		item = (struct xt_kept *)e->dropped.next;
		xt_list_del(&item->link);
		xt_kept_pool_put(&e->kept, item);
	}
}

void xt_waiting_set_flow(struct xt_qp *qp, struct xt_flow *flow)
{
	for (unsigned i = 0; i < XT_KEPT_SIZES; i++) {
		qp->flow->kept[i] -= qp->waiting.blocks[i];
		flow->kept[i] += qp->waiting.blocks[i];
	}
}

/* ---- packets ------------------------------------------------------------------------------- */

struct xt_kept *xt_kept_take_block(struct xt_qp *qp, uint32_t len)
{
	const uint32_t *blocks = qp->waiting.blocks;

	if (blocks[XT_KEPT_SMALL] + blocks[XT_KEPT_LARGE] == XT_KEPT_QP_MAX)
		return NULL;
	return xt_kept_pool_take(&qp->engine->kept, qp->flow->kept, len);
}

void xt_kept_copy(struct xt_kept_rx *item, const struct xt_rx *rx, uint32_t len)
{
	const struct xt_frame *f = rx->frame;
	uint32_t i, run, at = 0;

	for (i = 0; at < len; at += run, i++) {
		run = f->seg[i].len < len - at ? f->seg[i].len : len - at;
		memcpy(item->data + at, f->seg[i].data, run);
	}
	item->frame = (struct xt_frame){
		.seg = { { item->data, len } },
		.nseg = 1,
		.len = len,
		.meta = f->meta,
		.forwarded = f->forwarded,
		.self = f->self,
		.inject = f->inject,
		.refusal = f->refusal,
	};
	item->rx = *rx;
	item->rx.frame = &item->frame;
	item->rx.ext = item->data + (rx->ext - f->seg[0].data);
}
