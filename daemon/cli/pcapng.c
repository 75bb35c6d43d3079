// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pcapng.h"

#include <string.h>

#define LINKTYPE_ETHERNET 1
#define NS_PER_S_EXPONENT 9
#define TEXT_MAX 256

/* ---- packets ------------------------------------------------------------------------- */

uint32_t pcapng_block(const uint8_t *buf, size_t len)
{
	const struct xr_pcapng_packet *h = (const void *)buf;
	uint32_t least = xr_pcapng_packet_len(0, 0);

	if (len < least || h->type != XR_PCAPNG_PACKET || h->length % 4 || h->length > len ||
	    h->length < least || h->captured > h->length ||
	    xr_pcapng_padded(h->captured) > h->length - least)
		return 0;
	return h->length;
}

static void pcapng_note(struct pcapng_packet *p, uint16_t code, const uint8_t *value, uint32_t len)
{
	int64_t action;

	if (code == XR_PCAPNG_COMMENT) {
		p->comment = (const char *)value;
		p->comment_len = len;
	} else if (code == XR_PCAPNG_FLAGS && len == sizeof(p->flags)) {
		memcpy(&p->flags, value, sizeof(p->flags));
	} else if (code == XR_PCAPNG_DROPCOUNT && len == sizeof(p->dropped)) {
		memcpy(&p->dropped, value, sizeof(p->dropped));
	} else if (code == XR_PCAPNG_VERDICT && len == 1 + sizeof(action) &&
		   *value == XR_PCAPNG_VERDICT_XDP) {
		memcpy(&action, value + 1, sizeof(action));
		p->xdp_action = (int)action;
	}
}

void pcapng_read(const uint8_t *block, struct pcapng_packet *p)
{
	const struct xr_pcapng_packet *h = (const void *)block;
	const uint8_t *at = (const uint8_t *)(h + 1) + xr_pcapng_padded(h->captured);
	const uint8_t *last = block + h->length - sizeof(h->length);
	uint16_t head[2];

	*p = (struct pcapng_packet){
		.time = xr_pcapng_time(h),
		.captured = h->captured,
		.original = h->original,
		.bytes = (const uint8_t *)(h + 1),
		.xdp_action = -1,
		.comment = "",
	};
	while (last - at >= (ptrdiff_t)sizeof(head)) {
		memcpy(head, at, sizeof(head));
		at += sizeof(head);
		if (head[0] == XR_PCAPNG_END || xr_pcapng_padded(head[1]) > last - at)
			return;
		pcapng_note(p, head[0], at, head[1]);
		at += xr_pcapng_padded(head[1]);
	}
}

/* ---- other blocks -------------------------------------------------------------------- */

static uint8_t *pcapng_put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

/* Times are two words, the high one first. */
static uint8_t *pcapng_put_time(uint8_t *at, uint64_t ns)
{
	return pcapng_put32(pcapng_put32(at, ns >> 32), (uint32_t)ns);
}

static uint8_t *text_option(uint8_t *at, enum xr_pcapng_option code, const char *text)
{
	return xr_pcapng_option(at, code, text, (uint32_t)strnlen(text, TEXT_MAX));
}

static uint8_t *time_option(uint8_t *at, enum xr_pcapng_option code, uint64_t ns)
{
	uint8_t words[8];

	pcapng_put_time(words, ns);
	return xr_pcapng_option(at, code, words, sizeof(words));
}

static uint8_t *pcapng_begin(uint8_t *block, enum xr_pcapng_block type)
{
	return pcapng_put32(pcapng_put32(block, type), 0); /* length: see pcapng_end() */
}

static size_t pcapng_end(uint8_t *block, uint8_t *at)
{
	uint32_t len;

	at = xr_pcapng_option(at, XR_PCAPNG_END, "", 0);
	len = (uint32_t)(at - block) + sizeof(len);
	pcapng_put32(at, len);
	pcapng_put32(block + 4, len);
	return len;
}

static size_t section(uint8_t *block)
{
	const uint16_t version[2] = { 1, 0 };
	uint8_t *at = pcapng_put32(pcapng_begin(block, XR_PCAPNG_SECTION), 0x1a2b3c4d);

	memcpy(at, version, sizeof(version));
	at = pcapng_put_time(at + sizeof(version), UINT64_MAX); /* length of the section: unknown */
	return pcapng_end(block, text_option(at, XR_PCAPNG_USERAPPL, "xroce " XR_VERSION));
}

size_t pcapng_header(uint8_t *buf, const char *device, const char *netdev, uint32_t snap_len)
{
	const uint8_t resolution = NS_PER_S_EXPONENT;
	size_t len = section(buf);
	uint8_t *block = buf + len, *at = pcapng_begin(block, XR_PCAPNG_INTERFACE);

	at = pcapng_put32(pcapng_put32(at, LINKTYPE_ETHERNET), snap_len);
	at = text_option(at, XR_PCAPNG_NAME, netdev);
	at = text_option(at, XR_PCAPNG_DESCRIPTION, device);
	at = xr_pcapng_option(at, XR_PCAPNG_TSRESOL, &resolution, 1);
	return len + pcapng_end(block, at);
}

size_t pcapng_statistics(uint8_t *buf, const struct pcapng_statistics *s)
{
	uint8_t *at = pcapng_put32(pcapng_begin(buf, XR_PCAPNG_STATISTICS), 0); /* interface */

	at = time_option(pcapng_put_time(at, s->end), XR_PCAPNG_STARTTIME, s->start);
	at = time_option(at, XR_PCAPNG_ENDTIME, s->end);
	at = xr_pcapng_option(at, XR_PCAPNG_IFRECV, &s->received, sizeof(s->received));
	at = xr_pcapng_option(at, XR_PCAPNG_IFDROP, &s->dropped, sizeof(s->dropped));
	return pcapng_end(buf, at);
}
