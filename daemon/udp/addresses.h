/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets of a device that are bound to its addresses: each worker has one for each address. The
 * sockets of an address form a SO_REUSEPORT group of their own, so that changes for one address
 * leave the packets to the others alone. Control thread only.
 */
#ifndef XD_UDP_ADDRESSES_H
#define XD_UDP_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>
#include <xroce/wire.h>

struct xd_filter;
struct xd_helper;
struct xd_loop;
struct xd_net;
struct xd_udp;
struct xd_udp_addresses;
struct xd_workers;

struct xd_udp_addresses_config {
	bool ipv6;
	const char *ifname;
	uint32_t receive_buffer; /* bytes that a socket has if it is opened at the start */
	const struct xd_net *net;
	const struct xd_filter *filter; /* NULL: none */
	struct xd_helper *helper;
	struct xd_loop *loop;
};

int xd_udp_addresses_new(const struct xd_udp_addresses_config *config,
			 struct xd_udp_addresses **addresses);
void xd_udp_addresses_free(struct xd_udp_addresses *a); /* NULL allowed */

/*
 * Opens the sockets of all addresses that the interface has. u: the sockets of each worker, none of
 * them open yet. Logs errors: -EADDRINUSE if something else receives on port 4791 of an address.
 */
int xd_udp_addresses_open(struct xd_udp_addresses *a, struct xd_workers *workers,
			  struct xd_udp *const u[]);
/* Ends the changes; xd_socket_close() closes the sockets. */
void xd_udp_addresses_stop(struct xd_udp_addresses *a);

/*
 * The interface has got an address, or has lost it. Pauses the workers. If the sockets of a new
 * address cannot be opened, logs why, and tries again every second as long as the interface has the
 * address: another daemon may have it still, if it was moved from another interface.
 */
void xd_udp_addresses_changed(struct xd_udp_addresses *a, const struct xr_addr *addr, bool added);

/* Addresses with sockets, and without */
uint32_t xd_udp_addresses_served(const struct xd_udp_addresses *a);
uint32_t xd_udp_addresses_missing(const struct xd_udp_addresses *a);

#endif /* XD_UDP_ADDRESSES_H */
