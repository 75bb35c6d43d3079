// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The active side of a connection (IBTA 12.9.5): REQ, REP, RTU. */
#include <errno.h>

#include "end.h"
#include "handlers.h"
#include "id.h"
#include "limits.h"
#include "send.h"

static bool valid_req(const struct xc_req *q)
{
	return q->transport <= XC_XRC && q->qpn <= 0xffffff && q->starting_psn <= 0xffffff &&
	       q->remote_response_timeout <= 31 && q->local_response_timeout <= 31 &&
	       q->max_cm_retries <= 15 && q->retry_count <= 7 && q->rnr_retry_count <= 7 &&
	       q->ack_timeout <= 31 && q->mtu >= 1 && q->mtu <= 5 && q->path.sl <= 15 &&
	       q->path.flow_label <= 0xfffff && q->data.len <= XC_REQ_DATA;
}

static void send_req(struct xc_id *id, const struct xc_req *req)
{
	struct xc_msg msg;

	id->tid = id->own_tid;
	msg = xc_msg_of(id, XC_REQ);
	msg.req = *req;
	msg.req.guid = id->cm->config.guid;
	xc_send(id, &msg);
	xc_id_set_state(id, XC_REQ_SENT);
	xc_await(id);
}

int xc_connect(struct xc_cm *cm, const struct xc_req *req, void *owner, struct xc_id **new)
{
	struct xc_id *id;
	int err;

	if (!valid_req(req))
		return -EINVAL;
	err = xc_id_new(cm, &req->path, &id);
	if (err)
		return err;
	id->info.active = true;
	id->info.transport = req->transport;
	id->info.local_qpn = req->qpn;
	id->info.service_id = req->service_id;
	id->info.owner = owner;
	id->max_retries = req->max_cm_retries;
	/* The ACK timeout covers the time of the packets in both directions. */
	id->timeout = xc_response_ns(req->remote_response_timeout) +
		      xc_timewait_ns(req->ack_timeout);
	id->timewait = xc_timewait_ns(req->ack_timeout);
	id->hold = xc_hold_ns(req->local_response_timeout, req->ack_timeout);
	send_req(id, req);
	*new = id;
	return 0;
}

/* ---- REP --------------------------------------------------------------------- */

static void duplicate_rep(struct xc_id *id, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_cm *cm = id->cm;

	cm->counters.duplicates[XC_REP]++;
	switch (id->info.state) {
	case XC_REP_RCVD:
		xc_mra_duplicate(id);
		break;
	case XC_MRA_REP_SENT:
		xc_resend(id);
		break;
	case XC_ESTABLISHED: /* the RTU was lost */
		if (id->sent_kind == XC_RTU)
			xc_resend(id);
		break;
	case XC_IDLE:
		if (id->repeats)
			xc_resend(id);
		else
			xc_reject_message(cm, path, msg, XC_REJ_COMM_ID, NULL);
		break;
	default:
		break;
	}
}

/*
 * Returns false if the REP comes from a QP that has a connection: then that connection is stale
 * (IBTA 12.9.8.3.1).
 */
static bool adopt_peer(struct xc_id *id, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_info *info = &id->info;
	uint32_t qpn = info->transport == XC_XRC ? msg->rep.eecn : msg->rep.qpn;
	struct xc_id *old = xc_id_by_qpn(id->cm, &info->path.peer, msg->rep.guid, qpn);

	if (old) {
		xc_reject_message(id->cm, path, msg, XC_REJ_STALE, NULL);
		xc_disconnect(old, NULL);
		return false;
	}
	info->remote_guid = msg->rep.guid;
	info->remote_id = msg->local_id;
	info->remote_qpn = qpn;
	xc_id_link_remote(id);
	xc_id_link_qpn(id);
	return true;
}

static void first_rep(struct xc_id *id, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_cm *cm = id->cm;
	struct xc_msg event;

	/* The communication ID of the peer is that of another connection. */
	if (xc_id_by_remote(cm, &path->peer, msg->rep.guid, msg->local_id)) {
		cm->counters.unexpected[XC_REP]++;
		return;
	}
	if (!adopt_peer(id, path, msg))
		return;
	xc_clear_timer(id);
	xc_id_set_state(id, XC_REP_RCVD);
	event = *msg;
	event.rep.qpn = id->info.remote_qpn;
	xc_report(id, XC_EVENT_REP, 0, &event);
}

void xc_rep_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_local(cm, msg->remote_id);

	if (id && !xr_gid_equal(&id->info.path.peer, &path->peer)) {
		cm->counters.unexpected[XC_REP]++;
	} else if (id && (id->info.state == XC_REQ_SENT || id->info.state == XC_MRA_REQ_RCVD)) {
		first_rep(id, path, msg);
	} else if (id && id->info.active && id->info.remote_id == msg->local_id) {
		duplicate_rep(id, path, msg);
	} else {
		cm->counters.unexpected[XC_REP]++;
		xc_reject_message(cm, path, msg, XC_REJ_COMM_ID, NULL);
	}
}

int xc_establish(struct xc_id *id, const struct xc_data *data)
{
	struct xc_msg msg = xc_msg_of(id, XC_RTU);

	if ((id->info.state != XC_REP_RCVD && id->info.state != XC_MRA_REP_SENT) ||
	    (data && data->len > XC_RTU_DATA))
		return -EINVAL;
	if (data)
		msg.rtu.data = *data;
	xc_send(id, &msg);
	xc_id_set_state(id, XC_ESTABLISHED);
	id->cm->counters.established++;
	return 0;
}

void xc_req_expired(struct xc_id *id)
{
	xc_id_set_state(id, XC_REQ_SENT);
	if (xc_retry(id))
		return;
	id->cm->counters.timeouts++;
	xc_reject_for(id, XC_REJ_TIMEOUT);
	xc_report(id, XC_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}
