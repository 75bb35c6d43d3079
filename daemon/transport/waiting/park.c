// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Packets that wait for memory, and posted writes. resume.c processes them.
 */
#include "daemon/transport/engine.h"
#include "parked.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/memory/step_io.h"

void xt_park_init(struct xt_qp *qp)
{
	struct xt_park *p = &qp->park;
	unsigned i;

	xt_list_init(&p->resume_link);
	xt_list_init(&p->known);
	for (i = 0; i < XT_PARK_SIDES; i++) {
		xt_list_init(&p->packets[i]);
		xt_list_init(&p->early[i]);
		xt_list_init(&p->posted[i]);
	}
	for (i = 0; i < XT_STEPS; i++)
		xt_step_init(&p->step[i], qp, i);
}

void xt_posted_free(struct xt_qp *qp, enum xt_park_side side)
{
	struct xt_park *p = &qp->park;

	while (!xt_list_empty(&p->posted[side]))
		xt_io_free(XT_IO_OF(p->posted[side].next));
	if (side != XT_PARK_RESPONDER)
		return;
	p->step[XT_STEP_EXECUTE].fenced = p->step[XT_STEP_POST].fenced = false;
	xt_rq_take_back(qp);
}

void xt_park_stop(struct xt_qp *qp)
{
	struct xt_park *p = &qp->park;
	unsigned i;

	xt_list_del(&p->resume_link);
	for (i = 0; i < XT_STEP_ENDING; i++)
		xt_step_end(&p->step[i]);
	for (i = 0; i < XT_PARK_SIDES; i++) {
		xt_posted_free(qp, i);
		xt_list_move_all(&qp->engine->dropped, &p->packets[i]);
		xt_list_move_all(&qp->engine->dropped, &p->early[i]);
	}
	xt_list_move_all(&qp->engine->dropped, &p->known);
	for (i = 0; i < XT_PARK_SIZES; i++) {
		qp->flow->parked[i] -= p->blocks[i];
		p->blocks[i] = 0;
	}
	p->busy = false;
}

void xt_park_free(struct xt_engine *e, unsigned most)
{
	struct xt_parked *item;

	for (; most && !xt_list_empty(&e->dropped); most--) {
		item = (struct xt_parked *)e->dropped.next;
		xt_list_del(&item->link);
		xt_park_pool_put(&e->parked, item);
	}
}

/* ---- packets ------------------------------------------------------------------------------- */

void xt_park_set_flow(struct xt_qp *qp, struct xt_flow *flow)
{
	for (unsigned i = 0; i < XT_PARK_SIZES; i++) {
		qp->flow->parked[i] -= qp->park.blocks[i];
		flow->parked[i] += qp->park.blocks[i];
	}
}

/* Returns true if an atomic may have been executed, which a retransmission would repeat. */
static bool may_have_changed(const struct xt_step *s)
{
	const struct xt_list *l;
	bool found = s->atomic_done;

	for (l = s->io.next; l != &s->io; l = l->next)
		found |= XT_IO_OF(l)->op == XT_MEM_CMP_SWAP || XT_IO_OF(l)->op == XT_MEM_FETCH_ADD;
	return found;
}

void xt_park_lose(struct xt_qp *qp, enum xt_park_side side)
{
	struct xt_step *step = qp->park.step;
	bool response = side == XT_PARK_REQUESTER;

	XT_QP_COUNT(qp, rx_park_lost, 1);
	if (!xt_list_empty(&qp->park.packets[side]))
		return;
	if (may_have_changed(&step[XT_STEP_EXECUTE]) && !response) {
		xt_qp_completion_lost(qp);
		return;
	}
	xt_step_end(&step[response ? XT_STEP_PLACE : XT_STEP_EXECUTE]);
	xt_step_end(&step[response ? XT_STEP_PLACE_POST : XT_STEP_POST]);
}

struct xt_parked *xt_parked_take_block(struct xt_qp *qp, uint32_t len)
{
	const uint32_t *blocks = qp->park.blocks;

	if (blocks[XT_PARK_SMALL] + blocks[XT_PARK_LARGE] == XT_PARK_QP_MAX)
		return NULL;
	return xt_park_pool_take(&qp->engine->parked, qp->flow->parked, len);
}

void *xt_park_add(struct xt_qp *qp, enum xt_park_side side, uint32_t len)
{
	struct xt_parked *item = xt_parked_take_block(qp, len);

	if (item)
		xt_parked_put_in(qp, &qp->park.packets[side], item);
	else
		xt_park_lose(qp, side);
	return item;
}

enum xt_park_side xt_park_side_of(const struct xt_rx *rx)
{
	return rx->flags & XR_OPF_REQUEST ? XT_PARK_RESPONDER : XT_PARK_REQUESTER;
}

void xt_parked_copy(struct xt_parked_rx *item, const struct xt_rx *rx, uint32_t len)
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

void xt_park_rx(struct xt_qp *qp, const struct xt_rx *rx)
{
	struct xt_parked_rx *item;

	if (rx->packets > 1) {
		xt_park_lose(qp, xt_park_side_of(rx));
		return;
	}
	item = xt_park_add(qp, xt_park_side_of(rx), sizeof(*item) + rx->frame->len);
	if (item)
		xt_parked_copy(item, rx, rx->frame->len);
}

/* ---- posted writes --------------------------------------------------------------------------- */

struct xt_mem_io *xt_posted_now(const struct xt_qp *qp)
{
	const struct xt_park *p = &qp->park;
	struct xt_mem_io *io = NULL;

	if (xt_posted(p, XT_PARK_RESPONDER))
		io = XT_IO_OF(p->posted[XT_PARK_RESPONDER].prev);
	/* an unreliable peer may use the PSN of an earlier message again */
	return io && io->psn == qp->resp.epsn && !io->receives ? io : NULL;
}

uint32_t xt_posted_psn(const struct xt_qp *qp, uint32_t *msn)
{
	const struct xt_list *posted = &qp->park.posted[XT_PARK_RESPONDER];
	const struct xt_mem_io *io = XT_IO_OF(posted->next);

	*msn = xt_list_empty(posted) ? qp->resp.msn : io->msn;
	return xt_list_empty(posted) ? qp->resp.epsn : io->psn;
}
