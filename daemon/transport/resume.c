// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Resumes QPs when accesses to memory have finished or missing packets have arrived. */

#include "daemon/transport/rc/early.h"
#include "engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/loopback/posted.h"
#include "daemon/transport/waiting/kept.h"
#include "daemon/transport/waiting/posted.h"
#include "qp.h"
#include "daemon/transport/rc/requester.h"
#include "daemon/transport/rc/responder.h"
#include "resume.h"
#include "daemon/transport/queue/rq.h"
#include "daemon/transport/queue/sq.h"
#include "daemon/transport/rc/rd.h"
#include "daemon/transport/unreliable/unreliable.h"

/* In one round */
#define RESUMED 64   /* QPs */
#define REPLAYED 512 /* packets of all QPs */

/* ---- packets ------------------------------------------------------------------------------- */

/* Processes a packet that was kept. Returns false if it must be held. */
static bool process(struct xt_qp *qp, struct xt_kept *item)
{
	if (!xt_may_receive(qp))
		return true;
	if (qp->info.type == XR_QPT_UD)
		return xt_ud_resume(qp, item);
	return xt_rx_connected(qp, &((struct xt_kept_rx *)item)->rx);
}

/* UC and UD execute packets in the order of their arrival. */
static bool first_is_due(struct xt_qp *qp, enum xt_qp_side side)
{
	if (xt_unreliable(qp))
		return !xt_list_empty(&qp->waiting.kept[side]);
	return xt_early_check(qp, side) == XT_EARLY_DUE;
}

/* Processes the first packet if it is due. Returns false if there is none, or if it is held. */
static bool replay_first(struct xt_qp *qp, enum xt_qp_side side)
{
	struct xt_list *list = &qp->waiting.kept[side];
	struct xt_kept *item;

	if (!first_is_due(qp, side))
		return false;
	item = (struct xt_kept *)list->next;
	xt_kept_take_out(qp, item);
	if (!process(qp, item)) {
		xt_kept_put_in(qp, list->next, item);
		qp->waiting.held[side] = true;
		return false;
	}
	xt_kept_free(qp, item);
	return true;
}

/* Returns the number of packets that it did not replay of those that it may. */
static unsigned replay(struct xt_qp *qp, enum xt_qp_side side, unsigned most)
{
	qp->waiting.held[side] = false;
	while (most && replay_first(qp, side))
		most--;
	return most;
}

/* ---- posted writes --------------------------------------------------------------------------- */

/* Completes requests that waited for posted writes. */
static void written(struct xt_qp *qp, enum xt_qp_side side)
{
	if (qp->path.loopback)
		xt_loopback_written(qp, side);
	else if (side == XT_REQUESTER && xt_may_send(qp) && xt_sq_complete(qp)) {
		xt_req_check_drained(qp);
		xt_activate(qp);
	}
}

static void resume_refuse(struct xt_qp *qp, const struct xt_mem_io *ended)
{
	if (qp->info.type == XR_QPT_UD)
		xt_ud_write_failed(qp);
	else
		xt_resp_write_failed(qp, ended);
}

static void resume_fail(struct xt_qp *qp, enum xt_qp_side side, const struct xt_mem_io *ended)
{
	static const struct xt_wc_error place = { IBV_WC_LOC_PROT_ERR, XR_VERR_MEMORY };

	xt_posted_free(qp, side);
	if (side == XT_RESPONDER)
		resume_refuse(qp, ended);
	else
		xt_sq_fail(qp, place);
}

/* A receive completes, or an atomic has its result. */
static void take_result(struct xt_qp *qp, const struct xt_mem_io *io)
{
	if (io->receives && !xt_rq_written(qp, &io->cqe, io->solicited))
		xt_resp_nak_posted(qp, io);
	if (io->op == XT_MEM_WRITE)
		return;
	if (qp->path.loopback)
		qp->resp.answer = io->old;
	else
		xt_rd_at(qp, io->rd)->value = io->old;
}

/* The first error counts; writes that finished before an earlier one wait for it. */
static void resume_reap(struct xt_qp *qp, enum xt_qp_side side)
{
	struct xt_list *posted = &qp->accesses.posted[side];
	struct xt_mem_io *io, ended;

	while (qp->info.state != XR_QPS_ERR && !xt_list_empty(posted)) {
		io = XT_IO_OF(posted->next);
		if (!io->done)
			return;
		ended = *io;
		if (ended.err)
			written(qp, side);
		if (qp->info.state == XR_QPS_ERR)
			return;
		xt_posted_remove(qp, io);
		if (ended.err) {
			resume_fail(qp, side, &ended);
			return;
		}
		take_result(qp, &ended);
	}
}

/* ---- QPs ----------------------------------------------------------------------------------- */

/* Returns the number of packets that are left of those that it may replay. */
static unsigned resume(struct xt_qp *qp, unsigned most)
{
	unsigned side;

	for (side = 0; side < XT_QP_SIDES; side++) {
		if (xt_posted(&qp->accesses, side)) {
			resume_reap(qp, side);
			written(qp, side);
		}
		most = replay(qp, side, most);
	}
	xt_kept_update(qp);
	xt_posted_update(qp);
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
				      offsetof(struct xt_qp, accesses.resume_link));
		xt_list_del(&qp->accesses.resume_link);
		packets = resume(qp, packets);
	}
}
