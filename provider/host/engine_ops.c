// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The callbacks of the engine (struct xt_ops): frames, events, mirror of QPs and keys. */
#include <infiniband/verbs.h>

#include "daemon/io/tables.h"
#include "daemon/udp/udp.h"
#include "internal.h"
#include "requests.h"

/*
 * Packets that are sent at once: four messages of the longest packets. What was copied is in the
 * cache still when the kernel copies it again, and the peer receives while this engine goes on.
 */
#define SEND_FRAMES 60

static bool host_op_tx_get(void *ctx, uint32_t len, struct xt_frame *frame)
{
	struct xp_host *h = ctx;

	/* rules and captures act on whole packets */
	if (__builtin_expect(h->page.acts, false))
		frame->n_payload = 0;
	return xd_socket_tx_get(h->socket, len, frame);
}

static void host_op_tx_put(void *ctx, struct xt_frame *frame)
{
	struct xp_host *h = ctx;

	if (xp_page_tx(h, &h->page, frame))
		xd_socket_tx_put(h->socket, frame);
	else
		xd_socket_tx_cancel(h->socket, frame);
	if (xd_udp_queued(h->socket) >= SEND_FRAMES)
		xd_socket_tx_flush(h->socket, true);
}

static void host_op_tx_push(void *ctx)
{
	struct xp_host *h = ctx;

	xd_socket_tx_flush(h->socket, false);
}

static uint32_t op_large_packets(void *ctx, const struct xt_path *path, uint32_t dqpn,
				 uint32_t want)
{
	struct xp_host *h = ctx;

	return h->page.acts ? 1 : xd_udp_large_packets(h->socket, path, dqpn, want);
}

static bool op_send_large(void *ctx, const struct xt_frame *frame)
{
	struct xp_host *h = ctx;

	return xd_udp_send_large(h->socket, frame);
}

static void host_op_cq_event(void *ctx, struct xt_cq *cq)
{
	struct xp_cq_object *c = cq->owner;

	if (c->channel)
		xp_channel_raise(ctx, c->channel, &c->completions);
}

static void host_op_async_event(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type)
{
	struct xp_qp_object *q = qp ? xt_qp_info(qp)->owner : NULL;
	struct xp_cq_object *c = cq ? cq->owner : NULL;

	if (q)
		xp_event_raise(ctx, &q->async, type);
	else if (c)
		xp_event_raise(ctx, &c->async, type);
}

static void host_op_srq_event(void *ctx, struct xt_srq *srq, uint32_t type)
{
	struct xp_srq_object *s = srq->owner;

	xp_event_raise(ctx, &s->async, type);
}

/* If there is no memory for the update, packets are checked by an older entry before the engine. */
static void host_op_qp_state(void *ctx, struct xt_qp *qp)
{
	struct xp_host *h = ctx;
	struct xr_qp_entry entry;

	xd_udp_complete(xd_udp_of(h->socket));
	xt_qp_entry(qp, &entry);
	xd_tables_set_qp(h->tables, xt_qp_info(qp)->qpn, &entry);
	xp_view_change(h, &((struct xp_qp_object *)xt_qp_info(qp)->owner)->obj);
}

static void host_op_key_changed(void *ctx, const struct xt_key *key)
{
	struct xp_host *h = ctx;

	xd_udp_complete(xd_udp_of(h->socket));
	xd_tables_set_key(h->tables, key->index, &key->entry);
	xp_view_key(h, key);
}

const struct xt_ops xp_engine_ops = {
	.tx_get = host_op_tx_get,
	.tx_put = host_op_tx_put,
	.tx_push = host_op_tx_push,
	.large_packets = op_large_packets,
	.send_large = op_send_large,
	.show = xp_captures_show,
	.cq_event = host_op_cq_event,
	.async_event = host_op_async_event,
	.srq_event = host_op_srq_event,
	.qp_state = host_op_qp_state,
	.refusal = xp_faults_refusal,
	.key_changed = host_op_key_changed,
};
