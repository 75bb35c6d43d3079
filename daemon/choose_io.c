// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP is chosen where this process may use it, as its checks run in the kernel and bpftool shows
 * them; UDP sockets work everywhere else. docs/socket.md compares both.
 */
#include "choose_io.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* An XSKMAP takes the same privileges as loading and attaching the program. */
static int try_map(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "xroce_probe", 4, 4, 1, NULL);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int try_socket(void)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Returns true for interfaces whose frames begin with an Ethernet header, and unknown ones. */
static bool is_ethernet(const char *ifname)
{
	struct ifreq ifr = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), type;
	bool known;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	known = fd >= 0 && !ioctl(fd, SIOCGIFHWADDR, &ifr);
	type = ifr.ifr_hwaddr.sa_family;
	if (fd >= 0)
		close(fd);
	return !known || type == ARPHRD_ETHER || type == ARPHRD_LOOPBACK;
}

/* Returns true if the driver drops whatever is sent: packets pass through other interfaces. */
static bool is_dummy(const char *ifname)
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_data = (void *)&driver };
	bool known;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	known = fd >= 0 && !ioctl(fd, SIOCETHTOOL, &ifr);
	if (fd >= 0)
		close(fd);
	return known && !strcmp(driver.driver, "dummy");
}

/* Returns true if an option was set that only XDP has. */
static bool wants_xdp(const struct xd_options *opt)
{
	return opt->attach != XD_ATTACH_AUTO || opt->dispatcher || opt->queues;
}

static enum xd_io_option socket_because(char *why, size_t size, const char *what, int err)
{
	snprintf(why, size, "%s: %s", what, strerror(-err));
	return XD_IO_SOCKET;
}

enum xd_io_option xd_choose_io(const struct xd_options *opt, char *why, size_t size)
{
	int err;

	if (opt->io != XD_IO_AUTO) {
		snprintf(why, size, "requested by --io");
		return opt->io;
	}
	if (wants_xdp(opt)) {
		snprintf(why, size, "requested by --attach, --dispatcher or --queues");
		return XD_IO_XDP;
	}
	if (!is_ethernet(opt->interface)) {
		snprintf(why, size, "%s is not Ethernet", opt->interface);
		return XD_IO_SOCKET;
	}
	if (opt->bind != XD_BIND_AUTO) {
		snprintf(why, size, "requested by --bind");
		return XD_IO_SOCKET;
	}
	if (is_dummy(opt->interface)) {
		snprintf(why, size, "%s is a dummy interface", opt->interface);
		return XD_IO_SOCKET;
	}
	err = try_map();
	if (err)
		return socket_because(why, size, "BPF maps for XDP", err);
	err = try_socket();
	if (err)
		return socket_because(why, size, "AF_XDP sockets", err);
	snprintf(why, size, "XDP is available");
	return XD_IO_XDP;
}

enum xd_net_way xd_choose_way(const struct xd_options *opt, enum xd_io_option io)
{
	if (io != XD_IO_SOCKET)
		return XD_NET_FRAMES;
	if (opt->bind == XD_BIND_ADDRESS)
		return XD_NET_ROUTED;
	return opt->bind == XD_BIND_AUTO && is_dummy(opt->interface) ? XD_NET_ROUTED
								     : XD_NET_DATAGRAMS;
}
