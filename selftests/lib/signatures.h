/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An independent reference of block signatures: CRCs bit by bit, and protection information (PI)
 * byte by byte. Known values: test_known() of selftests/unit/integrity_test.c.
 */
#ifndef XR_TEST_SIGNATURES_H
#define XR_TEST_SIGNATURES_H

#include <stdint.h>
#include <string.h>

#include <xroce/ring.h>

/* CRC16 of T10-DIF: polynomial 0x8bb7, most significant bit first. */
static inline uint16_t ref_crc16(uint16_t crc, const uint8_t *p, uint32_t len)
{
	for (; len; len--, p++)
		for (int bit = 7; bit >= 0; bit--)
			crc = (uint16_t)(crc << 1 ^ (((crc >> 15 ^ *p >> bit) & 1) ? 0x8bb7 : 0));
	return crc;
}

/* CRC32 (polynomial 0xedb88320) or CRC32C (0x82f63b78), least significant bit first. */
static inline uint32_t ref_crc32(uint32_t poly, uint32_t crc, const uint8_t *p, uint32_t len)
{
	for (; len; len--, p++)
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (((crc ^ *p >> bit) & 1) ? poly : 0);
	return ~crc;
}

static inline uint32_t ref_guard(const struct xr_signature *s, const uint8_t *data, uint32_t len)
{
	if (s->type == XR_SIG_CRC32 || s->type == XR_SIG_CRC32C)
		return ref_crc32(s->type == XR_SIG_CRC32 ? 0xedb88320 : 0x82f63b78, s->seed, data,
				 len);
	return ref_crc16((uint16_t)s->seed, data, len);
}

/* Writes the PI of a block. Returns its length. */
static inline uint32_t ref_pi(const struct xr_signature *s, uint64_t block, const uint8_t *data,
			      uint32_t len, uint8_t *pi)
{
	uint32_t guard = ref_guard(s, data, len), ref = s->ref_tag;

	switch (s->type) {
	case XR_SIG_NONE:
		return 0;
	case XR_SIG_CRC32:
	case XR_SIG_CRC32C:
		for (int i = 0; i < 4; i++)
			pi[i] = (uint8_t)(guard >> 8 * i);
		return 4;
	case XR_SIG_DIF_1:
	case XR_SIG_DIF_2:
		ref += (uint32_t)block;
		break;
	}
	pi[0] = (uint8_t)(guard >> 8);
	pi[1] = (uint8_t)guard;
	pi[2] = (uint8_t)(s->app_tag >> 8);
	pi[3] = (uint8_t)s->app_tag;
	for (int i = 0; i < 4; i++)
		pi[4 + i] = (uint8_t)(ref >> (24 - 8 * i));
	return 8;
}

/* Writes blocks of data with their PI. Returns the bytes written. */
static inline uint64_t ref_stream(const struct xr_signature *s, uint32_t block, uint32_t n,
				  const uint8_t *data, uint8_t *out)
{
	uint8_t *p = out;

	for (uint32_t i = 0; i < n; i++, data += block) {
		memcpy(p, data, block);
		p += block;
		p += ref_pi(s, i, data, block, p);
	}
	return (uint64_t)(p - out);
}

#endif /* XR_TEST_SIGNATURES_H */
