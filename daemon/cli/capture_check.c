// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Checks packets of direct programs. A file with a block that is not valid could not be read any
 * more, and text could change the terminal.
 */
#include <string.h>

#include "capture.h"

#define COMMENT_MAX 256
#define PACKET_MAX UINT16_MAX

/* In place of all but printable characters of ASCII */
static void capture_check_clean(uint8_t *text, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
}

static bool check_option(uint16_t code, uint8_t *value, uint16_t len)
{
	uint32_t flags;

	switch (code) {
	case XR_PCAPNG_COMMENT:
		capture_check_clean(value, len);
		return len <= COMMENT_MAX;
	case XR_PCAPNG_FLAGS:
		memcpy(&flags, value, sizeof(flags));
		return len == sizeof(flags) && (flags == XR_PCAPNG_IN || flags == XR_PCAPNG_OUT);
	case XR_PCAPNG_QUEUE:
		return len == sizeof(uint32_t);
	case XR_PCAPNG_DROPCOUNT:
		return len == sizeof(uint64_t);
	case XR_PCAPNG_VERDICT:
		return len == 1 + sizeof(uint64_t) && *value == XR_PCAPNG_VERDICT_XDP;
	default:
		return false;
	}
}

/* The last option is the end. A value of 0 bytes is followed by the length of the block. */
static bool cli_check_options(uint8_t *at, uint32_t left)
{
	uint16_t head[2];

	while (left >= sizeof(head)) {
		memcpy(head, at, sizeof(head));
		at += sizeof(head);
		left -= (uint32_t)sizeof(head);
		if (head[0] == XR_PCAPNG_END)
			return !head[1] && !left;
		if (xr_pcapng_padded(head[1]) > left || !check_option(head[0], at, head[1]))
			return false;
		memset(at + head[1], 0, xr_pcapng_padded(head[1]) - head[1]);
		at += xr_pcapng_padded(head[1]);
		left -= xr_pcapng_padded(head[1]);
	}
	return false;
}

/* Returns the length of the block at the start, 0 if it is not valid. */
static uint32_t cli_check(uint8_t *block, size_t len)
{
	const uint32_t n = pcapng_block(block, len);
	struct xr_pcapng_packet *h = (void *)block;
	uint8_t *bytes = (uint8_t *)(h + 1);
	uint32_t padded, last;

	if (!n || h->interface || h->captured > h->original || h->original > PACKET_MAX)
		return 0;
	padded = xr_pcapng_padded(h->captured);
	memset(bytes + h->captured, 0, padded - h->captured);
	memcpy(&last, block + n - sizeof(last), sizeof(last));
	if (last != n || !cli_check_options(bytes + padded, n - xr_pcapng_packet_len(padded, 0)))
		return 0;
	return n;
}

static void set_time(struct xr_pcapng_packet *h, uint64_t *time, uint64_t now)
{
	uint64_t t = xr_pcapng_time(h);

	if (t > now)
		t = now;
	if (t > *time)
		*time = t;
	h->time_high = *time >> 32;
	h->time_low = (uint32_t)*time;
}

size_t capture_check(uint8_t *blocks, size_t len, uint64_t *time, uint64_t now, uint64_t *packets)
{
	size_t at = 0;
	uint32_t n;

	*packets = 0;
	while ((n = cli_check(blocks + at, len - at))) {
		set_time((struct xr_pcapng_packet *)(blocks + at), time, now);
		at += n;
		(*packets)++;
	}
	return at;
}
