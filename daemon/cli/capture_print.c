// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets of a capture as text: comments, and lines. */
#include <arpa/inet.h>
#include <endian.h>
#include <string.h>
#include <time.h>

#include <xroce/opcode_names.h>
#include <xroce/wire.h>

#include "capture.h"

/* ---- comments ------------------------------------------------------------------------ */

/* printf() would take longer than everything else that is done for a packet. */
struct text {
	char *at, *end;
};

static void add(struct text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
}

static void add_number(struct text *t, uint32_t n)
{
	char digits[11], *d = digits + sizeof(digits) - 1;

	*d = 0;
	do
		*--d = (char)('0' + n % 10);
	while (n /= 10);
	add(t, d);
}

size_t capture_comment(const struct xr_capture_record *r, char comment[PCAPNG_TEXT_MAX])
{
	struct text t = { comment, comment + PCAPNG_TEXT_MAX - 1 };
	const char *name, *text;

	add(&t, "QP ");
	add_number(&t, r->qpn);
	add(&t, ", queue ");
	add_number(&t, r->queue);
	if (r->type == XR_CAPTURE_LOCAL)
		add(&t, ", within the host");
	if (r->type == XR_CAPTURE_RX || r->type == XR_CAPTURE_REFUSED) {
		name = capture_verdict(r->reason, &text);
		add(&t, ", verdict ");
		add(&t, name);
		if (r->reason) {
			add(&t, ": ");
			add(&t, text);
		}
	}
	*t.at = 0;
	return (size_t)(t.at - comment);
}

/* ---- lines --------------------------------------------------------------------------- */

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

/* The IP header ends where the UDP header begins; what is in front of it says which one it is. */
static void print_addresses(FILE *f, const uint8_t *p, uint32_t bth)
{
	uint32_t v4 = bth - XR_UDP_HLEN - XR_IPV4_HLEN, v6 = bth - XR_UDP_HLEN - XR_IPV6_HLEN;
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];

	if (bth >= XR_ETH_HLEN + XR_IPV6_HLEN + XR_UDP_HLEN && p[v6 - 2] == 0x86 &&
	    p[v6 - 1] == 0xdd) {
		inet_ntop(AF_INET6, p + v6 + 8, from, sizeof(from));
		inet_ntop(AF_INET6, p + v6 + 24, to, sizeof(to));
	} else if (bth >= XR_ETH_HLEN + XR_IPV4_HLEN + XR_UDP_HLEN) {
		inet_ntop(AF_INET, p + v4 + 12, from, sizeof(from));
		inet_ntop(AF_INET, p + v4 + 16, to, sizeof(to));
	} else {
		return;
	}
	fprintf(f, " %s > %s", from, to);
}

static void print_bth(FILE *f, const uint8_t *p)
{
	const char *operation = xr_operation_name(p[0]);
	struct xr_bth bth;

	memcpy(&bth, p, sizeof(bth));
	if (operation)
		fprintf(f, " %s%s", class_name(p[0]), operation);
	else
		fprintf(f, " opcode %#x", p[0]);
	fprintf(f, " dest QP %u PSN %u", be32toh(bth.fecn_dqpn) & XR_QPN_MASK,
		be32toh(bth.ack_psn) & XR_PSN_MASK);
}

static void print_time(FILE *f, uint64_t ns)
{
	time_t s = (time_t)(ns / 1000000000u);
	struct tm tm;

	localtime_r(&s, &tm);
	fprintf(f, "%02d:%02d:%02d.%09u", tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(ns % 1000000000u));
}

static const char *type_name(uint16_t type)
{
	switch (type) {
	case XR_CAPTURE_TX:
		return " tx";
	case XR_CAPTURE_REFUSED:
		return " refused";
	case XR_CAPTURE_LOCAL:
		return " local";
	default:
		return " rx";
	}
}

void capture_print(FILE *f, const struct xr_capture_record *r, uint64_t time)
{
	const uint8_t *bytes = (const uint8_t *)(r + 1);
	char comment[PCAPNG_TEXT_MAX];

	print_time(f, time);
	fputs(type_name(r->type), f);
	if (r->bth_off && r->bth_off + XR_BTH_HLEN <= r->captured) {
		print_addresses(f, bytes, r->bth_off);
		print_bth(f, bytes + r->bth_off);
	}
	capture_comment(r, comment);
	fprintf(f, " length %u, %s\n", r->length, comment);
}
