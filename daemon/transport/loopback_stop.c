// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine.h"
#include "flow.h"
#include "loopback_piece.h"
#include "loopback_stop.h"
#include "qp.h"
#include "resend.h"

void xt_loopback_stop_peer(struct xt_qp *qp)
{
	struct xt_engine *e = qp->engine;
	struct xt_qp *peer = xt_qp_by_num(e->shared->qps, qp->attr.dest_qp_num);
	struct xt_step *step = peer ? &peer->park.step[XT_STEP_SEND] : NULL;
	/* stopped by a piece that it moves itself */
	bool entered = qp->park.step[XT_STEP_SEND].moving;

	if (!peer || peer == qp || !peer->path.loopback || peer->attr.dest_qp_num != qp->info.qpn)
		return;
	/* the writes that it had posted were given up */
	if (peer->engine == e && xt_has_posted(peer) && xt_may_send(peer))
		xt_req_go_back(peer);
	if (!__atomic_load_n(&step->used, __ATOMIC_RELAXED))
		return;
	/* stopped by a piece that the peer moves, which sees the result */
	if (step->moving)
		return;
	/* if the peer's engine is busy, the accesses take effect */
	if (!entered && !xt_engine_enter(e, peer->engine))
		return;
	if (step->used) {
		xt_step_clear(step);
		xt_step_end(&peer->park.step[XT_STEP_AHEAD]);
		xt_activate(peer);
		if (peer->engine != e && e->ops->wake)
			e->ops->wake(e->ctx, peer->engine);
	}
	if (!entered)
		xt_engine_leave(e, peer->engine);
}
