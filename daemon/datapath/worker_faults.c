// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Applies injected faults to received and sent frames. */
#include "delay.h"
#include "frame.h"
#include "worker_internal.h"

/* Returns true if the frame continues now, unchanged or damaged. */
static bool apply(struct xd_worker *w, uint32_t direction, struct xt_frame *f)
{
	struct xd_fault_action a;

	if (w->fault.config.direction & XR_FAULT_MADS && !xd_frame_is_cm_mad(f))
		return true;
	a = xd_fault_next(&w->fault);
	if (a.copies != 1 || a.flips || a.delay_ns[0])
		xd_count(&w->stats.faults, 1);
	for (uint32_t i = 1; i < a.copies; i++)
		xd_delay_add(w->delay, direction, w->now + a.delay_ns[i], f);
	if (a.flips)
		xd_fault_damage(&a, f);
	if (a.copies && a.delay_ns[0])
		xd_delay_add(w->delay, direction, w->now + a.delay_ns[0], f);
	return a.copies && !a.delay_ns[0];
}

unsigned int xd_worker_rx_faults(struct xd_worker *w, unsigned int n)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n; i++)
		if (apply(w, XR_FAULT_RX, &w->frames[i]))
			w->frames[kept++] = w->frames[i];
	return kept;
}

bool xd_worker_tx_fault(struct xd_worker *w, struct xt_frame *f)
{
	return !xd_fault_on(&w->fault, XR_FAULT_TX) || apply(w, XR_FAULT_TX, f);
}

static void send_copy(struct xd_worker *w, const struct xt_frame *from)
{
	struct xt_frame to;

	if (!xd_xsk_tx_get(w->xsk, from->len, &to))
		return;
	xd_frame_fill(&to, from->seg[0].data);
	to.meta = from->meta;
	if (xd_worker_captures(w))
		xd_worker_capture_tx(w, &to);
	xd_xsk_tx_put(w->xsk, &to);
}

void xd_worker_release_delayed(struct xd_worker *w)
{
	struct xt_frame f;

	while (xd_delay_due(w->delay, XR_FAULT_RX, w->now, &f))
		xt_engine_rx(w->engine, &f, 1, w->now);
	while (xd_delay_due(w->delay, XR_FAULT_TX, w->now, &f))
		send_copy(w, &f);
}
