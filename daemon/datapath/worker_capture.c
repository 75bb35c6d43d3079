// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Captures packets of workers: received, sent; and the events that a capture can wait for. */
#include "worker_internal.h"

#include "capture.h"
#include "daemon/base/loop.h"

/* Shows as much of local packets as one of the captures wants. */
static void show_local(struct xd_worker *w)
{
	uint32_t len = 0;

	for (struct xd_tap *t = w->taps; t; t = t->next)
		if ((!t->filter->types || t->filter->types & XR_CAPTURE_LOCAL) && t->snap_len > len)
			len = t->snap_len;
	xt_engine_show(w->engine, len);
}

void xd_workers_capture(struct xd_workers *ws, struct xd_capture *c)
{
	for (uint32_t i = 0; i < ws->count && i < c->rings; i++) {
		c->tap[i].next = ws->worker[i]->taps;
		ws->worker[i]->taps = &c->tap[i];
		xd_worker_capture_round(ws->worker[i]);
		show_local(ws->worker[i]);
	}
}

static void remove_tap(struct xd_tap **list, const struct xd_tap *tap)
{
	while (*list && *list != tap)
		list = &(*list)->next;
	if (*list)
		*list = tap->next;
}

void xd_workers_end_capture(struct xd_workers *ws, struct xd_capture *c)
{
	for (uint32_t i = 0; i < ws->count && i < c->rings; i++) {
		remove_tap(&ws->worker[i]->taps, &c->tap[i]);
		show_local(ws->worker[i]);
	}
}

/* *time: of the packet, 0 until a capture needs it */
static void capture(struct xd_worker *w, enum xr_capture_type type, const struct xt_frame *f,
		    uint64_t *time)
{
	struct xd_packet p = { .frame = f, .type = type, .queue = w->index };

	for (struct xd_tap *t = w->taps; t; t = t->next) {
		if (!xd_tap_selects(t, type, f))
			continue;
		if (!*time)
			*time = xd_now();
		p.time = *time;
		xd_tap_put(t, &p);
	}
}

void xd_worker_capture_rx(struct xd_worker *w, unsigned int n)
{
	const struct xd_packet first = {
		.frame = w->frames, .type = XR_CAPTURE_RX, .queue = w->index, .time = xd_now()
	};

	for (struct xd_tap *t = w->taps; t; t = t->next)
		xd_tap_put_batch(t, &first, n);
}

void xd_worker_capture_tx(struct xd_worker *w, const struct xt_frame *f)
{
	uint64_t time = 0;

	capture(w, XR_CAPTURE_TX, f, &time);
}

void xd_worker_capture_local(struct xd_worker *w, const struct xt_frame *f)
{
	uint64_t time = 0;

	capture(w, XR_CAPTURE_LOCAL, f, &time);
}

void xd_worker_capture_round(struct xd_worker *w)
{
	const struct xt_counters *c = xt_engine_counters(w->engine);
	const uint64_t events[XR_CAPTURE_EVENTS] = {
		[XR_CAPTURE_RETRY] = c->tx_retransmits + c->timeouts,
		[XR_CAPTURE_NAK] = xt_counters_naks(c),
		[XR_CAPTURE_ERROR] = c->completion_errors,
		[XR_CAPTURE_DROP] = c->rx_icrc_errors + c->rx_udp_checksum_errors +
				    c->rx_malformed + c->rx_no_qp + c->rx_qp_state +
				    c->rx_forward_lost + c->rx_park_lost + c->qkey_errors +
				    c->no_receive + c->unreliable_drops,
	};

	for (struct xd_tap *t = w->taps; t; t = t->next) {
		for (int i = 0; i < XR_CAPTURE_EVENTS; i++)
			__atomic_store_n(&t->shared->events[i], events[i], __ATOMIC_RELAXED);
		xd_tap_prefetch(t);
	}
}
