/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way of packets that a daemon takes by itself (--io auto), XDP or UDP sockets, and the reason.
 * A daemon and `xroce doctor` find the facts, and both use this rule: docs/socket.md.
 */
#ifndef XD_WAY_H
#define XD_WAY_H

#include <stdbool.h>
#include <stddef.h>

#include "interface.h"

/* Zero-copy AF_XDP of an interface, as the driver says */
enum xd_zerocopy {
	XD_ZEROCOPY_UNTOLD, /* the kernel does not tell, before Linux 6.3 */
	XD_ZEROCOPY_NONE,
	XD_ZEROCOPY_SINGLE, /* for frames in one buffer only, which the kernel refuses the daemon */
	XD_ZEROCOPY_USABLE,
};

struct xd_way_facts {
	const char *interface; /* NULL: any */
	bool only_xdp;	       /* an option was set that only XDP has */
	bool bind;	       /* --bind was set, which only UDP sockets have */
	bool no_ethernet;      /* frames of another kind, without Ethernet header */
	bool loopback;
	bool dummy; /* the driver drops what is sent: packets pass through other interfaces */
	enum xd_zerocopy zerocopy;
	const char *lacks; /* what of XDP this process may not use, as a reason; NULL: nothing */
};

/* Adds the facts of an interface, which the kernel tells. */
void xd_way_read(struct xd_way_facts *f, const char *interface);
/* The part of it that can be tested without such drivers; err: of xd_driver_read() */
enum xd_zerocopy xd_way_zerocopy(int err, const struct xd_driver *d);

/* Returns true for XDP, false for UDP sockets, and the reason as text. */
bool xd_way_is_xdp(const struct xd_way_facts *f, char *why, size_t size);

#endif /* XD_WAY_H */
