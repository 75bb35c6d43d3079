// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets that wait for memory or for earlier packets, posted writes, and how QPs go on. */
#include "completer.h"
#include "engine.h"
#include "loopback.h"
#include "park.h"
#include "qp.h"
#include "requester.h"
#include "responder.h"
#include "rq.h"
#include "sq.h"
#include "step_io.h"
#include "unreliable.h"
#include "wr_kind.h"

/* In one round */
#define RESUMED 64   /* QPs */
#define REPLAYED 512 /* packets of all QPs */

/* A packet of a connected QP */
struct parked_rx {
	struct xt_parked head;
	uint32_t psn; /* of an early packet, 32 bits */
	struct xt_rx rx;
	struct xt_frame frame;
	uint8_t data[];
};

void xt_park_init(struct xt_qp *qp)
{
	struct xt_park *p = &qp->park;
	unsigned i;

	xt_list_init(&p->resume_link);
	for (i = 0; i < XT_PARK_SIDES; i++) {
		xt_list_init(&p->packets[i]);
		xt_list_init(&p->early[i]);
		xt_list_init(&p->posted[i]);
	}
	for (i = 0; i < XT_STEPS; i++)
		xt_step_init(&p->step[i], qp, i);
}

static void update_busy(struct xt_park *p)
{
	unsigned i;

	p->busy = false;
	for (i = 0; i < XT_PARK_SIDES; i++)
		p->busy |= !xt_list_empty(&p->packets[i]) || !xt_list_empty(&p->posted[i]) ||
			   !xt_list_empty(&p->early[i]);
}

static void take_out(struct xt_qp *qp, struct xt_parked *item)
{
	xt_list_del(&item->link);
	qp->park.blocks[item->size]--;
}

static void put_in(struct xt_qp *qp, struct xt_list *before, struct xt_parked *item)
{
	xt_list_add_tail(before, &item->link);
	qp->park.blocks[item->size]++;
	qp->park.busy = true;
}

static void free_item(struct xt_qp *qp, struct xt_parked *item)
{
	qp->flow->parked[item->size]--;
	xt_park_pool_put(&qp->engine->parked, item);
}

static void free_posted(struct xt_qp *qp, enum xt_park_side side)
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
	for (i = 0; i < XT_STEPS; i++)
		xt_step_end(&p->step[i]);
	for (i = 0; i < XT_PARK_SIDES; i++) {
		free_posted(qp, i);
		xt_list_move_all(&qp->engine->dropped, &p->packets[i]);
		xt_list_move_all(&qp->engine->dropped, &p->early[i]);
	}
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

/*
 * A packet is lost. If it is the one whose step was parked, the step ends, as if the packet had
 * never been received.
 */
static void lose(struct xt_qp *qp, enum xt_park_side side)
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

static struct xt_parked *take_block(struct xt_qp *qp, uint32_t len)
{
	const uint32_t *blocks = qp->park.blocks;

	if (blocks[XT_PARK_SMALL] + blocks[XT_PARK_LARGE] == XT_PARK_QP_MAX)
		return NULL;
	return xt_park_pool_take(&qp->engine->parked, qp->flow->parked, len);
}

void *xt_park_add(struct xt_qp *qp, enum xt_park_side side, uint32_t len)
{
	struct xt_parked *item = take_block(qp, len);

	if (item)
		put_in(qp, &qp->park.packets[side], item);
	else
		lose(qp, side);
	return item;
}

static enum xt_park_side side_of(const struct xt_rx *rx)
{
	return rx->flags & XR_OPF_REQUEST ? XT_PARK_RESPONDER : XT_PARK_REQUESTER;
}

static void copy_rx(struct parked_rx *item, const struct xt_rx *rx)
{
	const struct xt_frame *f = rx->frame;
	uint32_t i, at = 0;

	for (i = 0; i < f->nseg; at += f->seg[i++].len)
		memcpy(item->data + at, f->seg[i].data, f->seg[i].len);
	item->frame = (struct xt_frame){
		.seg = { { item->data, f->len } },
		.nseg = 1,
		.len = f->len,
		.meta = f->meta,
		.forwarded = f->forwarded,
		.self = f->self,
		.inject = f->inject,
	};
	item->rx = *rx;
	item->rx.frame = &item->frame;
	item->rx.ext = item->data + (rx->ext - f->seg[0].data);
}

void xt_park_rx(struct xt_qp *qp, const struct xt_rx *rx)
{
	struct parked_rx *item;

	item = xt_park_add(qp, side_of(rx), sizeof(*item) + rx->frame->len);
	if (item)
		copy_rx(item, rx);
}

/* Processes a packet again. Returns false if it must go on waiting. */
static bool process(struct xt_qp *qp, struct xt_parked *item)
{
	if (!xt_may_receive(qp))
		return true;
	if (qp->info.type == XR_QPT_UD)
		return xt_ud_resume(qp, item);
	return xt_rx_connected(qp, &((struct parked_rx *)item)->rx);
}

/* Returns the number of packets that it did not replay of those that it may. */
static unsigned replay(struct xt_qp *qp, enum xt_park_side side, unsigned most)
{
	struct xt_list *list = &qp->park.packets[side];
	struct xt_parked *item;

	for (; most && !xt_list_empty(list); most--) {
		item = (struct xt_parked *)list->next;
		take_out(qp, item);
		if (!process(qp, item)) {
			put_in(qp, list->next, item);
			break;
		}
		free_item(qp, item);
	}
	return most;
}

/* ---- early packets ------------------------------------------------------------------------- */

static uint32_t psn_of(const struct xt_list *l)
{
	return ((const struct parked_rx *)l)->psn;
}

static uint32_t expected_psn(const struct xt_qp *qp, enum xt_park_side side)
{
	return side == XT_PARK_RESPONDER ? qp->resp.epsn : qp->req.unacked;
}

void xt_early_keep(struct xt_qp *qp, const struct xt_rx *rx, uint32_t psn)
{
	struct xt_list *list = &qp->park.early[side_of(rx)], *before = list->prev;
	struct parked_rx *item;

	while (before != list && xt_diff(psn_of(before), psn) > 0)
		before = before->prev;
	if (before != list && psn_of(before) == psn)
		return;
	item = (struct parked_rx *)take_block(qp, sizeof(*item) + rx->frame->len);
	if (!item)
		return;
	copy_rx(item, rx);
	item->psn = psn;
	put_in(qp, before->next, &item->head);
	XT_QP_COUNT(qp, rx_early, 1);
}

static void drop_first(struct xt_qp *qp, struct xt_list *list)
{
	struct xt_parked *item = (struct xt_parked *)list->next;

	take_out(qp, item);
	free_item(qp, item);
}

enum xt_early xt_early_check(struct xt_qp *qp, enum xt_park_side side)
{
	struct xt_list *list = &qp->park.early[side];
	uint32_t psn = expected_psn(qp, side);

	/* packets that were received again although they were kept */
	while (!xt_list_empty(list) && xt_diff(psn_of(list->next), psn) < 0)
		drop_first(qp, list);
	if (xt_list_empty(list))
		return XT_EARLY_NONE;
	if (psn_of(list->next) != psn)
		return XT_EARLY_GAP;
	xt_resume_later(qp);
	return XT_EARLY_DUE;
}

uint32_t xt_early_psn(const struct xt_qp *qp, enum xt_park_side side)
{
	return psn_of(qp->park.early[side].next);
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
}

/* Processes the expected packet if it came early. Returns false if there is none to process. */
static bool replay_first(struct xt_qp *qp, enum xt_park_side side)
{
	struct xt_list *list = &qp->park.early[side];
	struct xt_parked *item;

	if (xt_early_check(qp, side) != XT_EARLY_DUE)
		return false;
	item = (struct xt_parked *)list->next;
	take_out(qp, item);
	if (!process(qp, item)) {
		put_in(qp, qp->park.packets[side].next, item);
		return false;
	}
	free_item(qp, item);
	return true;
}

/* Returns the number of packets that it did not replay of those that it may. */
static unsigned replay_early(struct xt_qp *qp, enum xt_park_side side, unsigned most)
{
	while (most && xt_list_empty(&qp->park.packets[side]) && replay_first(qp, side))
		most--;
	return most;
}

/* ---- posted writes --------------------------------------------------------------------------- */

struct xt_mem_io *xt_posted_last(const struct xt_park *p, enum xt_park_side side)
{
	return xt_posted(p, side) ? XT_IO_OF(p->posted[side].prev) : NULL;
}

uint32_t xt_posted_first(const struct xt_park *p, enum xt_park_side side)
{
	return XT_IO_OF(p->posted[side].next)->psn;
}

uint32_t xt_posted_psn(const struct xt_qp *qp, uint32_t *msn)
{
	const struct xt_list *posted = &qp->park.posted[XT_PARK_RESPONDER];
	const struct xt_mem_io *io = XT_IO_OF(posted->next);

	*msn = xt_list_empty(posted) ? qp->resp.msn : io->msn;
	return xt_list_empty(posted) ? qp->resp.epsn : io->psn;
}

/* Completes requests that waited for posted writes. Returns false if all writes were given up. */
static bool written(struct xt_qp *qp, enum xt_park_side side)
{
	bool posted = xt_posted(&qp->park, side);

	if (qp->path.loopback)
		xt_loopback_written(qp, side);
	else if (side == XT_PARK_REQUESTER && xt_may_send(qp) && xt_sq_complete(qp)) {
		xt_req_check_drained(qp);
		xt_activate(qp);
	}
	return posted == xt_posted(&qp->park, side);
}

static void refused(struct xt_qp *qp, const struct xt_mem_io *ended)
{
	xt_resp_write_failed(qp, ended);
	if (qp->path.loopback)
		xt_loopback_write_failed(qp);
}

/* The first error counts; writes that finished before an earlier one wait for it. */
static void reap(struct xt_qp *qp, enum xt_park_side side)
{
	static const struct xt_wc_error place = { IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY };
	struct xt_park *p = &qp->park;
	struct xt_mem_io *io, ended;

	while (!xt_list_empty(&p->posted[side])) {
		io = XT_IO_OF(p->posted[side].next);
		if (!io->done)
			return;
		ended = *io;
		if (ended.err && !written(qp, side))
			return;
		xt_io_free(io);
		if (!ended.err && ended.receives)
			xt_rq_written(qp, &ended.cqe, ended.solicited);
		if (!ended.err)
			continue;
		free_posted(qp, side);
		if (side == XT_PARK_RESPONDER)
			refused(qp, &ended);
		else
			xt_sq_fail(qp, place);
		return;
	}
	if (side == XT_PARK_RESPONDER)
		p->step[XT_STEP_EXECUTE].fenced = p->step[XT_STEP_POST].fenced = false;
}

/* ---- going on -------------------------------------------------------------------------------- */

/* Returns the number of packets that are left of those that it may replay. */
static unsigned resume(struct xt_qp *qp, unsigned most)
{
	unsigned side;

	for (side = 0; side < XT_PARK_SIDES; side++) {
		if (xt_posted(&qp->park, side)) {
			reap(qp, side);
			written(qp, side);
		}
		most = replay(qp, side, most);
		most = replay_early(qp, side, most);
	}
	update_busy(&qp->park);
	if (!most)
		xt_resume_later(qp);
	/* an ACK or NAK may have waited for posted writes */
	if (qp->resp.ack_due != XT_ACK_DUE_NONE)
		xt_schedule_response(qp);
	xt_activate(qp);
	return most;
}

void xt_resume(struct xt_engine *e)
{
	unsigned packets = REPLAYED, qps = RESUMED;
	struct xt_qp *qp;

	for (; packets && qps && !xt_list_empty(&e->resumed); qps--) {
		qp = (struct xt_qp *)((char *)e->resumed.next -
				      offsetof(struct xt_qp, park.resume_link));
		xt_list_del(&qp->park.resume_link);
		packets = resume(qp, packets);
	}
}
