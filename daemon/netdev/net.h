/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The netdev as the kernel sees it, by rtnetlink (libmnl): link state and MTU, the GID
 * table from the interface's addresses, routes and neighbours. Kept current while running. Control
 * thread only.
 */
#ifndef XD_NET_H
#define XD_NET_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "daemon/transport/transport.h"

struct xd_loop;
struct xd_net;

/* Called in the control thread, also from within xd_net_open(). */
struct xd_net_events {
	void (*port)(void *ctx, uint32_t type); /* enum ibv_event_type */
	/* A GID was added or removed. */
	void (*gid)(void *ctx, uint32_t index, const struct xr_addr *gid, bool added);
	/* Link, MTU, addresses, routes or neighbours changed: paths may have changed, too. */
	void (*changed)(void *ctx);
};

/* Reads link and addresses. -ENODEV: no such interface; -EMEDIUMTYPE: not Ethernet. */
int xd_net_open(struct xd_loop *loop, const char *ifname, const struct xd_net_events *events,
		void *ctx, struct xd_net **net);
void xd_net_close(struct xd_net *net); /* NULL allowed */

struct xd_link {
	char ifname[IF_NAMESIZE]; /* its present name: an interface can be renamed */
	unsigned int ifindex;
	uint64_t guid; /* big endian, EUI-64 of the MAC at the start */
	uint8_t mac[6];
	uint16_t type; /* ARPHRD_* */
	uint32_t mtu;
	bool up;	     /* administratively up with carrier */
	uint32_t speed_mbps; /* 0: unknown */
	bool gone;	     /* the interface was deleted */
};
const struct xd_link *xd_net_link(const struct xd_net *net);

/*
 * GIDs: index 0 is the link-local address (as the kernel's RoCE does), others follow in the
 * order in which they came; an address that goes leaves a hole, the next one takes the first hole.
 */
bool xd_net_gid(const struct xd_net *net, uint32_t index, struct xr_addr *gid);
/* -ENOENT: not ours */
int xd_net_gid_index(const struct xd_net *net, const struct xr_addr *gid);
uint32_t xd_net_gids(const struct xd_net *net, struct xr_gid_entry *entry, uint32_t max);

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
struct xd_resolve *xd_net_resolve(struct xd_net *net, const struct xr_ah_attr *attr,
				  xd_resolve_fn done, void *arg);
void xd_net_resolve_cancel(struct xd_resolve *r);

/*
 * Makes the interface a member of the IP group (IGMP, MLD) until the socket that it returns is
 * closed. Negative errno.
 */
int xd_net_join(const struct xd_net *net, const struct xr_addr *group);

#endif /* XD_NET_H */
