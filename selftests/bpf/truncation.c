// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Generated rows: frames that end after every possible number of bytes, for every kind of header.
 * First only the frame is cut, so that the IP length is wrong. Then the IP and UDP lengths are
 * shortened, too, with and without Ethernet padding.
 */
#include <stdio.h>
#include <string.h>

#include "rows.h"
#include "selftests/lib/tap.h"
#include "suites.h"

/* Together they have every extended header, alone and behind others. */
static const struct {
	const char *name;
	uint8_t opcode;
} shapes[] = {
	{ "SEND", RC(SEND_ONLY) },
	{ "SEND with immediate", RC(SEND_ONLY_IMM) },
	{ "SEND with invalidate", RC(SEND_ONLY_INV) },
	{ "WRITE with immediate", RC(WRITE_ONLY_IMM) },
	{ "READ request", RC(READ_REQUEST) },
	{ "READ response", RC(READ_RESP_ONLY) },
	{ "atomic", RC(CMP_SWAP) },
	{ "atomic ACK", RC(ATOMIC_ACK) },
	{ "FLUSH", RC(FLUSH) },
	{ "UD SEND with immediate", UD(SEND_ONLY_IMM) },
	{ "XRC WRITE with immediate", XRC(WRITE_ONLY_IMM) },
	{ "XRC atomic", XRC(FETCH_ADD) },
	{ "CNP", XR_OPCODE_CNP },
};

static enum xr_reason reason_when_cut(const struct frame *f, uint32_t len)
{
	if (len < f->ip)
		return XR_TRUNC_ETH;
	if (len < f->udp)
		return XR_TRUNC_IP;
	return len < f->bth ? XR_TRUNC_UDP : XR_IP_LEN;
}

/* The kernel runs the program for frames of at least 14 bytes, an Ethernet header. */
static unsigned cut_frames(struct fixture *f, struct spec spec, bool *ok)
{
	static struct frame whole, frame;
	unsigned len;

	frame_build(&spec, &whole);
	for (len = 14; len < whole.len; len++) {
		enum xr_reason reason = reason_when_cut(&whole, len);

		spec.cut_to = len;
		frame_build(&spec, &frame);
		if (run_frame(f, &frame, reason == XR_IP_LEN ? XDP_DROP : XDP_PASS, reason))
			continue;
		printf("# cut to %u of %u bytes\n", len, whole.len);
		*ok = false;
	}
	return whole.len - 14;
}

/* Reason for a datagram of len bytes. The payload is empty, or cut (CNP). */
static enum xr_reason reason_when_short(const struct frame *f, uint32_t len)
{
	if (len < f->ext)
		return XR_TRUNC_BTH;
	if (len < f->payload)
		return XR_TRUNC_EXT;
	return len < (uint32_t)f->payload + XR_ICRC_LEN ? XR_TRUNC_ICRC : XR_BAD_LENGTH;
}

static unsigned shorten_packets(struct fixture *f, struct spec spec, unsigned padded_to, bool *ok)
{
	static struct frame whole, frame;
	unsigned len;

	if (spec.opcode != XR_OPCODE_CNP)
		spec.payload = EMPTY;
	spec.dma_len = EMPTY;
	frame_build(&spec, &whole);
	spec.padded_to = padded_to;
	for (len = whole.bth; len < whole.len; len++) {
		spec.short_by = whole.len - len;
		frame_build(&spec, &frame);
		if (run_frame(f, &frame, XDP_DROP, reason_when_short(&whole, len)))
			continue;
		printf("# shortened to %u of %u bytes\n", len, whole.len);
		*ok = false;
	}
	return whole.len - whole.bth;
}

static void test_shape(struct fixture *f, const char *name, struct spec spec)
{
	bool cut = true, shortened = true, padded = true;
	unsigned n;

	n = cut_frames(f, spec, &cut);
	TAP_OK(cut, "%s, IPv%u, %u tags: frame cut to each of %u lengths", name, spec.v6 ? 6 : 4,
	       spec.tags, n);
	n = shorten_packets(f, spec, 0, &shortened);
	TAP_OK(shortened, "%s, IPv%u, %u tags: %u shorter packets", name, spec.v6 ? 6 : 4,
	       spec.tags, n);
	shorten_packets(f, spec, 256, &padded);
	TAP_OK(padded, "%s, IPv%u, %u tags: %u shorter packets, padded", name, spec.v6 ? 6 : 4,
	       spec.tags, n);
}

void test_truncation(struct fixture *f)
{
	unsigned i, tags, v6;

	/* one shape with all combinations of IP version and VLAN tags, the others with a few */
	for (v6 = 0; v6 < 2; v6++)
		for (tags = 0; tags < 3; tags++)
			test_shape(f, shapes[0].name,
				   (struct spec){ OP(shapes[0].opcode), .v6 = v6, .tags = tags });
	for (i = 1; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (v6 = 0; v6 < 2; v6++)
			test_shape(f, shapes[i].name,
				   (struct spec){ OP(shapes[i].opcode), .v6 = v6, .tags = i % 3 });
}
