// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "solicit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_packet.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/if_ether.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int xd_solicit_open(struct xd_solicitor *s)
{
	s->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (s->netlink < 0)
		return -errno;
	/* protocol 0: receives nothing */
	s->packet = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return 0;
}

void xd_solicit_close(struct xd_solicitor *s)
{
	close(s->netlink);
	if (s->packet >= 0)
		close(s->packet);
}

/* The kernel processes a request within sendto(), and sends a message for an error only. */
static void ask_kernel(int sock, const struct xd_helper_request *r)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct ndmsg *ndm;

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

static bool own_mac(int sock, unsigned int ifindex, uint8_t mac[ETH_ALEN])
{
	struct ifreq ifr = { .ifr_ifindex = (int)ifindex };

	if (ioctl(sock, SIOCGIFNAME, &ifr) || ioctl(sock, SIOCGIFHWADDR, &ifr))
		return false;
	memcpy(mac, ifr.ifr_hwaddr.sa_data, ETH_ALEN);
	return true;
}

/*
 * Another interface of this host ignores the kernel's ARP requests, whose source is an address of
 * the host (RFC 1812 5.3.7, net.ipv4.conf.*.accept_local). It responds to a probe without a source
 * (RFC 5227 2.1.1), and the response is that of the neighbour that ask_kernel() has created. The
 * probe goes to that interface alone: any interface of the host would respond for the address
 * (net.ipv4.conf.*.arp_ignore).
 */
static void solicit_probe(int sock, const struct xd_helper_request *r)
{
	struct ether_arp arp = {
		.ea_hdr = {
			.ar_hrd = htons(ARPHRD_ETHER),
			.ar_pro = htons(ETHERTYPE_IP),
			.ar_hln = ETH_ALEN,
			.ar_pln = 4,
			.ar_op = htons(ARPOP_REQUEST),
		},
	};
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETHERTYPE_ARP),
		.sll_ifindex = (int)r->ifindex,
		.sll_halen = ETH_ALEN,
	};

	if (!own_mac(sock, r->ifindex, arp.arp_sha))
		return;
	memcpy(arp.arp_tpa, r->addr, 4);
	memcpy(to.sll_addr, r->mac, ETH_ALEN);
	sendto(sock, &arp, sizeof(arp), 0, (struct sockaddr *)&to, sizeof(to));
}

void xd_solicit(const struct xd_solicitor *s, const struct xd_helper_request *r)
{
	if (r->family != AF_INET && r->family != AF_INET6)
		return;
	ask_kernel(s->netlink, r);
	if (r->family == AF_INET && r->local && s->packet >= 0)
		solicit_probe(s->packet, r);
}
