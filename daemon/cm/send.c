// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Messages to be sent, and their retries. */
#include "mad.h"
#include "send.h"

static void count_rej(struct xc_cm *cm, const struct xc_msg *msg)
{
	if (msg->kind == XC_REJ)
		cm->counters.rej_sent[msg->rej.reason < XC_NUM_REASONS ? msg->rej.reason : 0]++;
}

struct xc_msg xc_msg_of(const struct xc_id *id, enum xc_kind kind)
{
	return (struct xc_msg){
		.kind = kind,
		.tid = id->tid,
		.local_id = id->info.local_id,
		.remote_id = id->info.remote_id,
	};
}

void xc_send(struct xc_id *id, const struct xc_msg *msg)
{
	struct xc_cm *cm = id->cm;

	xc_mad_encode(id->sent, msg);
	id->sent_kind = msg->kind;
	cm->counters.sent[msg->kind]++;
	id->info.sent++;
	count_rej(cm, msg);
	cm->ops->send(cm->ctx, &id->info.path, id->sent);
}

void xc_resend(struct xc_id *id)
{
	struct xc_cm *cm = id->cm;

	cm->counters.sent[id->sent_kind]++;
	cm->counters.retried[id->sent_kind]++;
	id->info.sent++;
	id->info.retried++;
	cm->ops->send(cm->ctx, &id->info.path, id->sent);
}

struct xc_msg xc_response_to(const struct xc_msg *msg, enum xc_kind kind)
{
	return (struct xc_msg){
		.kind = kind,
		.tid = msg->tid,
		.local_id = msg->remote_id,
		.remote_id = msg->local_id,
	};
}

void xc_respond(struct xc_cm *cm, const struct xc_path *path, const struct xc_msg *msg)
{
	struct xc_path to = *path;
	uint8_t mad[XC_MAD_LEN];

	to.hop_limit = XC_HOP_LIMIT;
	xc_mad_encode(mad, msg);
	cm->counters.sent[msg->kind]++;
	count_rej(cm, msg);
	cm->ops->send(cm->ctx, &to, mad);
}

void xc_set_timer(struct xc_id *id, uint64_t ns)
{
	xd_heap_set(&id->cm->timers, &id->timer, xc_now(id->cm) + ns);
}

void xc_clear_timer(struct xc_id *id)
{
	xd_heap_clear(&id->cm->timers, &id->timer);
}

void xc_await(struct xc_id *id)
{
	id->retries_left = id->max_retries;
	xc_set_timer(id, id->timeout);
}

bool xc_count_retry(struct xc_id *id)
{
	if (!id->retries_left)
		return false;
	id->retries_left--;
	xc_set_timer(id, id->timeout);
	return true;
}

bool xc_retry(struct xc_id *id)
{
	if (!xc_count_retry(id))
		return false;
	xc_resend(id);
	return true;
}
