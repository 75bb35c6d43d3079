/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parser of include/xroce/parse.h in user space: gives frames the metadata that the XDP program
 * would give them.
 */
#ifndef TEST_PARSE_H
#define TEST_PARSE_H

#include <xroce/parse.h>

#include "daemon/transport/transport.h"

/*
 * Fills frame->meta and returns XR_OK, or returns the reason why the parser refuses the frame. The
 * first segment must hold all headers, as in frames for the engine.
 */
__attribute__((unused)) static enum xr_reason parse_frame(struct xt_frame *frame)
{
	const struct xt_seg *first = &frame->seg[0];
	uint32_t linear = first->len < frame->len ? first->len : frame->len;
	struct xr_cursor c = {
		.pos = first->data,
		.end = first->data + linear,
		.left = frame->len,
	};
	struct xr_outer outer;
	struct xr_packet pkt = { 0 };

	XR_REQUIRE(xr_parse_network(&c, &pkt, &outer));
	XR_REQUIRE(xr_parse_transport(&c, &pkt, &outer));
	if (pkt.payload_off > linear)
		return XR_TRUNC_EXT;
	frame->meta = (struct xr_meta){
		.magic = XR_META_MAGIC,
		.reason = XR_OK,
		.ip_version = pkt.ip_version,
		.ip_off = pkt.ip_off,
		.bth_off = pkt.bth_off,
		.payload_off = pkt.payload_off,
		.payload_len = pkt.payload_len,
		.qpn = pkt.qpn,
	};
	return XR_OK;
}

/*
 * True if the parser can return the reason. Other reasons come from tables or from the host's
 * state.
 */
static inline bool is_parser_reason(enum xr_reason reason)
{
	return reason >= XR_TRUNC_ETH && reason <= XR_BAD_PAD && reason != XR_NOT_OUR_ADDR;
}

/*
 * Returns the bytes from the start of the BTH to an extended header (XR_EXT_*) of an opcode with
 * these flags.
 */
static inline unsigned ext_off(uint16_t flags, uint16_t ext)
{
	return XR_BTH_HLEN + XR_EXT_LEN(flags & (ext - 1));
}

#endif /* TEST_PARSE_H */
