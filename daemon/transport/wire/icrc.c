// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <endian.h>
#include <string.h>

#include <xroce/parse.h>

#include "daemon/transport/base/crc.h"
#include "daemon/transport/base/crc_change.h"
#include "icrc.h"

/* CRC of 8 bytes 0xff, which the ICRC covers in place of the local route header (RoCE has none) */
#define ICRC_START 0x2144df1cu
/* IPv4 with all options (injected faults seal such frames, too), UDP and BTH */
#define MAX_MASKED (60 + XR_UDP_HLEN + XR_BTH_HLEN)

/*
 * Sets the fields that may change in transit to ones (IBTA 7.8.1, A17.3.3). h: copy of the headers
 * from the IP header on; bth: offset of the BTH in h
 */
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

/* Returns the ICRC of the bytes [ip_off, end) of a frame. */
static uint32_t icrc_until(const struct xt_seg *seg, unsigned nseg, unsigned ip_off,
			   unsigned bth_off, unsigned end)
{
	unsigned masked = bth_off + XR_BTH_HLEN - ip_off, off = ip_off + masked, n;
	uint8_t headers[MAX_MASKED];
	const uint8_t *data;
	uint32_t crc;

	memcpy(headers, seg[0].data + ip_off, masked);
	mask_headers(headers, bth_off - ip_off);
	crc = xt_crc32(ICRC_START, headers, masked);
	for (end = end > off ? end - off : 0; end; end -= n, seg++, nseg--, off = 0) {
		data = seg->data + off;
		n = seg->len - off;
		/* one call for segments that follow each other in memory takes less time */
		for (; nseg > 1 && n < end && seg[1].data == seg->data + seg->len; seg++, nseg--)
			n += seg[1].len;
		n = n < end ? n : end;
		crc = xt_crc32(crc, data, n);
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

/* Returns the byte at an offset of the frame. */
static uint8_t *icrc_byte_at(const struct xt_seg *seg, unsigned off)
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
		*icrc_byte_at(seg, end + i) = crc & 0xff;
}

/* Returns the ICRC at an offset, which may lie in two segments. */
static uint32_t stored_at(const struct xt_seg *seg, unsigned off)
{
	uint32_t le, crc = 0;

	for (; off >= seg->len; seg++)
		off -= seg->len;
	if (off + sizeof(le) <= seg->len) {
		memcpy(&le, seg->data + off, sizeof(le));
		return le32toh(le);
	}
	for (unsigned i = 0; i < XR_ICRC_LEN; i++)
		crc |= (uint32_t)*icrc_byte_at(seg, off + i) << (8 * i);
	return crc;
}

/*
 * Checks the offsets of the metadata, which is not trusted: IP and UDP headers and BTH must be in
 * the first segment.
 */
static bool offsets_fit(const struct xt_frame *frame)
{
	const struct xr_meta *m = &frame->meta;
	unsigned headers = m->bth_off - m->ip_off;

	return frame->nseg && m->bth_off + XR_BTH_HLEN <= frame->seg[0].len &&
	       m->ip_off < m->bth_off && headers >= XR_IPV4_HLEN + XR_UDP_HLEN &&
	       headers <= XR_IPV6_HLEN + XR_UDP_HLEN && m->payload_off >= m->bth_off + XR_BTH_HLEN;
}

/* Returns the offset of the ICRC of a received frame, 0 if offsets of the metadata are wrong. */
static unsigned icrc_off(const struct xt_frame *frame)
{
	const struct xr_meta *m = &frame->meta;
	unsigned end;

	if (!offsets_fit(frame))
		return 0;
	end = m->payload_off + m->payload_len + xt_pad_count(xt_bth(frame));
	return end + XR_ICRC_LEN > frame->len ? 0 : end;
}

bool xt_frame_fits(const struct xt_frame *frame)
{
	return icrc_off(frame);
}

/* Returns the difference of the ICRC in a frame and the right one. */
static uint32_t difference(const struct xt_frame *frame, unsigned end)
{
	return icrc_until(frame->seg, frame->nseg, frame->meta.ip_off, frame->meta.bth_off, end) ^
	       stored_at(frame->seg, end);
}

bool xt_icrc_ok(const struct xt_frame *frame)
{
	unsigned end = icrc_off(frame);

	return end && !difference(frame, end);
}

/* ---- identification of IPv4 ------------------------------------------------------------------ */

#define ID_OFF 4	   /* in the IPv4 header: two bytes, before flags and fragment offset */
#define ID_OR_DF 0x40ffffu /* the identification and "don't fragment" in these four bytes */

/* Adds a change to the four bytes in the IPv4 header. */
static void change_id(uint8_t *ip, uint32_t change)
{
	struct xr_ipv4 *h = (struct xr_ipv4 *)ip;

	for (int i = 0; i < 4; i++, change >>= 8)
		ip[ID_OFF + i] ^= change & 0xff;
	h->check = 0;
	h->check = (__be16)~xr_ipv4_sum(h);
}

bool xt_icrc_accept(struct xt_frame *frame)
{
	unsigned end = icrc_off(frame), behind = end - frame->meta.ip_off - ID_OFF - 4;
	uint32_t wrong, change;

	if (!end)
		return false;
	wrong = difference(frame, end);
	if (__builtin_expect(!wrong, true))
		return true;
	if (!frame->guessed_id || frame->meta.ip_version != 4 || behind > XT_CRC_BEHIND)
		return false;
	change = xt_crc32_change(wrong, behind);
	if (change & ~ID_OR_DF)
		return false;
	change_id(frame->seg[0].data + frame->meta.ip_off, change);
	return true;
}

void xt_icrc_set_id(const struct xt_frame *frame, uint16_t id)
{
	uint8_t *ip = frame->seg[0].data + frame->meta.ip_off;
	unsigned end = frame->len - XR_ICRC_LEN, i;
	uint32_t change, wrong;

	if (frame->meta.ip_version != 4)
		return;
	change = (uint32_t)(ip[ID_OFF] ^ id >> 8) | (ip[ID_OFF + 1] ^ (id & 0xffu)) << 8;
	if (!change)
		return;
	change_id(ip, change);
	wrong = xt_crc32_difference(change, end - frame->meta.ip_off - ID_OFF - 4);
	for (i = 0; i < XR_ICRC_LEN; i++, wrong >>= 8)
		*icrc_byte_at(frame->seg, end + i) ^= wrong & 0xff;
}
