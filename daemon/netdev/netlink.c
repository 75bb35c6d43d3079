// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests by rtnetlink. */
#include <errno.h>
#include <string.h>

#include <xroce/gid.h>

#include "net_internal.h"

int xd_net_request(struct xd_net *net, struct nlmsghdr *nlh, mnl_cb_t cb, void *arg)
{
	uint32_t portid = mnl_socket_get_portid(net->requests);
	char buf[XD_NETLINK_BUFFER];
	bool stale;
	ssize_t n;
	int ret;

	nlh->nlmsg_seq = ++net->seq;
	if (mnl_socket_sendto(net->requests, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	do {
		n = mnl_socket_recvfrom(net->requests, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		ret = mnl_cb_run(buf, (size_t)n, net->seq, portid, cb, arg);
		/* EPROTO: the rest of the reply to an earlier request that was given up */
		stale = ret < 0 && errno == EPROTO;
	} while (stale || (ret == MNL_CB_OK && nlh->nlmsg_flags & (NLM_F_DUMP | NLM_F_ACK)));
	return ret < 0 ? -errno : 0;
}

int xd_net_request_link(struct xd_net *net, unsigned int ifindex, mnl_cb_t cb, void *arg)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_index = (int)ifindex;
	return xd_net_request(net, nlh, cb, arg);
}

static int on_mac(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, nlh, sizeof(struct ifinfomsg))
	{
		if (mnl_attr_get_type(a) == IFLA_ADDRESS && mnl_attr_get_payload_len(a) == 6)
			memcpy(arg, mnl_attr_get_payload(a), 6);
	}
	return MNL_CB_OK;
}

int xd_net_mac_of(struct xd_net *net, unsigned int ifindex, uint8_t mac[6])
{
	memset(mac, 0, 6);
	return xd_net_request_link(net, ifindex, on_mac, mac);
}

struct xd_ip xd_ip_of(const struct xr_addr *gid)
{
	struct xd_ip ip = { 0 };

	if (xr_gid_is_ipv4(gid)) {
		ip.family = AF_INET;
		ip.len = 4;
		memcpy(ip.bytes, gid->raw + XR_GID_IPV4_OFF, 4);
	} else {
		ip.family = AF_INET6;
		ip.len = 16;
		memcpy(ip.bytes, gid->raw, 16);
	}
	return ip;
}
