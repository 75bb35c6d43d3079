// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Service ID resolution, for UD (IBTA 12.11). There is no connection and no TIMEWAIT. */
#include <errno.h>

#include "end.h"
#include "handlers.h"
#include "id.h"
#include "limits.h"
#include "send.h"

/* A SIDR_REQ does not contain its timeout; that of the kernel is 20. */
#define PEER_RESPONSE 20
#define PEER_ACK 18

int xc_sidr_request(struct xc_cm *cm, const struct xc_sidr_param *param, void *owner,
		    struct xc_id **new)
{
	struct xc_msg msg;
	struct xc_id *id;
	int err;

	if (param->response_timeout > 31 || param->max_cm_retries > 15 ||
	    param->req.data.len > XC_SIDR_REQ_DATA)
		return -EINVAL;
	err = xc_id_new(cm, &param->path, &id);
	if (err)
		return err;
	id->info.active = id->info.sidr = true;
	id->info.service_id = param->req.service_id;
	id->info.owner = owner;
	id->tid = id->own_tid;
	id->max_retries = param->max_cm_retries;
	id->timeout = xc_response_ns(param->response_timeout);
	msg = xc_msg_of(id, XC_SIDR_REQ);
	msg.sidr_req = param->req;
	xc_send(id, &msg);
	xc_id_set_state(id, XC_SIDR_REQ_SENT);
	xc_await(id);
	*new = id;
	return 0;
}

static void duplicate_sidr_req(struct xc_id *id)
{
	id->cm->counters.duplicates[XC_SIDR_REQ]++;
	if (id->repeats)
		xc_resend(id);
}

void xc_sidr_req_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_sidr(cm, &path->peer, msg->local_id);

	if (id) {
		duplicate_sidr_req(id);
		return;
	}
	if (xc_id_new(cm, path, &id)) {
		cm->counters.limited++;
		return;
	}
	id->info.sidr = true;
	id->info.path.hop_limit = XC_HOP_LIMIT;
	id->info.remote_id = msg->local_id;
	id->info.service_id = msg->sidr_req.service_id;
	id->tid = msg->tid;
	id->hold = xc_hold_ns(PEER_RESPONSE, PEER_ACK);
	if (!xc_id_half_open(id)) {
		cm->counters.limited++;
		xc_id_free(id);
		return;
	}
	xc_id_link_remote(id);
	xc_id_set_state(id, XC_SIDR_REQ_RCVD);
	xc_report(id, XC_EVENT_SIDR_REQ, 0, msg);
}

int xc_sidr_reply(struct xc_id *id, const struct xc_sidr_rep *rep)
{
	struct xc_msg msg = xc_msg_of(id, XC_SIDR_REP);

	if (id->info.state != XC_SIDR_REQ_RCVD || rep->info.len > XC_SIDR_REP_INFO ||
	    rep->data.len > XC_SIDR_REP_DATA || rep->qpn > 0xffffff)
		return -EINVAL;
	msg.sidr_rep = *rep;
	msg.sidr_rep.service_id = id->info.service_id;
	xc_send(id, &msg);
	id->info.local_qpn = rep->qpn;
	xc_end(id, true);
	return 0;
}

void xc_sidr_rep_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_local(cm, msg->remote_id);

	if (!id || id->info.state != XC_SIDR_REQ_SENT ||
	    !xr_gid_equal(&id->info.path.peer, &path->peer)) {
		cm->counters.unexpected[XC_SIDR_REP]++;
		return;
	}
	id->info.remote_qpn = msg->sidr_rep.qpn;
	xc_end(id, false);
	xc_report(id, XC_EVENT_SIDR_REP, 0, msg);
}

void xc_sidr_expired(struct xc_id *id)
{
	if (xc_retry(id))
		return;
	id->cm->counters.timeouts++;
	xc_end(id, false);
	xc_report(id, XC_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}
