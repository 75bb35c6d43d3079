// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fields.h"

#include <endian.h>
#include <linux/if_ether.h>

#define MAD_CLASS 1 /* offset */
#define MAD_CLASS_CM 0x07

/* Returns the address of the byte at an offset, NULL behind the end. */
static uint8_t *fields_at(const struct xt_frame *f, uint32_t off)
{
	for (uint32_t i = 0; i < f->nseg; off -= f->seg[i++].len)
		if (off < f->seg[i].len)
			return f->seg[i].data + off;
	return NULL;
}

/* Returns the byte at an offset, 0 behind the end. */
static uint8_t fields_byte_at(const struct xt_frame *f, uint32_t off)
{
	const uint8_t *byte = fields_at(f, off);

	return byte ? *byte : 0;
}

static uint16_t half_at(const struct xt_frame *f, uint32_t off)
{
	return (uint16_t)(fields_byte_at(f, off) << 8 | fields_byte_at(f, off + 1));
}

uint32_t xd_frame_ip(const struct xt_frame *f)
{
	uint32_t off = ETH_HLEN;

	while (half_at(f, off - 2) == ETH_P_8021Q || half_at(f, off - 2) == ETH_P_8021AD)
		off += 4;
	return off;
}

static bool is_ipv6(const struct xt_frame *f, uint32_t ip)
{
	return fields_byte_at(f, ip) >> 4 == 6;
}

uint32_t xd_frame_bth(const struct xt_frame *f)
{
	uint32_t ip = xd_frame_ip(f);

	return ip + (is_ipv6(f, ip) ? XR_IPV6_HLEN : (fields_byte_at(f, ip) & 15) * 4u) +
	       XR_UDP_HLEN;
}

uint8_t xd_frame_opcode(const struct xt_frame *f)
{
	return fields_byte_at(f, xd_frame_bth(f));
}

bool xd_frame_has_address(const struct xt_frame *f, bool source, const struct xr_addr *addr)
{
	bool v4 = xr_gid_is_ipv4(addr);
	uint32_t ip = xd_frame_ip(f), len = v4 ? 4 : 16;
	uint32_t off = ip + (v4 ? 12 : 8) + (source ? 0 : len);

	if (v4 == is_ipv6(f, ip))
		return false;
	for (uint32_t i = 0; i < len; i++)
		if (fields_byte_at(f, off + i) != addr->raw[sizeof(addr->raw) - len + i])
			return false;
	return true;
}

void xd_frame_store(const struct xt_frame *f, uint32_t off, uint32_t value, uint32_t width)
{
	uint8_t *byte;

	for (uint32_t i = 0; i < width; i++) {
		byte = fields_at(f, off + i);
		if (byte)
			*byte = (uint8_t)(value >> 8 * (width - 1 - i));
	}
}

uint8_t xd_frame_ip_version(const struct xt_frame *f)
{
	return fields_byte_at(f, xd_frame_ip(f)) >> 4;
}

uint64_t xd_frame_load(const struct xt_frame *f, uint32_t off, uint32_t width)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < width; i++)
		value = value << 8 | fields_byte_at(f, off + i);
	return value;
}

uint32_t xd_frame_mad(const struct xt_frame *f)
{
	return xd_frame_bth(f) + sizeof(struct xr_bth) + sizeof(struct xr_deth);
}

bool xd_frame_is_cm_mad(const struct xt_frame *f)
{
	const uint32_t bth = xd_frame_bth(f), qpn = bth + 4, mad = xd_frame_mad(f);

	return fields_byte_at(f, bth) == (XR_CLASS_UD | XR_OP_SEND_ONLY) &&
	       !fields_byte_at(f, qpn + 1) && half_at(f, qpn + 2) == XR_GSI_QPN &&
	       fields_byte_at(f, mad + MAD_CLASS) == MAD_CLASS_CM;
}
