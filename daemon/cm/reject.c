// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * REJ (IBTA 12.6.7, 12.9.7.2). The receiver of a REJ does not respond. If the REJ of a REQ or REP
 * is lost, the peer sends its REQ or REP again, and the REJ is repeated. After a side has sent a
 * REP, its peer may have sent the RTU already and sends nothing more, so a lost REJ would leave the
 * peer connected. Therefore DREQs follow this REJ until the peer responds: the id lingers. The
 * kernel sends the REJ only.
 */
#include <errno.h>

#include "end.h"
#include "handlers.h"
#include "id.h"
#include "mad.h"
#include "send.h"

/* Sets the fields of a REJ that depend on the state: as the kernel's cm_format_rej(). */
static void set_message(const struct xc_id *id, struct xc_msg *msg)
{
	switch (id->info.state) {
	case XC_REQ_RCVD:
		msg->local_id = 0;
		msg->rej.message = XC_MESSAGE_REQ;
		break;
	case XC_MRA_REQ_SENT:
		msg->rej.message = XC_MESSAGE_REQ;
		break;
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
		msg->rej.message = XC_MESSAGE_REP;
		break;
	default:
		msg->rej.message = XC_MESSAGE_OTHER;
	}
}

int xc_reject(struct xc_id *id, const struct xc_rej *rej)
{
	enum xc_state state = id->info.state;
	struct xc_msg msg = xc_msg_of(id, XC_REJ);

	if (state < XC_REQ_SENT || state > XC_MRA_REP_SENT || rej->ari.len > XC_REJ_ARI ||
	    rej->data.len > XC_REJ_DATA)
		return -EINVAL;
	msg.rej = *rej;
	set_message(id, &msg);
	xc_send(id, &msg);
	if (state == XC_REP_SENT || state == XC_MRA_REP_RCVD)
		xc_linger(id);
	else
		xc_end(id, state != XC_REQ_SENT && state != XC_MRA_REQ_RCVD);
	return 0;
}

/*
 * A peer that repeats its REQ has no REP, so it does not have the communication ID of this side.
 * The kernel finds its id only if the REJ refers to the REQ (cm_acquire_rejected_id()).
 */
void xc_repeat_rej(struct xc_id *id)
{
	struct xc_msg msg;

	xc_mad_decode(id->sent, XC_MAD_LEN, &msg);
	msg.rej.message = XC_MESSAGE_REQ;
	id->cm->counters.retried[XC_REJ]++;
	xc_respond(id->cm, &id->info.path, &msg);
}

/* The peer finds the id of a REJ timeout by our GUID (IBTA 12.6.7.2). */
void xc_reject_for(struct xc_id *id, enum xc_reason reason)
{
	uint8_t guid[8];
	struct xc_rej rej = { .reason = reason };

	for (unsigned i = 0; i < sizeof(guid); i++)
		guid[i] = id->cm->config.guid >> (56 - 8 * i);
	if (reason == XC_REJ_TIMEOUT)
		rej.ari = (struct xc_data){ guid, sizeof(guid) };
	xc_reject(id, &rej);
}

void xc_reject_message(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg,
		       enum xc_reason reason, const struct xr_addr *ari)
{
	struct xc_msg rej = xc_response_to(msg, XC_REJ);

	rej.rej.reason = reason;
	rej.rej.message = msg->kind == XC_REQ	? XC_MESSAGE_REQ
			  : msg->kind == XC_REP ? XC_MESSAGE_REP
						: XC_MESSAGE_OTHER;
	if (ari)
		rej.rej.ari = (struct xc_data){ ari->raw, sizeof(ari->raw) };
	xc_respond(cm, path, &rej);
}

/* ---- received ---------------------------------------------------------------- */

/* A peer that gave up before it received a REP does not have the communication ID of this side. */
static struct xc_id *by_guid(const struct xc_cm *cm, const struct xc_path *path,
			     const struct xc_msg *msg)
{
	const uint8_t *ari = msg->rej.ari.data;
	uint64_t guid = 0;
	struct xc_id *id;

	if (msg->rej.reason != XC_REJ_TIMEOUT || msg->rej.ari.len < 8)
		return NULL;
	for (unsigned i = 0; i < 8; i++)
		guid = guid << 8 | ari[i];
	id = xc_id_by_remote(cm, &path->peer, guid, msg->local_id);
	return id && id->source ? id : NULL;
}

static struct xc_id *rejected(const struct xc_cm *cm, const struct xc_path *path,
			      const struct xc_msg *msg)
{
	struct xc_id *id;

	if (!msg->remote_id)
		return by_guid(cm, path, msg);
	id = xc_id_by_local(cm, msg->remote_id);
	if (!id)
		return NULL;
	if (id->info.sidr || !xr_gid_equal(&id->info.path.peer, &path->peer))
		return NULL;
	/* A peer that rejects a REQ may have no communication ID for it. */
	if (id->info.remote_id && msg->local_id && msg->local_id != id->info.remote_id)
		return NULL;
	return id;
}

/* Returns the state after a REJ, or the same state if the REJ is to be ignored. */
static enum xc_state state_after(const struct xc_id *id, const struct xc_msg *msg)
{
	enum xc_state state = id->info.state;
	const struct xc_rej *rej = &msg->rej;

	switch (state) {
	case XC_REQ_SENT:
	case XC_MRA_REQ_RCVD:
	case XC_REQ_RCVD:
	case XC_MRA_REQ_SENT:
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
		return rej->reason == XC_REJ_STALE ? XC_TIMEWAIT : XC_IDLE;
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
	case XC_ESTABLISHED:
	case XC_DREQ_SENT:
		/*
		 * A REJ of the REQ from no id of the peer is a late one: another copy of the REQ
		 * was accepted. The id that has sent the REP sends a REJ only if it gives up.
		 */
		return rej->message == XC_MESSAGE_REQ && !msg->local_id ? state : XC_TIMEWAIT;
	default:
		return state;
	}
}

void xc_rej_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = rejected(cm, path, msg);
	enum xc_state after;

	cm->counters.rej_received[msg->rej.reason < XC_NUM_REASONS ? msg->rej.reason : 0]++;
	after = id ? state_after(id, msg) : XC_IDLE;
	if (!id || after == id->info.state) {
		cm->counters.unexpected[XC_REJ]++;
		return;
	}
	if (after == XC_TIMEWAIT)
		xc_timewait(id);
	else
		xc_end(id, false);
	if (!id->lingers)
		xc_report(id, XC_EVENT_REJECTED, 0, msg);
}
