/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The netdev as the kernel sees it, by rtnetlink (libmnl): link state and MTU, the GID
 * table from the interface's addresses, routes and neighbours. Kept current while running. Control
 * thread only.
 */
#ifndef XD_NET_H
#define XD_NET_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "daemon/transport/transport.h"

struct xd_device;
struct xd_net;

/* Reads link and addresses; fails where the interface does not exist. Sets dev->ifindex and guid. */
int xd_net_open(struct xd_device *dev);
/* Tells the XDP program of all GIDs; from then on every change goes there too. */
void xd_net_mirror(struct xd_device *dev);
void xd_net_close(struct xd_device *dev);

struct xd_link {
	uint8_t mac[6];
	uint16_t type; /* ARPHRD_* */
	uint32_t mtu;
	bool up;	     /* administratively up with carrier */
	uint32_t speed_mbps; /* 0: unknown */
	bool gone;	     /* the interface was deleted */
};
const struct xd_link *xd_net_link(const struct xd_device *dev);

/*
 * GIDs: index 0 is the link-local address (as the kernel's RoCE does), others follow in the
 * order in which they came; an address that goes leaves a hole, the next one takes the first hole.
 */
bool xd_net_gid(const struct xd_device *dev, uint32_t index, struct xr_addr *gid);
/* -ENOENT: not ours */
int xd_net_gid_index(const struct xd_device *dev, const struct xr_addr *gid);
uint32_t xd_net_gids(const struct xd_device *dev, struct xr_gid_entry *entry, uint32_t max);

/*
 * What the packets of a connection need: next hop by the kernel's routing
 * table, its MAC by the neighbour table; one that is not there is asked for
 * and the answer awaited. done() is called once, maybe before this returns: 0 and
 * the path, or -EINVAL (no such GID index), -ENETUNREACH (no route through
 * this interface), -EHOSTUNREACH (no answer), -ENODEV.
 * Returns a token to cancel with, or NULL when done() was called already.
 */
struct xd_resolve;
typedef void (*xd_resolve_fn)(void *arg, int err, const struct xt_path *path);
struct xd_resolve *xd_net_resolve(struct xd_device *dev, const struct xr_ah_attr *attr,
				  xd_resolve_fn done, void *arg);
void xd_net_resolve_cancel(struct xd_resolve *r);

/*
 * Makes the interface a member of the IP group (IGMP, MLD) until the socket that it returns is
 * closed. Negative errno.
 */
int xd_net_join(const struct xd_device *dev, const struct xr_addr *group);

#endif /* XD_NET_H */
