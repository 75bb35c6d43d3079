// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "checksum.h"

#include <endian.h>
#include <string.h>

#include "icrc.h"

#define UDP_PROTOCOL 17

/*
 * Sums are ones' complement sums of 16-bit words as they are in memory, not folded yet: RFC 1071
 * shows that byte order does not matter. A piece at an odd offset contributes with swapped bytes.
 */
static uint64_t sum_bytes(const uint8_t *p, uint32_t len)
{
	uint64_t sum = 0;
	uint32_t word;
	uint16_t half = 0;

	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	if (len >= sizeof(half)) {
		memcpy(&half, p, sizeof(half));
		sum += half;
		p += sizeof(half);
		len -= sizeof(half);
	}
	half = 0;
	memcpy(&half, p, len);
	return sum + half;
}

static uint16_t fold(uint64_t sum)
{
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)sum;
}

/* Returns the sum of the bytes [off, end) of a frame. */
static uint16_t sum_frame(const struct xt_frame *frame, uint32_t off, uint32_t end)
{
	const struct xt_seg *seg = frame->seg;
	uint32_t left = end - off, n;
	uint64_t total = 0;
	bool odd = false;

	for (; left; seg++, off = 0) {
		uint16_t sum;

		n = seg->len - off < left ? seg->len - off : left;
		sum = fold(sum_bytes(seg->data + off, n));
		total += odd ? __builtin_bswap16(sum) : sum;
		odd ^= n & 1;
		left -= n;
	}
	return fold(total);
}

uint16_t xt_pseudo_header_sum(const uint8_t *ip, uint32_t udp_len)
{
	uint64_t sum = (uint64_t)htobe16(UDP_PROTOCOL) + htobe16((uint16_t)udp_len);

	if (ip[0] >> 4 == 4)
		return fold(sum + sum_bytes(ip + 12, 8));
	return fold(sum + sum_bytes(ip + 8, 32));
}

bool xt_udp_checksum_ok(const struct xt_frame *frame)
{
	const struct xr_meta *m = &frame->meta;
	const uint8_t *ip = frame->seg[0].data + m->ip_off;
	uint32_t udp_off = m->bth_off - XR_UDP_HLEN, end;
	uint16_t stored, pseudo;

	memcpy(&stored, frame->seg[0].data + m->bth_off - sizeof(stored), sizeof(stored));
	if (!stored)
		return true;
	end = m->payload_off + m->payload_len + xt_pad_count(xt_bth(frame)) + XR_ICRC_LEN;
	pseudo = xt_pseudo_header_sum(ip, end - udp_off);
	return stored == pseudo ||
	       fold((uint64_t)pseudo + sum_frame(frame, udp_off, end)) == 0xffff;
}
