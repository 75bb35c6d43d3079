// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets of a capture as lines of text. */
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <string.h>
#include <time.h>

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
	fprintf(f, " dest QP %u PSN %u", ntohl(bth->fecn_dqpn) & XR_QPN_MASK,
		ntohl(bth->ack_psn) & XR_PSN_MASK);
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
}

static void print_time(FILE *f, uint64_t ns)
{
	time_t s = (time_t)(ns / 1000000000u);
	struct tm tm;

	localtime_r(&s, &tm);
	fprintf(f, "%02d:%02d:%02d.%09u", tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(ns % 1000000000u));
}

static const char *type_name(const struct pcapng_packet *p)
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
	fputs(type_name(&p), f);
	print_headers(f, &p);
	fprintf(f, " length %u, %.*s\n", p.original, (int)p.comment_len, p.comment);
}
