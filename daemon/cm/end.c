// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ends of exchanges. If the final response to a REQ, REP or SIDR_REQ is lost, the peer sends
 * its message again. Ids that have sent such a response are kept for some time after the user has
 * destroyed them: the duplicate gets the same response and is not reported as a new request.
 */
#include "end.h"
#include "id.h"
#include "send.h"

void xc_end(struct xc_id *id, bool repeats)
{
	id->repeats = repeats;
	xc_clear_timer(id);
	xc_id_unlink_qpn(id);
	/* The table of REQs; REPs are found by the local communication ID. */
	if (id->info.active)
		xc_id_unlink_remote(id);
	xc_id_set_state(id, XC_IDLE);
}

void xc_timewait(struct xc_id *id)
{
	xc_id_unlink_qpn(id);
	xc_id_set_state(id, XC_TIMEWAIT);
	xc_set_timer(id, id->timewait);
}

void xc_timewait_expired(struct xc_id *id)
{
	xc_end(id, id->lingers);
	if (!id->lingers)
		xc_id_unlink_remote(id);
	xc_report(id, XC_EVENT_TIMEWAIT_EXIT, 0, NULL);
}

static void retire(struct xc_id *id)
{
	if (!id->repeats && !id->by_remote.linked) {
		xc_id_free(id);
		return;
	}
	xc_set_timer(id, id->hold);
	xc_id_keep_answered(id);
}

void xc_report(struct xc_id *id, enum xc_event_type type, int status, const struct xc_msg *msg)
{
	struct xc_event event = { type, status, msg };
	struct xc_cm *cm = id->cm;

	if (!id->info.orphan)
		cm->ops->event(cm->ctx, id, &event);
	else if (id->info.state == XC_IDLE)
		retire(id);
}

void xc_abandon(struct xc_id *id)
{
	id->info.orphan = true;
	id->info.owner = NULL;
	if (id->info.state == XC_IDLE)
		retire(id);
}
