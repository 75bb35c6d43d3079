// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <string.h>

#include <netinet/in.h>

#include <isa-l/crc.h>
#include <linux/if_ether.h>

#include "wire.h"

/* ---- opcodes ------------------------------------------------------------------- */

#define IN_CLASS(class, in, op, flags, classes)                                                    \
	[XR_CLASS_##class | XR_OP_##op] = (classes) & (in) ? (flags) : 0

#define XRC_FLAGS(flags) ((flags)&XR_OPF_REQUEST ? (flags) | XR_EXT_XRCETH : (flags))

const uint16_t xt_opcode_flags[256] = {
#define X(op, flags, classes)                                                                      \
	IN_CLASS(RC, XR_IN_RC, op, flags, classes), IN_CLASS(UC, XR_IN_UC, op, flags, classes),    \
		IN_CLASS(UD, XR_IN_UD, op, (flags) | XR_EXT_DETH, classes),                        \
		IN_CLASS(XRC, XR_IN_XRC, op, XRC_FLAGS(flags), classes),
	XR_OPERATIONS(X)
#undef X
		[XR_OPCODE_CNP] = XR_OPF_PAYLOAD | XR_OPF_START | XR_OPF_END,
};

/* By bit number of XR_EXT_*, which is also the order on the wire */
static const uint8_t ext_len[] = {
	sizeof(struct xr_xrceth),	sizeof(struct xr_deth),	     sizeof(struct xr_feth),
	sizeof(struct xr_reth),		sizeof(struct xr_atomiceth), sizeof(struct xr_aeth),
	sizeof(struct xr_atomicacketh), sizeof(struct xr_immdt),     sizeof(struct xr_ieth),
};

unsigned xt_ext_len(uint16_t flags)
{
	unsigned exts = flags & XR_OPF_EXT_MASK, len = 0;

	for (; exts; exts &= exts - 1)
		len += ext_len[__builtin_ctz(exts)];
	return len;
}

unsigned xt_ext_off(uint16_t flags, uint16_t ext)
{
	return XT_BTH_LEN + xt_ext_len(flags & (ext - 1));
}

/* ---- parsing ------------------------------------------------------------------- */

struct cursor {
	const uint8_t *data;
	unsigned len; /* of the first piece */
	unsigned off;
};

static unsigned be16_at(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

/* The bytes at the cursor, which moves on; NULL where there are fewer. */
static const uint8_t *take(struct cursor *c, unsigned n)
{
	const uint8_t *p = c->data + c->off;

	if (c->len - c->off < n)
		return NULL;
	c->off += n;
	return p;
}

static bool is_vlan(unsigned proto)
{
	return proto == ETH_P_8021Q || proto == ETH_P_8021AD;
}

/* Returns XR_OK with the ethertype behind the tags. */
static enum xr_reason parse_ethernet(struct cursor *c, unsigned *proto)
{
	const uint8_t *p = take(c, XT_ETH_LEN);
	int tags;

	if (!p)
		return XR_TRUNC_ETH;
	*proto = be16_at(p + 12);
	for (tags = 0; is_vlan(*proto); tags++) {
		if (tags == 2)
			return XR_VLAN_DEPTH;
		p = take(c, XT_VLAN_LEN);
		if (!p)
			return XR_TRUNC_ETH;
		*proto = be16_at(p + 2);
	}
	return *proto == ETH_P_IP || *proto == ETH_P_IPV6 ? XR_OK : XR_NOT_IP;
}

/* *len: what the header says that follows it */
static enum xr_reason parse_ipv4(struct cursor *c, int *len)
{
	const uint8_t *ip = take(c, XT_IPV4_LEN);

	if (!ip)
		return XR_TRUNC_IP;
	if (ip[0] >> 4 != 4)
		return XR_IP_VERSION;
	if (ip[9] != IPPROTO_UDP)
		return XR_NOT_UDP;
	if ((ip[0] & 0xf) != 5)
		return XR_IP_OPTIONS;
	if (be16_at(ip + 6) & 0x3fff) /* more fragments, or not the first */
		return XR_IP_FRAGMENT;
	*len = (int)(be16_at(ip + 2) - XT_IPV4_LEN);
	return XR_OK;
}

static enum xr_reason parse_ipv6(struct cursor *c, int *len)
{
	const uint8_t *ip = take(c, XT_IPV6_LEN);

	if (!ip)
		return XR_TRUNC_IP;
	if (ip[0] >> 4 != 6)
		return XR_IP_VERSION;
	if (ip[6] != IPPROTO_UDP)
		return XR_NOT_UDP;
	*len = be16_at(ip + 4);
	return XR_OK;
}

/* ip_len: bytes after the IP header as it says; left: bytes after it in the frame */
static enum xr_reason parse_udp(struct cursor *c, int ip_len, unsigned left)
{
	const uint8_t *udp = take(c, XT_UDP_LEN);

	if (!udp)
		return XR_TRUNC_UDP;
	if (be16_at(udp + 2) != XR_UDP_PORT)
		return XR_NOT_ROCE_PORT;
	if (ip_len < (int)XT_UDP_LEN || (unsigned)ip_len > left)
		return XR_IP_LEN;
	/* a shorter UDP datagram would leave the ICRC's place to argument */
	return be16_at(udp + 4) == (unsigned)ip_len ? XR_OK : XR_UDP_LEN;
}

static bool is_path_mtu(unsigned len)
{
	return len >= 256 && len <= 4096 && !(len & (len - 1));
}

/* What an opcode says about its payload without knowing the QP's path MTU. */
static enum xr_reason check_payload(uint8_t opcode, uint16_t flags, unsigned len, unsigned pad)
{
	bool last = (flags & (XR_OPF_START | XR_OPF_END)) == XR_OPF_END;

	if (flags & XR_OPF_PAYLOAD ? len > 4096 : len)
		return XR_BAD_LENGTH;
	if (flags & XR_OPF_FULL_MTU) {
		if (pad)
			return XR_BAD_PAD;
		return is_path_mtu(len) ? XR_OK : XR_BAD_LENGTH;
	}
	if (last && !len)
		return XR_BAD_LENGTH;
	if (opcode == XR_OPCODE_CNP)
		return len == XT_CNP_PAYLOAD ? XR_OK : XR_BAD_LENGTH;
	if ((opcode & ~XR_CLASS_MASK) == XR_OP_ATOMIC_WRITE)
		return len == XR_ATOMIC_LEN ? XR_OK : XR_BAD_LENGTH;
	return XR_OK;
}

/* left: bytes from the BTH to the end of the UDP datagram */
static enum xr_reason parse_transport(struct cursor *c, unsigned left, struct xr_meta *meta)
{
	const uint8_t *bth;
	unsigned ext, pad;
	uint16_t flags;

	if (left < XT_BTH_LEN || !(bth = take(c, XT_BTH_LEN)))
		return XR_TRUNC_BTH;
	if (bth[1] & XR_BTH_TVER_MASK)
		return XR_BTH_VERSION;
	flags = xt_flags_of(bth[0]);
	if (!flags)
		return XR_BAD_OPCODE;
	ext = xt_ext_len(flags);
	left -= XT_BTH_LEN;
	if (left < ext || !take(c, ext))
		return XR_TRUNC_EXT;
	left -= ext;
	pad = xt_pad_count(bth);
	if (left < pad + XR_ICRC_LEN)
		return XR_TRUNC_ICRC;
	if (left & 3)
		return XR_BAD_LENGTH;
	meta->payload_off = c->off;
	meta->payload_len = left - XR_ICRC_LEN - pad;
	meta->qpn = bth[5] << 16 | be16_at(bth + 6);
	return check_payload(bth[0], flags, meta->payload_len, pad);
}

enum xr_reason xt_parse(struct xt_frame *frame)
{
	struct cursor c = { .data = frame->seg[0].data, .len = frame->seg[0].len };
	struct xr_meta meta = { .magic = XR_META_MAGIC };
	enum xr_reason why;
	unsigned proto;
	int ip_len;

	if (c.len > frame->len)
		c.len = frame->len;
	why = parse_ethernet(&c, &proto);
	if (why != XR_OK)
		return why;
	meta.ip_off = c.off;
	meta.ip_version = proto == ETH_P_IP ? 4 : 6;
	why = meta.ip_version == 4 ? parse_ipv4(&c, &ip_len) : parse_ipv6(&c, &ip_len);
	if (why != XR_OK)
		return why;
	why = parse_udp(&c, ip_len, frame->len - c.off);
	if (why != XR_OK)
		return why;
	meta.bth_off = c.off;
	why = parse_transport(&c, ip_len - XT_UDP_LEN, &meta);
	if (why != XR_OK)
		return why;
	meta.reason = XR_OK;
	frame->meta = meta;
	return XR_OK;
}

/* ---- ICRC ---------------------------------------------------------------------- */

/* CRC of the 8 bytes of ones that stand for the local route header which RoCE does not have */
#define ICRC_START 0x2144df1cu
/* Bytes that are copied for masking: all headers, and small packets whole */
#define ICRC_COPY 128

/* Sets to ones what may change on the way, in a copy that starts at the IP header. */
static void mask_headers(uint8_t *h, unsigned bth)
{
	if (h[0] >> 4 == 4) {
		h[1] = 0xff;	      /* type of service */
		h[8] = 0xff;	      /* time to live */
		h[10] = h[11] = 0xff; /* header checksum */
	} else {
		h[0] |= 0x0f; /* traffic class, flow label */
		h[1] = h[2] = h[3] = 0xff;
		h[7] = 0xff; /* hop limit */
	}
	h[bth - 2] = h[bth - 1] = 0xff; /* UDP checksum */
	h[bth + 4] = 0xff;		/* FECN, BECN, reserved */
}

/* The ICRC over the bytes [ip_off, end) of a frame. */
static uint32_t icrc_until(const struct xt_seg *seg, unsigned nseg, unsigned ip_off,
			   unsigned bth_off, unsigned end)
{
	uint8_t headers[ICRC_COPY];
	unsigned copied, in_seg = seg[0].len, off = 0, n;
	uint32_t crc;

	copied = (in_seg < end ? in_seg : end) - ip_off;
	if (copied > sizeof(headers))
		copied = sizeof(headers);
	memcpy(headers, seg[0].data + ip_off, copied);
	mask_headers(headers, bth_off - ip_off);
	crc = crc32_gzip_refl(ICRC_START, headers, copied);

	off = ip_off + copied;
	end -= off;
	for (; nseg && end; nseg--, seg++, off = 0) {
		n = seg->len - off;
		if (n > end)
			n = end;
		if (n)
			crc = crc32_gzip_refl(crc, seg->data + off, n);
		end -= n;
	}
	return crc;
}

static unsigned total_len(const struct xt_seg *seg, unsigned nseg)
{
	unsigned len = 0;

	for (; nseg; nseg--, seg++)
		len += seg->len;
	return len;
}

uint32_t xt_icrc(const struct xt_seg *seg, unsigned nseg, unsigned ip_off, unsigned bth_off)
{
	unsigned len = total_len(seg, nseg);

	return icrc_until(seg, nseg, ip_off, bth_off, len - XR_ICRC_LEN);
}

/* The byte at an offset of a frame in pieces */
static uint8_t *byte_at(const struct xt_seg *seg, unsigned off)
{
	for (; off >= seg->len; seg++)
		off -= seg->len;
	return seg->data + off;
}

void xt_icrc_seal(const struct xt_seg *seg, unsigned nseg, unsigned ip_off, unsigned bth_off)
{
	unsigned i, end = total_len(seg, nseg) - XR_ICRC_LEN;
	uint32_t crc = icrc_until(seg, nseg, ip_off, bth_off, end);

	for (i = 0; i < XR_ICRC_LEN; i++, crc >>= 8)
		*byte_at(seg, end + i) = crc & 0xff;
}

/* Metadata come from XDP; wrong ones must not lead out of the frame. */
static bool offsets_fit(const struct xt_frame *frame)
{
	const struct xr_meta *m = &frame->meta;
	unsigned headers = m->bth_off - m->ip_off;

	return frame->nseg && m->bth_off + XT_BTH_LEN <= frame->seg[0].len &&
	       m->ip_off < m->bth_off && headers >= XT_IPV4_LEN + XT_UDP_LEN &&
	       headers <= XT_IPV6_LEN + XT_UDP_LEN && m->payload_off >= m->bth_off + XT_BTH_LEN;
}

bool xt_icrc_ok(const struct xt_frame *frame)
{
	const struct xr_meta *m = &frame->meta;
	uint32_t crc, stored = 0;
	unsigned i, end;

	if (!offsets_fit(frame))
		return false;
	end = m->payload_off + m->payload_len + xt_pad_count(xt_bth(frame));
	if (end + XR_ICRC_LEN > frame->len)
		return false;
	crc = icrc_until(frame->seg, frame->nseg, m->ip_off, m->bth_off, end);
	for (i = 0; i < XR_ICRC_LEN; i++)
		stored |= (uint32_t)*byte_at(frame->seg, end + i) << (8 * i);
	return crc == stored;
}
