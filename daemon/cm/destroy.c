// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Ids that the user gives up. */
#include "end.h"
#include "handlers.h"
#include "id.h"

void xc_ignore(struct xc_id *id)
{
	xc_id_free(id);
}

static void end_connection(struct xc_id *id)
{
	if (xc_is_xrc_target(id))
		xc_end(id, false);
	else
		xc_disconnect(id, NULL);
}

void xc_destroy_for(struct xc_id *id, void *payer)
{
	id->payer = payer;
	xc_destroy(id);
}

void xc_destroy(struct xc_id *id)
{
	switch (id->info.state) {
	case XC_REQ_SENT:
	case XC_MRA_REQ_RCVD:
		xc_reject_for(id, XC_REJ_TIMEOUT);
		break;
	case XC_REQ_RCVD:
	case XC_MRA_REQ_SENT:
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
	case XC_REP_RCVD:
	case XC_MRA_REP_SENT:
		xc_reject_for(id, XC_REJ_CONSUMER);
		break;
	case XC_ESTABLISHED:
		end_connection(id);
		break;
	case XC_DREQ_RCVD:
		xc_reply_disconnect(id, NULL);
		break;
	case XC_SIDR_REQ_SENT:
		xc_end(id, false);
		break;
	case XC_SIDR_REQ_RCVD:
		xc_sidr_reply(id, &(struct xc_sidr_rep){ .status = XC_SIDR_REJECTED });
		break;
	case XC_DREQ_SENT:
	case XC_TIMEWAIT:
	case XC_IDLE:
	case XC_NUM_STATES:
		break;
	}
	xc_abandon(id);
}
