// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The rings that one engine fills, of all captures: of a worker, or of a direct program. With the
 * lock of the engine.
 */
#include <time.h>

#include "capture.h"

void xd_taps_add(struct xd_tap **taps, struct xd_tap *t)
{
	t->next = *taps;
	*taps = t;
}

void xd_taps_remove(struct xd_tap **taps, const struct xd_tap *t)
{
	while (*taps && *taps != t)
		taps = &(*taps)->next;
	if (*taps)
		*taps = t->next;
}

uint32_t xd_taps_local_len(const struct xd_tap *taps)
{
	uint32_t len = 0;

	for (const struct xd_tap *t = taps; t; t = t->next)
		if ((!t->filter->types || t->filter->types & XR_CAPTURE_LOCAL) && t->snap_len > len)
			len = t->snap_len;
	return len;
}

static uint64_t taps_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void xd_taps_put(struct xd_tap *taps, enum xr_capture_type type, uint32_t queue,
		 const struct xt_frame *f)
{
	struct xd_packet p = { .frame = f, .type = type, .queue = queue };

	for (struct xd_tap *t = taps; t; t = t->next) {
		if (!xd_tap_selects(t, type, f))
			continue;
		if (!p.time)
			p.time = taps_now();
		xd_tap_put(t, &p);
	}
}

void xd_taps_put_received(struct xd_tap *taps, uint32_t queue, const struct xt_frame *frames,
			  uint32_t n)
{
	const struct xd_packet first = {
		.frame = frames, .type = XR_CAPTURE_RX, .queue = queue, .time = taps_now()
	};

	for (struct xd_tap *t = taps; t; t = t->next)
		xd_tap_put_batch(t, &first, n);
}

void xd_capture_events(const struct xt_counters *c, uint64_t events[XR_CAPTURE_EVENTS])
{
	events[XR_CAPTURE_RETRY] = c->tx_retransmits + c->timeouts;
	events[XR_CAPTURE_NAK] = xt_counters_naks(c);
	events[XR_CAPTURE_ERROR] = c->completion_errors;
	events[XR_CAPTURE_DROP] = c->rx_icrc_errors + c->rx_udp_checksum_errors + c->rx_malformed +
				  c->rx_no_qp + c->rx_qp_state + c->rx_forward_lost +
				  c->rx_held_lost + c->qkey_errors + c->no_receive +
				  c->unreliable_drops;
}

void xd_tap_set_events(struct xd_tap *t, const uint64_t events[XR_CAPTURE_EVENTS])
{
	for (int i = 0; i < XR_CAPTURE_EVENTS; i++)
		__atomic_store_n(&t->shared->events[i], events[i], __ATOMIC_RELAXED);
}
