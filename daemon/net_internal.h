/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What net.c (link, addresses, notifications) and resolve.c (next hops) share. */
#ifndef XD_NET_INTERNAL_H
#define XD_NET_INTERNAL_H

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "loop.h"
#include "net.h"

struct xd_net {
	struct mnl_socket *ask;		/* requests, answered at once */
	struct mnl_socket *listen;	/* notifications */
	struct xd_watch *watch;
	struct xd_timer *settle;	/* coalesces changes of routes and neighbours */
	uint32_t seq;
	struct xd_link link;
	struct xr_addr gid[XR_GID_TABLE_LEN];
	bool used[XR_GID_TABLE_LEN];
	struct xd_resolve *resolving;
};

/* A request and all messages of its answer: 0 or -errno */
int xd_net_ask(struct xd_net *net, struct nlmsghdr *nlh, mnl_cb_t cb, void *arg);

/* An IP address as netlink wants it */
struct xd_ip {
	int family;
	uint32_t len;
	uint8_t bytes[16];
};
struct xd_ip xd_ip_of(const struct xr_addr *gid);

/* A neighbour changed: who waits for one looks again. */
void xd_resolve_neighbour_changed(struct xd_net *net);
void xd_resolve_cancel_all(struct xd_net *net);

#endif /* XD_NET_INTERNAL_H */
