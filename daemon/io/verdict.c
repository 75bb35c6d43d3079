// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "verdict.h"

#include <xroce/parse.h>

static enum xr_reason parse(const uint8_t *headers, uint32_t copied, uint32_t len,
			    struct xr_packet *p)
{
	struct xr_cursor c = { .pos = headers, .end = headers + copied, .left = len };
	struct xr_outer outer;

	XR_REQUIRE(xr_parse_network(&c, p, &outer));
	return xr_parse_transport(&c, p, &outer);
}

bool xd_verdict(struct xd_verdict *v, const uint8_t *headers, uint32_t copied, uint32_t len,
		struct xr_meta *meta)
{
	struct xr_packet p = { 0 };
	enum xr_reason reason = parse(headers, copied, len, &p);

	v->stat[reason].packets++;
	v->stat[reason].bytes += len;
	*meta = (struct xr_meta){
		.magic = XR_META_MAGIC,
		.reason = reason,
		.ip_version = p.ip_version,
		.ip_off = p.ip_off,
		.bth_off = p.bth_off,
		.payload_off = p.payload_off,
		.payload_len = p.payload_len,
		.qpn = p.qpn,
	};
	return reason == XR_OK;
}
