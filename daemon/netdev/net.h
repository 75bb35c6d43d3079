/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The network interface, by rtnetlink (libmnl): link state and MTU, the GID table from the
 * interface's addresses, and next hops from the kernel's routes and neighbours. Kept up to date by
 * notifications. Control thread only.
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

/* Callbacks, which may also be called from within xd_net_open() */
struct xd_net_events {
	void (*port)(void *ctx, uint32_t type); /* enum ibv_event_type */
	void (*gid)(void *ctx, uint32_t index, const struct xr_addr *gid, bool added);
	/*
	 * Link, addresses, routes or neighbours have changed: resolve paths again. Called once for
	 * all changes within 50 ms.
	 */
	void (*changed)(void *ctx);
	/*
	 * Makes the kernel resolve a neighbour (ARP, NDP) as if it had a packet to send, which
	 * takes a privilege. addr: 4 or 16 bytes. mac: of the other interface of this host that
	 * has the address; NULL: there is none
	 */
	void (*solicit)(void *ctx, unsigned int ifindex, int family, const uint8_t *addr,
			const uint8_t *mac);
};

/* How packets leave and arrive */
enum xd_net_way {
	XD_NET_FRAMES,	  /* as frames that the daemon makes: the interface must be Ethernet */
	XD_NET_DATAGRAMS, /* the kernel makes frames and finds next hops */
	XD_NET_ROUTED,	  /* the same, through any interface, by the kernel's routes */
};

/*
 * Returns -ENODEV if the interface does not exist, -EMEDIUMTYPE if it is not Ethernet and must be.
 */
int xd_net_open(struct xd_loop *loop, const char *ifname, enum xd_net_way way,
		const struct xd_net_events *events, void *ctx, struct xd_net **net);
void xd_net_close(struct xd_net *net); /* NULL allowed */

struct xd_link {
	char ifname[IF_NAMESIZE]; /* the present name */
	unsigned int ifindex;
	/*
	 * Big endian: EUI-64 of the MAC that the interface had at the start; if it has none, a
	 * number of its network namespace, its name and this boot of the machine
	 */
	uint64_t guid;
	uint8_t mac[6]; /* 0: none */
	uint16_t type;	/* ARPHRD_* */
	uint32_t mtu;
	bool has_neighbours; /* next hops have MACs, which the kernel has to resolve */
	bool routed;	     /* packets pass through other interfaces, by routes */
	bool noqueue;	     /* there was no queueing discipline when the link was last read */
	bool up;	     /* administratively up, with carrier */
	uint32_t speed_mbps; /* 0: unknown */
	bool gone;	     /* the interface was removed; the loop is stopped */
};
const struct xd_link *xd_net_link(const struct xd_net *net);

/*
 * GIDs: index 0 is reserved for a link-local address, as in the kernel's RoCE drivers. The other
 * addresses take the first free index, and keep it until they are removed. While there is no
 * link-local address, index 0 is a second index of the first of them; once a path was resolved from
 * index 0, until that address is removed.
 *
 * An index that is held (struct xd_gid_hold) is not free, also if its address was removed: it has
 * no GID then, and only this address can get it again.
 */
bool xd_net_gid(const struct xd_net *net, uint32_t index, struct xr_addr *gid);
/*
 * Returns the index (not the second one), or -ENOENT if the GID is not an address of the interface.
 */
int xd_net_gid_index(const struct xd_net *net, const struct xr_addr *gid);
uint32_t xd_net_gids(const struct xd_net *net, struct xr_gid_entry *entry, uint32_t max);

/* Part of an object that names a GID by its index. All zero: of none. */
struct xd_gid_hold {
	uint32_t next; /* index + 1; 0: none */
};
/* Holds an index, instead of the one before. */
void xd_net_gid_hold(struct xd_net *net, struct xd_gid_hold *hold, uint32_t index);
void xd_net_gid_release(struct xd_net *net, struct xd_gid_hold *hold);
/* Returns the index, -1: none. */
static inline int xd_gid_held(const struct xd_gid_hold *hold)
{
	return (int)hold->next - 1;
}

/*
 * Resolves the path to a destination: the next hop by the kernel's routing table, its MAC by the
 * neighbour table; a missing neighbour is solicited and its reply awaited. With datagrams, the MAC
 * is 0 on an interface without neighbours. An address of another interface of this host is a
 * neighbour, if frames get there. If packets pass through any interface, there is no more to find
 * than a route. done() is called once, possibly before this function returns:
 * with 0 and the path, or with -EINVAL (no such GID index), -ENETUNREACH (no route through an
 * interface that may be used), -EHOSTUNREACH (no reply), -ENODEV or -ENOMEM. Returns a handle for
 * xd_net_resolve_cancel(), or NULL if done() was called already.
 */
struct xd_resolve;
typedef void (*xd_resolve_fn)(void *arg, int err, const struct xt_path *path);
struct xd_resolve *xd_net_resolve(struct xd_net *net, const struct xr_ah_attr *attr,
				  xd_resolve_fn done, void *arg);
void xd_net_resolve_cancel(struct xd_resolve *r); /* NULL allowed */

/*
 * Finds the address of the interface from which packets to a destination are sent, by the kernel's
 * routes. -ENODEV: the route uses another interface; -ENETUNREACH: there is no route.
 */
int xd_net_source(struct xd_net *net, const struct xr_addr *dst, struct xr_addr *src);
/* Returns true if any interface of the host has the address. */
bool xd_net_is_local(struct xd_net *net, const struct xr_addr *addr);

/*
 * Makes the interface a member of an IP multicast group (IGMP, MLD) until the returned socket is
 * closed. Returns -errno on failure.
 */
int xd_net_join(const struct xd_net *net, const struct xr_addr *group);

#endif /* XD_NET_H */
