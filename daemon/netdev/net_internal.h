/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by netlink.c (requests), gids.c (addresses), resolve.c (next hops) and net.c (link and
 * notifications).
 */
#ifndef XD_NET_INTERNAL_H
#define XD_NET_INTERNAL_H

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/base/loop.h"
#include "daemon/transport/base/list.h"
#include "net.h"

/* An IP address in the form of netlink attributes */
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
#define XD_HOP_BUCKETS 1024
#define XD_NETLINK_BUFFER 32768

struct xd_net {
	struct xd_loop *loop;
	const struct xd_net_events *events;
	void *ctx; /* of events */
	bool datagrams;
	struct mnl_socket *requests; /* for requests, whose replies are awaited */
	struct mnl_socket *listen;   /* notifications */
	struct xd_watch *watch;	     /* of listen */
	struct xd_timer *debounce;   /* delays the report of changes, to combine them */
	bool debouncing;	     /* the timer is armed */
	uint32_t seq;
	struct xd_link link;
	struct xr_addr gid[XR_GID_TABLE_LEN];
	bool used[XR_GID_TABLE_LEN];
	uint32_t holds[XR_GID_TABLE_LEN]; /* number of them, by index */
	int zero; /* the entry that index 0 stands for, as objects use or hold it so; 0: none */
	struct xt_list hops[XD_HOP_BUCKETS]; /* unknown next hops, by a hash */
	struct xt_list known;		     /* next hops whose resolves are to be completed */
	struct xd_timer *complete;	     /* completes them */
	uint64_t hop_seed;		     /* of the hash: clients and peers choose addresses */
	/*
	 * Neighbours as last reported, by a hash. Most notifications are about a neighbour's
	 * state, not a new MAC, and need no report. A hash collision only causes paths to be
	 * resolved again.
	 */
	struct xd_neighbour seen[XD_SEEN_NEIGHBOURS];
};

/* ---- netlink.c ---- */

/* Sends a request and processes the whole reply. Returns 0 or -errno. */
int xd_net_request(struct xd_net *net, struct nlmsghdr *nlh, mnl_cb_t cb, void *arg);

/* Requests the state of an interface. */
int xd_net_request_link(struct xd_net *net, unsigned int ifindex, mnl_cb_t cb, void *arg);
/* Reads the MAC of an interface. Returns 0 or -errno. */
int xd_net_mac_of(struct xd_net *net, unsigned int ifindex, uint8_t mac[6]);

struct xd_ip xd_ip_of(const struct xr_addr *gid);

/* ---- gids.c ---- */

/* Reads all addresses and updates the table; *changed: the table is different now. */
int xd_gids_read(struct xd_net *net, bool *changed);
/* As xd_net_gid(), for a path: index 0 stays this GID until the address is removed. */
bool xd_net_gid_use(struct xd_net *net, uint32_t index, struct xr_addr *gid);

/* ---- resolve.c ---- */

int xd_resolve_start(struct xd_net *net); /* -ENOMEM */
/* Fails all pending resolves with -ENODEV. Also after xd_resolve_start() has failed. */
void xd_resolve_stop(struct xd_net *net);
/* Parses a neighbour message; returns false if it has no usable MAC. */
bool xd_neighbour_parse(const struct nlmsghdr *nlh, struct xd_neighbour *n);
/* Completes all pending resolves that wait for this neighbour, in pieces. */
void xd_resolve_complete(struct xd_net *net, const struct xd_ip *ip, const uint8_t mac[6]);

#endif /* XD_NET_INTERNAL_H */
