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
