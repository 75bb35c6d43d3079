// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "address.h"

#include <endian.h>
#include <string.h>

uint32_t xd_cm_addr_size(uint16_t family)
{
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct xd_sockaddr_ib);
	default:
		return 0;
	}
}

uint32_t xd_cm_addr_read(union xd_cm_addr *a, const void *from, uint32_t room)
{
	uint16_t family;
	uint32_t size;

	memset(a, 0, sizeof(*a));
	if (room < sizeof(family))
		return 0;
	memcpy(&family, from, sizeof(family));
	size = xd_cm_addr_size(family);
	if (!size || size > room)
		return 0;
	memcpy(a, from, size);
	return size;
}

/* ---- kinds of addresses --------------------------------------------------------- */

static bool is_zero_v6(const uint8_t *p)
{
	static const uint8_t zero[16];

	return !memcmp(p, zero, sizeof(zero));
}

static bool is_loopback_v6(const uint8_t *p)
{
	static const uint8_t one[16] = { [15] = 1 };

	return !memcmp(p, one, sizeof(one));
}

static const uint8_t *address_bytes_of(const union xd_cm_addr *a)
{
	return a->sa.sa_family == AF_IB ? a->ib.gid.raw : a->in6.sin6_addr.s6_addr;
}

/* As in the kernel, all of 0.0.0.0/8 is a wildcard. */
bool xd_cm_addr_is_zero(const union xd_cm_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return !(ntohl(a->in.sin_addr.s_addr) >> 24);
	return is_zero_v6(address_bytes_of(a));
}

bool xd_cm_addr_is_loopback(const union xd_cm_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return is_loopback_v6(address_bytes_of(a));
}

bool xd_cm_addr_is_any(const union xd_cm_addr *a)
{
	return xd_cm_addr_is_zero(a) || xd_cm_addr_is_loopback(a);
}

bool xd_cm_addr_is_link_local(const union xd_cm_addr *a)
{
	return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr);
}

bool xd_cm_addr_equal(const union xd_cm_addr *a, const union xd_cm_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	if (memcmp(address_bytes_of(a), address_bytes_of(b), 16))
		return false;
	return !xd_cm_addr_is_link_local(a) || a->in6.sin6_scope_id == b->in6.sin6_scope_id;
}

/* ---- ports ---------------------------------------------------------------------- */

uint16_t xd_cm_addr_port(const union xd_cm_addr *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return ntohs(a->in.sin_port);
	case AF_INET6:
		return ntohs(a->in6.sin6_port);
	case AF_IB:
		return (uint16_t)(be64toh(a->ib.sid) & be64toh(a->ib.sid_mask));
	default:
		return 0;
	}
}

void xd_cm_addr_set_port(union xd_cm_addr *a, uint16_t port)
{
	if (a->sa.sa_family == AF_INET) {
		a->in.sin_port = htons(port);
	} else if (a->sa.sa_family == AF_INET6) {
		a->in6.sin6_port = htons(port);
	} else {
		a->ib.sid = (a->ib.sid & a->ib.sid_mask) | htobe64(port);
		a->ib.sid_mask = ~(uint64_t)0;
	}
}

uint64_t xd_cm_service_id(uint16_t ps, const union xd_cm_addr *a)
{
	if (a->sa.sa_family == AF_IB)
		return be64toh(a->ib.sid);
	return (uint64_t)ps << 16 | xd_cm_addr_port(a);
}

/* ---- GIDs ----------------------------------------------------------------------- */

struct xr_addr xd_cm_addr_gid(const union xd_cm_addr *a)
{
	struct xr_addr gid;

	if (a->sa.sa_family == AF_INET)
		xr_gid_set_ipv4(&gid, a->in.sin_addr.s_addr);
	else
		memcpy(gid.raw, address_bytes_of(a), sizeof(gid.raw));
	return gid;
}

void xd_cm_addr_set_gid(union xd_cm_addr *a, const struct xr_addr *gid, uint32_t scope)
{
	if (a->sa.sa_family == AF_INET) {
		memcpy(&a->in.sin_addr, gid->raw + XR_GID_IPV4_OFF, 4);
	} else if (a->sa.sa_family == AF_INET6) {
		memcpy(&a->in6.sin6_addr, gid->raw, 16);
		a->in6.sin6_scope_id = xd_cm_addr_is_link_local(a) ? scope : 0;
	} else {
		a->ib.gid = *gid;
	}
}

void xd_cm_addr_from_gid(union xd_cm_addr *a, const struct xr_addr *gid, uint32_t scope)
{
	memset(a, 0, sizeof(*a));
	a->sa.sa_family = xr_gid_is_ipv4(gid) ? AF_INET : AF_INET6;
	xd_cm_addr_set_gid(a, gid, scope);
}
