/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What net.c (link, addresses, notifications) and resolve.c (next hops) share. */
#ifndef XD_NET_INTERNAL_H
#define XD_NET_INTERNAL_H

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/base/loop.h"
#include "net.h"

/* An IP address as netlink wants it */
struct xd_ip {
	int family;
	uint32_t len;
	uint8_t bytes[16];
};
struct xd_neighbour {
	unsigned int ifindex;
	struct xd_ip ip;
	uint8_t mac[6];
};

#define XD_SEEN_NEIGHBOURS 256

struct xd_net {
	struct xd_loop *loop;
	const struct xd_net_events *events;
	void *ctx;		   /* of events */
	struct mnl_socket *ask;	   /* requests, answered at once */
	struct mnl_socket *listen; /* notifications */
	struct xd_watch *watch;
	struct xd_timer *settle; /* coalesces changes of routes and neighbours */
	bool settling;
	uint32_t seq;
	struct xd_link link;
	struct xr_addr gid[XR_GID_TABLE_LEN];
	bool used[XR_GID_TABLE_LEN];
	struct xd_resolve *resolving;
	/*
	 * Neighbours by a hash, as last heard of: most notifications tell of a state, not of another
	 * MAC. One whose place was taken costs a needless look at all paths.
	 */
	struct xd_neighbour seen[XD_SEEN_NEIGHBOURS];
};

/* A request and all messages of its answer: 0 or -errno */
int xd_net_ask(struct xd_net *net, struct nlmsghdr *nlh, mnl_cb_t cb, void *arg);

struct xd_ip xd_ip_of(const struct xr_addr *gid);

/* false: there is no MAC to send to now */
bool xd_neighbour_parse(const struct nlmsghdr *nlh, struct xd_neighbour *n);

/* Who waits for that neighbour need not any longer. */
void xd_resolve_answered(struct xd_net *net, const struct xd_ip *ip, const uint8_t mac[6]);
void xd_resolve_cancel_all(struct xd_net *net);

#endif /* XD_NET_INTERNAL_H */
