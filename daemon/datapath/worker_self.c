// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Frames from a QP of this device to another one, where faults or multicast groups exclude loopback
 * in the engine: they wait for the next round, and are received as if the network had carried them.
 */
#include <xroce/parse.h>

#include "daemon/faults/delay_queue.h"
#include "worker_internal.h"

/* Datagrams of multicast groups are for members of this device, and for others. */
static bool is_for_group(const struct xt_frame *f)
{
	return f->seg[0].data[0] & 1; /* Ethernet address */
}

bool xd_worker_send_self(struct xd_worker *w, const struct xt_frame *f)
{
	xd_delay_add(w->self, XD_FAULT_RX, w->now, XD_FAULT_NO_RULE, f);
	w->self_full = !xd_delay_has_room(w->self);
	return !is_for_group(f);
}

/* Fills in the metadata that the XDP program writes. */
static enum xr_reason worker_self_parse(struct xt_frame *f)
{
	struct xr_cursor c = {
		.pos = f->seg[0].data,
		.end = f->seg[0].data + f->len,
		.left = f->len,
	};
	struct xr_outer outer;
	struct xr_packet p = { 0 };

	XR_REQUIRE(xr_parse_network(&c, &p, &outer));
	XR_REQUIRE(xr_parse_transport(&c, &p, &outer));
	f->meta = (struct xr_meta){
		.magic = XR_META_MAGIC,
		.reason = XR_OK,
		.ip_version = p.ip_version,
		.ip_off = p.ip_off,
		.bth_off = p.bth_off,
		.payload_off = p.payload_off,
		.payload_len = p.payload_len,
		.qpn = p.qpn,
	};
	return XR_OK;
}

bool xd_worker_receive_self(struct xd_worker *w)
{
	unsigned int n = 0;
	struct xt_frame f;

	while (n < XD_BATCH && xd_delay_due(w->self, XD_FAULT_RX, w->now, &f)) {
		n++;
		w->self_full = false;
		if (worker_self_parse(&f) != XR_OK ||
		    is_for_group(&f) != (f.meta.qpn == XR_MULTICAST_QPN))
			continue;
		f.queue = (uint8_t)w->index;
		if (xd_worker_rx_fault(w, &f))
			xt_engine_rx(w->engine, &f, 1, w->now);
	}
	return n;
}
