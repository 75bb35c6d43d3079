// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Parser, ICRC and UDP checksum on raw frames: all captured packets, their truncations and bit
 * flips, and hand-made frames. Run from the top of the tree, or with the directory of the captures
 * as argument.
 */
#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/transport/wire/checksum.h"
#include "daemon/transport/wire/icrc.h"
#include "daemon/transport/wire/packet.h"
#include "selftests/lib/ipv4.h"
#include "selftests/lib/parse.h"
#include "selftests/lib/pcap.h"
#include "selftests/lib/tap.h"

#define MAX_PACKETS 4096

static struct packet {
	uint8_t *data;
	uint32_t len;
	char file[64];
} packets[MAX_PACKETS];
static unsigned packet_count;

/* Start of an unreadable area; frames that end here fault if read beyond their end. */
static uint8_t *guard_page;
static long page;

static struct xt_frame frame_of(uint8_t *data, uint32_t len)
{
	return (struct xt_frame){ .seg[0] = { data, len }, .nseg = 1, .len = len };
}

/* Copies the packet so that it ends at the unreadable area. */
static uint8_t *against_guard(const uint8_t *data, uint32_t len)
{
	uint8_t *at = guard_page - len;

	memcpy(at, data, len);
	return at;
}

static void put16(uint8_t *p, unsigned v)
{
	p[0] = v >> 8;
	p[1] = v & 0xff;
}

static bool load(const char *dir, const char *name)
{
	char path[512];
	struct pcap pcap;
	uint8_t *data;
	uint32_t len;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!pcap_open(&pcap, path))
		return false;
	while ((data = pcap_next(&pcap, &len)) && packet_count < MAX_PACKETS) {
		struct packet *p = &packets[packet_count++];

		p->data = malloc(len);
		memcpy(p->data, data, len);
		p->len = len;
		snprintf(p->file, sizeof(p->file), "%s", name);
	}
	pcap_close(&pcap);
	return true;
}

static bool load_all(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	bool ok = d;

	while (d && (entry = readdir(d)))
		if (strstr(entry->d_name, ".pcap"))
			ok &= load(dir, entry->d_name);
	if (d)
		closedir(d);
	return ok && packet_count;
}

static bool is_roce(const struct packet *p)
{
	return p->len > 42 && !(p->data[12] == 0x08 && p->data[13] == 0x06);
}

static void test_captures(void)
{
	unsigned roce = 0, parsed = 0, icrc = 0, udp = 0, sealed = 0;

	for (unsigned i = 0; i < packet_count; i++) {
		struct packet *p = &packets[i];
		uint8_t *at = against_guard(p->data, p->len);
		struct xt_frame f = frame_of(at, p->len);

		if (!is_roce(p))
			continue;
		roce++;
		if (parse_frame(&f) != XR_OK)
			continue;
		parsed++;
		icrc += xt_icrc_ok(&f);
		udp += xt_udp_checksum_ok(&f);
		memset(at + p->len - XR_ICRC_LEN, 0xa5, XR_ICRC_LEN);
		xt_icrc_seal(f.seg, f.nseg, f.meta.ip_off, f.meta.bth_off);
		sealed += !memcmp(at, p->data, p->len);
	}
	TAP_OK(roce > 1000, "the captures have %u RoCEv2 packets", roce);
	TAP_OK(parsed == roce, "all captured packets can be parsed");
	TAP_OK(icrc == roce, "the ICRC of all captured packets matches");
	TAP_OK(udp == roce, "the UDP checksum of all captured packets is 0 or right");
	TAP_OK(sealed == roce, "xt_icrc_seal() reproduces the captured ICRC");
}

/* Frames in four segments, cut after the headers, also inside the ICRC. */
static void test_segments(void)
{
	unsigned bad = 0, cuts = 0;

	for (unsigned i = 0; i < packet_count; i += 3) {
		struct packet *p = &packets[i];
		struct xt_frame f = frame_of(p->data, p->len);

		if (parse_frame(&f) != XR_OK)
			continue;
		for (uint32_t at = f.meta.payload_off; at < p->len; at += 1 + at % 29) {
			uint32_t rest = p->len - at, half = rest / 2, third = (rest - half) / 2;
			struct xt_frame g = frame_of(p->data, at);
			uint8_t kept[XR_ICRC_LEN], *end = p->data + p->len - XR_ICRC_LEN;

			g.seg[1] = (struct xt_seg){ p->data + at, half };
			g.seg[2] = (struct xt_seg){ p->data + at + half, third };
			g.seg[3] = (struct xt_seg){ p->data + at + half + third,
						    rest - half - third };
			g.nseg = 4;
			g.len = p->len;
			cuts++;
			bad += parse_frame(&g) != XR_OK || !xt_icrc_ok(&g);
			memcpy(kept, end, XR_ICRC_LEN);
			memset(end, 0, XR_ICRC_LEN);
			xt_icrc_seal(g.seg, g.nseg, g.meta.ip_off, g.meta.bth_off);
			bad += memcmp(kept, end, XR_ICRC_LEN) != 0;
		}
	}
	TAP_OK(cuts > 1000 && !bad, "%u frames in four segments have the same headers and ICRC",
	       cuts);
}

static void test_truncations(void)
{
	unsigned tried = 0, accepted = 0, seen[XR_REASON_COUNT] = { 0 };
	static const uint8_t expected[] = { XR_TRUNC_ETH, XR_TRUNC_IP, XR_TRUNC_UDP, XR_IP_LEN };

	for (unsigned i = 0; i < packet_count; i++) {
		struct packet *p = &packets[i];
		struct xt_frame whole = frame_of(p->data, p->len);

		if (parse_frame(&whole) != XR_OK)
			continue;
		for (uint32_t len = 0; len < p->len; len += len < 160 ? 1 : 97) {
			struct xt_frame f = frame_of(against_guard(p->data, len), len);
			enum xr_reason why = parse_frame(&f);

			tried++;
			accepted += why == XR_OK;
			seen[why]++;
		}
	}
	TAP_OK(tried && !accepted, "all of %u truncated packets are refused", tried);
	for (unsigned i = 0; i < sizeof(expected); i++)
		TAP_OK(seen[expected[i]], "truncation gives reason %u", expected[i]);
}

/* Truncated frames with matching IP and UDP lengths, for the checks of the transport headers. */
static void test_short_datagrams(void)
{
	unsigned tried = 0, wrong = 0;

	for (unsigned i = 0; i < packet_count; i++) {
		struct packet *p = &packets[i];
		struct xt_frame whole = frame_of(p->data, p->len);

		if (parse_frame(&whole) != XR_OK)
			continue;
		for (uint32_t len = whole.meta.bth_off; len < p->len && len < 160; len++) {
			uint8_t *at = against_guard(p->data, len), *ip = at + whole.meta.ip_off;
			uint32_t ip_len = len - whole.meta.ip_off;
			uint32_t udp_len = len - whole.meta.bth_off + XR_UDP_HLEN;
			struct xt_frame f = frame_of(at, len);
			enum xr_reason why, want;
			unsigned ext = xr_opcodes[p->data[whole.meta.bth_off]].ext_len;

			if (whole.meta.ip_version == 4)
				put16(ip + 2, ip_len);
			else
				put16(ip + 4, ip_len - XR_IPV6_HLEN);
			ipv4_seal_frame(at, len);
			put16(at + whole.meta.bth_off - 4, udp_len);
			why = parse_frame(&f);
			udp_len -= XR_UDP_HLEN;
			want = udp_len < XR_BTH_HLEN			   ? XR_TRUNC_BTH
			       : udp_len < XR_BTH_HLEN + ext		   ? XR_TRUNC_EXT
			       : udp_len < XR_BTH_HLEN + ext + XR_ICRC_LEN ? XR_TRUNC_ICRC
									   : why;
			tried++;
			wrong += why != want;
			if (why == XR_OK)
				wrong += xt_icrc_ok(&f);
		}
	}
	TAP_OK(tried && !wrong, "%u short datagrams have the right reason or a wrong ICRC", tried);
}

/* True for bits that the ICRC does not cover. */
static bool is_masked(const struct xr_meta *m, unsigned off, unsigned bit)
{
	unsigned at = off - m->ip_off, bth = m->bth_off - m->ip_off;

	if (off < m->ip_off)
		return true;
	if (at == bth - 2 || at == bth - 1 || at == bth + 4)
		return true;
	if (m->ip_version == 4)
		return at == 1 || at == 8 || at == 10 || at == 11;
	return (at == 0 && bit < 4) || (at >= 1 && at <= 3) || at == 7;
}

static bool in_ipv4_header(const struct xr_meta *m, unsigned off)
{
	return m->ip_version == 4 && off >= m->ip_off && off < m->ip_off + XR_IPV4_HLEN;
}

static uint8_t time_to_live(const struct packet *p, const struct xr_meta *m)
{
	return p->data[m->ip_off + (m->ip_version == 4 ? 8 : 7)];
}

static void test_bit_flips(void)
{
	unsigned tried = 0, missed = 0, false_alarms = 0, header = 0;

	for (unsigned i = 0; i < packet_count; i += 1 + packets[i].len / 64) {
		struct packet *p = &packets[i];
		struct xt_frame f = frame_of(p->data, p->len);

		if (parse_frame(&f) != XR_OK)
			continue;
		for (unsigned bit = 0; bit < p->len * 8; bit += bit < 1024 ? 1 : 37) {
			struct xt_frame g = frame_of(p->data, p->len);
			bool masked = is_masked(&f.meta, bit / 8, bit % 8);
			bool accepted;

			if (bit / 8 < f.meta.ip_off)
				continue;
			p->data[bit / 8] ^= 1 << bit % 8;
			header += in_ipv4_header(&f.meta, bit / 8) && parse_frame(&g) == XR_OK;
			/* routers update the checksum; packets with TTL 0 are dropped */
			ipv4_seal_frame(p->data, p->len);
			accepted = parse_frame(&g) == XR_OK && xt_icrc_ok(&g);
			masked &= time_to_live(p, &f.meta) != 0;
			p->data[bit / 8] ^= 1 << bit % 8;
			ipv4_seal_frame(p->data, p->len);
			tried++;
			missed += accepted && !masked;
			false_alarms += !accepted && masked;
		}
	}
	TAP_OK(tried > 10000 && !missed,
	       "%u bit flips: none in fields that the ICRC covers is accepted", tried);
	TAP_OK(!header, "no bit flip in an IPv4 header is accepted with the old checksum");
	TAP_OK(!false_alarms, "bit flips in fields that routers may change are accepted");
}

/* ---- hand-made frames ---------------------------------------------------- */

struct row {
	const char *what;
	uint8_t opcode, flags;
	int ext;	  /* bytes of extended headers; -1: as the opcode requires */
	unsigned payload; /* bytes, including pad */
	enum xr_reason want;
};

#define PAD(n) ((n) << XR_BTH_PAD_SHIFT)
static const struct row rows[] = {
	{ "SEND ONLY without payload", 0x04, 0, -1, 0, XR_OK },
	{ "SEND ONLY, 4 bytes", 0x04, 0, -1, 4, XR_OK },
	{ "SEND ONLY, 1 byte and pad 3", 0x04, PAD(3), -1, 4, XR_OK },
	{ "SEND ONLY, pad without payload", 0x04, PAD(3), -1, 0, XR_TRUNC_ICRC },
	{ "SEND ONLY, payload shorter than the pad", 0x04, PAD(3), -1, 2, XR_TRUNC_ICRC },
	{ "SEND ONLY, 4096 bytes", 0x04, 0, -1, 4096, XR_OK },
	{ "SEND ONLY, over 4096 bytes", 0x04, 0, -1, 4100, XR_BAD_LENGTH },
	{ "SEND ONLY, not a multiple of 4", 0x04, 0, -1, 5, XR_BAD_LENGTH },
	{ "header version 1", 0x04, 1, -1, 4, XR_BTH_VERSION },
	{ "SEND FIRST, 256 bytes", 0x00, 0, -1, 256, XR_OK },
	{ "SEND FIRST, 1024 bytes", 0x00, 0, -1, 1024, XR_OK },
	{ "SEND FIRST, 1000 bytes", 0x00, 0, -1, 1000, XR_BAD_LENGTH },
	{ "SEND FIRST, padded", 0x00, PAD(1), -1, 256, XR_BAD_PAD },
	{ "SEND FIRST, 128 bytes", 0x00, 0, -1, 128, XR_BAD_LENGTH },
	{ "SEND FIRST, empty", 0x00, 0, -1, 0, XR_BAD_LENGTH },
	{ "SEND MIDDLE, 512 bytes", 0x01, 0, -1, 512, XR_OK },
	{ "SEND MIDDLE, 8192 bytes", 0x01, 0, -1, 8192, XR_BAD_LENGTH },
	{ "SEND LAST, 1 byte", 0x02, PAD(3), -1, 4, XR_OK },
	{ "SEND LAST, empty", 0x02, 0, -1, 0, XR_BAD_LENGTH },
	{ "SEND LAST IMM", 0x03, 0, -1, 4, XR_OK },
	{ "SEND ONLY IMM, empty", 0x05, 0, -1, 0, XR_OK },
	{ "SEND ONLY IMM without immediate", 0x05, 0, 0, 0, XR_TRUNC_EXT },
	{ "WRITE FIRST", 0x06, 0, -1, 2048, XR_OK },
	{ "WRITE LAST IMM, empty", 0x09, 0, -1, 0, XR_BAD_LENGTH },
	{ "WRITE ONLY, empty", 0x0a, 0, -1, 0, XR_OK },
	{ "WRITE ONLY, short RETH", 0x0a, 0, 8, 0, XR_TRUNC_EXT },
	{ "WRITE ONLY IMM", 0x0b, 0, -1, 8, XR_OK },
	{ "READ REQUEST", 0x0c, 0, -1, 0, XR_OK },
	{ "READ REQUEST with payload", 0x0c, 0, -1, 4, XR_BAD_LENGTH },
	{ "READ REQUEST with pad", 0x0c, PAD(2), -1, 2, XR_BAD_LENGTH },
	{ "READ REQUEST with pad only", 0x0c, PAD(1), -1, 4, XR_BAD_LENGTH },
	{ "READ RESPONSE MIDDLE", 0x0e, 0, -1, 1024, XR_OK },
	{ "READ RESPONSE LAST, empty", 0x0f, 0, -1, 0, XR_BAD_LENGTH },
	{ "READ RESPONSE ONLY, empty", 0x10, 0, -1, 0, XR_OK },
	{ "ACK", 0x11, 0, -1, 0, XR_OK },
	{ "ACK without AETH", 0x11, 0, 0, 0, XR_TRUNC_EXT },
	{ "ACK with payload", 0x11, 0, -1, 64, XR_BAD_LENGTH },
	{ "ATOMIC ACK", 0x12, 0, -1, 0, XR_OK },
	{ "CMP SWAP", 0x13, 0, -1, 0, XR_OK },
	{ "CMP SWAP, short", 0x13, 0, 24, 0, XR_TRUNC_EXT },
	{ "FETCH ADD with payload", 0x14, 0, -1, 8, XR_BAD_LENGTH },
	{ "RESYNC", 0x15, 0, 0, 0, XR_BAD_OPCODE },
	{ "SEND ONLY INV", 0x17, 0, -1, 4, XR_OK },
	{ "FLUSH", 0x1c, 0, -1, 0, XR_OK },
	{ "ATOMIC WRITE", 0x1d, 0, -1, 8, XR_OK },
	{ "ATOMIC WRITE, 4 bytes", 0x1d, 0, -1, 4, XR_BAD_LENGTH },
	{ "opcode 0x1f", 0x1f, 0, 0, 64, XR_BAD_OPCODE },
	{ "UC SEND ONLY", 0x24, 0, -1, 4, XR_OK },
	{ "UC READ REQUEST", 0x2c, 0, 16, 0, XR_BAD_OPCODE },
	{ "UC ACK", 0x31, 0, 4, 0, XR_BAD_OPCODE },
	{ "RD SEND ONLY", 0x44, 0, 12, 4, XR_BAD_OPCODE },
	{ "UD SEND ONLY", 0x64, 0, -1, 4, XR_OK },
	{ "UD SEND ONLY without DETH", 0x64, 0, 4, 0, XR_TRUNC_EXT },
	{ "UD SEND ONLY IMM", 0x65, 0, -1, 4, XR_OK },
	{ "UD SEND FIRST", 0x60, 0, 8, 256, XR_BAD_OPCODE },
	{ "UD WRITE ONLY", 0x6a, 0, 24, 0, XR_BAD_OPCODE },
	{ "CNP", 0x81, 0, -1, 16, XR_OK },
	{ "CNP, short", 0x81, 0, -1, 12, XR_BAD_LENGTH },
	{ "CNP, padded", 0x81, PAD(2), -1, 20, XR_BAD_LENGTH },
	{ "opcode 0x80", 0x80, 0, 0, 16, XR_BAD_OPCODE },
	{ "XRC SEND ONLY", 0xa4, 0, -1, 4, XR_OK },
	{ "XRC SEND ONLY without XRCETH", 0xa4, 0, 0, 0, XR_TRUNC_EXT },
	{ "XRC ACK without XRCETH", 0xb1, 0, 4, 0, XR_OK },
	{ "opcode 0xc4", 0xc4, 0, 0, 0, XR_BAD_OPCODE },
	{ "opcode 0xff", 0xff, 0, 0, 0, XR_BAD_OPCODE },
};

struct shape {
	const char *name;
	unsigned tags;
	int version;
	unsigned trailer; /* bytes of Ethernet padding after the datagram */
};

/* Builds a frame with a UDP payload of @body bytes. Returns its length. */
static uint32_t build(uint8_t *f, const struct shape *s, unsigned body)
{
	unsigned off = 12, udp = XR_UDP_HLEN + body;

	memset(f, 0, XT_MAX_FRAME);
	for (unsigned i = 0; i < s->tags; i++, off += XR_VLAN_HLEN)
		put16(f + off, i ? 0x8100 : s->tags == 1 ? 0x8100 : 0x88a8);
	put16(f + off, s->version == 4 ? 0x0800 : 0x86dd);
	off += 2;
	if (s->version == 4) {
		f[off] = 0x45;
		put16(f + off + 2, XR_IPV4_HLEN + udp);
		put16(f + off + 6, 0x4000);
		f[off + 8] = 64;
		f[off + 9] = 17;
		ipv4_seal(f + off);
		off += XR_IPV4_HLEN;
	} else {
		f[off] = 0x60;
		put16(f + off + 4, udp);
		f[off + 6] = 17;
		f[off + 7] = 64;
		off += XR_IPV6_HLEN;
	}
	put16(f + off, 0xc000);
	put16(f + off + 2, XR_UDP_PORT);
	put16(f + off + 4, udp);
	return off + udp + s->trailer;
}

static void test_rows(void)
{
	static const struct shape shapes[] = {
		{ "IPv4", 0, 4, 0 },	       { "IPv6", 0, 6, 0 },
		{ "IPv4, VLAN", 1, 4, 0 },     { "IPv6, VLAN", 1, 6, 0 },
		{ "IPv4, 2 VLANs", 2, 4, 0 },  { "IPv6, 2 VLANs", 2, 6, 0 },
		{ "IPv4, trailer", 0, 4, 13 },
	};
	static uint8_t buf[XT_MAX_FRAME + 8192];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		unsigned good = 0, count = sizeof(shapes) / sizeof(shapes[0]);
		enum xr_reason why = XR_OK;

		for (unsigned k = 0; k < count; k++) {
			const struct shape *s = &shapes[k];
			unsigned ext = r->ext < 0 ? xr_opcodes[r->opcode].ext_len
						  : (unsigned)r->ext;
			unsigned body = XR_BTH_HLEN + ext + r->payload + XR_ICRC_LEN;
			uint32_t len;
			struct xt_frame f;

			/* Rows with a missing header have no ICRC. */
			if (r->want == XR_TRUNC_EXT)
				body -= XR_ICRC_LEN;
			len = build(buf, s, body);
			buf[len - s->trailer - body] = r->opcode;
			buf[len - s->trailer - body + 1] = r->flags;
			f = frame_of(len <= (uint32_t)page ? against_guard(buf, len) : buf, len);
			why = parse_frame(&f);
			if (why != r->want)
				break;
			good++;
			if (why != XR_OK)
				continue;
			/* The ICRC ends the datagram, not the frame. */
			xt_icrc_seal(&(struct xt_seg){ f.seg[0].data, len - s->trailer }, 1,
				     f.meta.ip_off, f.meta.bth_off);
			good -= !xt_icrc_ok(&f);
		}
		if (!TAP_OK(good == count, "%s", r->what))
			printf("# %s: reason %d instead of %d\n", shapes[good].name, why, r->want);
	}
}

/* Valid frames with one header field changed */
static const struct patch {
	const char *what;
	int version;
	unsigned off, value; /* 16 bits at this offset */
	enum xr_reason want;
} patches[] = {
	{ "ARP", 4, 12, 0x0806, XR_NOT_IP },
	{ "802.3 length", 4, 12, 46, XR_NOT_IP },
	{ "IPv6 with the ethertype of IPv4", 4, 14, 0x6500, XR_IP_VERSION },
	{ "IPv4 with the ethertype of IPv6", 6, 14, 0x4500, XR_IP_VERSION },
	{ "IPv4 options", 4, 14, 0x4600, XR_IP_OPTIONS },
	{ "IPv4 header too short", 4, 14, 0x4400, XR_IP_OPTIONS },
	{ "first fragment", 4, 20, 0x2000, XR_IP_FRAGMENT },
	{ "later fragment", 4, 20, 0x0001, XR_IP_FRAGMENT },
	{ "TCP", 4, 22, 0x4006, XR_NOT_UDP },
	{ "TCP over IPv6", 6, 20, 0x0640, XR_NOT_UDP },
	{ "IPv6 fragment header", 6, 20, 0x2c40, XR_NOT_UDP },
	{ "other port", 4, 36, 4790, XR_NOT_ROCE_PORT },
	{ "other port over IPv6", 6, 56, 53, XR_NOT_ROCE_PORT },
	{ "reserved flag of IPv4", 4, 20, 0xc000, XR_IP_RESERVED },
	{ "TTL 0", 4, 22, 0x0011, XR_IP_TTL },
	{ "TTL 1", 4, 22, 0x0111, XR_OK },
	{ "hop limit 0", 6, 20, 0x1100, XR_IP_TTL },
	{ "IPv4 length beyond the frame", 4, 16, 0xffff, XR_IP_LEN },
	{ "IPv4 length below its header", 4, 16, 19, XR_IP_LEN },
	{ "IPv4 length without a UDP header", 4, 16, 27, XR_IP_LEN },
	{ "IPv6 length beyond the frame", 6, 18, 0xffff, XR_IP_LEN },
	{ "IPv6 length without a UDP header", 6, 18, 7, XR_IP_LEN },
	{ "UDP length too long", 4, 38, 0x100, XR_UDP_LEN },
	{ "UDP length too short", 4, 38, 20, XR_UDP_LEN },
	{ "UDP length too short over IPv6", 6, 58, 20, XR_UDP_LEN },
	{ "UDP checksum set", 4, 40, 0x1234, XR_OK },
	{ "MigReq 0 is accepted", 4, 42, 0x0400, XR_OK },
};

static void test_patches(void)
{
	static uint8_t buf[XT_MAX_FRAME];

	for (unsigned i = 0; i < sizeof(patches) / sizeof(patches[0]); i++) {
		const struct patch *p = &patches[i];
		struct shape s = { "", 0, p->version, 0 };
		uint32_t len = build(buf, &s, XR_BTH_HLEN + 8 + XR_ICRC_LEN);
		struct xt_frame f;

		buf[14 + (p->version == 4 ? 28 : 48)] = XR_OP_SEND_ONLY;
		put16(buf + p->off, p->value);
		ipv4_seal_frame(buf, len);
		f = frame_of(against_guard(buf, len), len);
		TAP_OK(parse_frame(&f) == p->want, "%s", p->what);
	}
}

/* Stores a right UDP checksum, written without checksum.c. Returns the sum of the pseudo header. */
static unsigned seal_udp(const struct xt_frame *f)
{
	const struct xr_meta *m = &f->meta;
	uint8_t *ip = f->seg[0].data + m->ip_off, *udp = f->seg[0].data + m->bth_off - XR_UDP_HLEN;
	unsigned len = (unsigned)(udp[4] << 8 | udp[5]), sum = 17 + len, pseudo;
	unsigned addresses = m->ip_version == 4 ? 12 : 8;

	for (unsigned i = addresses; ip + i < udp; i += 2)
		sum += (unsigned)(ip[i] << 8 | ip[i + 1]);
	pseudo = sum % 0xffff;
	put16(udp + 6, 0);
	for (unsigned i = 0; i < len; i++)
		sum += (unsigned)udp[i] << (i % 2 ? 0 : 8);
	sum = 0xffff - sum % 0xffff;
	put16(udp + 6, sum);
	return pseudo;
}

static void test_udp_checksum(void)
{
	unsigned tried = 0, right = 0, wrong = 0, unfinished = 0, split = 0;

	for (unsigned i = 0; i < packet_count; i += 3) {
		struct packet *p = &packets[i];
		struct xt_frame f = frame_of(p->data, p->len), g = f;
		uint8_t *check;
		unsigned pseudo, sum;

		if (parse_frame(&f) != XR_OK)
			continue;
		tried++;
		check = p->data + f.meta.bth_off - 2;
		pseudo = seal_udp(&f);
		sum = (unsigned)(check[0] << 8 | check[1]);
		right += xt_udp_checksum_ok(&f);
		/* in three segments, of which the first two have an odd length */
		g = f;
		g.nseg = 3;
		g.seg[0].len = (f.meta.payload_off & ~1u) + 1;
		g.seg[1] = (struct xt_seg){ p->data + g.seg[0].len, 1 };
		g.seg[2] = (struct xt_seg){ g.seg[1].data + 1, p->len - g.seg[0].len - 1 };
		split += xt_udp_checksum_ok(&g);
		put16(check, (sum + 1) & 0xffff ? sum + 1 : 1);
		wrong += xt_udp_checksum_ok(&f) || xt_udp_checksum_ok(&g);
		put16(check, pseudo);
		unfinished += xt_udp_checksum_ok(&f);
		put16(check, 0);
	}
	TAP_OK(tried > 100 && right == tried, "%u right UDP checksums are accepted", tried);
	TAP_OK(split == tried, "the same in segments of odd length");
	TAP_OK(!wrong, "a wrong UDP checksum is refused");
	TAP_OK(unfinished == tried, "the sum of the pseudo header is accepted");
}

static void test_vlan_depth(void)
{
	static uint8_t buf[XT_MAX_FRAME];
	struct shape s = { "", 3, 4, 0 };
	uint32_t len = build(buf, &s, XR_BTH_HLEN + XR_ICRC_LEN);
	struct xt_frame f = frame_of(against_guard(buf, len), len);

	TAP_OK(parse_frame(&f) == XR_VLAN_DEPTH, "three VLAN tags are refused");
}

/* Wrong offsets, as from a defective or hostile XDP program */
static void test_bad_metadata(void)
{
	unsigned accepted = 0, tried = 0;
	struct packet *p = &packets[0];
	struct xt_frame good, f;

	while (!is_roce(p))
		p++;
	good = frame_of(against_guard(p->data, p->len), p->len);
	if (parse_frame(&good) != XR_OK)
		return;
	for (unsigned v = 0; v < 0x10000; v += 7, tried += 4) {
		f = good;
		f.meta.ip_off = v;
		accepted += v != good.meta.ip_off && xt_icrc_ok(&f);
		f = good;
		f.meta.bth_off = v;
		accepted += v != good.meta.bth_off && xt_icrc_ok(&f);
		f = good;
		f.meta.payload_len = v;
		accepted += v != good.meta.payload_len && xt_icrc_ok(&f);
		f = good;
		f.meta.payload_off = v;
		accepted += v != good.meta.payload_off && xt_icrc_ok(&f);
	}
	TAP_OK(!accepted, "%u wrong offsets are refused without reading outside the frame", tried);
}

/* ---- the identification of IPv4 ------------------------------------------------------------ */

/* Replaces the identification and "don't fragment", as a UDP socket does not tell them. */
static void guess(struct xt_frame *f, uint16_t id)
{
	struct xr_ipv4 *ip = (struct xr_ipv4 *)(f->seg[0].data + f->meta.ip_off);

	ip->id = xr_be16(id);
	ip->frag = xr_be16(0x4000);
	ip->check = 0;
	ip->check = (__be16)~xr_ipv4_sum(ip);
	f->guessed_id = true;
}

static void test_guessed_id(void)
{
	unsigned frames = 0, mended = 0, trusted = 0, flips = 0, accepted = 0;

	for (unsigned i = 0; i < packet_count; i += 7) {
		struct packet *p = &packets[i];
		uint8_t *at = against_guard(p->data, p->len);
		struct xt_frame f = frame_of(at, p->len);

		if (!is_roce(p) || parse_frame(&f) != XR_OK || f.meta.ip_version != 4)
			continue;
		frames++;
		guess(&f, (uint16_t)(i * 7919));
		f.guessed_id = false;
		trusted += xt_icrc_accept(&f);
		f.guessed_id = true;
		mended += xt_icrc_accept(&f) && !memcmp(at, p->data, p->len) && xt_icrc_ok(&f);
		/* behind the masked fields of the BTH */
		for (uint32_t bit = (f.meta.bth_off + 5u) * 8; bit < p->len * 8;
		     bit += 61, flips++) {
			guess(&f, 0);
			at[bit / 8] ^= 1 << bit % 8;
			accepted += xt_icrc_accept(&f);
			at[bit / 8] ^= 1 << bit % 8;
		}
	}
	TAP_OK(frames > 100 && mended == frames,
	       "the ICRC of %u packets tells their identification and \"don't fragment\"", frames);
	TAP_OK(trusted < frames / 10, "an identification that is no guess must be right");
	/* 15 of 32 bits are left: one in 2^15 passes */
	TAP_OK(accepted <= flips / 4096, "%u of %u flipped bits look like another identification",
	       accepted, flips);
}

static void test_set_id(void)
{
	unsigned frames = 0, wrong = 0;

	for (unsigned i = 0; i < packet_count; i += 3) {
		struct packet *p = &packets[i];
		uint8_t *at = against_guard(p->data, p->len);
		struct xt_frame f = frame_of(at, p->len);
		const struct xr_ipv4 *ip;

		if (!is_roce(p) || parse_frame(&f) != XR_OK)
			continue;
		frames++;
		xt_icrc_set_id(&f, (uint16_t)(i * 31));
		ip = (const struct xr_ipv4 *)(at + f.meta.ip_off);
		wrong += !xt_icrc_ok(&f);
		if (f.meta.ip_version == 4)
			wrong += xr_be16(ip->id) != (uint16_t)(i * 31) || xr_ipv4_sum(ip) != 0xffff;
		else
			wrong += memcmp(at, p->data, p->len) != 0;
		/* a wrong ICRC stays wrong */
		at[p->len - 1] ^= 1;
		xt_icrc_set_id(&f, (uint16_t)(i * 37 + 1));
		wrong += xt_icrc_ok(&f);
	}
	TAP_OK(frames > 100 && !wrong, "%u packets get another identification", frames);
}

static void test_opcodes(void)
{
	unsigned wrong = 0;

#define COUNT(op, op_flags, classes)                                                               \
	wrong += xr_opcodes[XR_OP_##op].flags != ((classes)&XR_IN_RC ? (op_flags) : 0);            \
	wrong += xr_opcodes[XR_CLASS_UC | XR_OP_##op].flags !=                                     \
		 ((classes)&XR_IN_UC ? (op_flags) : 0);
	XR_OPERATIONS(COUNT)
#undef COUNT
	TAP_OK(!wrong, "the opcode table has each operation in its transport classes");
	TAP_OK(ext_off(xr_opcodes[0x0b].flags, XR_EXT_IMMDT) == 12 + 16, "ImmDt follows RETH");
	TAP_OK(ext_off(xr_opcodes[0x12].flags, XR_EXT_ATOMICACKETH) == 12 + 4,
	       "AtomicAckETH follows AETH");
	TAP_OK(ext_off(xr_opcodes[0x65].flags, XR_EXT_IMMDT) == 12 + 8, "ImmDt follows DETH");
	TAP_OK(xr_opcodes[0xab].ext_len == 4 + 16 + 4,
	       "XRC WRITE ONLY IMM has three extended headers");
}

/* Returns how many ports 64 QPs of a path use. */
static unsigned int ports_of_qps(const struct xt_tuning *t, const struct xt_path *path)
{
	uint64_t seen[0x10000 / 64] = { 0 };
	unsigned int n = 0;
	uint16_t port;

	for (uint32_t qpn = 2; qpn < 66; qpn++) {
		port = xt_source_port(t, path, qpn, 17);
		n += !(seen[port / 64] >> port % 64 & 1);
		seen[port / 64] |= 1ull << port % 64;
	}
	return n;
}

static void test_source_port(void)
{
	static const uint16_t ports[] = { 50000, 50001, 50002, 50003 };
	struct xt_tuning any = XT_TUNING_DEFAULT, some = any, one;
	struct xt_path path = { 0 }, other = { .flow_label = 1 };

	some.ports = ports;
	some.n_ports = 4;
	one = some;
	one.port_by_slot = true;
	TAP_OK(ports_of_qps(&any, &path) > 32, "source ports spread QPs");
	TAP_OK(ports_of_qps(&some, &path) == 4, "over those that are there");
	TAP_OK(ports_of_qps(&one, &path) == 1 &&
		       xt_source_port(&one, &path, 2, 17) ==
			       xt_source_port(&one, &path, 2, 17 + 64 * 2),
	       "with port_by_slot, QPs to one slot of the peer use one port");
	TAP_OK(xt_source_port(&one, &path, 2, 17) != xt_source_port(&one, &path, 2, 19),
	       "those to the next slot another one");
	TAP_OK(ports_of_qps(&any, &other) == 1 && ports_of_qps(&some, &other) == 1,
	       "the port of a flow label does not depend on the QP");
	TAP_OK(xt_source_port(&one, &other, 2, 17) == ports[1] &&
		       xt_source_port(&one, &other, 2, 19) == ports[1],
	       "nor on the slot");
	path.udp_sport = 40000;
	TAP_OK(xt_source_port(&one, &path, 2, 17) == 40000, "a path may have a port of its own");
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : "selftests/pcaps";

	page = 16 * sysconf(_SC_PAGESIZE);
	guard_page = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	if (guard_page == MAP_FAILED || mprotect(guard_page + page, page, PROT_NONE)) {
		perror("mmap");
		return 1;
	}
	guard_page += page;
	if (!TAP_OK(load_all(dir), "read %u packets from %s", packet_count, dir))
		return tap_end();
	test_captures();
	test_segments();
	test_truncations();
	test_short_datagrams();
	test_bit_flips();
	test_rows();
	test_patches();
	test_udp_checksum();
	test_vlan_depth();
	test_bad_metadata();
	test_guessed_id();
	test_set_id();
	test_source_port();
	test_opcodes();
	for (unsigned i = 0; i < packet_count; i++)
		free(packets[i].data);
	return tap_end();
}
