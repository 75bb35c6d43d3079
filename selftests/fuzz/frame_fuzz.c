// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The parser, the ICRC and the UDP checksum, with frames in several segments and with wrong
 * metadata.
 *
 * Input: one byte, 8 bytes of metadata, then the frame. Bits of the first byte:
 *   1:0  number of segments - 1
 *   2    also check the ICRC with the metadata of the input
 *   3    leave the IPv4 header checksum of an untagged frame as it is
 */
#include "daemon/transport/wire/checksum.h"
#include "daemon/transport/wire/icrc.h"
#include "input.h"
#include "selftests/lib/ipv4.h"
#include "selftests/lib/parse.h"

struct cut {
	struct xt_frame frame;
	uint8_t *block[XT_MAX_SEGS];
};

/* Copies each segment to memory of exactly its length, so that overruns are detected. */
static void cut_frame(struct cut *c, const uint8_t *data, uint32_t len, unsigned segments)
{
	uint32_t off = 0, n;

	memset(c, 0, sizeof(*c));
	c->frame.len = len;
	for (unsigned i = 0; i < segments; i++) {
		n = len - off;
		if (i + 1 < segments)
			n = i || n < XT_MAX_HEADERS ? n / 2 : XT_MAX_HEADERS;
		if (!i && n < XT_MAX_HEADERS)
			n = len - off < XT_MAX_HEADERS ? len - off : XT_MAX_HEADERS;
		c->block[i] = malloc(n ? n : 1);
		if (n)
			memcpy(c->block[i], data + off, n);
		c->frame.seg[c->frame.nseg++] = (struct xt_seg){ c->block[i], n };
		off += n;
	}
	MUST(off == len);
}

static void drop_frame(struct cut *c)
{
	for (unsigned i = 0; i < XT_MAX_SEGS; i++)
		free(c->block[i]);
}

static void check_meta(const struct xt_frame *f)
{
	const struct xr_meta *m = &f->meta;
	const uint8_t *bth = xt_bth(f);
	uint16_t flags = xr_opcodes[bth[0]].flags;

	MUST(m->magic == XR_META_MAGIC && m->reason == XR_OK);
	MUST(m->ip_version == 4 || m->ip_version == 6);
	MUST(flags);
	MUST(m->payload_off == m->bth_off + XR_BTH_HLEN + XR_EXT_LEN(flags));
	MUST(m->payload_off <= f->seg[0].len);
	MUST(m->payload_len <= 4096);
	MUST(m->payload_off + m->payload_len + xt_pad_count(bth) + XR_ICRC_LEN <= f->len);
	MUST(m->qpn <= XR_QPN_MASK);
}

/* xt_icrc_seal() stores a valid ICRC in a frame without padding, in one segment or in three. */
static void check_seal(const uint8_t *data, const struct xt_frame *parsed)
{
	uint32_t len = parsed->meta.payload_off + parsed->meta.payload_len +
		       xt_pad_count(xt_bth(parsed)) + XR_ICRC_LEN;
	struct cut one, many;

	cut_frame(&one, data, len, 1);
	cut_frame(&many, data, len, 3);
	xt_icrc_seal(one.frame.seg, 1, parsed->meta.ip_off, parsed->meta.bth_off);
	xt_icrc_seal(many.frame.seg, 3, parsed->meta.ip_off, parsed->meta.bth_off);
	MUST(parse_frame(&one.frame) == XR_OK && xt_icrc_ok(&one.frame));
	MUST(parse_frame(&many.frame) == XR_OK && xt_icrc_ok(&many.frame));
	MUST(!memcmp(&one.frame.meta, &many.frame.meta, sizeof(struct xr_meta)));
	MUST(xt_udp_checksum_ok(&one.frame) == xt_udp_checksum_ok(&many.frame));
	one.frame.seg[0].data[one.frame.meta.bth_off + 9] ^= 1;
	MUST(!xt_icrc_ok(&one.frame));
	drop_frame(&one);
	drop_frame(&many);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream in = { data, size };
	uint8_t how = input_u8(&in);
	static uint8_t bytes[XT_MAX_FRAME + 64];
	struct xr_meta wrong;
	struct cut c;
	uint32_t len;

	memset(&wrong, 0, sizeof(wrong));
	wrong.magic = XR_META_MAGIC;
	wrong.ip_version = 4;
	wrong.ip_off = input_u16(&in);
	wrong.bth_off = input_u16(&in);
	wrong.payload_off = input_u16(&in);
	wrong.payload_len = input_u16(&in);
	if (in.left > sizeof(bytes))
		return 0;
	len = (uint32_t)in.left;
	input_bytes(&in, bytes, len);
	if (!(how & 8))
		ipv4_seal_frame(bytes, len);
	cut_frame(&c, bytes, len, 1 + (how & 3));
	if (how & 4) {
		c.frame.meta = wrong;
		xt_icrc_ok(&c.frame);
		memset(&c.frame.meta, 0, sizeof(c.frame.meta));
	}
	if (parse_frame(&c.frame) == XR_OK) {
		check_meta(&c.frame);
		xt_icrc_ok(&c.frame);
		check_seal(bytes, &c.frame);
	}
	drop_frame(&c);
	return 0;
}
