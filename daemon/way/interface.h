/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel tells any user about an interface, without an effect on it. Attaching an XDP
 * program to find out what the driver can do could interrupt traffic.
 */
#ifndef XD_INTERFACE_H
#define XD_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

struct xd_interface {
	bool up;
	int mtu;	 /* 0: unknown */
	int type;	 /* ARPHRD_*; -1: unknown */
	char driver[32]; /* empty: unknown */
};
void xd_interface_read(const char *name, struct xd_interface *i);

/* Features of the family "netdev" of generic netlink, <linux/netdev.h> of Linux 6.3 */
#define XD_DRIVER_XDP 1ull
#define XD_DRIVER_REDIRECT 2ull
#define XD_DRIVER_ZEROCOPY 8ull
#define XD_DRIVER_MULTI_BUFFER 32ull

struct xd_driver {
	uint64_t xdp;		    /* XD_DRIVER_* */
	uint32_t zerocopy_segments; /* buffers of a frame with zero copy; 0: not told, before 6.6 */
};
/* Returns 0, or -errno: the kernel does not tell. */
int xd_driver_read(const char *name, struct xd_driver *d);

/* Returns the id of the XDP program on the interface, or 0. */
uint32_t xd_interface_program(const char *name);

#endif /* XD_INTERFACE_H */
