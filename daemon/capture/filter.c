// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Selects packets by the filter of a capture. */
#include <string.h>

#include <xroce/gid.h>

#include "capture.h"

static bool has_ip(const struct xt_frame *f, uint32_t len)
{
	return f->meta.ip_off && f->meta.ip_off + len <= f->seg[0].len;
}

/* Stores the address of the peer. Returns false if the headers are not in the first segment. */
static bool peer_of(const struct xt_frame *f, bool sent, struct xr_addr *peer)
{
	const uint8_t *ip = f->seg[0].data + f->meta.ip_off;
	__be32 addr;

	if (f->meta.ip_version == 4) {
		if (!has_ip(f, XR_IPV4_HLEN))
			return false;
		memcpy(&addr, ip + (sent ? 16 : 12), sizeof(addr));
		xr_gid_set_ipv4(peer, addr);
		return true;
	}
	if (!has_ip(f, XR_IPV6_HLEN))
		return false;
	memcpy(peer->raw, ip + (sent ? 24 : 8), sizeof(peer->raw));
	return true;
}

static bool selects_peer(const struct xr_capture_filter *f, bool sent, const struct xt_frame *frame)
{
	struct xr_addr peer;

	if (!peer_of(frame, sent, &peer))
		return false;
	for (uint32_t i = 0; i < f->peers; i++)
		if (!memcmp(&peer, &f->peer[i], sizeof(peer)))
			return true;
	return false;
}

static bool selects_qpn(const struct xr_capture_filter *f, uint32_t qpn)
{
	for (uint32_t i = 0; i < f->qpns; i++)
		if (f->qpn[i] == qpn)
			return true;
	return false;
}

/* Returns the destination QP of a packet that the daemon has built. */
static uint32_t filter_dest_of(const struct xt_frame *f)
{
	const uint8_t *bth = f->seg[0].data + f->meta.bth_off;

	return bth[5] << 16 | bth[6] << 8 | bth[7];
}

static bool selects_opcode(const struct xr_capture_filter *f, const struct xt_frame *frame)
{
	uint8_t opcode;

	if (!(f->opcodes[0] | f->opcodes[1] | f->opcodes[2] | f->opcodes[3]))
		return true;
	if (!frame->meta.bth_off || frame->meta.bth_off >= frame->seg[0].len)
		return false;
	opcode = frame->seg[0].data[frame->meta.bth_off];
	return f->opcodes[opcode / 64] >> opcode % 64 & 1;
}

bool xd_capture_selects(const struct xr_capture_filter *f, enum xr_capture_type type,
			const struct xt_frame *frame)
{
	bool sent = type == XR_CAPTURE_TX || type == XR_CAPTURE_LOCAL;

	if (f->types && !(f->types & type))
		return false;
	if (f->reasons && (sent || !(f->reasons >> (frame->meta.reason & 63) & 1)))
		return false;
	if (f->qpns && !selects_qpn(f, frame->meta.qpn) &&
	    !(type == XR_CAPTURE_LOCAL && selects_qpn(f, filter_dest_of(frame))))
		return false;
	return selects_opcode(f, frame) && (!f->peers || selects_peer(f, sent, frame));
}
