/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packet capture in a direct context. The page (struct xr_direct_page) has the captures, and the
 * host writes packets to their rings in the view, at the same points as a worker of the daemon, by
 * the same functions (daemon/capture/capture.h). All functions but open and close are for the
 * holder of the engine's lock.
 */
#ifndef XP_HOST_CAPTURES_H
#define XP_HOST_CAPTURES_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/view.h>

#include "daemon/transport/transport.h"

struct xp_host;
struct xd_capture;
struct xd_tap;

struct xp_captures {
	uint8_t *rings;	     /* XR_CAPTURE_MAX rooms of the view; NULL: none */
	bool any;	     /* there is a capture */
	struct xd_tap *taps; /* of those that have begun; NULL: none */
	struct xp_capture {
		uint32_t number;
		bool waits;			  /* until the client has mapped the ring */
		struct xd_capture *capture;	  /* NULL: nothing is written (any more) */
		uint64_t base[XR_CAPTURE_EVENTS]; /* numbers of events when it began */
	} at[XR_CAPTURE_MAX];
};

/* view: its descriptor, which stays open. Without rings, captures do not see the context. */
void xp_captures_open(struct xp_host *h, int view);
void xp_captures_close(struct xp_host *h);

/* Begins and ends captures as the page says. */
void xp_captures_load(struct xp_host *h, const struct xr_direct_page *page);
void xp_captures_rx(struct xp_host *h, unsigned int n);
void xp_captures_tx(struct xp_host *h, const struct xt_frame *f);
/* show() of struct xt_ops */
void xp_captures_show(void *ctx, const struct xt_frame *f);
/* At the end of a round, if there is a capture: packets that were refused, events */
void xp_captures_round(struct xp_host *h);

#endif /* XP_HOST_CAPTURES_H */
