// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "interface.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- netlink --------------------------------------------------------------------- */

/* Two headers and the attributes of a request */
struct interface_request {
	struct nlmsghdr head;
	uint8_t body[128];
};

union answer {
	struct nlmsghdr head;
	uint8_t room[32768];
};

static void add_attribute(struct interface_request *r, uint16_t type, const void *data,
			  uint16_t length)
{
	struct nlattr *a = (void *)((uint8_t *)r + NLMSG_ALIGN(r->head.nlmsg_len));

	a->nla_type = type;
	a->nla_len = NLA_HDRLEN + length;
	memcpy((uint8_t *)a + NLA_HDRLEN, data, length);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

/* Sends a request, and stores its answer of one message. Returns 0 or -errno. */
static int interface_ask(int protocol, const struct interface_request *r, union answer *answer)
{
	const struct timeval limit = { .tv_sec = 2 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), err = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	n = send(fd, r, r->head.nlmsg_len, 0);
	if (n >= 0)
		n = recv(fd, answer, sizeof(*answer), 0);
	if (n < 0)
		err = -errno;
	else if (!NLMSG_OK(&answer->head, (uint32_t)n))
		err = -EPROTO;
	else if (answer->head.nlmsg_type == NLMSG_ERROR)
		err = ((struct nlmsgerr *)NLMSG_DATA(&answer->head))->error;
	close(fd);
	return err;
}

/* Returns the attribute of that type between two places, or NULL. */
static const struct nlattr *interface_find_attribute(const void *at, const void *end, uint16_t type)
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

static const struct nlattr *attribute_of(const union answer *m, size_t header, uint16_t type)
{
	const uint8_t *start = NLMSG_DATA(&m->head);

	return interface_find_attribute(start + NLMSG_ALIGN(header), m->room + m->head.nlmsg_len,
					type);
}

static const void *data_of(const struct nlattr *a)
{
	return (const uint8_t *)a + NLA_HDRLEN;
}

/* ---- the driver ------------------------------------------------------------------ */

/* <linux/netdev.h> of Linux 6.3; the number of segments is of 6.6 */
#define NETDEV_FAMILY "netdev"
#define NETDEV_DEV_GET 1
#define NETDEV_IFINDEX 1
#define NETDEV_XDP_FEATURES 3
#define NETDEV_XDP_ZC_MAX_SEGS 4

static struct interface_request generic(uint16_t family, uint8_t command)
{
	const struct genlmsghdr header = { .cmd = command, .version = 1 };
	struct interface_request r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(header)),
						 .nlmsg_type = family,
						 .nlmsg_flags = NLM_F_REQUEST } };

	memcpy(NLMSG_DATA(&r.head), &header, sizeof(header));
	return r;
}

static int find_family(union answer *answer, uint16_t *family)
{
	struct interface_request r = generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	const struct nlattr *a;
	int err;

	add_attribute(&r, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY, sizeof(NETDEV_FAMILY));
	err = interface_ask(NETLINK_GENERIC, &r, answer);
	a = err ? NULL : attribute_of(answer, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID);
	if (!a)
		return err ? err : -EPROTO;
	memcpy(family, data_of(a), sizeof(*family));
	return 0;
}

int xd_driver_read(const char *name, struct xd_driver *d)
{
	uint32_t index = if_nametoindex(name);
	union answer answer;
	struct interface_request r;
	const struct nlattr *a;
	uint16_t family;
	int err = index ? find_family(&answer, &family) : -ENODEV;

	*d = (struct xd_driver){ 0 };
	if (err)
		return err;
	r = generic(family, NETDEV_DEV_GET);
	add_attribute(&r, NETDEV_IFINDEX, &index, sizeof(index));
	err = interface_ask(NETLINK_GENERIC, &r, &answer);
	a = err ? NULL : attribute_of(&answer, sizeof(struct genlmsghdr), NETDEV_XDP_FEATURES);
	if (!a)
		return err ? err : -EPROTO;
	memcpy(&d->xdp, data_of(a), sizeof(d->xdp));
	a = attribute_of(&answer, sizeof(struct genlmsghdr), NETDEV_XDP_ZC_MAX_SEGS);
	if (a)
		memcpy(&d->zerocopy_segments, data_of(a), sizeof(d->zerocopy_segments));
	return 0;
}

/* ---- the interface --------------------------------------------------------------- */

uint32_t xd_interface_program(const char *name)
{
	const struct ifinfomsg header = { .ifi_index = (int)if_nametoindex(name) };
	struct interface_request r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(header)),
						 .nlmsg_type = RTM_GETLINK,
						 .nlmsg_flags = NLM_F_REQUEST } };
	const struct nlattr *xdp, *id = NULL;
	union answer answer;
	uint32_t program = 0;

	memcpy(NLMSG_DATA(&r.head), &header, sizeof(header));
	if (!header.ifi_index || interface_ask(NETLINK_ROUTE, &r, &answer))
		return 0;
	xdp = attribute_of(&answer, sizeof(header), IFLA_XDP);
	if (xdp)
		id = interface_find_attribute(data_of(xdp), (const uint8_t *)xdp + xdp->nla_len,
					      IFLA_XDP_PROG_ID);
	if (id)
		memcpy(&program, data_of(id), sizeof(program));
	return program;
}

void xd_interface_read(const char *name, struct xd_interface *i)
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { 0 };

	*i = (struct xd_interface){ .type = -1 };
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	i->up = !ioctl(fd, SIOCGIFFLAGS, &r) && r.ifr_flags & IFF_UP;
	if (!ioctl(fd, SIOCGIFMTU, &r))
		i->mtu = r.ifr_mtu;
	if (!ioctl(fd, SIOCGIFHWADDR, &r))
		i->type = r.ifr_hwaddr.sa_family;
	r.ifr_data = (void *)&driver;
	if (!ioctl(fd, SIOCETHTOOL, &r))
		snprintf(i->driver, sizeof(i->driver), "%.31s", driver.driver);
	if (fd >= 0)
		close(fd);
}
