// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* MADs of the CM engine: fields at their offsets, random bytes, and the header of RDMA IP CM. */

#include "cm_hosts.h"

#define DATA 24 /* offset of the tables of IBTA 12.6 */

static uint64_t seed = 1;

static void fill(void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len--) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		*p++ = seed >> 56;
	}
}

static bool decode(const uint8_t *mad, struct xc_msg *msg)
{
	struct xr_addr peer;

	if (xc_mad_decode(mad, XC_MAD_LEN, msg) != XC_DECODED)
		return false;
	/* The path of a received REQ is that of its receiver. */
	if (msg->kind == XC_REQ) {
		peer = msg->req.path.peer;
		msg->req.path.peer = msg->req.path.local;
		msg->req.path.local = peer;
	}
	return true;
}

/*
 * Decodes a MAD with random fields, encodes the message and decodes that MAD. Both messages must
 * encode to the same bytes, so nothing but reserved bits was lost.
 */
static bool round_trip(enum xc_kind kind)
{
	uint8_t mad[XC_MAD_LEN], once[XC_MAD_LEN], twice[XC_MAD_LEN];
	struct xc_msg msg, again;

	fill(mad, sizeof(mad));
	memcpy(mad, (uint8_t[]){ 1, 7, 2, 3, 0, 0 }, 6);
	mad[16] = 0;
	mad[17] = 0x10 + kind;
	if (!decode(mad, &msg) || msg.kind != kind)
		return false;
	if (kind == XC_REQ && msg.req.transport == XC_OTHER)
		return true;
	xc_mad_encode(once, &msg);
	if (!decode(once, &again))
		return false;
	xc_mad_encode(twice, &again);
	return !memcmp(once, twice, sizeof(once));
}

static void test_round_trips(void)
{
	for (enum xc_kind kind = 0; kind < XC_NUM_KINDS; kind++) {
		bool ok = true;

		for (unsigned i = 0; i < 10000; i++)
			ok = round_trip(kind) && ok;
		TAP_OK(ok, "%s with random fields", xc_kind_name(kind));
	}
}

static void test_random_bytes(void)
{
	uint8_t mad[XC_MAD_LEN];
	struct xc_msg msg;
	unsigned decoded = 0;

	for (unsigned i = 0; i < 100000; i++) {
		fill(mad, sizeof(mad));
		decoded += xc_mad_decode(mad, seed % (XC_MAD_LEN + 1), &msg) == XC_DECODED;
	}
	TAP_OK(!decoded, "random bytes are no message");
}

/* ---- offsets ----------------------------------------------------------------------- */

struct field {
	const char *name;
	struct xc_msg msg;
	unsigned offset; /* from the end of the MAD header */
	uint8_t len;
	uint8_t bytes[4];
};

/* Fields that the captured MADs do not contain, or contain as zero */
/* clang-format off */
static const struct field fields[] = {
	{ "REQ vendor ID", { XC_REQ, .req = { .vendor_id = 0x123456 } }, 5, 3,
	  { 0x12, 0x34, 0x56 } },
	{ "REQ Q_Key", { XC_REQ, .req = { .qkey = 0x12345678 } }, 28, 4,
	  { 0x12, 0x34, 0x56, 0x78 } },
	{ "REQ UC", { XC_REQ, .req = { .transport = XC_UC } }, 43, 1, { 0x02 } },
	{ "REQ XRC", { XC_REQ, .req = { .transport = XC_XRC } }, 43, 1, { 0x06 } },
	{ "REQ XRC, extended type", { XC_REQ, .req = { .transport = XC_XRC } }, 51, 1, { 0x01 } },
	{ "REQ flow control", { XC_REQ, .req = { .flow_control = true } }, 43, 1, { 0x01 } },
	{ "REQ SRQ", { XC_REQ, .req = { .srq = true } }, 51, 1, { 0x08 } },
	{ "REQ flow label, rate", { XC_REQ, .req = { .path.flow_label = 0x12345, .rate = 0x1f } },
	  88, 4, { 0x12, 0x34, 0x50, 0x1f } },
	{ "REQ traffic class, hop limit", { XC_REQ, .req = { .path = { .traffic_class = 0x88,
	  .hop_limit = 1 } } }, 92, 2, { 0x88, 0x01 } },
	{ "REQ SL, subnet local", { XC_REQ, .req = { .path.sl = 5 } }, 94, 1, { 0x58 } },
	{ "REQ LIDs, subnet local", { XC_REQ, .req = { .path.hop_limit = 1 } }, 52, 4, { 0 } },
	{ "MRA", { XC_MRA, .mra = { .message = XC_MESSAGE_REP, .service_timeout = 24 } }, 8, 2,
	  { 0x40, 0xc0 } },
	{ "MRA data", { XC_MRA, .mra = { .data = { "\1\2", 2 } } }, 10, 3, { 1, 2, 0 } },
	{ "REJ", { XC_REJ, .rej = { .message = XC_MESSAGE_REP, .reason = 0x123,
	  .ari = { "abc", 3 } } }, 8, 4, { 0x40, 0x06, 0x01, 0x23 } },
	{ "REJ data", { XC_REJ, .rej = { .data = { "\1\2", 2 } } }, 84, 3, { 1, 2, 0 } },
	{ "REP vendor ID", { XC_REP, .rep = { .vendor_id = 0x123456, .qpn = 7 } }, 12, 4,
	  { 0, 0, 7, 0x12 } },
	{ "REP EE context", { XC_REP, .rep = { .vendor_id = 0x123456, .eecn = 7 } }, 16, 4,
	  { 0, 0, 7, 0x34 } },
	{ "REP PSN", { XC_REP, .rep = { .vendor_id = 0x123456, .starting_psn = 7 } }, 20, 4,
	  { 0, 0, 7, 0x56 } },
	{ "REP failover, flow control", { XC_REP, .rep = { .failover = 1, .flow_control = true } },
	  26, 1, { 0x03 } },
	{ "REP SRQ", { XC_REP, .rep = { .srq = true } }, 27, 1, { 0x10 } },
	{ "DREQ data", { XC_DREQ, .dreq = { .data = { "\1\2", 2 } } }, 12, 3, { 1, 2, 0 } },
	{ "DREP data", { XC_DREP, .drep = { .data = { "\1\2", 2 } } }, 8, 3, { 1, 2, 0 } },
	{ "SIDR_REP info", { XC_SIDR_REP, .sidr_rep = { .status = 4, .info = { "\1", 1 },
	  .vendor_id = 0x123456 } }, 4, 4, { 4, 1, 0x12, 0x34 } },
	{ "SIDR_REP data", { XC_SIDR_REP, .sidr_rep = { .data = { "\1\2", 2 } } }, 96, 3,
	  { 1, 2, 0 } },
	{ "APR", { XC_APR, .apr = { .status = 2, .info = { "\1", 1 } } }, 8, 2, { 1, 2 } },
};
/* clang-format on */

static void test_fields(void)
{
	uint8_t mad[XC_MAD_LEN];

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];

		xc_mad_encode(mad, &f->msg);
		TAP_OK(!memcmp(mad + DATA + f->offset, f->bytes, f->len), "%s", f->name);
	}
}

static void test_lengths(void)
{
	struct xc_msg msg = { .kind = XC_REJ };
	uint8_t mad[XC_MAD_LEN];

	xc_mad_encode(mad, &msg);
	mad[DATA + 9] = 0xff;
	xc_mad_decode(mad, sizeof(mad), &msg);
	TAP_OK(msg.rej.ari.len == XC_REJ_ARI, "the length of a REJ's information is limited");
	msg.kind = XC_SIDR_REP;
	msg.sidr_rep = (struct xc_sidr_rep){ 0 };
	xc_mad_encode(mad, &msg);
	mad[DATA + 5] = 0xff;
	xc_mad_decode(mad, sizeof(mad), &msg);
	TAP_OK(msg.sidr_rep.info.len == XC_SIDR_REP_INFO, "as is that of a SIDR_REP's");
}

/* ---- RDMA IP CM ---------------------------------------------------------------------- */

static bool same_header(const struct xc_ip_header *a, const struct xc_ip_header *b)
{
	return a->ip_version == b->ip_version && a->src_port == b->src_port &&
	       xr_gid_equal(&a->src, &b->src) && xr_gid_equal(&a->dst, &b->dst);
}

static void test_ip_header(void)
{
	struct xc_ip_header h = { .ip_version = 4, .src_port = 0x1234 }, back;
	uint8_t p[XC_IP_HEADER_LEN];

	xr_gid_set_ipv4(&h.src, htobe32(0x0a090001));
	xr_gid_set_ipv4(&h.dst, htobe32(0x0a090002));
	xc_ip_header_put(p, &h);
	TAP_OK(!p[0] && p[1] == 0x40 && p[2] == 0x12 && p[3] == 0x34, "version and port");
	TAP_OK(!p[15] && p[16] == 10 && p[19] == 1 && !p[31] && p[32] == 10 && p[35] == 2,
	       "IPv4 addresses are at the end of their fields");
	TAP_OK(xc_ip_header_get(p, &back) && same_header(&h, &back), "the same when read");
	memset(h.src.raw, 1, 16);
	memset(h.dst.raw, 2, 16);
	h.ip_version = 6;
	xc_ip_header_put(p, &h);
	TAP_OK(p[1] == 0x60 && p[4] == 1 && p[20] == 2 && xc_ip_header_get(p, &back) &&
		       same_header(&h, &back),
	       "IPv6");
	p[0] = 1;
	TAP_OK(!xc_ip_header_get(p, &back), "another version is refused");
	p[0] = 0;
	p[1] = 0x50;
	TAP_OK(!xc_ip_header_get(p, &back), "as is another IP version");
	TAP_OK(xc_ip_service_id(0x106, 7174) == 0x1061c06, "service ID of a port");
}

/* ---- names ----------------------------------------------------------------------------- */

static void test_names(void)
{
	unsigned reasons = 0;

	TAP_OK(!strcmp(xc_kind_name(XC_SIDR_REP), "SIDR_REP"), "name of a message");
	for (enum xc_state s = 0; s < XC_NUM_STATES; s++)
		TAP_OK(xc_state_name(s) && *xc_state_name(s), "state %s", xc_state_name(s));
	for (unsigned r = 0; r < 100; r++)
		reasons += xc_reason_text(r) != NULL;
	TAP_OK(reasons == 34 && !xc_reason_text(34) && !xc_reason_text(0), "34 REJ reasons");
}

int main(void)
{
	test_round_trips();
	test_random_bytes();
	test_fields();
	test_lengths();
	test_ip_header();
	test_names();
	return tap_end();
}
