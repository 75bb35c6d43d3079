// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "solicit.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

int xd_solicit_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

/* The kernel processes a request within sendto(), and sends a message for an error only. */
void xd_solicit(int sock, const struct xd_helper_request *r)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct ndmsg *ndm;

	if (r->family != AF_INET && r->family != AF_INET6)
		return;
	nlh->nlmsg_type = RTM_NEWNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE;
	ndm = mnl_nlmsg_put_extra_header(nlh, sizeof(*ndm));
	ndm->ndm_family = (uint8_t)r->family;
	ndm->ndm_ifindex = (int)r->ifindex;
	ndm->ndm_flags = NTF_USE;
	mnl_attr_put(nlh, NDA_DST, r->family == AF_INET ? 4 : 16, r->addr);
	sendto(sock, nlh, nlh->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel));
	while (recv(sock, buf, sizeof(buf), 0) > 0)
		;
}
