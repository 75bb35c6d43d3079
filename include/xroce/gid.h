/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * GIDs as RoCE v2 uses them: an IPv6 address, or an IPv4 address in IPv4-mapped form,
 * ::ffff:a.b.c.d (IBTA A17.4.5.2, RFC 4291 section 2.5.5.2). For BPF and user space.
 */
#ifndef XROCE_GID_H
#define XROCE_GID_H

#include <linux/types.h>
#include <stdbool.h>

#include "byteorder.h"

struct xr_addr {
	__u8 raw[16];
} __attribute__((aligned(4)));

#define XR_GID_IPV4_OFF 12 /* of the IPv4 address in an IPv4-mapped GID */

/* The GID as 32-bit words in network byte order */
static inline __be32 *xr_gid_words(const struct xr_addr *gid)
{
	return (__be32 *)gid->raw;
}

static inline bool xr_gid_is_ipv4(const struct xr_addr *gid)
{
	const __be32 *word = xr_gid_words(gid);

	return !word[0] && !word[1] && word[2] == xr_be32(0xffff);
}

/* Sets *gid to the IPv4-mapped form of an address in network byte order. */
static inline void xr_gid_set_ipv4(struct xr_addr *gid, __be32 addr)
{
	__be32 *word = xr_gid_words(gid);

	word[0] = 0;
	word[1] = 0;
	word[2] = xr_be32(0xffff);
	word[3] = addr;
}

static inline bool xr_gid_equal(const struct xr_addr *a, const struct xr_addr *b)
{
	const __be32 *x = xr_gid_words(a), *y = xr_gid_words(b);

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]));
}

/* 224.0.0.0/4, ff00::/8 */
static inline bool xr_gid_is_multicast(const struct xr_addr *gid)
{
	return xr_gid_is_ipv4(gid) ? (gid->raw[XR_GID_IPV4_OFF] & 0xf0) == 0xe0
				   : gid->raw[0] == 0xff;
}

/* fe80::/10 (RFC 4291 section 2.4) */
static inline bool xr_gid_is_link_local(const struct xr_addr *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

#endif /* XROCE_GID_H */
