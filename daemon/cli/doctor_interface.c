// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Checks of one network interface. Attaching an XDP program to it could interrupt its traffic, so
 * what the driver can do is asked of the kernel: the family "netdev" of generic netlink, since
 * Linux 6.3.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"

/* ---- netlink --------------------------------------------------------------------- */

#define ANSWER 32768

/* Two headers and the attributes of a request */
struct request {
	struct nlmsghdr head;
	uint8_t body[128];
};

static void add_attribute(struct request *r, uint16_t type, const void *data, uint16_t length)
{
	struct nlattr *a = (void *)((uint8_t *)r + NLMSG_ALIGN(r->head.nlmsg_len));

	a->nla_type = type;
	a->nla_len = NLA_HDRLEN + length;
	memcpy((uint8_t *)a + NLA_HDRLEN, data, length);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

/* Sends a request, and stores its answer of one message. Returns 0 or -errno. */
static int ask(int protocol, const struct request *r, struct nlmsghdr *answer)
{
	const struct timeval limit = { .tv_sec = 2 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), err = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	n = send(fd, r, r->head.nlmsg_len, 0);
	if (n >= 0)
		n = recv(fd, answer, ANSWER, 0);
	if (n < 0)
		err = -errno;
	else if (!NLMSG_OK(answer, (uint32_t)n))
		err = -EPROTO;
	else if (answer->nlmsg_type == NLMSG_ERROR)
		err = ((struct nlmsgerr *)NLMSG_DATA(answer))->error;
	close(fd);
	return err;
}

/* Returns the attribute of that type between two places, or NULL. */
static const struct nlattr *find_attribute(const void *at, const void *end, uint16_t type)
{
	const struct nlattr *a = at;

	while ((const uint8_t *)a + NLA_HDRLEN <= (const uint8_t *)end &&
	       a->nla_len >= NLA_HDRLEN) {
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
		a = (const void *)((const uint8_t *)a + NLA_ALIGN(a->nla_len));
	}
	return NULL;
}

static const struct nlattr *attribute_of(const struct nlmsghdr *m, size_t header, uint16_t type)
{
	const uint8_t *start = NLMSG_DATA(m);

	return find_attribute(start + NLMSG_ALIGN(header), (const uint8_t *)m + m->nlmsg_len, type);
}

static const void *data_of(const struct nlattr *a)
{
	return (const uint8_t *)a + NLA_HDRLEN;
}

/* ---- XDP ------------------------------------------------------------------------- */

/* <linux/netdev.h> of Linux 6.3 */
#define NETDEV_FAMILY "netdev"
#define NETDEV_DEV_GET 1
#define NETDEV_IFINDEX 1
#define NETDEV_XDP_FEATURES 3
#define XDP_BASIC 1ull
#define XDP_REDIRECT 2ull
#define XDP_ZEROCOPY 8ull
#define XDP_MULTI_BUFFER 32ull

static struct request generic(uint16_t family, uint8_t command)
{
	const struct genlmsghdr header = { .cmd = command, .version = 1 };
	struct request r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(header)),
				       .nlmsg_type = family,
				       .nlmsg_flags = NLM_F_REQUEST } };

	memcpy(NLMSG_DATA(&r.head), &header, sizeof(header));
	return r;
}

/* Returns 0 and what the driver can do, or -errno: the kernel does not tell. */
static int xdp_features(unsigned int ifindex, uint64_t *features)
{
	union {
		struct nlmsghdr head;
		uint8_t room[ANSWER];
	} answer;
	struct request r = generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	const struct nlattr *a;
	uint16_t family;
	uint32_t index = ifindex;
	int err;

	add_attribute(&r, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY, sizeof(NETDEV_FAMILY));
	err = ask(NETLINK_GENERIC, &r, &answer.head);
	a = err ? NULL : attribute_of(&answer.head, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID);
	if (!a)
		return err ? err : -EPROTO;
	memcpy(&family, data_of(a), sizeof(family));
	r = generic(family, NETDEV_DEV_GET);
	add_attribute(&r, NETDEV_IFINDEX, &index, sizeof(index));
	err = ask(NETLINK_GENERIC, &r, &answer.head);
	a = err ? NULL : attribute_of(&answer.head, sizeof(struct genlmsghdr), NETDEV_XDP_FEATURES);
	if (!a)
		return err ? err : -EPROTO;
	memcpy(features, data_of(a), sizeof(*features));
	return 0;
}

/* Returns the id of the XDP program on the interface, or 0. */
static uint32_t attached_program(unsigned int ifindex)
{
	union {
		struct nlmsghdr head;
		uint8_t room[ANSWER];
	} answer;
	const struct ifinfomsg header = { .ifi_index = (int)ifindex };
	struct request r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(header)),
				       .nlmsg_type = RTM_GETLINK,
				       .nlmsg_flags = NLM_F_REQUEST } };
	const struct nlattr *xdp, *id = NULL;
	uint32_t program = 0;

	memcpy(NLMSG_DATA(&r.head), &header, sizeof(header));
	if (ask(NETLINK_ROUTE, &r, &answer.head))
		return 0;
	xdp = attribute_of(&answer.head, sizeof(header), IFLA_XDP);
	if (xdp)
		id = find_attribute(data_of(xdp), (const uint8_t *)xdp + xdp->nla_len,
				    IFLA_XDP_PROG_ID);
	if (id)
		memcpy(&program, data_of(id), sizeof(program));
	return program;
}

/* Returns true if a daemon of xroce serves the interface, so that the program is its own. */
static bool is_served(const struct doctor *d)
{
	char **names = cli_devices(d->cli), **p;
	struct cli_client c;
	bool found = false;

	for (p = names; p && *p && !found; p++) {
		found = !cli_client_open(&c, d->cli, *p) && !strcmp(c.hello.netdev, d->interface);
		cli_client_close(&c);
	}
	xp_sockets_free(names);
	return found;
}

void doctor_xdp(struct doctor *d, struct doctor_finding *f)
{
	unsigned int ifindex = if_nametoindex(d->interface);
	uint64_t features = 0;
	uint32_t program = 0;
	int err = ifindex ? xdp_features(ifindex, &features) : -ENODEV;

	if (ifindex)
		program = attached_program(ifindex);
	if (err)
		doctor_found(f, DOCTOR_UNKNOWN, "%s; not tried",
			     ifindex ? "before Linux 6.3, the kernel does not tell"
				     : "no such interface");
	else if (features & XDP_BASIC && features & XDP_REDIRECT)
		doctor_found(f, DOCTOR_OK, "the driver has native XDP%s%s; not tried",
			     features & XDP_ZEROCOPY ? ", zero copy" : "",
			     features & XDP_MULTI_BUFFER ? ", multi-buffer" : "");
	else
		doctor_found(f, DOCTOR_OK, "the driver has generic XDP only; not tried");
	if (program && !is_served(d)) {
		doctor_found(f, DOCTOR_LIMITED, "another XDP program (id %u) is on the interface",
			     program);
		doctor_remedy(f, "xroced --io socket, or --dispatcher; see docs/xdp.md");
	}
}

/* ---- the interface ---------------------------------------------------------------- */

static void count_addresses(const char *name, unsigned int *four, unsigned int *six)
{
	struct ifaddrs *all = NULL, *a;

	*four = *six = 0;
	if (getifaddrs(&all))
		return;
	for (a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || strcmp(a->ifa_name, name))
			continue;
		*four += a->ifa_addr->sa_family == AF_INET;
		*six += a->ifa_addr->sa_family == AF_INET6;
	}
	freeifaddrs(all);
}

struct link {
	bool up, ethernet;
	int mtu;
	char driver[32];
};

static void read_link(const char *name, struct link *l)
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { 0 };

	memset(l, 0, sizeof(*l));
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	l->up = !ioctl(fd, SIOCGIFFLAGS, &r) && r.ifr_flags & IFF_UP;
	if (!ioctl(fd, SIOCGIFMTU, &r))
		l->mtu = r.ifr_mtu;
	l->ethernet = ioctl(fd, SIOCGIFHWADDR, &r) || r.ifr_hwaddr.sa_family == ARPHRD_ETHER ||
		      r.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK;
	r.ifr_data = (void *)&driver;
	if (!ioctl(fd, SIOCETHTOOL, &r))
		snprintf(l->driver, sizeof(l->driver), ", driver %.20s", driver.driver);
	if (fd >= 0)
		close(fd);
}

void doctor_interface(struct doctor *d, struct doctor_finding *f)
{
	unsigned int four, six;
	struct link l;

	if (!if_nametoindex(d->interface)) {
		doctor_found(f, DOCTOR_MISSING, "there is no interface '%s' here", d->interface);
		doctor_remedy(f, "ip link lists those of this network namespace");
		return;
	}
	read_link(d->interface, &l);
	d->facts.no_ethernet = !l.ethernet;
	count_addresses(d->interface, &four, &six);
	doctor_found(f, l.up && four + six ? DOCTOR_OK : DOCTOR_LIMITED,
		     "%s is %s, MTU %d, %u IPv4 and %u IPv6 addresses%s", d->interface,
		     l.up ? "up" : "down", l.mtu, four, six, l.driver);
	if (!l.up)
		doctor_remedy(f, "ip link set %s up", d->interface);
	else if (!(four + six))
		doctor_remedy(f, "ip address add ADDRESS dev %s: a device needs one for its GID",
			      d->interface);
}
