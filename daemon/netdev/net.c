// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "net_internal.h"

#define DEBOUNCE_NS 50000000ull

/* ---- events ---------------------------------------------------------------------------- */

static void port_event(struct xd_net *net, uint32_t event)
{
	net->events->port(net->ctx, event);
}

static void report_change(void *arg)
{
	struct xd_net *net = arg;

	net->debouncing = false;
	net->events->changed(net->ctx);
}

/* Does not restart the timer: continuous changes would postpone the report forever. */
static void changed(struct xd_net *net)
{
	if (net->debouncing)
		return;
	net->debouncing = true;
	xd_timer_arm(net->debounce, DEBOUNCE_NS);
}

/* ---- link -------------------------------------------------------------------------------- */

static uint32_t link_speed(const struct xd_net *net)
{
	struct ethtool_cmd cmd = { .cmd = ETHTOOL_GSET };
	struct ifreq ifr = { 0 };
	uint32_t speed = 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	memcpy(ifr.ifr_name, net->link.ifname, sizeof(ifr.ifr_name));
	ifr.ifr_data = (void *)&cmd;
	if (!ioctl(fd, SIOCETHTOOL, &ifr))
		speed = ethtool_cmd_speed(&cmd);
	close(fd);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

/* udev may rename the interface at any time; the index stays. */
static void take_name(struct xd_net *net, const struct nlattr *a)
{
	const char *name = mnl_attr_get_str(a);

	if (mnl_attr_validate(a, MNL_TYPE_NUL_STRING) < 0 || !strcmp(name, net->link.ifname))
		return;
	xd_log(XD_NOTICE, "%s was renamed to %s", net->link.ifname, name);
	snprintf(net->link.ifname, sizeof(net->link.ifname), "%s", name);
}

static void take_link(struct xd_net *net, const struct nlmsghdr *nlh)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *a;
	struct xd_link old = net->link, *link = &net->link;

	link->type = ifi->ifi_type;
	link->has_neighbours = ifi->ifi_type == ARPHRD_ETHER && !(ifi->ifi_flags & IFF_NOARP);
	link->up = (ifi->ifi_flags & IFF_UP) && (ifi->ifi_flags & IFF_RUNNING);
	mnl_attr_for_each(a, nlh, sizeof(*ifi))
	{
		if (mnl_attr_get_type(a) == IFLA_MTU && mnl_attr_get_payload_len(a) >= 4)
			link->mtu = mnl_attr_get_u32(a);
		if (mnl_attr_get_type(a) == IFLA_ADDRESS && mnl_attr_get_payload_len(a) == 6)
			memcpy(link->mac, mnl_attr_get_payload(a), 6);
		if (mnl_attr_get_type(a) == IFLA_IFNAME)
			take_name(net, a);
		if (mnl_attr_get_type(a) == IFLA_QDISC &&
		    mnl_attr_validate(a, MNL_TYPE_NUL_STRING) >= 0)
			link->noqueue = !strcmp(mnl_attr_get_str(a), "noqueue");
	}
	if (old.up != link->up) {
		if (link->up)
			link->speed_mbps = link_speed(net);
		xd_log(XD_INFO, "%s is %s", net->link.ifname, link->up ? "up" : "down");
		port_event(net, link->up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	}
	/* a lost carrier flushes the neighbour table: other hosts may be connected now */
	if (old.mtu != link->mtu || memcmp(old.mac, link->mac, 6) || (link->up && !old.up))
		changed(net);
}

static int on_link(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	struct xd_net *net = arg;

	if ((unsigned int)ifi->ifi_index == net->link.ifindex)
		take_link(net, nlh);
	return MNL_CB_OK;
}

static void link_gone(struct xd_net *net)
{
	bool was_up = net->link.up;

	xd_log(XD_ERR, "interface %s was removed", net->link.ifname);
	net->link.gone = true;
	net->link.up = false;
	if (was_up)
		port_event(net, IBV_EVENT_PORT_ERR);
	xd_loop_stop(net->loop);
}

static int read_link(struct xd_net *net)
{
	return xd_net_request_link(net, net->link.ifindex, on_link, net);
}

/* ---- addresses ------------------------------------------------------------------------------ */

static int read_gids(struct xd_net *net)
{
	bool gids_changed;
	int err = xd_gids_read(net, &gids_changed);

	if (gids_changed)
		changed(net);
	return err;
}

/* ---- multicast groups ----------------------------------------------------------------------- */

/* Uses one socket for each group, as the kernel limits the groups of a socket. */
int xd_net_join(const struct xd_net *net, const struct xr_addr *group)
{
	struct xd_ip ip = xd_ip_of(group);
	struct ip_mreqn v4 = { .imr_ifindex = (int)net->link.ifindex };
	struct ipv6_mreq v6 = { .ipv6mr_interface = net->link.ifindex };
	int fd = socket(ip.family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	if (ip.family == AF_INET) {
		memcpy(&v4.imr_multiaddr, ip.bytes, ip.len);
		err = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof(v4));
	} else {
		memcpy(&v6.ipv6mr_multiaddr, ip.bytes, ip.len);
		err = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &v6, sizeof(v6));
	}
	if (!err)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* ---- notifications ------------------------------------------------------------------------- */

static uint32_t net_hash_of(const struct xd_ip *ip)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (uint32_t i = 0; i < ip->len; i++)
		h = (h ^ ip->bytes[i]) * 16777619u;
	return h % XD_SEEN_NEIGHBOURS;
}

static void take_neighbour(struct xd_net *net, const struct nlmsghdr *nlh)
{
	struct xd_neighbour n = { 0 }, *seen;

	if (!xd_neighbour_parse(nlh, &n) || n.ifindex != net->link.ifindex)
		return;
	xd_resolve_complete(net, &n.ip, n.mac);
	seen = &net->seen[net_hash_of(&n.ip)];
	if (!memcmp(seen, &n, sizeof(n)))
		return;
	*seen = n;
	changed(net);
}

static int on_notification(const struct nlmsghdr *nlh, void *arg)
{
	struct xd_net *net = arg;
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);

	switch (nlh->nlmsg_type) {
	case RTM_NEWLINK:
		return on_link(nlh, net);
	case RTM_DELLINK:
		if ((unsigned int)ifi->ifi_index == net->link.ifindex &&
		    ifi->ifi_family == AF_UNSPEC)
			link_gone(net);
		break;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		/* read the list: an address can exist several times, with different prefixes */
		if (ifa->ifa_index == net->link.ifindex)
			read_gids(net);
		break;
	case RTM_NEWNEIGH:
		take_neighbour(net, nlh);
		break;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
	case RTM_NEWRULE:
	case RTM_DELRULE:
	case RTM_NEWNEXTHOP: /* routes that use the nexthop object get no message of their own */
		changed(net);
		break;
	}
	return MNL_CB_OK;
}

static void readable(void *arg, uint32_t events)
{
	struct xd_net *net = arg;
	char buf[XD_NETLINK_BUFFER];
	ssize_t n;

	do {
		n = recv(mnl_socket_get_fd(net->listen), buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			mnl_cb_run(buf, (size_t)n, 0, 0, on_notification, net);
	} while (n > 0 && !xd_loop_must_yield(net->loop));
	if (n < 0 && errno == ENOBUFS) { /* messages were lost: read everything again */
		if (read_link(net) == -ENODEV && !net->link.gone)
			link_gone(net);
		read_gids(net);
		memset(net->seen, 0, sizeof(net->seen));
		changed(net);
	}
}

static int start_listening(struct xd_net *net)
{
	static const int groups[] = { RTNLGRP_LINK,	 RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
				      RTNLGRP_NEIGH,	 RTNLGRP_IPV4_ROUTE,  RTNLGRP_IPV6_ROUTE,
				      RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE,   RTNLGRP_NEXTHOP };

	net->listen = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!net->listen || mnl_socket_bind(net->listen, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (mnl_socket_setsockopt(net->listen, NETLINK_ADD_MEMBERSHIP, (void *)&groups[i],
					  sizeof(int)) < 0)
			return -errno;
	net->watch = xd_watch_add(net->loop, mnl_socket_get_fd(net->listen), EPOLLIN, readable,
				  net);
	return net->watch ? 0 : -ENOMEM;
}

/* ---- interface ----------------------------------------------------------------------------- */

/* EUI-64 of the MAC, as the kernel's RoCE drivers build GUIDs */
static uint64_t guid_of(const uint8_t mac[6])
{
	uint8_t b[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] };
	uint64_t guid;

	memcpy(&guid, b, 8);
	return guid;
}

static void net_hash(uint64_t *h, const void *data, size_t len)
{
	const uint8_t *b = data;

	for (size_t i = 0; i < len; i++)
		*h = (*h ^ b[i]) * 0x100000001b3ull; /* FNV-1a */
}

/*
 * An interface without a MAC (loopback, IP tunnels): devices of other namespaces and machines have
 * other GUIDs, and this one has the same after a restart of the daemon. Locally administered.
 */
static uint64_t guid_without_mac(const struct xd_link *link)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	uint64_t h = 0xcbf29ce484222325ull;
	char boot[64] = "";
	struct stat st;

	if (f) {
		net_hash(&h, boot, fread(boot, 1, sizeof(boot), f));
		fclose(f);
	}
	if (!stat("/proc/self/ns/net", &st))
		net_hash(&h, &st.st_ino, sizeof(st.st_ino));
	net_hash(&h, link->ifname, strlen(link->ifname));
	return htobe64((h & ~(3ull << 56)) | 2ull << 56);
}

static bool has_mac(const struct xd_link *link)
{
	static const uint8_t none[sizeof(link->mac)];

	return memcmp(link->mac, none, sizeof(none));
}

static int net_start(struct xd_net *net)
{
	int err;

	err = xd_resolve_start(net);
	net->debounce = xd_timer_new(net->loop, report_change, net);
	net->requests = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (err || !net->debounce || !net->requests ||
	    mnl_socket_bind(net->requests, 0, MNL_SOCKET_AUTOPID) < 0)
		return -ENOMEM;
	/* listen before the first dump, so that no change in between is missed */
	err = start_listening(net);
	if (!err)
		err = read_link(net);
	/* RoCE v2 frames begin with an Ethernet header, which IP tunnels do not have */
	if (!err && !net->datagrams && net->link.type != ARPHRD_ETHER &&
	    net->link.type != ARPHRD_LOOPBACK)
		err = -EMEDIUMTYPE;
	if (!err)
		err = read_gids(net);
	net->link.guid = has_mac(&net->link) ? guid_of(net->link.mac)
					     : guid_without_mac(&net->link);
	return err;
}

int xd_net_open(struct xd_loop *loop, const char *ifname, enum xd_net_way way,
		const struct xd_net_events *events, void *ctx, struct xd_net **out)
{
	unsigned int ifindex = if_nametoindex(ifname);
	struct xd_net *net = ifindex ? calloc(1, sizeof(*net)) : NULL;
	int err;

	if (!net)
		return ifindex ? -ENOMEM : -ENODEV;
	net->loop = loop;
	net->events = events;
	net->datagrams = way != XD_NET_FRAMES;
	net->link.routed = way == XD_NET_ROUTED;
	net->ctx = ctx;
	net->link.ifindex = ifindex;
	snprintf(net->link.ifname, sizeof(net->link.ifname), "%s", ifname);
	err = net_start(net);
	if (err) {
		xd_net_close(net);
		return err;
	}
	*out = net;
	return 0;
}

void xd_net_close(struct xd_net *net)
{
	if (!net)
		return;
	xd_resolve_stop(net);
	xd_watch_del(net->watch);
	xd_timer_free(net->debounce);
	if (net->listen)
		mnl_socket_close(net->listen);
	if (net->requests)
		mnl_socket_close(net->requests);
	free(net);
}

const struct xd_link *xd_net_link(const struct xd_net *net)
{
	return &net->link;
}
