// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets of a capture as lines of text. */
#include <arpa/inet.h>
#include <endian.h>
#include <linux/bpf.h>
#include <string.h>
#include <time.h>

#include <xroce/nak_names.h>
#include <xroce/opcode_names.h>
#include <xroce/parse.h>

#include "capture.h"

static const char *class_name(uint8_t opcode)
{
	switch (opcode & XR_CLASS_MASK) {
	case XR_CLASS_RC:
		return "RC ";
	case XR_CLASS_UC:
		return "UC ";
	case XR_CLASS_UD:
		return "UD ";
	case XR_CLASS_XRC:
		return "XRC ";
	default:
		return "";
	}
}

static void print_address(FILE *f, const struct xr_addr *a, uint8_t ip_version)
{
	char text[INET6_ADDRSTRLEN];

	if (ip_version == 4)
		inet_ntop(AF_INET, a->raw + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, a->raw, text, sizeof(text));
	fputs(text, f);
}

static void print_bth(FILE *f, const struct xr_bth *bth)
{
	const char *operation = xr_operation_name(bth->opcode);

	if (operation)
		fprintf(f, " %s%s", class_name(bth->opcode), operation);
	else
		fprintf(f, " opcode %#x", bth->opcode);
	fprintf(f, " dest QP %u PSN %u%s", ntohl(bth->fecn_dqpn) & XR_QPN_MASK,
		ntohl(bth->ack_psn) & XR_PSN_MASK,
		ntohl(bth->ack_psn) & XR_BTH_ACKREQ ? " ackreq" : "");
}

/* An ACK has a credit count, which is of no interest. */
static void print_aeth(FILE *f, const uint8_t *p)
{
	const uint32_t type = p[0] & XR_AETH_TYPE_MASK, value = p[0] & XR_AETH_VALUE_MASK;
	const char *nak = type == XR_AETH_NAK ? xr_nak_name(value) : NULL;

	if (type == XR_AETH_RNR_NAK)
		fprintf(f, " RNR NAK timer %u", value);
	else if (nak)
		fprintf(f, " NAK %s", nak);
	else if (type != XR_AETH_ACK)
		fprintf(f, " syndrome %#x", p[0]);
}

static void print_reth(FILE *f, const uint8_t *p)
{
	struct xr_reth reth;

	memcpy(&reth, p, sizeof(reth));
	fprintf(f, " va %#llx rkey %u bytes %u", (unsigned long long)be64toh(reth.va),
		be32toh(reth.rkey), be32toh(reth.len));
}

static uint32_t word_at(const uint8_t *p)
{
	uint32_t word;

	memcpy(&word, p, sizeof(word));
	return be32toh(word);
}

/* p: extended headers, which may have been cut: in the order of IBTA 9.4 */
static void print_extensions(FILE *f, uint8_t opcode, const uint8_t *p, uint32_t left)
{
	const uint16_t flags = xr_opcodes[opcode].flags;

	if (!flags || left < xr_opcodes[opcode].ext_len)
		return;
	if (flags & XR_EXT_XRCETH) {
		fprintf(f, " SRQ %u", word_at(p) & XR_QPN_MASK);
		p += sizeof(struct xr_xrceth);
	}
	if (flags & XR_EXT_DETH) {
		fprintf(f, " source QP %u", word_at(p + 4) & XR_QPN_MASK);
		p += sizeof(struct xr_deth);
	}
	if (flags & XR_EXT_FETH)
		p += sizeof(struct xr_feth);
	if (flags & XR_EXT_AETH)
		print_aeth(f, p);
	if (flags & XR_EXT_RETH) {
		print_reth(f, p);
		p += sizeof(struct xr_reth);
	}
	if (flags & XR_EXT_IMMDT)
		fprintf(f, " immediate %#x", word_at(p));
	if (flags & XR_EXT_IETH)
		fprintf(f, " invalidates %u", word_at(p));
}

/* Of a packet that has been cut, only headers can be read. */
static void print_headers(FILE *f, const struct pcapng_packet *p)
{
	struct xr_cursor c = {
		.pos = p->bytes,
		.end = p->bytes + p->captured,
		.left = p->original,
	};
	struct xr_packet pkt = { 0 };
	struct xr_outer outer = { 0 };
	const struct xr_bth *bth;

	if (xr_parse_network(&c, &pkt, &outer) != XR_OK)
		return;
	bth = xr_take(&c, sizeof(*bth));
	if (!bth)
		return;
	putc(' ', f);
	print_address(f, &pkt.src, pkt.ip_version);
	fputs(" > ", f);
	print_address(f, &pkt.dst, pkt.ip_version);
	print_bth(f, bth);
	print_extensions(f, bth->opcode, c.pos, (uint32_t)(c.end - c.pos));
}

static void print_time(FILE *f, uint64_t ns)
{
	time_t s = (time_t)(ns / 1000000000u);
	struct tm tm;

	localtime_r(&s, &tm);
	fprintf(f, "%02d:%02d:%02d.%09u", tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(ns % 1000000000u));
}

static const char *capture_print_type_name(const struct pcapng_packet *p)
{
	if (!(p->flags & XR_PCAPNG_OUT))
		return p->xdp_action == XDP_DROP ? " refused" : " rx";
	return memmem(p->comment, p->comment_len, XR_CAPTURE_WITHIN, strlen(XR_CAPTURE_WITHIN))
		       ? " local"
		       : " tx";
}

void capture_print(FILE *f, const uint8_t *block)
{
	struct pcapng_packet p;

	pcapng_read(block, &p);
	print_time(f, p.time);
	fputs(capture_print_type_name(&p), f);
	print_headers(f, &p);
	fprintf(f, " length %u, %.*s\n", p.original, (int)p.comment_len, p.comment);
}
