// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* MRA (IBTA 12.6.6, 12.9.6): a side needs more time to respond. */
#include <errno.h>

#include "handlers.h"
#include "id.h"
#include "send.h"

/* 137 s; the kernel states 24 */
#define MAX_SERVICE_TIMEOUT 25

int xc_mra(struct xc_id *id, uint8_t service_timeout)
{
	struct xc_msg msg = xc_msg_of(id, XC_MRA);

	if (service_timeout > 31)
		return -EINVAL;
	msg.mra.service_timeout = service_timeout;
	switch (id->info.state) {
	case XC_REQ_RCVD:
		msg.mra.message = XC_MESSAGE_REQ;
		xc_id_set_state(id, XC_MRA_REQ_SENT);
		break;
	case XC_REP_RCVD:
		msg.mra.message = XC_MESSAGE_REP;
		xc_id_set_state(id, XC_MRA_REP_SENT);
		break;
	default:
		return -EINVAL;
	}
	xc_send(id, &msg);
	return 0;
}

void xc_mra_duplicate(struct xc_id *id)
{
	xc_mra(id, id->cm->config.mra_timeout);
}

static struct xc_id *mra_find(const struct xc_cm *cm, const struct xc_path *path,
			      const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_local(cm, msg->remote_id);

	return id && xr_gid_equal(&id->info.path.peer, &path->peer) ? id : NULL;
}

/* The wait counts as a retry, so MRAs cannot delay a timeout without limit. */
void xc_mra_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	const struct xc_mra *mra = &msg->mra;
	struct xc_id *id = mra_find(cm, path, msg);
	uint8_t code = mra->service_timeout;

	if (id && id->info.state == XC_REQ_SENT && mra->message == XC_MESSAGE_REQ) {
		xc_id_set_state(id, XC_MRA_REQ_RCVD);
	} else if (id && id->info.state == XC_REP_SENT && mra->message == XC_MESSAGE_REP) {
		xc_id_set_state(id, XC_MRA_REP_RCVD);
	} else {
		cm->counters.unexpected[XC_MRA]++;
		return;
	}
	if (code > MAX_SERVICE_TIMEOUT)
		code = MAX_SERVICE_TIMEOUT;
	xc_set_timer(id, xc_timeout_ns(code) + id->timeout);
}
