// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "daemon/transport/engine.h"
#include "daemon/transport/scheduling/flow.h"
#include "piece.h"
#include "stop.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/rc/resend.h"
#include "daemon/transport/memory/step_io.h"

/*
 * Ends the step with which the peer of a QP moves pieces into its memory. Returns false if the
 * peer's engine is busy.
 */
static bool end_pieces(struct xt_qp *qp, struct xt_qp *peer)
{
	struct xt_engine *e = qp->engine;
	struct xt_step *step = &peer->park.step[XT_STEP_SEND];

	if (!xt_engine_enter(e, peer->engine))
		return false;
	if (step->used) {
		xt_step_clear(step);
		xt_step_end(&peer->park.step[XT_STEP_AHEAD]);
		xt_activate(peer);
		if (peer->engine != e && e->ops->wake)
			e->ops->wake(e->ctx, peer->engine);
	}
	xt_engine_leave(e, peer->engine);
	return true;
}

void xt_loopback_stop_peer(struct xt_qp *qp)
{
	struct xt_qp *peer = xt_ending_peer(qp);

	if (!peer)
		return;
	/* the writes that it had posted were given up */
	if (peer->engine == qp->engine && xt_has_posted(peer) && xt_may_send(peer))
		xt_req_go_back(peer);
	if (!xt_ending_peer_writes(peer))
		return;
	qp->ending.stopped = end_pieces(qp, peer);
	qp->ending.peer = peer->info.qpn;
}

bool xt_loopback_ending(struct xt_qp *qp)
{
	struct xt_ending *ending = &qp->ending;
	struct xt_qp *peer;

	if (__builtin_expect(!ending->peer, true))
		return false;
	peer = xt_qp_by_num(qp->engine->shared->qps, ending->peer);
	if (!peer || peer == qp) {
		ending->peer = 0;
		return false;
	}
	if (!ending->stopped)
		ending->stopped = end_pieces(qp, peer);
	if (!ending->stopped ||
	    __atomic_load_n(&peer->park.step[XT_STEP_ENDING].used, __ATOMIC_RELAXED))
		return true;
	ending->peer = 0;
	return false;
}
