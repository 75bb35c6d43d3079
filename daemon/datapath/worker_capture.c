// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Captures packets of workers: received, sent; and the events that a capture can wait for. */
#include "worker_internal.h"

#include "daemon/capture/capture.h"

void xd_workers_capture(struct xd_workers *ws, struct xd_capture *c)
{
	for (uint32_t i = 0; i < ws->count && i < c->rings; i++) {
		struct xd_worker *w = ws->worker[i];

		xd_worker_pause(ws, i);
		xd_taps_add(&w->taps, &c->tap[i]);
		xd_worker_capture_round(w);
		xt_engine_show(w->engine, xd_taps_local_len(w->taps));
		xd_worker_resume_no_wake(ws, i);
	}
}

void xd_workers_end_capture(struct xd_workers *ws, struct xd_capture *c)
{
	for (uint32_t i = 0; i < ws->count && i < c->rings; i++) {
		struct xd_worker *w = ws->worker[i];

		xd_worker_pause(ws, i);
		xd_taps_remove(&w->taps, &c->tap[i]);
		xt_engine_show(w->engine, xd_taps_local_len(w->taps));
		xd_worker_resume_no_wake(ws, i);
	}
}

void xd_worker_capture_rx(struct xd_worker *w, unsigned int n)
{
	for (unsigned int i = 0, run; i < n; i += run) {
		for (run = 1; i + run < n && w->frames[i + run].queue == w->frames[i].queue;)
			run++;
		xd_taps_put_received(w->taps, w->frames[i].queue, &w->frames[i], run);
	}
}

void xd_worker_capture_tx(struct xd_worker *w, const struct xt_frame *f)
{
	xd_taps_put(w->taps, XR_CAPTURE_TX, w->index, f);
}

void xd_worker_capture_local(struct xd_worker *w, const struct xt_frame *f)
{
	xd_taps_put(w->taps, XR_CAPTURE_LOCAL, w->index, f);
}

void xd_worker_capture_round(struct xd_worker *w)
{
	uint64_t events[XR_CAPTURE_EVENTS];

	xd_capture_events(xt_engine_counters(w->engine), events);
	for (struct xd_tap *t = w->taps; t; t = t->next) {
		xd_tap_set_events(t, events);
		xd_tap_prefetch(t);
	}
}
