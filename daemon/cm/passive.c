// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The passive side of a connection (IBTA 12.9.5): REQ, REP, RTU. */
#include <errno.h>

#include "end.h"
#include "handlers.h"
#include "id.h"
#include "limits.h"
#include "send.h"

/* ---- REQ --------------------------------------------------------------------- */

static void duplicate_req(struct xc_id *id, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_cm *cm = id->cm;

	cm->counters.duplicates[XC_REQ]++;
	switch (id->info.state) {
	case XC_REQ_RCVD:
		xc_mra_duplicate(id);
		break;
	case XC_MRA_REQ_SENT:
	case XC_REP_SENT:
		xc_resend(id);
		break;
	case XC_DREQ_SENT:
		if (id->repeats)
			xc_repeat_rej(id);
		break;
	case XC_TIMEWAIT:
	case XC_IDLE:
		if (id->repeats)
			xc_repeat_rej(id);
		else
			xc_reject_message(cm, path, msg, XC_REJ_STALE, NULL);
		break;
	default:
		break;
	}
}

/*
 * Returns true if the QP of the peer has a connection, which is stale then: it is disconnected
 * (IBTA 12.9.8.3.1). The peer may try again at once.
 */
static bool passive_is_stale(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *old = xc_id_by_qpn(cm, &path->peer, msg->req.guid, msg->req.qpn);

	if (!old)
		return false;
	xc_reject_message(cm, path, msg, XC_REJ_STALE, NULL);
	xc_disconnect(old, NULL);
	return true;
}

/* The paths of MAD and connection must have the same addresses: see docs/protocol.md. */
static bool reject_invalid(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	const struct xc_req *q = &msg->req;

	if (!xr_gid_equal(&q->path.local, &path->local) ||
	    !xr_gid_equal(&q->path.peer, &path->peer))
		xc_reject_message(cm, path, msg, XC_REJ_GID, &path->local);
	else if (q->transport == XC_OTHER)
		xc_reject_message(cm, path, msg, XC_REJ_TRANSPORT, NULL);
	else
		return false;
	return true;
}

static void set_peer(struct xc_id *id, const struct xc_msg *msg)
{
	const struct xc_req *q = &msg->req;

	id->tid = msg->tid;
	if (!q->path.hop_limit)
		id->info.path.hop_limit = XC_HOP_LIMIT;
	id->info.transport = q->transport;
	id->info.remote_id = msg->local_id;
	id->info.remote_qpn = q->qpn;
	id->info.remote_guid = q->guid;
	id->info.service_id = q->service_id;
	id->max_retries = q->max_cm_retries;
	id->timeout = xc_response_ns(q->local_response_timeout);
	id->timewait = xc_timewait_ns(q->ack_timeout);
	id->hold = xc_hold_ns(q->remote_response_timeout, q->ack_timeout);
	xc_id_link_remote(id);
	xc_id_link_qpn(id);
}

static void new_connection(struct xc_cm *cm, const struct xc_msg *msg)
{
	struct xc_id *id;

	if (xc_id_new(cm, &msg->req.path, &id)) {
		cm->counters.limited++;
		return;
	}
	if (!xc_id_half_open(id)) {
		cm->counters.limited++;
		xc_id_free(id);
		return;
	}
	set_peer(id, msg);
	xc_id_set_state(id, XC_REQ_RCVD);
	xc_report(id, XC_EVENT_REQ, 0, msg);
}

void xc_req_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_remote(cm, &path->peer, msg->req.guid, msg->local_id);

	if (id && !id->info.active)
		duplicate_req(id, path, msg);
	else if (id)
		cm->counters.unexpected[XC_REQ]++;
	else if (!reject_invalid(cm, path, msg) && !passive_is_stale(cm, path, msg))
		new_connection(cm, msg);
}

/* ---- REP, RTU ------------------------------------------------------------------ */

int xc_accept(struct xc_id *id, const struct xc_rep *rep)
{
	struct xc_msg msg = xc_msg_of(id, XC_REP);

	if ((id->info.state != XC_REQ_RCVD && id->info.state != XC_MRA_REQ_SENT) ||
	    rep->qpn > 0xffffff || rep->starting_psn > 0xffffff || rep->target_ack_delay > 31 ||
	    rep->rnr_retry_count > 7 || rep->failover > 2 || rep->data.len > XC_REP_DATA)
		return -EINVAL;
	msg.rep = *rep;
	msg.rep.guid = id->cm->config.guid;
	msg.rep.eecn = 0;
	if (id->info.transport == XC_XRC) {
		msg.rep.eecn = rep->qpn;
		msg.rep.qpn = 0;
	}
	id->info.local_qpn = rep->qpn;
	xc_send(id, &msg);
	xc_id_set_state(id, XC_REP_SENT);
	xc_await(id);
	return 0;
}

static int passive_establish(struct xc_id *id, const struct xc_msg *msg)
{
	switch (id->info.state) {
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
		xc_clear_timer(id);
		xc_id_set_state(id, XC_ESTABLISHED);
		id->cm->counters.established++;
		xc_report(id, XC_EVENT_ESTABLISHED, 0, msg);
		return 0;
	case XC_ESTABLISHED:
		return -EISCONN;
	default:
		return -EINVAL;
	}
}

int xc_notify_established(struct xc_id *id)
{
	return passive_establish(id, NULL);
}

/*
 * The peer has a connection that this side has given up or ended, so the peer has to end it. An
 * XRC target that was destroyed in XC_ESTABLISHED stays connected without its id.
 */
static void reject_rtu(struct xc_id *id, const struct xc_path *path, const struct xc_msg *msg)
{
	if (id->repeats)
		xc_resend(id);
	else if (id->info.state == XC_IDLE && !xc_is_xrc_target(id))
		xc_reject_message(id->cm, path, msg, XC_REJ_COMM_ID, NULL);
}

void xc_rtu_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_local(cm, msg->remote_id);
	int err;

	if (!id || id->info.remote_id != msg->local_id) {
		cm->counters.unexpected[XC_RTU]++;
		xc_reject_message(cm, path, msg, XC_REJ_COMM_ID, NULL);
		return;
	}
	if (id->info.active || !xr_gid_equal(&id->info.path.peer, &path->peer)) {
		cm->counters.unexpected[XC_RTU]++;
		return;
	}
	err = passive_establish(id, msg);
	if (err == -EISCONN) {
		cm->counters.duplicates[XC_RTU]++;
	} else if (err) {
		cm->counters.unexpected[XC_RTU]++;
		reject_rtu(id, path, msg);
	}
}

void xc_rep_expired(struct xc_id *id)
{
	xc_id_set_state(id, XC_REP_SENT);
	if (xc_retry(id))
		return;
	id->cm->counters.timeouts++;
	xc_reject_for(id, XC_REJ_TIMEOUT);
	xc_report(id, XC_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}
