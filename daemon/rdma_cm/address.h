/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Socket addresses of rdma_cm: AF_INET, AF_INET6 and AF_IB. */
#ifndef XD_CM_ADDRESS_H
#define XD_CM_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <xroce/gid.h>

/* struct sockaddr_ib of the kernel's <rdma/ib.h>, which is no header of user space */
struct xd_sockaddr_ib {
	uint16_t family;
	uint16_t pkey;	   /* big endian, likewise below */
	uint32_t flowinfo; /* flow label */
	struct xr_addr gid;
	uint64_t sid, sid_mask; /* service ID */
	uint64_t scope_id;
};

union xd_cm_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct xd_sockaddr_ib ib;
};

/* Returns the length of an address of the family, 0 if the family is not supported. */
uint32_t xd_cm_addr_size(uint16_t family);
/* Copies an address of at most `room` bytes. Returns its length, 0 if it is no valid address. */
uint32_t xd_cm_addr_read(union xd_cm_addr *a, const void *from, uint32_t room);

bool xd_cm_addr_is_zero(const union xd_cm_addr *a);
bool xd_cm_addr_is_loopback(const union xd_cm_addr *a);
/* Zero or loopback: such an address does not select a device. */
bool xd_cm_addr_is_any(const union xd_cm_addr *a);
bool xd_cm_addr_is_link_local(const union xd_cm_addr *a);
/* Returns true if family, address and, for link-local addresses, scope are equal. */
bool xd_cm_addr_equal(const union xd_cm_addr *a, const union xd_cm_addr *b);

/* Port in host byte order; for AF_IB, the bits of the service ID that the mask selects */
uint16_t xd_cm_addr_port(const union xd_cm_addr *a);
void xd_cm_addr_set_port(union xd_cm_addr *a, uint16_t port);

/* Returns the GID that RoCE v2 uses for an address. */
struct xr_addr xd_cm_addr_gid(const union xd_cm_addr *a);
/* Replaces the address, but neither family nor port. scope: of link-local addresses. */
void xd_cm_addr_set_gid(union xd_cm_addr *a, const struct xr_addr *gid, uint32_t scope);
/* Makes an AF_INET or AF_INET6 address without a port. */
void xd_cm_addr_from_gid(union xd_cm_addr *a, const struct xr_addr *gid, uint32_t scope);

/* Returns the IBTA service ID of an address in a port space. */
uint64_t xd_cm_service_id(uint16_t ps, const union xd_cm_addr *a);

#endif /* XD_CM_ADDRESS_H */
