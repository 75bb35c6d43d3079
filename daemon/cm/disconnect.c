// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* DREQ and DREP (IBTA 12.6.10, 12.6.11, 12.9.8). */
#include <errno.h>

#include "end.h"
#include "handlers.h"
#include "id.h"
#include "send.h"

static struct xc_msg dreq_of(struct xc_id *id, const struct xc_data *data)
{
	struct xc_msg msg;

	id->tid = id->own_tid;
	msg = xc_msg_of(id, XC_DREQ);
	msg.dreq.qpn = id->info.remote_qpn;
	if (data)
		msg.dreq.data = *data;
	return msg;
}

int xc_disconnect(struct xc_id *id, const struct xc_data *data)
{
	struct xc_msg msg;

	if (id->info.state != XC_ESTABLISHED || (data && data->len > XC_DREQ_DATA))
		return -EINVAL;
	msg = dreq_of(id, data);
	xc_send(id, &msg);
	xc_id_set_state(id, XC_DREQ_SENT);
	xc_await(id);
	return 0;
}

/* The first DREQ is sent after a timeout, as the REJ usually arrives. sent[] keeps the REJ. */
void xc_linger(struct xc_id *id)
{
	id->lingers = true;
	id->repeats = true;
	xc_id_unlink_qpn(id);
	xc_id_set_state(id, XC_DREQ_SENT);
	xc_await(id);
}

static void send_drep(struct xc_id *id, const struct xc_data *data)
{
	struct xc_msg msg = xc_msg_of(id, XC_DREP);

	if (data)
		msg.drep.data = *data;
	if (id->lingers)
		xc_respond(id->cm, &id->info.path, &msg);
	else
		xc_send(id, &msg);
}

int xc_reply_disconnect(struct xc_id *id, const struct xc_data *data)
{
	if (id->info.state != XC_DREQ_RCVD || (data && data->len > XC_DREP_DATA))
		return -EINVAL;
	send_drep(id, data);
	xc_timewait(id);
	return 0;
}

static struct xc_id *connection(const struct xc_cm *cm, const struct xc_path *path,
				const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_local(cm, msg->remote_id);

	if (!id || id->info.sidr || id->info.remote_id != msg->local_id ||
	    !xr_gid_equal(&id->info.path.peer, &path->peer))
		return NULL;
	return id;
}

/* The peer has a connection that this side does not have. The DREP lets the peer end it. */
static void respond_unknown(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_msg drep = xc_response_to(msg, XC_DREP);

	cm->counters.unexpected[XC_DREQ]++;
	xc_respond(cm, path, &drep);
}

static void repeat_drep(struct xc_id *id)
{
	id->cm->counters.duplicates[XC_DREQ]++;
	if (id->sent_kind == XC_DREP)
		xc_resend(id);
	else
		send_drep(id, NULL);
}

/* Both sides disconnect at once, or the peer gave up before the user responded to its REP. */
static void disconnected(struct xc_id *id, const struct xc_msg *msg)
{
	send_drep(id, NULL);
	xc_timewait(id);
	if (!id->lingers)
		xc_report(id, XC_EVENT_DREQ, 0, msg);
}

static void on_dreq(struct xc_id *id, const struct xc_msg *msg)
{
	struct xc_cm *cm = id->cm;

	/* A DREP that was sent is repeated with its transaction ID. */
	if (id->sent_kind != XC_DREP && id->info.state != XC_DREQ_RCVD)
		id->tid = msg->tid;
	switch (id->info.state) {
	case XC_REP_SENT: /* the RTU was lost */
	case XC_MRA_REP_RCVD:
	case XC_ESTABLISHED:
		xc_clear_timer(id);
		xc_id_set_state(id, XC_DREQ_RCVD);
		xc_report(id, XC_EVENT_DREQ, 0, msg);
		break;
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
	case XC_DREQ_SENT:
		disconnected(id, msg);
		break;
	case XC_TIMEWAIT:
		repeat_drep(id);
		break;
	case XC_DREQ_RCVD:
		cm->counters.duplicates[XC_DREQ]++;
		break;
	default:
		respond_unknown(cm, &id->info.path, msg);
	}
}

void xc_dreq_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = connection(cm, path, msg);

	if (!id)
		respond_unknown(cm, path, msg);
	else if (msg->dreq.qpn != id->info.local_qpn)
		cm->counters.unexpected[XC_DREQ]++;
	else
		on_dreq(id, msg);
}

void xc_drep_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = connection(cm, path, msg);

	if (!id || id->info.state != XC_DREQ_SENT) {
		cm->counters.unexpected[XC_DREP]++;
		return;
	}
	xc_timewait(id);
	if (!id->lingers)
		xc_report(id, XC_EVENT_DISCONNECTED, 0, msg);
}

static bool retry_dreq(struct xc_id *id)
{
	struct xc_msg msg;

	if (!id->lingers)
		return xc_retry(id);
	if (!xc_count_retry(id))
		return false;
	msg = dreq_of(id, NULL);
	xc_respond(id->cm, &id->info.path, &msg);
	return true;
}

void xc_dreq_expired(struct xc_id *id)
{
	if (retry_dreq(id))
		return;
	id->cm->counters.timeouts++;
	xc_timewait(id);
	if (!id->lingers)
		xc_report(id, XC_EVENT_DISCONNECTED, -ETIMEDOUT, NULL);
}
