// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pcapng.h"

#include <string.h>

#define LINKTYPE_ETHERNET 1
#define NS_PER_S_EXPONENT 9

enum block { INTERFACE = 1, STATISTICS = 5, PACKET = 6, SECTION = 0x0a0d0d0a };

enum option {
	END = 0,
	COMMENT = 1,
	SHB_USERAPPL = 4,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_TSRESOL = 9,
	EPB_FLAGS = 2,
	EPB_DROPCOUNT = 4,
	EPB_QUEUE = 6,
	EPB_VERDICT = 7,
	ISB_STARTTIME = 2,
	ISB_ENDTIME = 3,
	ISB_IFRECV = 4,
	ISB_IFDROP = 5,
};
#define VERDICT_XDP 2 /* first byte of EPB_VERDICT: XDP action */

struct writer {
	uint8_t *start, *at;
};

static void put(struct writer *w, const void *data, size_t len)
{
	memcpy(w->at, data, len);
	w->at += len;
}

static void put32(struct writer *w, uint32_t value)
{
	put(w, &value, sizeof(value));
}

static void pad(struct writer *w)
{
	while ((w->at - w->start) % 4)
		*w->at++ = 0;
}

/* Times are two words, the high one first. */
static void put_time(struct writer *w, uint64_t ns)
{
	put32(w, ns >> 32);
	put32(w, (uint32_t)ns);
}

static void option(struct writer *w, enum option code, const void *value, size_t len)
{
	const uint16_t head[2] = { code, (uint16_t)len };

	put(w, head, sizeof(head));
	put(w, value, len);
	pad(w);
}

static void text_option(struct writer *w, enum option code, const char *text)
{
	option(w, code, text, strnlen(text, PCAPNG_TEXT_MAX - 1));
}

static void time_option(struct writer *w, enum option code, uint64_t ns)
{
	const uint32_t words[2] = { ns >> 32, (uint32_t)ns };

	option(w, code, words, sizeof(words));
}

static struct writer begin(uint8_t *buf, enum block type)
{
	struct writer w = { buf, buf };

	put32(&w, type);
	put32(&w, 0); /* length: see end() */
	return w;
}

static size_t end(struct writer *w)
{
	uint32_t len;

	option(w, END, "", 0);
	len = (uint32_t)(w->at - w->start) + sizeof(len);
	put32(w, len);
	memcpy(w->start + 4, &len, sizeof(len));
	return len;
}

static size_t section(uint8_t *buf)
{
	struct writer w = begin(buf, SECTION);
	const uint16_t version[2] = { 1, 0 };

	put32(&w, 0x1a2b3c4d);
	put(&w, version, sizeof(version));
	put_time(&w, UINT64_MAX); /* length of the section: unknown */
	text_option(&w, SHB_USERAPPL, "xroce " XR_VERSION);
	return end(&w);
}

size_t pcapng_header(uint8_t *buf, const char *device, const char *netdev, uint32_t snap_len)
{
	const uint8_t resolution = NS_PER_S_EXPONENT;
	size_t len = section(buf);
	struct writer w = begin(buf + len, INTERFACE);

	put32(&w, LINKTYPE_ETHERNET);
	put32(&w, snap_len);
	text_option(&w, IF_NAME, netdev);
	text_option(&w, IF_DESCRIPTION, device);
	option(&w, IF_TSRESOL, &resolution, 1);
	return len + end(&w);
}

static void verdict(struct writer *w, int action)
{
	uint8_t value[9] = { VERDICT_XDP };
	const int64_t wide = action;

	memcpy(value + 1, &wide, sizeof(wide));
	option(w, EPB_VERDICT, value, sizeof(value));
}

size_t pcapng_options(uint8_t *buf, const struct pcapng_notes *n)
{
	struct writer w = { buf, buf };
	const uint32_t flags = n->direction;

	option(&w, COMMENT, n->comment, n->comment_len);
	option(&w, EPB_FLAGS, &flags, sizeof(flags));
	option(&w, EPB_QUEUE, &n->queue, sizeof(n->queue));
	if (n->dropped)
		option(&w, EPB_DROPCOUNT, &n->dropped, sizeof(n->dropped));
	if (n->xdp_action >= 0)
		verdict(&w, n->xdp_action);
	option(&w, END, "", 0);
	return (size_t)(w.at - w.start);
}

/* There may be millions a second: only what differs from packet to packet is done here. */
size_t pcapng_packet(uint8_t *buf, const struct pcapng_packet *p)
{
	uint32_t padding = -p->captured & 3;
	const uint32_t head[] = { PACKET,      0,	 0, p->time >> 32, (uint32_t)p->time,
				  p->captured, p->length };
	uint32_t len =
		(uint32_t)(sizeof(head) + p->captured + padding + p->options_len + sizeof(len));
	struct writer w = { buf, buf };

	put(&w, head, sizeof(head));
	put(&w, p->bytes, p->captured);
	put(&w, "\0\0\0", padding);
	put(&w, p->options, p->options_len);
	put32(&w, len);
	memcpy(buf + 4, &len, sizeof(len));
	return len;
}

size_t pcapng_statistics(uint8_t *buf, const struct pcapng_statistics *s)
{
	struct writer w = begin(buf, STATISTICS);

	put32(&w, 0); /* interface */
	put_time(&w, s->end);
	time_option(&w, ISB_STARTTIME, s->start);
	time_option(&w, ISB_ENDTIME, s->end);
	option(&w, ISB_IFRECV, &s->received, sizeof(s->received));
	option(&w, ISB_IFDROP, &s->dropped, sizeof(s->dropped));
	return end(&w);
}
