// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The CM engine: received MADs and expired timers, see cm.h and engine.h. */
#include <stdlib.h>

#include "end.h"
#include "handlers.h"
#include "id.h"
#include "mad.h"
#include "send.h"

#define APR_INVALID_ID 1
#define APR_NOT_SUPPORTED 2

/* ---- engine ------------------------------------------------------------------ */

struct xc_cm *xc_new(const struct xc_config *config, const struct xc_ops *ops, void *ctx)
{
	struct xc_cm *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return NULL;
	cm->config = *config;
	cm->ops = ops;
	cm->ctx = ctx;
	xt_list_init(&cm->ids);
	xt_list_init(&cm->answered);
	ops->random(ctx, &cm->seed, sizeof(cm->seed));
	if (xc_table_init(&cm->by_local) || xc_table_init(&cm->by_remote) ||
	    xc_table_init(&cm->by_qpn) || xc_table_init(&cm->sources)) {
		xc_free(cm);
		return NULL;
	}
	return cm;
}

void xc_free(struct xc_cm *cm)
{
	struct xc_id *id;

	while ((id = xc_next(cm, NULL)))
		xc_id_free(id);
	xc_table_free(&cm->by_local);
	xc_table_free(&cm->by_remote);
	xc_table_free(&cm->by_qpn);
	xc_table_free(&cm->sources);
	xd_heap_free(&cm->timers);
	free(cm);
}

const struct xc_counters *xc_counters(const struct xc_cm *cm)
{
	return &cm->counters;
}

struct xc_gauges xc_gauges(const struct xc_cm *cm)
{
	return cm->gauges;
}

/* ---- received MADs ----------------------------------------------------------- */

/* Alternate paths are not supported (IBTA 12.8). */
static void lap_received(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_id *id = xc_id_by_local(cm, msg->remote_id);
	struct xc_msg apr = xc_response_to(msg, XC_APR);
	bool known = id && id->info.remote_id == msg->local_id;

	cm->counters.unexpected[XC_LAP]++;
	apr.apr.status = known ? APR_NOT_SUPPORTED : APR_INVALID_ID;
	xc_respond(cm, path, &apr);
}

static void dispatch(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	switch (msg->kind) {
	case XC_REQ:
		xc_req_received(cm, path, msg);
		break;
	case XC_MRA:
		xc_mra_received(cm, path, msg);
		break;
	case XC_REJ:
		xc_rej_received(cm, path, msg);
		break;
	case XC_REP:
		xc_rep_received(cm, path, msg);
		break;
	case XC_RTU:
		xc_rtu_received(cm, path, msg);
		break;
	case XC_DREQ:
		xc_dreq_received(cm, path, msg);
		break;
	case XC_DREP:
		xc_drep_received(cm, path, msg);
		break;
	case XC_SIDR_REQ:
		xc_sidr_req_received(cm, path, msg);
		break;
	case XC_SIDR_REP:
		xc_sidr_rep_received(cm, path, msg);
		break;
	case XC_LAP:
		lap_received(cm, path, msg);
		break;
	case XC_APR: /* no LAP is sent */
	case XC_NUM_KINDS:
		cm->counters.unexpected[XC_APR]++;
		break;
	}
}

/* A request of another class version is rejected (IBTA 12.6.7.2, 12.11.2.1). */
static void other_version(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_msg rep = xc_response_to(msg, XC_SIDR_REP);

	cm->counters.malformed++;
	rep.sidr_rep.status = XC_SIDR_VERSION;
	if (msg->kind == XC_REQ)
		xc_reject_message(cm, path, msg, XC_REJ_CLASS_VERSION, NULL);
	else if (msg->kind == XC_SIDR_REQ)
		xc_respond(cm, path, &rep);
}

bool xc_receive(struct xc_cm *cm, const struct xc_path *path, const uint8_t *mad, size_t len)
{
	struct xc_msg msg;

	switch (xc_mad_decode(mad, len, &msg)) {
	case XC_NOT_CM:
		return false;
	case XC_MALFORMED:
		cm->counters.malformed++;
		break;
	case XC_OTHER_VERSION:
		other_version(cm, path, &msg);
		break;
	case XC_DECODED:
		cm->counters.received[msg.kind]++;
		dispatch(cm, path, &msg);
		break;
	}
	return true;
}

/* ---- timers ------------------------------------------------------------------ */

static void cm_expired(struct xc_id *id)
{
	switch (id->info.state) {
	case XC_REQ_SENT:
	case XC_MRA_REQ_RCVD:
		xc_req_expired(id);
		break;
	case XC_REP_SENT:
	case XC_MRA_REP_RCVD:
		xc_rep_expired(id);
		break;
	case XC_DREQ_SENT:
		xc_dreq_expired(id);
		break;
	case XC_TIMEWAIT:
		xc_timewait_expired(id);
		break;
	case XC_SIDR_REQ_SENT:
		xc_sidr_expired(id);
		break;
	case XC_IDLE:
		xc_id_free(id);
		break;
	default: /* the others have no timer */
		break;
	}
}

bool xc_run_one(struct xc_cm *cm)
{
	struct xd_heap_node *t = xd_heap_first(&cm->timers);

	if (!t || t->when > xc_now(cm))
		return false;
	xd_heap_clear(&cm->timers, t);
	cm_expired((struct xc_id *)((char *)t - offsetof(struct xc_id, timer)));
	return true;
}

void xc_run(struct xc_cm *cm)
{
	while (xc_run_one(cm))
		;
}

uint64_t xc_deadline(const struct xc_cm *cm)
{
	struct xd_heap_node *t = xd_heap_first(&cm->timers);

	return t ? t->when : XC_NEVER;
}
